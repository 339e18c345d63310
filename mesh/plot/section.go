package plot

import (
	"bytes"
	"errors"
	"slices"
)

// ErrSection says that a document has no place for what a tool writes, or more than
// one.
var ErrSection = errors.New("it has no place for the tables, or more than one")

// Section returns a document with what stands between the two comments of a command
// replaced by text, which ends with its line.
func Section(document []byte, command, text string) ([]byte, error) {
	begin, end := "<!-- bcpmesh "+command+": begin -->\n", "<!-- bcpmesh "+command+": end -->\n"
	before, rest, begins := bytes.Cut(document, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends || bytes.Contains(after, []byte(begin)) {
		return nil, ErrSection
	}
	return slices.Concat(before, []byte(begin+text+end), after), nil
}
