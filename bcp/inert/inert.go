package inert

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	markOpen  = '⟨'
	markClose = '⟩'
	// leastWidth is the narrowest width of a wrapped line; a mark fits.
	leastWidth = 24
	// maxMarks is how many combining marks a letter may have: more of them climb
	// into the lines above and below.
	maxMarks = 2
)

// Gutter begins every line of content on a terminal, and no other line.
const Gutter = "│ "

// Run is a part of a hostile text that is shown in one way.
type Run struct {
	// Text is plain visible text, a mark of ours such as ⟨U+200B×3⟩, or a line
	// break "\n", which follows the mark of the line break that it shows.
	Text string
	// Mark says that Text is a mark.
	Mark bool
}

// Runs returns s as plain text and marks. Adjacent runs of plain text are one.
// The empty text has no runs.
func Runs(s string) []Run {
	var w writer
	w.rewrite(s)
	w.flush()
	return w.runs
}

// Text returns s with marks in it: the runs, joined. The caller wraps the lines.
func Text(s string) string {
	var b strings.Builder
	for _, run := range Runs(s) {
		b.WriteString(run.Text)
	}
	return b.String()
}

type writer struct {
	runs  []Run
	plain strings.Builder
}

func (w *writer) flush() {
	if w.plain.Len() > 0 {
		w.runs = append(w.runs, Run{Text: w.plain.String()})
		w.plain.Reset()
	}
}

func (w *writer) mark(name string) {
	w.flush()
	w.runs = append(w.runs, Run{Text: string(markOpen) + name + string(markClose), Mark: true})
}

func (w *writer) rewrite(s string) {
	marks := 0         // combining marks on the last letter; -1: there is none
	shown := false     // there is something to see in this line
	last := rune('\n') // what was written last; '\n' stands for a mark, and for the beginning
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && size == 1
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case bad:
		case r == ' ' && last != '\n' && last != ' ' && i+size < len(s) && visible(next):
			w.plain.WriteByte(' ')
			last, marks = ' ', -1
			i += size
			continue
		case unicode.Is(unicode.M, r) && ordinary(r) && marks >= 0 && marks < maxMarks:
			w.plain.WriteRune(r)
			marks++
			i += size
			continue
		case visible(r):
			w.plain.WriteRune(r)
			last, marks, shown = r, -1, true
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				marks = 0
			}
			i += size
			continue
		}
		// Everything else is a mark, and a run of it one mark.
		n, end := 1, i+size
		for end < len(s) && strings.HasPrefix(s[end:], s[i:i+size]) {
			if again, width := utf8.DecodeRuneInString(s[end:]); bad != (again == utf8.RuneError && width == 1) {
				break
			}
			n, end = n+1, end+size
		}
		name := fmt.Sprintf("U+%04X", r)
		if bad {
			name = fmt.Sprintf("0x%02X", s[i])
		}
		if n > 1 {
			name += fmt.Sprintf("×%d", n)
		}
		w.mark(name)
		if r == '\n' && shown {
			w.plain.WriteByte('\n')
			shown = false
		}
		last, marks = '\n', -1
		i = end
	}
}

// visible reports whether r stands for itself: a person sees it, and sees it as
// part of the content. Marks on letters do too, after their letter.
func visible(r rune) bool {
	return r != ' ' && !unicode.Is(unicode.M, r) && ordinary(r)
}

func ordinary(r rune) bool {
	switch {
	case r == utf8.RuneError, r == markOpen, r == markClose:
		return false
	case r >= 0x2500 && r <= 0x259f: // frames are drawn with these
		return false
	}
	return r != ' ' && Harmless(r) && !unicode.Is(unicode.Me, r)
}

// Columns is how wide a character may be on a terminal: never less than a terminal makes
// it, since a line that is too long would go on without its gutter.
func Columns(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r < 0x1100 || r == markOpen || r == markClose:
		return 1
	}
	return 2
}

// Wrap breaks inert text into lines of at most width columns, after spaces
// where it can. Nothing is dropped: joined, the lines are the text again.
func Wrap(s string, width int) []string {
	width = max(width, leastWidth)
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, wrapLine(line, width)...)
	}
	if last := len(lines) - 1; last > 0 && lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}

func wrapLine(s string, width int) []string {
	var lines []string
	start, used := 0, 0  // the line that is being filled
	space, upTo := -1, 0 // after its last space, and how wide it is up to there
	for i := 0; i < len(s); {
		size, columns := unitAt(s[i:])
		if used+columns > width && i > start {
			at, rest := i, 0
			if space > start {
				at, rest = space, used-upTo
			}
			lines = append(lines, s[start:at])
			start, used, space = at, rest, -1
			continue
		}
		used += columns
		i += size
		if s[i-1] == ' ' {
			space, upTo = i, used
		}
	}
	return append(lines, s[start:])
}

// unitAt measures what must not be torn apart: a mark of ours, or a character
// with the marks on it.
func unitAt(s string) (size, columns int) {
	r, size := utf8.DecodeRuneInString(s)
	columns = Columns(r)
	if r == markOpen {
		if end := strings.IndexRune(s, markClose); end >= 0 {
			size = end + len(string(markClose))
			return size, utf8.RuneCountInString(s[:size])
		}
	}
	for size < len(s) {
		mark, n := utf8.DecodeRuneInString(s[size:])
		if !unicode.Is(unicode.M, mark) {
			break
		}
		size += n
		columns += Columns(mark)
	}
	return size, columns
}

// Prefixed returns the lines of s, each after a prefix, at most width columns wide.
func Prefixed(prefix, s string, width int) []string {
	lines := Wrap(Text(s), width-utf8.RuneCountInString(prefix))
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}
