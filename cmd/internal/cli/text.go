package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// Compact returns the parts that are not empty.
func Compact(parts ...string) []string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// Map is what f makes of each of a list; nil of none.
func Map[T, U any](list []T, f func(T) U) []U {
	var made []U
	for _, one := range list {
		made = append(made, f(one))
	}
	return made
}

// Rows are the cells that row makes of each of a list, which it does not change; nil of none.
func Rows[T any](list []T, row func(*T) []string) [][]string {
	var rows [][]string
	for i := range list {
		rows = append(rows, row(&list[i]))
	}
	return rows
}

// Seconds returns the whole seconds of d.
func Seconds(d time.Duration) int64 { return int64(d / time.Second) }

// Moment writes a time for people.
func Moment(t time.Time) string { return tell.Moment(t) }

// FirstNames names at most so many of a list, and how many more there are.
func FirstNames(names []string, most int) string { return tell.FirstNames(names, most) }

// ChannelName writes a channel as CONTROLLER/READER.
func ChannelName(controller, reader bcp.AgentName) string { return tell.Channel(controller, reader) }

// UnknownAgent says that a mesh has no such agent, and which one may be meant.
func UnknownAgent[T ~string](name string, known []T) error {
	names := Map(known, func(k T) string { return string(k) })
	if len(names) == 0 {
		return Failf("the mesh has no agent %s", Quoted(name))
	}
	return Failf("the mesh has no agent %s", Quoted(name)).WithHint("it has %s", strings.Join(names, ", ")).Near(name, names)
}

// Short cuts text for one line of a terminal.
func Short(s string, columns int) string { return text.Snip(s, max(columns, 1), "…") }

// Table writes rows under a header. On a terminal it is drawn if it fits; else its wide
// columns are wrapped between words; else each row becomes a block of lines, which
// begins with its first cell. Columns without any value are left out there. Elsewhere columns are aligned with spaces, however wide.
// Cells are made harmless. A cell may have several lines, and a row whose first cell is
// empty goes on with the row above it.
func (o *Output) Table(header []string, rows [][]string) {
	cells := make([][]string, 0, len(rows)+1)
	cells = append(cells, harmlessRow(header))
	for _, row := range rows {
		cells = append(cells, harmlessRow(row))
	}
	if o.Terminal {
		dropEmptyColumns(cells)
	}
	switch {
	case !o.Terminal:
		o.Printf("%s\n", renderTable(cells, plainTable))
	case drawnWidth(cells) <= o.Width:
		o.Printf("%s\n", renderTable(cells, table.StyleRounded))
	case wrapColumns(cells, o.Width):
		o.Printf("%s\n", renderTable(cells, plainTable))
	default:
		o.Printf("%s", stackedTable(cells, o.Width))
	}
}

// columnGap is the space between two columns that no line divides.
const columnGap = "  "

var plainTable = table.Style{Name: "plain", Box: table.BoxStyle{PaddingRight: columnGap}, Format: table.FormatOptions{Header: text.FormatUpper}}

func harmlessRow(row []string) []string {
	harmless := make([]string, len(row))
	for i, cell := range row {
		lines := strings.Split(cell, "\n")
		for j := range lines {
			lines[j] = Plain(lines[j])
		}
		harmless[i] = strings.Join(lines, "\n")
	}
	return harmless
}

func renderTable(cells [][]string, style table.Style) string {
	t := table.NewWriter()
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	for i, row := range cells {
		line := make(table.Row, len(row))
		for j, cell := range row {
			line[j] = cell
		}
		if i == 0 {
			t.AppendHeader(line)
		} else {
			t.AppendRow(line)
		}
	}
	return t.Render()
}

// dropEmptyColumns takes away the columns in which no row has anything.
func dropEmptyColumns(cells [][]string) {
	for j := len(cells[0]) - 1; j > 0; j-- {
		has := func(row []string) bool { return j < len(row) && row[j] != "" }
		if len(cells) == 1 || slices.ContainsFunc(cells[1:], has) {
			continue
		}
		for i := range cells {
			if j < len(cells[i]) {
				cells[i] = slices.Delete(cells[i], j, j+1)
			}
		}
	}
}

// columnWidths returns the width of each column.
func columnWidths(cells [][]string) []int {
	var widths []int
	for _, row := range cells {
		for j, cell := range row {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], text.LongestLineLen(cell))
		}
	}
	return widths
}

// drawnWidth is the width with a line around each cell, and a space on both sides.
func drawnWidth(cells [][]string) int {
	sum := 1
	for _, w := range columnWidths(cells) {
		sum += w + len("  |")
	}
	return sum
}

// wrapColumns breaks cells between words until the columns fit into a width, the widest
// first. It reports whether they do, and leaves cells as they are if not.
func wrapColumns(cells [][]string, width int) bool {
	const narrow = 16 // a column of text is not made narrower
	widths := columnWidths(cells)
	least := make([]int, len(widths))
	for j := range widths {
		for _, row := range cells {
			if j < len(row) {
				for word := range strings.FieldsSeq(row[j]) {
					least[j] = max(least[j], text.StringWidth(word))
				}
			}
		}
		least[j] = max(least[j], min(widths[j], narrow))
	}
	sum := len(columnGap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	for ; sum > width; sum-- {
		widest := -1
		for j, w := range widths {
			if w > least[j] && (widest < 0 || w > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	for _, row := range cells {
		for j := range row {
			row[j] = Wrap(row[j], widths[j])
		}
	}
	return true
}

// Wrap breaks the lines of harmless text between words, and words only where one is too wide.
func Wrap(s string, width int) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") { // WrapSoft would join them
		for part := range strings.SplitSeq(text.WrapSoft(line, width), "\n") {
			lines = append(lines, strings.TrimRight(part, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// stackedTable writes each row as a block: its first cell, then a line for each other
// cell that is not empty, below the name of its column.
func stackedTable(cells [][]string, width int) string {
	var b strings.Builder
	header := cells[0]
	name := 0
	for _, h := range header[1:] {
		name = max(name, text.StringWidth(h))
	}
	indent := len(columnGap) + name + len(columnGap)
	for i, row := range cells[1:] {
		if row[0] != "" {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(Wrap(row[0], width) + "\n")
		}
		for j, cell := range row[1:] {
			if cell == "" {
				continue
			}
			value := Wrap(cell, max(width-indent, name))
			b.WriteString(columnGap + text.Pad(header[j+1], name, ' ') + columnGap + strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", indent)) + "\n")
		}
	}
	return b.String()
}

// ShowList shows a list in a table or as JSON, or says that there is nothing.
func ShowList[T any](o *Output, list []T, none string, table func(*Output, []T)) error {
	switch {
	case o.JSON:
		return o.Value(append([]T{}, list...)) // never null
	case len(list) == 0:
		o.Talkf("%s", none)
	default:
		table(o, list)
	}
	return nil
}

// ShowRows shows a list as [ShowList] does, in a table with a row for each.
func ShowRows[T any](o *Output, list []T, none string, header []string, row func(*T) []string) error {
	return ShowList(o, list, none, func(o *Output, list []T) { o.Table(header, Rows(list, row)) })
}
