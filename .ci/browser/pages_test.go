package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"context"
	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// axeFound is what axe says of a page.
type axeFound struct {
	Passed   int
	Findings []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
}

// Every page in both schemes, on a desk and on a phone: no complaint of the browser, no finding of axe, nothing wider than
// the screen.
func TestPages(t *testing.T) {
	m := mailroom(t)
	b := open(t, m)
	b.look(light)
	b.do(chromedp.Navigate(m.login))
	b.until(`document.querySelector("main form button") !== null`)
	b.check(light, "/login")
	b.logIn(m)
	b.do(chromedp.Navigate(m.base + "/approvals"))
	item := eval[string](b, `[...document.querySelectorAll("tbody a")].find((a) => a.textContent === "anomaly").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	escalation := eval[string](b, `[...document.querySelectorAll("tbody a")].find((a) => a.textContent === "escalation").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	b.do(chromedp.Navigate(m.base + "/audit?verdict=reject"))
	refused := eval[string](b, `document.querySelector(".story a").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	b.do(chromedp.Navigate(m.base + "/sessions"))
	session := eval[string](b, `document.querySelector("main tbody a[href*='/audit?id=']").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	paths := []string{"/", "/approvals", item, escalation, "/agents", "/agents/mail-reader", "/agents/assistant", "/sessions", session, "/audit", "/audit?page=2", "/audit?verdict=reject", "/audit?agent=nobody",
		"/audit?kind=alert", "/proof", "/channels/assistant/mail-reader", refused}
	b.all(m, paths, map[string]string{"/": "mesh", "/approvals": "approvals", item: "item", "/agents/mail-reader": "agent", session: "session", "/channels/assistant/mail-reader": "channel",
		refused: "decision", "/audit": "audit", "/proof": "proof"})
}

// The story of the demonstration has a page, where the login leads; what is held is decided next to it.
func TestStory(t *testing.T) {
	m := start(t, t.TempDir(), "demo", "--web", "localhost:0")
	b := open(t, m)
	b.look(light)
	b.do(chromedp.Navigate(m.login), chromedp.Click("main form button", chromedp.ByQuery))
	b.entered(m, "story")
	b.until(`document.querySelectorAll("section .beside").length > 40`)
	if quoted := eval[[]string](b, `[...document.querySelectorAll("main table tr:last-child td")].map((e) => e.textContent)`); len(quoted) != 2 || quoted[0] == "0" || quoted[1] != "0" {
		t.Errorf("messages that quote a planted instruction, without and with: %q", quoted)
	}
	b.all(m, []string{"/story"}, map[string]string{"/story": "story"})
	b.do(chromedp.Navigate(m.base + "/approvals"))
	item := eval[string](b, `[...document.querySelectorAll("tbody a")].find((a) => a.textContent === "anomaly").getAttribute("href").replace(/^\/[A-Z2-7]{26}/, "")`)
	b.do(chromedp.Navigate(m.base+item), chromedp.Click("button.yes", chromedp.ByQuery))
	b.until(`!location.pathname.endsWith("` + item + `") || document.querySelector("h1").textContent !== "Decide: anomaly"`)
	b.quiet("after the decision")
}

// all looks at pages in every view, and makes pictures of those with a name.
func (b *tab) all(m *mesh, paths []string, shown map[string]string) {
	b.t.Helper()
	for _, v := range views() {
		b.look(v)
		for _, path := range paths {
			b.do(chromedp.Navigate(m.base + path))
			b.check(v, path)
			name := shown[path]
			if *pictures != "" && name != "" && v.name != "phone-light" {
				b.picture(filepath.Join(*pictures, name+"-"+v.name+".png"))
			}
		}
	}
}

// check fails the test for complaints of the browser, findings of axe, and what is wider than the screen.
func (b *tab) check(v view, path string) {
	b.t.Helper()
	axe, err := os.ReadFile(*axeFile)
	if err != nil {
		b.t.Fatal(err)
	}
	where := v.name + " " + path
	b.quiet(where)
	found := eval[axeFound](b, string(axe)+`; axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]}).then((r) => ({passed: r.passes.length, findings: r.violations.map((f) =>
		({id: f.id, help: f.help, nodes: f.nodes.map((n) => ({html: n.html, failureSummary: n.failureSummary}))}))}))`)
	if found.Passed < 15 {
		b.t.Errorf("%s: axe looked at %d rules alone", where, found.Passed)
	}
	for _, f := range found.Findings {
		b.t.Errorf("%s: axe: %s: %s: %d times, first %+v", where, f.ID, f.Help, len(f.Nodes), f.Nodes[0])
	}
	if wide := eval[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		b.t.Errorf("%s: %d pixels wider than the screen", where, wide)
	}
	b.quiet(where + " under axe")
}

// picture writes what is to be seen, in the 128 colours that it has most of.
func (b *tab) picture(file string) {
	b.t.Helper()
	b.until(`!document.querySelector(".live") || document.querySelector(".status").textContent !== ""`)
	b.do(chromedp.Evaluate(`scrollTo(0, 0); document.activeElement.blur()`, nil))
	var shot []byte
	b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().Do(ctx)
		return err
	}))
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		b.t.Fatal(err)
	}
	count := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			count[full.At(x, y)]++
		}
	}
	var colours color.Palette
	for c := range count {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return count[b] - count[a] })
	colours = colours[:min(128, len(colours))]
	small := image.NewPaletted(full.Bounds(), colours)
	nearest := map[color.Color]uint8{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			c := full.At(x, y)
			if _, ok := nearest[c]; !ok {
				nearest[c] = uint8(colours.Index(c))
			}
			small.SetColorIndex(x, y, nearest[c])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		b.t.Fatal(err)
	}
	if out.Len() > 80<<10 {
		b.t.Errorf("%s has %d bytes", file, out.Len())
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// On a phone, an item is found, read and decided with the keyboard alone; what a screen reader calls things says what they do.
func TestDecideByKeyboard(t *testing.T) {
	m := mailroom(t)
	b := open(t, m)
	b.look(phone)
	b.logIn(m)
	b.press("a", "Approvals", "\r")
	b.until(`document.querySelector("h1")?.textContent === "Approvals"`)
	decide := func() (path string) {
		b.press("a", "anomaly", "\r")
		b.until(`document.querySelector("h1")?.textContent.startsWith("Decide")`)
		return eval[string](b, `location.pathname.replace(/^\/[A-Z2-7]{26}/, "")`)
	}
	first := decide()
	for _, want := range []string{"button Release exactly this to assistant", "button Reject", "textbox Reason, for the Reader and the audit", "navigation Pages", "main "} {
		role, name, _ := strings.Cut(want, " ")
		if names := b.names(role); !slices.Contains(names, name) {
			t.Errorf("a screen reader finds no %s %q, but %q", role, name, names)
		}
	}
	if words := b.names("group"); !slices.ContainsFunc(words, func(s string) bool { return strings.Contains(s, "untrusted content") }) {
		t.Errorf("a screen reader is not told of untrusted content: %q", words)
	}
	if low := eval[[]string](b, `[...document.querySelectorAll(".decide button, .decide input:not([type=hidden])")].filter((e) => e.getBoundingClientRect().height < 44).map((e) => e.outerHTML)`); len(low) > 0 {
		t.Errorf("too low for a finger: %q", low)
	}
	b.press("button", "Release exactly this to assistant", "\r")
	b.until(`document.querySelector("h1")?.textContent === "Approved"`)
	b.press("a", "What else waits", "\r")
	b.until(`document.querySelector("h1")?.textContent === "Approvals"`)
	second := decide()
	b.press("input", "Reason", "n")
	b.do(chromedp.KeyEvent("ot true"))
	b.press("button", "Reject", "\r")
	b.until(`document.querySelector("h1")?.textContent === "Rejected"`)
	b.quiet("deciding")
	// A second page of the same item says that somebody decided.
	b.do(chromedp.Navigate(m.base + first))
	b.until(`/already decided|no such item/i.test(document.querySelector("h1")?.textContent)`)
	for path, act := range map[string]string{first: "approve", second: "reject"} {
		if audit := run(t, m.dir, "audit", "replay", "--query", path[strings.LastIndex(path, "/")+1:], "--json"); !strings.Contains(audit, `"event":"`+act+`"`) {
			t.Errorf("the audit has no act %s of %s: %s", act, path, audit)
		}
	}
	exported, key := filepath.Join(t.TempDir(), "audit"), strings.TrimSpace(run(t, m.dir, "audit", "key"))
	run(t, m.dir, "audit", "export", exported)
	run(t, m.dir, "audit", "verify", exported, "--key", key)
}

// names are the names of what has a role in the accessibility tree.
func (b *tab) names(role string) (names []string) {
	b.t.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		nodes, err := accessibility.GetFullAXTree().Do(ctx)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Role != nil && string(n.Role.Value) == `"`+role+`"` {
				name := ""
				if n.Name != nil {
					name = strings.Trim(string(n.Name.Value), `"`)
				}
				names = append(names, name)
			}
		}
		return nil
	}))
	return names
}
