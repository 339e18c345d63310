// Package browser drives headless Chromium over the pages of a real mesh.
package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var (
	program  = flag.String("program", "", "the bcpmesh `PROGRAM`")
	axeFile  = flag.String("axe", "", "axe.min.js of axe-core")
	pictures = flag.String("update", "", "write the pictures of the documents into this `DIR`")
	every    = flag.Bool("every", false, "look at all pages in every view: both schemes, on a desk and on a phone")
)

// patience is how long anything that has to come may take.
const patience = time.Minute

// mesh is one that runs in a folder, with the address of its pages.
type mesh struct {
	dir, base, login string
	stop             func()
}

// run runs the program in the folder of the mesh.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(*program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("bcpmesh %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// start starts a command that serves pages, and waits for the address that logs in.
func start(t *testing.T, dir string, args ...string) *mesh {
	t.Helper()
	m := background(t, dir, "log in at ", args...)
	u, err := url.Parse(m.login)
	if err != nil {
		t.Fatal(err)
	}
	m.base = u.Scheme + "://" + u.Host
	return m
}

// background starts a command that goes on, and waits for what it says after a text.
func background(t *testing.T, dir, wanted string, args ...string) *mesh {
	t.Helper()
	said, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(*program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		_ = said.Close()
	})
	t.Cleanup(stop)
	m := &mesh{dir: dir, stop: stop}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		b, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(b), wanted); ok && strings.Contains(rest, "\n") {
			m.login, _, _ = strings.Cut(rest, "\n")
			return m
		}
	}
	b, _ := os.ReadFile(said.Name())
	t.Fatalf("bcpmesh %v does not say %q: %s", args, wanted, b)
	return nil
}

// mailroom is the mesh of the demonstration, with what its hijacked reader said.
func mailroom(t *testing.T) *mesh {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mailroom")
	run(t, ".", "demo", "--keep", dir)
	return start(t, dir, "up", "--listen", "127.0.0.1:0", "--web", "localhost:0")
}

// tab is a tab of a browser of its own. What pages complain about is kept.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	away       bool // the server is expected to be gone
}

// view is how a page is looked at.
type view struct {
	name          string
	scheme        string
	width, height int64
	phone         bool
}

var (
	light = view{"light", "light", 1100, 900, false}
	dark  = view{"dark", "dark", 1100, 900, false}
	phone = view{"phone", "dark", 390, 844, true}
)

// views are those in which pages are looked at: by day a light desk and a dark phone.
func views() []view {
	if *every || *pictures != "" {
		return []view{light, dark, phone, {"phone-light", "light", 390, 844, true}}
	}
	return []view{light, phone}
}

func open(t *testing.T, m *mesh) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-gpu", true), chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	host := strings.TrimPrefix(m.base, "http://")
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				b.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
				b.complain("console: " + string(e.Args[0].Value))
			}
		case *runtime.EventExceptionThrown:
			b.complain("exception: " + e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			b.complain("dialog: " + e.Message)
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "about" && u.Host != host {
				b.complain("request elsewhere: " + e.Request.URL)
			}
		}
	})
	b.do(log.Enable(), network.Enable(), runtime.Enable(), page.Enable())
	return b
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away && strings.Contains(text, "ERR_") {
		return
	}
	b.complaints = append(b.complaints, text)
}

// quiet fails the test if a page complained.
func (b *tab) quiet(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("%s: %s", where, c)
	}
	b.complaints = nil
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- chromedp.Run(b.ctx, actions...) }()
	select {
	case err := <-ended:
		if err != nil {
			b.t.Fatal(err)
		}
	case <-time.After(patience):
		b.t.Fatal("the browser does not answer")
	}
}

// eval returns what an expression is in the page; a promise is waited for.
func eval[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	var raw []byte
	b.do(chromedp.Evaluate(expression, &raw, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true).WithReturnByValue(true)
	}))
	if err := json.Unmarshal(raw, &value); err != nil {
		b.t.Fatalf("%s: %v in %s", expression, err, raw)
	}
	return value
}

func (b *tab) look(v view) {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(v.width, v.height, 1, v.phone),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

func (b *tab) logIn(m *mesh) {
	b.t.Helper()
	b.do(chromedp.Navigate(m.login))
	b.until(`document.querySelector("main form button") !== null`)
	b.do(chromedp.Click("main form button", chromedp.ByQuery))
	b.entered(m, "")
}

// entered waits for the first page of a session, whose pages are all under one path.
func (b *tab) entered(m *mesh, path string) {
	b.t.Helper()
	b.until(`/^\/[A-Z2-7]{26}\/` + path + `$/.test(location.pathname) && document.querySelector("nav") !== null`)
	m.base = eval[string](b, `location.origin + "/" + location.pathname.split("/")[1]`)
}

// until waits for an expression to be true, in whatever page is there.
func (b *tab) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var is bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate(expression, &is)); err == nil && is {
			return
		}
	}
	var text string
	_ = chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &text)) // for the report
	b.t.Fatalf("never true: %s in\n%s", expression, text)
}

// press presses Tab until what has the focus has a role and a name that begins as is said, and then a key.
func (b *tab) press(role, name, key string) {
	b.t.Helper()
	var met []string
	for range 80 {
		b.do(chromedp.KeyEvent("\t"))
		// The element's own name, as a screen reader computes it for links, buttons and labelled fields.
		now := eval[[]string](b, `(() => { const e = document.activeElement; return [e.tagName.toLowerCase(), (e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent).trim()]; })()`)
		met = append(met, strings.Join(now, " "))
		if now[0] == role && strings.HasPrefix(now[1], name) {
			b.do(chromedp.KeyEvent(key))
			return
		}
	}
	b.t.Fatalf("Tab does not reach the %s %q; it reaches\n%s", role, name, strings.Join(met, "\n"))
}
