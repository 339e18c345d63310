package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// device puts an authenticator beside the browser whose person touches it and is verified, and returns how to have that
// fail.
func (b *tab) device() (verified func(bool)) {
	b.t.Helper()
	var id webauthn.AuthenticatorID
	b.do(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}).Do(ctx)
		return err
	}))
	return func(is bool) { b.do(webauthn.SetUserVerified(id, is)) }
}

// shown makes a picture of what is on the phone, if pictures are made.
func (b *tab) shown(name string) {
	if *pictures != "" {
		b.picture(filepath.Join(*pictures, name+"-phone.png"))
	}
}

// site serves the pages of a mesh's people at an origin of this machine.
func site(t *testing.T, m *mesh) *mesh {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	origin := "http://localhost:" + port
	s := background(t, m.dir, "pages of ", "web", "--listen", "localhost:"+port, "--origin", origin)
	s.base, s.login = origin, origin+"/login"
	return s
}

// A person of another machine enrols with the address of an invitation, logs in and decides, each time with a passkey that
// the browser's authenticator has. Without the person nothing is signed, and the page says so. All of it works on a phone,
// and neither the browser nor axe has anything to say.
func TestPasskeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mailroom")
	run(t, ".", "demo", "--keep", dir)
	m := background(t, dir, "state in ", "up", "--listen", "127.0.0.1:0")
	s := site(t, m)
	var invited struct{ Page string }
	if err := json.Unmarshal([]byte(run(t, dir, "creds", "invite", "pat", "--role", "approver", "--web", s.base, "--json")), &invited); err != nil {
		t.Fatal(err)
	}
	b := open(t, s)
	verified := b.device()
	b.look(phone)

	b.do(chromedp.Navigate(invited.Page))
	b.until(`document.querySelector("form[data-sign] .status").textContent === ""`)
	b.check(phone, "/enrol")
	verified(false)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.until(`document.querySelector(".status").textContent.startsWith("Nothing was signed")`)
	verified(true)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "You are enrolled"`)
	b.check(phone, "/enrol, enrolled")
	b.shown("enrolled")
	if words := eval[string](b, `document.querySelector(".words").textContent`); !strings.Contains(run(t, dir, "creds"), "passkey "+words) {
		t.Errorf("creds does not show the words %q", words)
	}

	for _, v := range views() {
		b.look(v)
		b.do(chromedp.Navigate(s.login))
		b.until(`document.querySelector("form[data-sign] .status").textContent === ""`)
		b.check(v, "/login")
		if v == phone {
			b.shown("login")
		}
	}
	b.look(phone)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.entered(s, "")
	items := func(kind string) string {
		b.do(chromedp.Navigate(s.base + "/approvals"))
		return eval[string](b, `[...document.querySelectorAll("tbody a")].find((a) => a.textContent === "`+kind+`").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	}
	first := items("anomaly")
	b.do(chromedp.Navigate(s.base + first))
	verified(false)
	b.do(chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("button.yes").form.querySelector(".status").textContent.startsWith("Nothing was signed")`)
	verified(true)
	b.do(chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Approved"`)
	second := items("anomaly")
	b.do(chromedp.Navigate(s.base+second), chromedp.SendKeys("#reason", "not true", chromedp.ByQuery), chromedp.Click("button.no", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Rejected"`)
	third := items("anomaly")
	b.do(chromedp.Navigate(s.base+third), chromedp.Click("summary", chromedp.ByQuery), chromedp.Click(".edit button", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Your edit"`)
	b.check(phone, "the preview of an edit, which changes nothing")
	b.do(chromedp.Navigate(s.base+third), chromedp.Click("summary", chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#response").value = document.querySelector("#response").value.replace(/"[^"]*"}$/, '"asks to be paid"}')`, nil), chromedp.Click(".edit button", chromedp.ByQuery))
	b.until(`document.querySelector("button.yes") !== null && document.querySelector("h1")?.textContent === "Your edit"`)
	b.check(phone, "the preview of an edit")
	b.do(chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Edited"`)
	fourth := items("escalation")
	b.do(chromedp.Navigate(s.base + fourth))
	// Somebody else decides meanwhile about another item, which a second tab shows.
	fifth := items("anomaly")
	b.do(chromedp.Navigate(s.base + fifth))
	run(t, dir, "approvals", "reject", fifth[strings.LastIndex(fifth, "/")+1:], "--reason", "seen already")
	b.until(`document.querySelector(".over").textContent.startsWith("Somebody has decided") && document.querySelector("button.yes").disabled`)
	b.check(phone, "an item that somebody else decided about")
	b.do(chromedp.Navigate(s.base+fourth), chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Approved"`)
	b.quiet("deciding with a passkey")
	for path, act := range map[string]string{first: "approve", second: "reject", third: "edit", fourth: "approve"} {
		audit := run(t, dir, "audit", "replay", "--query", path[strings.LastIndex(path, "/")+1:], "--json")
		if !strings.Contains(audit, `"event":"`+act+`"`) || !strings.Contains(audit, `"passkey":"`) {
			t.Errorf("the audit has no act %s by passkey of %s: %s", act, path, audit)
		}
	}
	m.stop()
	run(t, dir, "audit", "redecide")
}

// heldMesh runs a mesh whose Reader pushes what waits for pat, who has enrolled a passkey on a phone and is logged in.
func heldMesh(t *testing.T, more string) (m, s *mesh, b *tab) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mesh.yaml": "approvers: [pat]\nauditors: [pat]\n" + more,
		"agents/main.md": "---\nname: main\nbcp_channels:\n  - peer: mail\n    role: controller\n    max_category: 3\n    budget_bits: 20000\n    subscriptions:\n      - {id: digest, category: 3, directive: Summarise the mail., max_words: 60}\n" +
			"      - {id: wants, category: 2, questions: [{id: gist, question: What?, max_words: 8, expected_format: short_text}]}\n---\n",
		"agents/mail.md": "---\nname: mail\nbcp_channels:\n  - {peer: main, role: reader, max_category: 3, budget_bits: 20000}\n---\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m = background(t, dir, "state in ", "up", "--listen", "127.0.0.1:0")
	s = site(t, m)
	var invited struct{ Page string }
	if err := json.Unmarshal([]byte(run(t, dir, "creds", "invite", "pat", "--role", "approver", "--web", s.base, "--json")), &invited); err != nil {
		t.Fatal(err)
	}
	b = open(t, s)
	b.device()
	b.look(phone)
	b.do(chromedp.Navigate(invited.Page))
	b.until(`document.querySelector("form[data-sign] .status").textContent === ""`)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "You are enrolled"`)
	b.do(chromedp.Navigate(s.login))
	b.until(`document.querySelector("form[data-sign] .status").textContent === ""`)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.entered(s, "")
	return m, s, b
}

// Ten answers of one kind are decided on a phone with one gesture, in less than a minute: each was shown once, the passkey
// signed one statement, and the record of each proves its own decision.
func TestTenTogether(t *testing.T) {
	m, s, b := heldMesh(t, "")
	const items = 10
	for i := range items {
		run(t, m.dir, "publish", "main", "digest", fmt.Sprintf(`{"summary":"Letter %d came in."}`, i))
	}
	began := time.Now()
	b.do(chromedp.Navigate(s.base + "/approvals"))
	b.check(phone, "/approvals with ten items")
	b.do(chromedp.Evaluate(`document.querySelectorAll("input[type=checkbox]").forEach((box) => box.click())`, nil), chromedp.Click("#marks button", chromedp.ByQuery))
	b.until(`document.querySelectorAll(".frame .said").length === 10 && document.querySelector("h1").textContent === "Decide: 10 items"`)
	b.check(phone, "/approvals/marked")
	b.shown("marked")
	b.do(chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "10 of 10 approved"`)
	took := time.Since(began)
	t.Logf("ten items of one kind took %s", took)
	if took > time.Minute {
		t.Errorf("ten items took %s", took)
	}
	b.quiet("deciding ten items with one gesture")
	var statements []string
	for end := time.Now().Add(patience); len(statements) < items && time.Now().Before(end); { // the audit follows the journal
		statements = regexp.MustCompile(`"statement":"[0-9a-f]{64}"`).FindAllString(run(t, m.dir, "audit", "replay", "--kind", "approval", "--json"), -1)
	}
	slices.Sort(statements)
	if len(statements) != items || len(slices.Compact(statements)) != 1 {
		t.Errorf("ten decisions by one signature are recorded with %q", statements)
	}
	m.stop()
	run(t, m.dir, "audit", "redecide")
}

// On a phone a person endorses what is like a held item, with what the passkey signs in page.js, and revokes it.
func TestEndorse(t *testing.T) {
	m, s, b := heldMesh(t, "endorse:\n- {controller: main, reader: mail, people: [pat], max_uses: 3, max_time: 2h, max_bits: 5000}\n")
	run(t, m.dir, "publish", "main", "wants", `{"gist":"see evil.com today"}`)
	b.do(chromedp.Navigate(s.base+"/approvals"), chromedp.Click("tbody th a", chromedp.ByQuery))
	b.until(`document.querySelector("form[action$='/endorse'] button") !== null`)
	b.check(phone, "an item that may be endorsed")
	b.do(chromedp.Click("form[action$='/endorse'] button", chromedp.ByQuery))
	b.until(`document.querySelector("form[data-sign=endorse] .status")?.textContent === ""`)
	b.check(phone, "the page that endorses")
	b.do(chromedp.Evaluate(`document.querySelector("#uses").value = "2"; document.querySelector("#bits").value = "04000"`, nil), chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Endorsed"`)
	if said := run(t, m.dir, "publish", "main", "wants", `{"gist":"look at evil.com"}`); strings.Contains(said, "held") {
		t.Errorf("like what was endorsed: %s", said)
	}
	b.do(chromedp.Navigate(s.base + "/approvals"))
	b.until(`document.querySelector("#endorsed") !== null && document.body.textContent.includes("1 of 2")`)
	b.check(phone, "the list of endorsements")
	b.do(chromedp.Click("section button.no", chromedp.ByQuery))
	b.until(`document.querySelector("h1")?.textContent === "Ended"`)
	if said := run(t, m.dir, "publish", "main", "wants", `{"gist":"look at evil.com"}`); !strings.Contains(said, "held") {
		t.Errorf("once it is revoked: %s", said)
	}
	b.quiet("endorsing")
	m.stop()
	run(t, m.dir, "audit", "redecide")
}
