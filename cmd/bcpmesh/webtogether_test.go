package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

var (
	markedField = regexp.MustCompile(`<input type="hidden" name="(item|sha256|expires)" value="([^"]+)">`)
	markBox     = regexp.MustCompile(`type="checkbox" name="item" value="(i[^"]+)"`)
)

// marked reads the form of an act on the page of several items.
func marked(t *testing.T, page, act string) url.Values {
	t.Helper()
	form := first(t, regexp.MustCompile(`(?s)<form method="post" action="[^"]*/marked/`+act+`"(.*?)</form>`), page)
	values := url.Values{}
	for _, field := range markedField.FindAllStringSubmatch(form, -1) {
		values.Add(field[1], field[2])
	}
	for range values["item"] {
		values.Add("salt", "")
	}
	return values
}

// salted is what page.js makes of a form: salts, and the statement that they are in.
func salted(form url.Values, act, reason string) string {
	var leaves []string
	for i, id := range form["item"] {
		of := form["sha256"][i]
		if act == "reject" {
			digest := sha256.Sum256([]byte(reason))
			of = hex.EncodeToString(digest[:])
		}
		form["salt"][i] = strings.Repeat("0"+string(rune('a'+i)), 32)
		leaf := sha256.Sum256([]byte("bcpmesh approval 1\nitem " + id + "\ndecision " + act + "\nsha256 " + of + "\nexpires " + form["expires"][i] + "\nsalt " + form["salt"][i] + "\n"))
		leaves = append(leaves, hex.EncodeToString(leaf[:])+"\n")
	}
	slices.Sort(leaves)
	return "bcpmesh approvals 1\n" + strings.Join(leaves, "")
}

// allMarked is where a list of what waits leads with all of it marked, and how many there are.
func allMarked(list string) (path string, n int) {
	q := url.Values{}
	for _, box := range markBox.FindAllStringSubmatch(list, -1) {
		q.Add("item", box[1])
	}
	return "/approvals/marked?" + q.Encode(), len(q["item"])
}

// A person marks items in the list, sees the words of each once, framed, and decides about
// all with one form. What was decided elsewhere meanwhile, or has other bytes than the page
// showed, is left out, and the page says so.
//
// covers P7.1, P7.2, P7.7, A-SELFAPP
func TestDecideTogetherInAPage(t *testing.T) {
	t.Parallel()
	dir := heldMesh(t)
	b, _ := browse(t, "up", dir, "--listen", "127.0.0.1:0", "--web", "localhost:0")
	run := inMesh(t, dir)
	held := func(words ...string) (path, page string) {
		t.Helper()
		for _, word := range words {
			run("publish", "main", "digest", `{"summary":"`+word+`"}`)
		}
		list := b.sees(t, "/approvals", "Look at the marked ones together")
		path, n := allMarked(list)
		stopIf(t, n != len(words), "%d boxes: %s", n, list)
		return path, b.sees(t, path, "Approve all", "Reject all")
	}

	path, page := held("adler <script>alert(1)</script>", "biber", "corvus", "dachs")
	for _, word := range []string{"adler", "biber", "corvus", "dachs"} {
		failIf(t, strings.Count(page, word) != 1, "%s is shown %d times: %s", word, strings.Count(page, word), page)
	}
	failIf(t, strings.Contains(page, "<script>"), "not inert: %s", page)
	form := marked(t, page, "approve")
	stopIf(t, len(form["item"]) != 4, "the form has %v", form)
	for _, change := range map[string]func(url.Values){
		"no items":      func(f url.Values) { f.Del("item") },
		"a digest less": func(f url.Values) { f["sha256"] = f["sha256"][1:] },
		"a salt less":   func(f url.Values) { f["salt"] = f["salt"][1:] },
		"no ends":       func(f url.Values) { f.Del("expires") },
		"no id":         func(f url.Values) { f["item"][0] = "i 1" },
		"too many items": func(f url.Values) {
			for name := range f {
				f[name] = slices.Repeat(f[name], 17)
			}
		},
		"half a digest":   func(f url.Values) { f["sha256"][0] = "ab" },
		"an endless end":  func(f url.Values) { f["expires"][0] = "never" },
		"a short salt":    func(f url.Values) { f["salt"][0] = "ab" },
		"a salt of words": func(f url.Values) { f["salt"][0] = strings.Repeat("x", 64) },
	} {
		forged := marked(t, page, "approve")
		change(forged)
		b.posts(t, "/approvals/marked/approve", forged, http.StatusUnprocessableEntity, "Nothing was decided")
	}
	if status, _ := b.post(t, "/approvals/marked/approve", "cross-site", form); status != http.StatusForbidden {
		t.Errorf("a form of another site: %d", status)
	}
	b.posts(t, "/approvals/marked/reject", form, http.StatusUnprocessableEntity, "A rejection has a reason")
	run("approvals", "reject", form["item"][1], "--reason", "Seen.")
	form["sha256"][2] = strings.Repeat("0", 63) + "1"
	status, page := b.post(t, "/approvals/marked/approve", "same-origin", form)
	stopIf(t, status != http.StatusConflict || !strings.Contains(page, "2 of 4 approved") || !strings.Contains(page, form["item"][1]+": Already decided.") || !strings.Contains(page, form["item"][2]+": Changed."),
		"approving: %d %s", status, page)
	inbox := run("inbox")
	failIf(t, strings.Count(inbox, "digest") != 2, "delivered %s", inbox)
	// Of what was marked one item waits, which has its own page.
	b.sees(t, path, "Decide: summary", "Release exactly this to main")
	run("approvals", "reject", form["item"][2], "--reason", "No.")
	if status, page := b.get(t, path); status != http.StatusNotFound || !strings.Contains(page, "Nothing of it waits") {
		t.Errorf("nothing waits: %d %s", status, page)
	}
	for n, want := range map[int]int{0: http.StatusNotFound, 64: http.StatusNotFound, 65: http.StatusUnprocessableEntity} {
		status, _ := b.get(t, "/approvals/marked?"+strings.Repeat("item=i1&", n))
		failIf(t, status != want, "%d marked, and nothing waits: %d", n, status)
	}

	_, page = held("elch", "fuchs")
	b.sees(t, "/approvals/marked", "Decide: 2 items") // nothing is marked: all are looked at
	form = marked(t, page, "reject")
	form.Set("reason", "No news.")
	b.posts(t, "/approvals/marked/reject", form, http.StatusOK, "2 of 2 rejected")
	b.sees(t, "/channels/main/mail", "6, after ") // the page follows the audit
	run("audit", "redecide")
}

// With a passkey one gesture decides: what it signed for other items, another act or another
// reason decides nothing.
//
// covers P7.3, P7.7, A-SELFAPP
func TestDecideTogetherWithAPasskey(t *testing.T) {
	t.Parallel()
	dir := heldMesh(t)
	startMesh(t, dir)
	cert, key, trust := certificateOf(t, siteHost)
	address := serveSite(t, "--dir", dir, "--tls-cert", cert, "--tls-key", key)
	b := visitor(t, address, trust)
	run := inMesh(t, dir)
	kim, other := finger{meshtest.NewPasskey(t, siteHost)}, finger{meshtest.NewPasskey(t, siteHost)}
	_, token, _ := strings.Cut(strings.TrimSpace(run("creds", "invite", "kim", "--role", "approver", "--web", siteOrigin)), "#")
	b.posts(t, "/enrol", kim.enrolment(token), http.StatusOK, "")
	if status, page := b.logIn(t, kim); status != http.StatusOK {
		t.Fatalf("logging in: %d %s", status, page)
	}
	for _, word := range []string{"adler", "biber", "corvus"} {
		run("publish", "main", "digest", `{"summary":"`+word+`"}`)
	}
	// The link of a notice asks for the login, which leads to the item, and decides nothing.
	item := first(t, itemLink, b.sees(t, "/approvals"))
	stranger := visitor(t, address, trust)
	_, login := stranger.get(t, item)
	nonce := first(t, loginNonce, login)
	failIf(t, !strings.Contains(login, `name="item" value="`+strings.TrimPrefix(item, "/approvals/")+`"`) || strings.Contains(login, "adler"),
		"the login of a link: %s", login)
	if status, page := stranger.enter(t, kim.sign(t, loginText(siteOrigin, nonce), url.Values{"nonce": {nonce}, "id": {kim.id()}, "item": {strings.TrimPrefix(item, "/approvals/")}})); status != http.StatusOK || !strings.Contains(page, "Decide: summary") {
		t.Errorf("the item of a link: %d %s", status, page)
	}
	path, _ := allMarked(b.sees(t, "/approvals"))
	page := b.sees(t, path, `data-sign="approve"`)
	form := marked(t, page, "approve")
	statement := salted(form, "approve", "")
	for name, c := range map[string]struct {
		form url.Values
		says string
	}{
		"nothing signed":      {form, "Not signed"},
		"another passkey":     {other.sign(t, statement, form), "0 of 3 approved"},
		"signed to reject":    {kim.sign(t, salted(form, "reject", "No."), form), "0 of 3 approved"},
		"signed for one":      {kim.sign(t, statement[:len(statement)-65], form), "0 of 3 approved"},
		"signed as one alone": {kim.sign(t, strings.Replace(statement, "approvals", "approval", 1), form), "0 of 3 approved"},
		"without salts":       {kim.sign(t, statement, url.Values{"item": form["item"], "sha256": form["sha256"], "expires": form["expires"], "salt": {"", "", ""}}), ""},
	} {
		status, page := b.post(t, "/approvals/marked/approve", "same-origin", c.form)
		failIf(t, status == http.StatusOK || !strings.Contains(page, c.says), "%s: %d %s", name, status, page)
	}
	inbox := run("inbox")
	stopIf(t, inbox != "", "delivered before a decision: %s", inbox)
	statement = salted(form, "approve", "")
	b.posts(t, "/approvals/marked/approve", kim.sign(t, statement, form), http.StatusOK, "3 of 3 approved")
	for _, word := range []string{"dachs", "elch"} {
		run("publish", "main", "digest", `{"summary":"`+word+`"}`)
	}
	path, _ = allMarked(b.sees(t, "/approvals"))
	page = b.sees(t, path, `data-sign="reject"`)
	form = marked(t, page, "reject")
	statement = salted(form, "reject", "No news.")
	form.Set("reason", "Other news.")
	b.posts(t, "/approvals/marked/reject", kim.sign(t, statement, form), http.StatusConflict, "0 of 2 rejected")
	form.Set("reason", "No news.")
	b.posts(t, "/approvals/marked/reject", kim.sign(t, statement, form), http.StatusOK, "2 of 2 rejected")
	got := run("audit", "redecide")
	failIf(t, !strings.Contains(got, "5"), "redecide: %s", got)
}
