package approvals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbletea/v2"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// watchMode is what the keys mean.
type watchMode int

const (
	modeBrowse  watchMode = iota
	modeApprove           // y approves
	modeReason            // a rejection's reason is typed
	modeEdit              // an edit is typed
	modePreview           // y releases the edit
	modeHelp
)

// watchModel is the state of the view. It is changed by messages alone and
// reads no clock: what waits for the mesh is in commands.
type watchModel struct {
	ctx     context.Context // of the program; commands end with it
	desk    decider
	me      string
	colours bool

	width, height int
	now           time.Time

	items   []bcp.Item
	known   map[bcp.ItemID]bool // that were listed once: they ring no bell again
	listed  time.Time           // when items were asked for last
	listing bool
	trouble string // why the mesh is away

	// The item that is shown. It stays, whatever happens to the list, until the
	// person chooses another: what is under the fingers does not change.
	selected bcp.ItemID
	view     *bcp.ItemView
	loading  bool
	gone     string // why it can no longer be decided
	read     scroll

	marked []bcp.ItemView // as they were read, to be decided together

	mode    watchMode
	busy    bool // a decision is on its way
	notice  string
	bad     bool // the notice is about something that went wrong
	area    textarea.Model
	isText  bool // what is edited is a summary, not JSON
	preview *bcp.EditPreview
	look    scroll // over the preview
}

// scroll is a place in a text that is taller than its pane.
type scroll struct {
	top  int
	seen int  // so many lines from the first have been on the screen
	all  bool // every line has
}

// move goes by lines, within a text of n lines in a pane of height lines, and
// notes what is seen. Lines that are jumped over are not.
func (s *scroll) move(by, n, height int) {
	s.top = max(0, min(s.top+by, n-height))
	if s.top <= s.seen {
		s.seen = max(s.seen, s.top+height)
	}
	s.all = s.all || height > 0 && s.seen >= n
}

// linesBelow says how many lines are below the pane.
func (s *scroll) linesBelow(n, height int) int { return max(0, n-s.top-height) }

// Messages of the view.
type (
	tickMsg  time.Time
	alertMsg struct{}
	listMsg  struct {
		items []bcp.Item
		err   error
	}
	viewMsg struct {
		id   bcp.ItemID
		view bcp.ItemView
		err  error
	}
	previewMsg struct {
		id      bcp.ItemID
		preview bcp.EditPreview
		err     error
	}
	decidedMsg struct {
		views []bcp.ItemView
		act   bcp.Act
		left  []error // why one does not count; nil if it does
		err   error
	}
)

// listEvery is how often the list is asked for when no alert comes.
const listEvery = 2 * time.Second

func newWatchModel(ctx context.Context, desk decider, me string, colours bool) *watchModel {
	return &watchModel{ctx: ctx, desk: desk, me: me, colours: colours}
}

// Init implements [tea.Model].
func (m *watchModel) Init() tea.Cmd {
	return tea.Batch(func() tea.Msg { return tickMsg(time.Now()) }, m.awaitAlert())
}

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

func (m *watchModel) awaitAlert() tea.Cmd {
	source, ok := m.desk.(interface{ alerted(context.Context) bool })
	if !ok {
		return nil
	}
	return func() tea.Msg {
		if source.alerted(m.ctx) {
			return alertMsg{}
		}
		return nil
	}
}

func (m *watchModel) list() tea.Cmd {
	if m.listing {
		return nil
	}
	m.listing, m.listed = true, m.now
	return func() tea.Msg {
		items, err := m.desk.List(m.ctx)
		return listMsg{items, err}
	}
}

func (m *watchModel) load(id bcp.ItemID) tea.Cmd {
	m.loading = true
	return func() tea.Msg {
		view, err := m.desk.View(m.ctx, id)
		return viewMsg{id, view, err}
	}
}

// choose shows another item, from its beginning.
func (m *watchModel) choose(id bcp.ItemID) tea.Cmd {
	m.selected, m.view, m.gone, m.read, m.mode = id, nil, "", scroll{}, modeBrowse
	if id == "" {
		return nil
	}
	return m.load(id)
}

func (m *watchModel) setNotice(bad bool, what string) { m.notice, m.bad = what, bad }

// Update implements [tea.Model].
func (m *watchModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.resizeArea()
	case tickMsg:
		m.now = time.Time(msg)
		cmd = tick()
		if m.now.Sub(m.listed) >= listEvery {
			cmd = tea.Batch(cmd, m.list())
		}
	case alertMsg:
		cmd = tea.Batch(m.list(), m.awaitAlert())
	case listMsg:
		cmd = m.onList(msg)
	case viewMsg:
		m.onView(msg)
	case previewMsg:
		m.onPreview(msg)
	case decidedMsg:
		cmd = m.onDecided(msg)
	case tea.KeyPressMsg:
		cmd = m.onKey(msg)
	case tea.PasteMsg:
		if m.mode == modeReason || m.mode == modeEdit {
			cmd = m.typed(msg)
		}
	}
	m.scrollBy(0)
	return m, cmd
}

func (m *watchModel) onList(msg listMsg) tea.Cmd {
	m.listing = false
	m.trouble = ""
	if msg.err != nil {
		m.trouble = reasonOfDesk(msg.err)
		if msg.items == nil {
			return nil
		}
	}
	m.items = msg.items
	return tea.Batch(m.ring(), m.follow())
}

// ring rings the terminal's bell if something waits that was not there before.
func (m *watchModel) ring() tea.Cmd {
	fresh := false
	for i := range m.items {
		fresh = fresh || !m.known[m.items[i].ID]
	}
	m.known = make(map[bcp.ItemID]bool, len(m.items))
	for i := range m.items {
		m.known[m.items[i].ID] = true
	}
	if !fresh {
		return nil
	}
	return tea.Raw("\a")
}

// follow shows what the list makes worth showing.
func (m *watchModel) follow() tea.Cmd {
	switch {
	case m.selected == "" && len(m.items) > 0 && m.mode != modeHelp:
		return m.choose(m.items[0].ID)
	case m.selected != "" && m.position() < 0 && m.gone == "" && !m.busy && !m.loading:
		return m.load(m.selected) // the refusal tells what became of it
	case m.selected != "" && m.view == nil && m.gone == "" && !m.loading:
		return m.load(m.selected)
	}
	return nil
}

// position is the index of the selected item in the list, -1 if it is not in it.
func (m *watchModel) position() int {
	return slices.IndexFunc(m.items, func(it bcp.Item) bool { return it.ID == m.selected })
}

func (m *watchModel) onView(msg viewMsg) {
	if msg.id != m.selected {
		return
	}
	m.loading = false
	var refused *agents.RefusedError
	switch {
	case errors.As(msg.err, &refused):
		m.lost(goneText(refused.Code))
	case msg.err != nil:
		m.trouble = reasonOfDesk(msg.err)
	case m.view == nil:
		if err := Intact(&msg.view); err != nil {
			m.lost(err.Error())
			return
		}
		m.view = &msg.view
	}
}

// lost notes that the selected item can no longer be decided, and takes the
// person out of deciding it.
func (m *watchModel) lost(why string) {
	m.gone = why
	if m.mode != modeBrowse && m.mode != modeHelp {
		m.mode = modeBrowse
	}
	m.setNotice(true, why)
}

// goneText says what became of an item.
func goneText(code bcp.Code) string {
	switch code {
	case bcp.AlreadyDecided:
		return "already_decided: somebody else has decided it"
	case bcp.ItemExpired:
		return "item_expired: nobody decided it in time, which counts as a rejection"
	case bcp.ItemNotFound:
		return "item_not_found: it is no longer waiting"
	}
	return string(code) + ": " + code.Info().Text
}

func (m *watchModel) onPreview(msg previewMsg) {
	m.busy = false
	if msg.id != m.selected || m.mode != modeEdit {
		return
	}
	err := msg.err
	if err == nil {
		err = Matches(msg.id, msg.preview.Content, msg.preview.SHA256)
	}
	if err != nil {
		m.refusedBy(err)
		return
	}
	m.preview, m.look, m.mode = &msg.preview, scroll{}, modePreview
	m.setNotice(false, "")
}

func (m *watchModel) onDecided(msg decidedMsg) tea.Cmd {
	m.busy = false
	if len(msg.views) == 1 && msg.err == nil {
		msg.err = msg.left[0]
	}
	if msg.err != nil {
		m.refusedBy(msg.err)
		return m.list()
	}
	at, out := m.position(), ""
	for i := range msg.views {
		if msg.left[i] != nil {
			out += "; left out " + string(msg.views[i].ID) + ": " + reasonOfDesk(msg.left[i])
		}
	}
	what := tell.Decided(msg.act) + " " + string(msg.views[0].ID) + ": " + tell.Consequence(&msg.views[0], msg.act)
	if len(msg.views) > 1 {
		what = fmt.Sprintf("%s %d of %d marked", tell.Decided(msg.act), len(msg.views)-strings.Count(out, "; left out "), len(msg.views))
	}
	m.setNotice(out != "", what+out)
	is := func(id bcp.ItemID) bool {
		return slices.ContainsFunc(msg.views, func(v bcp.ItemView) bool { return v.ID == id })
	}
	m.marked = slices.DeleteFunc(slices.Clone(m.marked), func(v bcp.ItemView) bool { return is(v.ID) })
	m.items = slices.DeleteFunc(slices.Clone(m.items), func(it bcp.Item) bool { return is(it.ID) })
	if !is(m.selected) {
		return m.list()
	}
	next := bcp.ItemID("")
	if len(m.items) > 0 {
		next = m.items[min(max(at, 0), len(m.items)-1)].ID
	}
	return tea.Batch(m.choose(next), m.list())
}

// refusedBy says why a decision did not count, and what to do.
func (m *watchModel) refusedBy(err error) {
	var refused *agents.RefusedError
	var f *cli.Failure
	switch {
	case errors.As(err, &refused):
		text := string(refused.Code) + ": " + refused.Detail + ". " + advice(refused.Code)
		switch refused.Code {
		case bcp.AlreadyDecided, bcp.ItemExpired, bcp.ItemNotFound:
			m.lost(text)
		default:
			m.setNotice(true, text)
		}
	case errors.As(err, &f):
		m.setNotice(true, f.Message)
	default:
		m.setNotice(true, "not answered: it may have counted; the list will show it ("+reasonOfDesk(err)+")")
	}
}

// reasonOfDesk says in one line why the mesh is away.
func reasonOfDesk(err error) string {
	var f *cli.Failure
	if errors.As(err, &f) {
		return f.Message
	}
	var unanswered *agents.UnansweredError
	if errors.As(err, &unanswered) {
		return "the mesh does not answer"
	}
	return strings.TrimPrefix(err.Error(), "agents: ")
}

// scrollBy moves the text that is shown.
func (m *watchModel) scrollBy(lines int) {
	pane := m.paneHeight()
	if m.tooSmall() || pane < 1 {
		return
	}
	switch {
	case m.mode == modePreview:
		m.look.move(lines, len(m.paneLines()), pane)
	case m.view != nil && m.mode != modeEdit && m.mode != modeHelp:
		m.read.move(lines, len(m.paneLines()), pane)
	}
}

func (m *watchModel) onKey(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch name {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+l":
		return tea.ClearScreen
	}
	if m.tooSmall() && name != "q" {
		return nil // nobody decides what cannot be seen
	}
	page := max(1, m.paneHeight()-1)
	if m.mode == modeBrowse {
		m.setNotice(false, "") // a notice is about the key before
	}
	if m.mode != modeReason && m.mode != modeEdit {
		switch name {
		case "space", "pgdown", "f":
			m.scrollBy(page)
			return nil
		case "b", "pgup":
			m.scrollBy(-page)
			return nil
		case "J", "shift+down", "ctrl+e":
			m.scrollBy(1)
			return nil
		case "K", "shift+up", "ctrl+y":
			m.scrollBy(-1)
			return nil
		case "g", "home":
			m.scrollBy(-1 << 30)
			return nil
		case "G", "end":
			m.scrollBy(1 << 30)
			return nil
		}
	}
	switch m.mode {
	case modeBrowse:
		return m.browseKey(name, page)
	case modeHelp:
		m.mode = modeBrowse
	case modeApprove:
		m.mode = modeBrowse
		if name != "y" {
			m.setNotice(false, "nothing was decided")
			return nil
		}
		return m.decide(bcp.Approve, "")
	case modePreview:
		switch {
		case name != "y":
			m.mode = modeEdit
			m.setNotice(false, "")
			return m.area.Focus()
		case !m.look.all:
			m.setNotice(true, "there is more below: read to the end with space, then y")
			return nil
		}
		m.mode = modeBrowse
		view, preview := *m.view, *m.preview
		return m.send([]bcp.ItemView{view}, bcp.EditItem, func(ctx context.Context) ([]error, error) {
			return []error{m.desk.Edit(ctx, view, preview)}, nil
		})
	case modeReason, modeEdit:
		return m.typingKey(key)
	}
	return nil
}

func (m *watchModel) browseKey(name string, page int) tea.Cmd {
	switch name {
	case "q":
		if m.busy {
			m.setNotice(true, "the last decision is being sent; ctrl+c quits anyway")
			return nil
		}
		return tea.Quit
	case "?":
		m.mode = modeHelp
	case "j", "down":
		return m.step(1)
	case "k", "up":
		return m.step(-1)
	case "enter":
		if m.view != nil && !m.read.all {
			m.scrollBy(page)
			return nil
		}
		m.approve()
	case "a":
		m.approve()
	case "m":
		m.mark()
	case "r":
		if m.decidable() {
			m.mode = modeReason
			return m.startTyping("")
		}
	case "e":
		switch {
		case !m.decidable():
		case !tell.Editable(m.view.Kind):
			m.setNotice(true, tell.NotEditable(m.view.Kind))
		default:
			m.mode = modeEdit
			var text string
			text, m.isText = editable(m.view, 0)
			return m.startTyping(text)
		}
	}
	return nil
}

// step chooses the next item of the list. Where the shown one is not there any
// more, that is the first or the last.
func (m *watchModel) step(by int) tea.Cmd {
	if len(m.items) == 0 {
		return m.choose("")
	}
	at := m.position()
	switch {
	case at >= 0:
		at = max(0, min(at+by, len(m.items)-1))
	case by < 0:
		at = len(m.items) - 1
	default:
		at = 0
	}
	if m.items[at].ID == m.selected {
		return nil
	}
	return m.choose(m.items[at].ID)
}

// decidable reports whether the shown item can be decided now, and says why not.
func (m *watchModel) decidable() bool {
	switch {
	case m.busy:
		m.setNotice(true, "the last decision is being sent")
	case m.selected == "":
		m.setNotice(true, "nothing waits")
	case m.gone != "":
		m.setNotice(true, m.gone)
	case m.view == nil:
		m.setNotice(true, "it is not loaded yet")
	case !m.now.Before(m.view.Deadline):
		m.setNotice(true, "its deadline has passed")
	default:
		return true
	}
	return false
}

// mark has the shown item decided together with the others that are marked, or not any
// more. It has to have been read.
func (m *watchModel) mark() {
	if !m.decidable() {
		return
	}
	at := slices.IndexFunc(m.marked, func(v bcp.ItemView) bool { return v.ID == m.selected })
	switch {
	case at >= 0:
		m.marked = slices.Delete(m.marked, at, at+1)
	case !m.read.all:
		m.setNotice(true, "there is more below: read to the end with space, then mark it")
	case len(m.marked) == bcp.MaxBatch:
		m.setNotice(true, fmt.Sprintf("one signature is of at most %d decisions: decide about those that are marked", bcp.MaxBatch))
	default:
		m.marked = append(slices.Clone(m.marked), *m.view)
	}
}

// targets are what a decision is about: what is marked, or what is shown.
func (m *watchModel) targets() []bcp.ItemView {
	if len(m.marked) > 0 {
		return m.marked
	}
	return []bcp.ItemView{*m.view}
}

// approve asks to confirm, once everything has been on the screen.
func (m *watchModel) approve() {
	switch {
	case !m.decidable():
	case slices.ContainsFunc(m.targets(), func(v bcp.ItemView) bool { return v.Kind == bcp.ItemQuestion }):
		m.setNotice(true, tell.NotApproved)
	case len(m.marked) == 0 && !m.read.all:
		m.setNotice(true, "there is more below: read to the end with space, then approve")
	default:
		m.mode = modeApprove
	}
}

// decide approves or rejects the targets.
func (m *watchModel) decide(act bcp.Act, reason string) tea.Cmd {
	views := m.targets()
	return m.send(views, act, func(ctx context.Context) ([]error, error) { return m.desk.Together(ctx, act, views, reason) })
}

func (m *watchModel) send(views []bcp.ItemView, act bcp.Act, exchange func(context.Context) ([]error, error)) tea.Cmd {
	m.busy = true
	m.setNotice(false, "sending the decision")
	return func() tea.Msg {
		left, err := exchange(m.ctx)
		return decidedMsg{views, act, left, err}
	}
}
