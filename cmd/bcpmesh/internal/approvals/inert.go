package approvals

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// Hostile text on a terminal. What a person approves is an attacker's text, so
// nothing of it may act on the terminal, hide, or look like ours:
//
//   - Whatever is no plain visible character is shown as a mark such as
//     ⟨U+200B⟩, and so are the signs that marks and frames are drawn with. A run
//     of one of them is one mark, ⟨U+000A×10000⟩: it cannot push anything out of
//     sight.
//   - Two texts never look the same: what is shown can be read back.
//   - Each line of it stands behind a gutter that is not of its making.

const (
	markOpen  = '⟨'
	markClose = '⟩'
	// Gutter begins every line of content, and no line of anything else.
	Gutter = "│ "
	// leastWidth is the narrowest that text is wrapped to; a mark fits.
	leastWidth = 24
	// maxMarks is how many combining marks a letter may have: more of them climb
	// into the lines above and below.
	maxMarks = 2
)

// inert rewrites text so that it only shows. Line breaks in the result stand
// behind marks of line breaks; the caller wraps the lines.
func inert(s string) string {
	var b strings.Builder
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
			b.WriteByte(' ')
			last, marks = ' ', -1
			i += size
			continue
		case unicode.Is(unicode.M, r) && ordinary(r) && marks >= 0 && marks < maxMarks:
			b.WriteRune(r)
			marks++
			i += size
			continue
		case visible(r):
			b.WriteRune(r)
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
		b.WriteString(string(markOpen) + name + string(markClose))
		if r == '\n' && shown {
			b.WriteByte('\n')
			shown = false
		}
		last, marks = '\n', -1
		i = end
	}
	return b.String()
}

// visible reports whether r stands for itself: a person sees it, and sees it as
// part of the content. Marks on letters do too, behind their letter.
func visible(r rune) bool {
	return r != ' ' && !unicode.Is(unicode.M, r) && ordinary(r)
}

func ordinary(r rune) bool {
	switch {
	case r == utf8.RuneError, r == markOpen, r == markClose:
		return false
	case r >= 0x2500 && r <= 0x259f: // frames are drawn with these
		return false
	case r == 0x2800: // braille without dots
		return false
	}
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Zs, unicode.Cf, unicode.Me,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// columnsOf is how wide a character may be: never less than a terminal makes
// it, since a line that is too long would go on without its gutter.
func columnsOf(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r < 0x1100 || r == markOpen || r == markClose:
		return 1
	}
	return 2
}

// wrap breaks inert text into lines of at most width columns, behind spaces
// where it can. Nothing is dropped: joined, the lines are the text again.
func wrap(s string, width int) []string {
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
	space, upTo := -1, 0 // behind its last space, and how wide it is up to there
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
	columns = columnsOf(r)
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
		columns += columnsOf(mark)
	}
	return size, columns
}

// Behind writes hostile text with a prefix before each of its lines.
func Behind(prefix, s string, width int) []string {
	lines := wrap(inert(s), width-utf8.RuneCountInString(prefix))
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}

// lengthOf says how much text there is, whatever of it is in sight.
func lengthOf(s string) string {
	return cli.Count(utf8.RuneCountInString(s), "character") + ", " + cli.Count(len(strings.Fields(s)), "word")
}
