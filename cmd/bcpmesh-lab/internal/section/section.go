// Package section puts the tables that a tool writes into a document.
package section

import (
	"bytes"
	"errors"
	"slices"
)

// ErrSection says that a document has no section for the output of a tool, or more
// than one.
var ErrSection = errors.New("it has no place for the tables, or more than one")

// Replace returns a document in which text, which ends with a line feed, replaces
// everything between the two comments of a command.
func Replace(document []byte, command, text string) ([]byte, error) {
	begin, end := "<!-- bcpmesh "+command+": begin -->\n", "<!-- bcpmesh "+command+": end -->\n"
	before, rest, begins := bytes.Cut(document, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends || bytes.Contains(after, []byte(begin)) {
		return nil, ErrSection
	}
	return slices.Concat(before, []byte(begin+text+end), after), nil
}
