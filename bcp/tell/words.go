package tell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// longest is how many columns a justification or a note may have in a sentence.
const longest = 100

// Channel names a channel by what flows through it: "main ← researcher".
func Channel(controller, reader bcp.AgentName) string {
	return string(controller) + " ← " + string(reader)
}

// Moment writes a time to the second, in UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Count writes a number of things: "1 agent", "2 agents".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Length says how long a hostile text is, however much of it is in sight.
func Length(s string) string {
	return Count(utf8.RuneCountInString(s), "character") + ", " + Count(len(strings.Fields(s)), "word")
}

// words joins the parts that are not empty.
func words(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// FirstNames names at most so many of a list, and how many more there are.
func FirstNames(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "nobody"
	case len(names) <= most:
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
