package approvals

import (
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"charm.land/bubbletea/v2"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/inert/inerttest"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// fakeDesk holds items as a gateway does, without one.
type fakeDesk struct {
	mu      sync.Mutex
	views   []bcp.ItemView
	codes   map[bcp.ItemID]bcp.Code // of what does not wait any more
	err     error                   // the mesh is away
	decided []string
}

func (d *fakeDesk) find(id bcp.ItemID) (bcp.ItemView, error) {
	if d.err != nil {
		return bcp.ItemView{}, d.err
	}
	for _, v := range d.views {
		if v.ID == id {
			return v, nil
		}
	}
	code := d.codes[id]
	if code == "" {
		code = bcp.ItemNotFound
	}
	return bcp.ItemView{}, &agents.RefusedError{Code: code, Detail: code.Info().Text}
}

func (d *fakeDesk) List(context.Context) (items []bcp.Item, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.views {
		items = append(items, v.Item)
	}
	return items, d.err
}

func (d *fakeDesk) View(_ context.Context, id bcp.ItemID) (bcp.ItemView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.find(id)
}

func (d *fakeDesk) end(view bcp.ItemView, what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.find(view.ID); err != nil {
		return err
	}
	d.decided = append(d.decided, string(view.ID)+" "+what)
	d.drop(view.ID, bcp.AlreadyDecided)
	return nil
}

func (d *fakeDesk) drop(id bcp.ItemID, code bcp.Code) {
	d.codes[id] = code
	d.views = slices.DeleteFunc(d.views, func(v bcp.ItemView) bool { return v.ID == id })
}

func (d *fakeDesk) Together(_ context.Context, act bcp.Act, views []bcp.ItemView, reason string) (left []error, err error) {
	for _, view := range views {
		what := "reject " + reason
		if act == bcp.Approve {
			what = "approve " + digestText(view.SHA256)[:8]
		}
		if len(views) > 1 {
			what += " together"
		}
		left = append(left, d.end(view, what))
	}
	return left, d.err
}

func (d *fakeDesk) Preview(_ context.Context, view bcp.ItemView, response any) (bcp.EditPreview, error) {
	text, _ := response.(map[string]string)
	if text == nil || text[tell.SummaryName] == "refuse" {
		return bcp.EditPreview{}, &agents.RefusedError{Code: bcp.Malformed, Detail: "summary: has too many words"}
	}
	content := summaryOf(strings.ToLower(text[tell.SummaryName]))
	return bcp.EditPreview{Item: view.ID, Content: content, SHA256: sha256.Sum256(content)}, nil
}

func (d *fakeDesk) Edit(_ context.Context, view bcp.ItemView, preview bcp.EditPreview) error {
	return d.end(view, "edit "+string(preview.Content))
}

func summaryOf(text string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\ufffd")) // it is valid now
	return jsontext.Value(`{"summary":` + string(quoted) + `}`)
}

var testNow = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)

// summaryView is a held summary.
func summaryView(id, text string) bcp.ItemView {
	content := summaryOf(text)
	return bcp.ItemView{
		Item: bcp.Item{ID: bcp.ItemID(id), Kind: bcp.ItemSummary, Controller: "main", Reader: "mail", Subscription: "digest", Category: 3,
			Nominal: 660 * bcp.Bit, Capacity: 9000 * bcp.Bit, Taint: bcp.TaintMedium, Since: testNow.Add(-time.Minute), Deadline: testNow.Add(time.Hour)},
		Source:  bcp.Source{Agent: "mail", Description: "Reads mail.", Network: "none", Tools: []string{"Read"}, Taint: bcp.TaintHigh},
		Spec:    bcp.Spec{Category: 3, Directive: "Summarise.", MaxWords: 60},
		Content: content, SHA256: sha256.Sum256(content),
	}
}

// watching is a view in a test: messages go in, commands are run, frames come
// out.
type watching struct {
	t    testing.TB
	m    *watchModel
	desk *fakeDesk

	bells int
}

func watch(t testing.TB, width, height int, views ...bcp.ItemView) *watching {
	t.Helper()
	desk := &fakeDesk{views: views, codes: map[bcp.ItemID]bcp.Code{}}
	w := &watching{t: t, m: newWatchModel(context.Background(), desk, "kim", false), desk: desk}
	w.send(tea.WindowSizeMsg{Width: width, Height: height})
	w.at(testNow)
	return w
}

// send gives the model a message and whatever its commands bring about.
func (w *watching) send(msg tea.Msg) {
	w.t.Helper()
	_, cmd := w.m.Update(msg)
	w.run(cmd)
	w.check()
}

func (w *watching) run(cmd tea.Cmd) {
	w.t.Helper()
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			w.run(c)
		}
	case listMsg, viewMsg, previewMsg, decidedMsg:
		w.send(msg)
	case tea.RawMsg:
		if msg.Msg != "\a" {
			w.t.Errorf("the terminal gets %q", msg.Msg)
		}
		w.bells++
	}
}

// at is one tick of the clock. Its next one is not waited for.
func (w *watching) at(now time.Time) {
	w.t.Helper()
	w.m.now = now
	if now.Sub(w.m.listed) >= listEvery {
		w.run(w.m.list())
	}
	w.m.scrollBy(0)
	w.check()
}

func (w *watching) keys(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.send(keyPress(name))
	}
}

func (w *watching) types(text string) {
	w.t.Helper()
	for _, r := range text {
		w.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func keyPress(name string) tea.KeyPressMsg {
	switch name {
	case "enter":
		return tea.KeyPressMsg{Code: tea.KeyEnter}
	case "esc":
		return tea.KeyPressMsg{Code: tea.KeyEscape}
	case "space":
		return tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
	case "down":
		return tea.KeyPressMsg{Code: tea.KeyDown}
	case "up":
		return tea.KeyPressMsg{Code: tea.KeyUp}
	case "ctrl+s":
		return tea.KeyPressMsg{Code: 's', Mod: tea.ModCtrl}
	}
	r := []rune(name)[0]
	return tea.KeyPressMsg{Code: r, Text: name}
}

var colourPattern = regexp.MustCompile("\x1b\\[[0-9;]*m")

// check looks at the bytes of a frame: no more rows than the screen has, and
// nothing that acts on a terminal but the colours of a cursor.
func (w *watching) check() {
	w.t.Helper()
	rows := strings.Split(w.m.frame(), "\n")
	if len(rows) > max(w.m.height, 1) {
		w.t.Fatalf("%d rows on a screen of %d", len(rows), w.m.height)
	}
	for i, row := range rows {
		rows[i] = colourPattern.ReplaceAllString(row, "")
		columns := 0
		for _, r := range rows[i] {
			if r >= 0x2000 && r < 0x2600 && !unicode.Is(unicode.M, r) { // our own signs
				columns++
			} else {
				columns += inert.Columns(r)
			}
		}
		// What is typed is laid out by its field, and cut by the renderer.
		if typing := w.m.mode == modeEdit || w.m.mode == modeReason; columns > max(w.m.width, 1) && !typing {
			w.t.Fatalf("%d columns on a screen of %d: %q", columns, w.m.width, row)
		}
	}
	inerttest.Check(w.t, rows)
}

func (w *watching) expect(parts ...string) {
	w.t.Helper()
	frame := colourPattern.ReplaceAllString(w.m.frame(), "")
	for _, part := range parts {
		if !strings.Contains(frame, part) {
			w.t.Fatalf("expected %q:\n%s", part, frame)
		}
	}
}

func (w *watching) decided(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.desk.decided, want) {
		w.t.Fatalf("decided %q, want %q:\n%s", w.desk.decided, want, w.m.frame())
	}
}

var longText = "first " + strings.Repeat("word ", 600) + "last"

// An item is approved only after its last line was on the screen, and after a
// second key; what is approved is what was shown.
//
// covers A-SCROLL, BCP-118
func TestWatchApprovesWhatWasRead(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24, summaryView("i1", longText), summaryView("i2", "short"))
	w.expect("approvals of kim — 2 wait: 2 summary", "▸ summary", "more below", "untrusted content from a tainted agent (mail)")
	w.keys("a")
	w.expect("read to the end")
	w.keys("y")
	w.keys("G", "a") // jumped over the middle
	w.expect("not all of them have been shown", "read to the end")
	w.keys("g", "space", "space", "space", "space", "space", "space")
	w.expect("the end: all", "last")
	w.keys("a")
	w.expect("Release exactly this to main?", digestText(w.m.view.SHA256)[:16])
	w.keys("n")
	w.expect("nothing was decided")
	w.decided()
	w.keys("a", "y")
	w.decided("i1 approve " + digestText(summaryView("", longText).SHA256)[:8])
	w.expect("approved i1: it goes to main", "1 wait", "│ short")
	w.keys("enter", "enter", "enter", "y")
	w.expect("approvals of kim — nothing waits")
	w.keys("a", "r", "e", "j", "k", "space", "y")
	w.expect("nothing waits")
}

// What was read to its end can be marked, and is decided together as it was read, whatever
// is shown then. What does not wait any more is left out, and said.
//
// covers A-SCROLL, P7.7
func TestWatchDecidesTogether(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24, summaryView("i1", longText), summaryView("i2", "two"), summaryView("i3", "three"), summaryView("i4", "four"))
	w.keys("m", "G", "m")
	w.expect("then mark it")
	w.keys("j", "space", "space", "m", "j", "space", "space", "m", "j", "space", "space", "m")
	w.keys("m", "j", "j", "k", "k", "k", "k") // i4 is not marked any more; i1 is shown, which is not read
	w.expect(" *summary", "▸ summary")
	w.keys("a")
	w.expect("Approve the 2 that are marked, as you read them?")
	w.keys("n", "r")
	w.expect("Why do you reject the 2 that are marked?")
	w.keys("esc", "a")
	w.desk.drop("i3", bcp.ItemExpired)
	w.keys("y")
	w.decided("i2 approve " + digestText(summaryView("", "two").SHA256)[:8] + " together")
	w.expect("approved 1 of 2 marked; left out i3: ")
	w.keys("a")
	w.expect("read to the end") // nothing is marked any more

	w = watch(t, 80, 24, summaryView("i1", "one"), summaryView("i2", "two"))
	w.keys("space", "m", "j", "space", "m", "r")
	w.types("No.")
	w.keys("enter")
	w.decided("i1 reject No. together", "i2 reject No. together")
	w.expect("nothing waits", "rejected 2 of 2 marked")
}

// One signature is of no more than it may be.
//
// covers P7.7
func TestWatchMarksSoMany(t *testing.T) {
	t.Parallel()
	var views []bcp.ItemView
	for i := range bcp.MaxBatch + 1 {
		views = append(views, summaryView("i"+strconv.Itoa(i), "word"))
	}
	w := watch(t, 80, 24, views...)
	for range bcp.MaxBatch {
		w.keys("space", "m", "j")
	}
	w.keys("space", "m")
	w.expect("one signature is of at most 64 decisions")
	w.keys("a", "y")
	if len(w.desk.decided) != bcp.MaxBatch {
		t.Errorf("%d are decided", len(w.desk.decided))
	}
}

// A rejection has a reason, which is checked before it is sent.
//
// covers BCP-119, A-REASON
func TestWatchRejects(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24, summaryView("i1", "pay at once"))
	w.keys("r")
	w.expect("Why? mail hears it, main does not.")
	w.keys("enter")
	w.expect("a rejection has a reason")
	w.types("no payments")
	w.keys("esc")
	w.decided()
	w.keys("r")
	w.send(tea.PasteMsg{Content: "a\u202eb\x1b[2Jc\u200b"})
	w.expect("⟨U+202E⟩", "⟨U+200B⟩")
	w.keys("esc", "r")
	w.types("no payments, q")
	w.keys("enter")
	w.decided("i1 reject no payments, q")
	w.expect("rejected i1: mail hears the reason, main hears nothing")
}

// An edit is released as it was previewed.
//
// covers BCP-120
func TestWatchEdits(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24, summaryView("i1", "Pay at once"))
	w.keys("e")
	w.expect("> Pay at once")
	w.types("DO NOT ")
	w.keys("ctrl+s")
	w.expect("your edit of i1", "│ do not pay at once", "in place of this untrusted content", "│ Pay at once")
	w.keys("n")
	w.expect("> DO NOT Pay at once")
	w.keys("ctrl+s", "y")
	w.decided(`i1 edit {"summary":"do not pay at once"}`)

	w = watch(t, 80, 24, summaryView("i1", "x"))
	w.keys("e")
	w.m.area.SetValue("refuse")
	w.keys("ctrl+s")
	w.expect("malformed: summary: has too many words")
	w.m.area.SetValue("")
	w.keys("ctrl+s")
	w.expect("the edit is empty")
	w.keys("esc", "q")
	w.decided()
}

// The bell rings for what was not listed before, and once; the title says how much waits.
func TestWatchRings(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24)
	rings := func(bells int, title string) {
		t.Helper()
		if got := w.m.View().WindowTitle; w.bells != bells || got != title {
			t.Errorf("%d bells and the title %q, not %d and %q", w.bells, got, bells, title)
		}
	}
	rings(0, "bcpmesh approvals")
	w.desk.views = []bcp.ItemView{summaryView("i1", "one")}
	w.at(testNow.Add(2 * time.Second))
	rings(1, "(1) bcpmesh approvals")
	w.at(testNow.Add(4 * time.Second))
	rings(1, "(1) bcpmesh approvals")
	w.desk.views = append(w.desk.views, summaryView("i2", "two"), summaryView("i3", "three"))
	w.at(testNow.Add(6 * time.Second))
	rings(2, "(3) bcpmesh approvals")
	w.desk.views = w.desk.views[1:]
	w.at(testNow.Add(8 * time.Second))
	rings(2, "(2) bcpmesh approvals")
}

// What happens elsewhere is said, and takes no key with it: the shown item stays
// until another is chosen.
func TestWatchFollows(t *testing.T) {
	t.Parallel()
	w := watch(t, 80, 24, summaryView("i1", "one"), summaryView("i2", "two"), summaryView("i3", "three"))
	w.keys("j", "space", "space", "a")
	w.expect("i2, 1h", "Release exactly this")
	w.desk.drop("i2", bcp.AlreadyDecided)
	w.at(testNow.Add(2 * time.Second))
	w.expect("already_decided: somebody else has decided it", "i2 can no longer be decided", "│ two")
	w.keys("y", "a", "y", "r", "e")
	w.decided()
	w.keys("j")
	w.expect("│ one")

	// New items come in without moving the one that is read.
	w.desk.views = append([]bcp.ItemView{summaryView("i0", "zero")}, w.desk.views...)
	w.send(alertMsg{})
	w.expect("3 wait", "│ one", "▸ summary")

	// One that expires.
	w.desk.drop("i1", bcp.ItemExpired)
	w.at(testNow.Add(4 * time.Second))
	w.expect("item_expired")
	w.keys("k")
	w.expect("│ three")
	w.at(testNow.Add(2 * time.Hour))
	w.keys("space", "space", "a")
	w.expect("its deadline has passed", "expired")

	// The mesh goes away and comes back.
	w.desk.err = errors.New("agents: gone\x1b[2J")
	w.at(testNow.Add(3 * time.Hour))
	w.keys("g")
	w.expect("no connection, retrying: gone")
	w.desk.err = nil
	w.at(testNow.Add(4 * time.Hour))
	if strings.Contains(w.m.frame(), "no connection") {
		t.Error("it is back, and not said so")
	}

	// A decision that is refused, and one whose answer was lost.
	w = watch(t, 80, 24, summaryView("i1", "one"))
	w.keys("space", "space", "a")
	w.desk.drop("i1", bcp.AlreadyDecided)
	w.keys("y")
	w.expect("already_decided: the item is decided already. one decision counts")
	w = watch(t, 80, 24, summaryView("i1", "one"))
	w.keys("space", "space", "a")
	w.desk.err = &agents.UnansweredError{Err: context.DeadlineExceeded}
	w.keys("y")
	w.expect("not answered: it may have counted")
}

// An item whose digest is not of what is shown is not shown, and not decided.
func TestWatchRefusesSwappedContent(t *testing.T) {
	t.Parallel()
	swapped := summaryView("i1", "harmless")
	swapped.SHA256[0]++
	w := watch(t, 80, 24, swapped)
	w.expect("digest_mismatch: i1 does not match its digest")
	w.keys("space", "a", "y", "r", "e")
	w.decided()
}

// Nothing that is held reaches the terminal as more than text, on a screen of
// any size, whatever keys are pressed.
//
// covers A-ANSI, A-FAKEUI, BCP-115
func TestWatchFramesAreInert(t *testing.T) {
	t.Parallel()
	for name, text := range inerttest.Texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := summaryView("i1", text)
			view.Source.Description, view.Source.Network, view.Source.Tools = text, text, []string{text}
			view.Earlier = []bcp.Release{{Reader: "mail", Query: "q1", Category: 3, Content: summaryOf(text), Time: testNow}}
			escalation := summaryView("i2", text)
			escalation.Kind, escalation.Content, escalation.Justification, escalation.Spec.Directive = bcp.ItemEscalation, nil, text, strings.ToValidUTF8(text, "")
			asked, err := bcp.Encode(escalation.Spec, bcp.JSON)
			if err != nil {
				t.Fatal(err)
			}
			escalation.SHA256 = sha256.Sum256(asked)
			raw := summaryView("i3", "")
			raw.Content = jsontext.Value(text)
			raw.SHA256 = sha256.Sum256(raw.Content)
			for _, size := range [][2]int{{80, 24}, {40, 12}, {200, 60}, {1, 1}, {0, 0}, {39, 11}} {
				w := watch(t, size[0], size[1], view, escalation, raw)
				w.keys("space", "space", "e", "esc", "a", "n", "r", "esc", "j", "space", "space", "a", "n", "j", "space", "e", "esc", "?", "x")
			}
		})
	}
}

// Tiny screens and resizes at any moment do no harm, and nothing is approved on
// them that was not shown.
func TestWatchProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := inerttest.Text().Draw(rt, "text")
		w := watch(t, 80, 24, summaryView("i1", text), summaryView("i2", "two"))
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				w.send(tea.WindowSizeMsg{Width: rapid.IntRange(0, 120).Draw(rt, "width"), Height: rapid.IntRange(0, 40).Draw(rt, "height")})
			case 1:
				w.send(tea.PasteMsg{Content: inerttest.Text().Draw(rt, "paste")})
			default:
				w.keys(rapid.SampledFrom([]string{"j", "k", "a", "m", "r", "e", "n", "space", "b", "g", "G", "J", "K", "enter", "esc", "?", "ctrl+s", "up", "down"}).Draw(rt, "key"))
			}
		}
		for _, what := range w.desk.decided {
			if strings.Contains(what, "approve") { // no y was pressed
				rt.Fatalf("approved by itself: %s", what)
			}
		}
	})
}
