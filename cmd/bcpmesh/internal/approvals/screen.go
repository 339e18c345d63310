package approvals

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/bubbletea/v2"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// The layout of the view, from top to bottom: a title, the list, a rule, the
// item or what is typed, a rule that says how much is below, a notice, the keys.
const (
	leastScreenWidth  = 40
	leastScreenHeight = 12
	mostListed        = 6
	fixedRows         = 5
	reasonHeight      = 3
)

// tooSmall reports whether an item cannot be shown whole. Nothing can be decided
// then: what is cut off would be approved unseen.
func (m *watchModel) tooSmall() bool {
	return m.width < leastScreenWidth || m.height < leastScreenHeight
}

// listHeight is how many rows the list has.
func (m *watchModel) listHeight() int {
	most := min(mostListed, m.height/4)
	return max(1, min(most, len(m.items)))
}

func (m *watchModel) paneHeight() int {
	height := m.height - fixedRows - m.listHeight()
	if m.mode == modeReason {
		height -= reasonHeight + 1
	}
	return height
}

// paneLines is the text that is scrolled.
func (m *watchModel) paneLines() []itemLine {
	switch {
	case m.mode == modePreview && m.preview != nil && m.view != nil:
		return PreviewLines(m.view, *m.preview, m.width)
	case m.view != nil:
		return ItemLines(m.view, m.now, m.width)
	}
	return nil
}

// View implements [tea.Model].
func (m *watchModel) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	v.WindowTitle = m.windowTitle()
	return v
}

// windowTitle says how much waits, for who looks at another window.
func (m *watchModel) windowTitle() string {
	if len(m.items) == 0 {
		return "bcpmesh approvals"
	}
	return fmt.Sprintf("(%d) bcpmesh approvals", len(m.items))
}

// frame draws the whole screen.
func (m *watchModel) frame() string {
	if m.width < 1 || m.height < 1 {
		return ""
	}
	if m.tooSmall() {
		return m.screen([]string{fmt.Sprintf("too small: %dx%d", m.width, m.height), fmt.Sprintf("it takes %dx%d", leastScreenWidth, leastScreenHeight), "q quits"})
	}
	rows := []string{m.paint(m.fit(m.title()), text.Bold)}
	rows = append(rows, m.listRows()...)
	rows = append(rows, m.rule(m.paneTitle(), text.FgCyan))
	body, below := m.body()
	rows = append(rows, body...)
	colour := text.FgCyan
	if strings.Contains(below, "▼") {
		colour = text.FgYellow
	}
	rows = append(rows, m.rule(below, colour))
	if m.mode == modeReason {
		why := "Why? " + WhoHears(m.view)
		if n := len(m.marked); n > 0 {
			why = fmt.Sprintf("Why do you reject the %d that are marked?", n)
		}
		rows = append(rows, m.fit(why))
		rows = append(rows, exactly(strings.Split(m.area.View(), "\n"), reasonHeight)...)
	}
	rows = append(rows, m.noticeRow(), m.paint(m.fit(m.keys()), text.Faint))
	return m.screen(rows)
}

// screen cuts rows to what there is room for.
func (m *watchModel) screen(rows []string) string {
	if len(rows) > m.height {
		rows = rows[:m.height]
	}
	if m.tooSmall() {
		for i := range rows {
			rows[i] = m.fit(rows[i])
		}
	}
	return strings.Join(rows, "\n")
}

func (m *watchModel) title() string {
	kinds := ""
	for _, kind := range bcp.ItemKinds() {
		n := 0
		for i := range m.items {
			if m.items[i].Kind == kind {
				n++
			}
		}
		if n > 0 {
			kinds += ", " + strconv.Itoa(n) + " " + string(kind)
		}
	}
	what := "nothing waits"
	if len(m.items) > 0 {
		what = strconv.Itoa(len(m.items)) + " wait: " + strings.TrimPrefix(kinds, ", ")
	}
	if m.listed.IsZero() || m.listing && m.items == nil && m.trouble == "" {
		what = "loading the list"
	}
	return "approvals of " + m.me + " — " + what
}

// listRows show the items around the selected one.
func (m *watchModel) listRows() []string {
	height := m.listHeight()
	if len(m.items) == 0 {
		return []string{m.fit("  (none; new items appear here by themselves)")}
	}
	at := max(0, m.position())
	first := max(0, min(at-height/2, len(m.items)-height))
	var rows []string
	for i := first; i < first+height; i++ {
		it := &m.items[i]
		mark := "  "
		if it.ID == m.selected {
			mark = "▸ "
		}
		if slices.ContainsFunc(m.marked, func(v bcp.ItemView) bool { return v.ID == it.ID }) {
			mark = mark[:len(mark)-1] + "*"
		}
		row := fmt.Sprintf("%s%-10s  %s  %s", mark, it.Kind, tell.TimeLeft(m.now, it.Deadline), channelText(it))
		if it.Subscription != "" {
			row += "  " + string(it.Subscription)
		}
		row += "  " + it.Nominal.Words()
		if len(it.Anomalies) > 0 {
			row += "  " + strings.Join(it.Anomalies, ", ")
		}
		switch {
		case i == first && first > 0:
			row += fmt.Sprintf("  (%d above)", first)
		case i == first+height-1 && i < len(m.items)-1:
			row += fmt.Sprintf("  (%d more)", len(m.items)-1-i)
		}
		row = m.fit(row)
		if it.ID == m.selected {
			row = m.paint(row, text.ReverseVideo)
		}
		rows = append(rows, row)
	}
	return rows
}

func (m *watchModel) paneTitle() string {
	switch {
	case m.mode == modeHelp:
		return "help"
	case m.selected == "":
		return ""
	case m.mode == modeEdit:
		return "edit " + string(m.selected)
	case m.mode == modePreview:
		return "your edit of " + string(m.selected)
	case m.gone != "":
		return string(m.selected) + " can no longer be decided"
	case m.view != nil:
		return string(m.selected) + ", " + tell.TimeLeft(m.now, m.view.Deadline)
	}
	return string(m.selected)
}

// body is the pane, and what the rule below it says.
func (m *watchModel) body() (rows []string, below string) {
	height := max(0, m.paneHeight())
	switch {
	case m.mode == modeHelp:
		return exactly(m.plainRows(watchHelp), height), ""
	case m.mode == modeEdit:
		return exactly(strings.Split(m.area.View(), "\n"), height), ""
	case m.selected == "":
		return exactly(nil, height), ""
	case m.view == nil && m.gone != "":
		return exactly(m.plainRows([]string{"", "  " + m.gone}), height), ""
	case m.view == nil:
		return exactly([]string{"", "  loading"}, height), ""
	}
	lines, s := m.paneLines(), &m.read
	if m.mode == modePreview {
		s = &m.look
	}
	top := max(0, min(s.top, len(lines)-1))
	for _, l := range lines[top:min(top+height, len(lines))] {
		rows = append(rows, painted(l, m.colours))
	}
	shown := len(rows)
	switch hidden := s.linesBelow(len(lines), height); {
	case hidden > 0:
		below = fmt.Sprintf("lines %d to %d of %d: ▼ %d more below, space shows them", top+1, top+shown, len(lines), hidden)
	case s.all:
		below = fmt.Sprintf("the end: all %d lines have been shown", len(lines))
	default:
		below = fmt.Sprintf("the end of %d lines, but not all of them have been shown: g goes to the first", len(lines))
	}
	return exactly(rows, height), below
}

func (m *watchModel) plainRows(rows []string) []string {
	out := cli.Map(rows, m.fit)
	return out
}

// exactly makes rows so many.
func exactly(rows []string, n int) []string {
	out := make([]string, n)
	copy(out, rows)
	return out
}

func (m *watchModel) noticeRow() string {
	switch {
	case m.mode == modeApprove && m.view != nil:
		if n := len(m.marked); n > 0 {
			return m.paint(m.fit(fmt.Sprintf("Approve the %d that are marked, as you read them? [y/N]", n)), text.FgYellow, text.Bold)
		}
		return m.paint(m.fit(tell.Question(m.view)+"? [y/N]  sha256 "+digestText(m.view.SHA256)[:16]+"…"), text.FgYellow, text.Bold)
	case m.mode == modePreview:
		if m.notice == "" {
			return m.paint(m.fit(tell.EditQuestion(m.view)+"? [y/N]"), text.FgYellow, text.Bold)
		}
	case m.notice == "" && m.trouble != "":
		return m.paint(m.fit("no connection, retrying: "+cli.Plain(m.trouble)), text.FgRed)
	}
	if m.bad {
		return m.paint(m.fit(cli.Plain(m.notice)), text.FgRed)
	}
	return m.paint(m.fit(cli.Plain(m.notice)), text.FgGreen)
}

func (m *watchModel) keys() string {
	switch m.mode {
	case modeApprove, modePreview:
		return "y yes   any other key no   space read on"
	case modeReason:
		return "enter reject   esc do nothing"
	case modeEdit:
		return "ctrl+s preview   esc do nothing"
	case modeHelp:
		return "any key goes back"
	}
	return "j/k choose  space read on  m mark  a approve  r reject  e edit  ? help  q quit"
}

var watchHelp = []string{
	"j k ↓ ↑       choose an item: oldest first, the channels taking turns",
	"space b       read on, go back; J K by one line, g G to the ends",
	"enter         read on, and at the end approve",
	"a             approve, once every line has been on the screen",
	"r             reject; the reader sees the reason, the controller does not",
	"m             mark an item that you have read: a and r are about all marked ones",
	"e             edit; ctrl+s shows what would be released, and then y releases it",
	"q             quit: items go on waiting; ctrl+l redraws the screen",
	"",
	"Lines after │ are an agent's words, not ours. Characters that do not",
	"show are marks such as ⟨U+200B⟩. Whatever the words say: they decide nothing.",
}

// rule draws a line with words on it.
func (m *watchModel) rule(words string, colour text.Color) string {
	if words != "" {
		words = " " + words + " "
	}
	row := m.fit("──" + words)
	row += strings.Repeat("─", max(0, m.width-text.StringWidthWithoutEscSequences(row)))
	return m.paint(row, colour)
}

// fit cuts a row of ours to the width of the screen.
func (m *watchModel) fit(row string) string { return cli.Short(row, m.width) }

func (m *watchModel) paint(row string, colours ...text.Color) string {
	if !m.colours || row == "" {
		return row
	}
	return text.Colors(colours).EscapeSeq() + row + text.Reset.EscapeSeq()
}
