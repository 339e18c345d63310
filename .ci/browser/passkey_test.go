package browser

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

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
	if words := eval[string](b, `document.querySelector(".words").textContent`); !strings.Contains(run(t, dir, "creds", "list"), "passkey "+words) {
		t.Errorf("creds list does not show the words %q", words)
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
