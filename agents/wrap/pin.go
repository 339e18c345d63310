package wrap

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Pinned is a tool of a server as it was when somebody reviewed it. The zero value is
// invalid, and calls nothing.
type Pinned struct {
	// Name is the kernels' name of the tool, and Listed the server's.
	Name, Listed string
	// SHA256 is its [Pin].
	SHA256 string
}

// String returns the input of [ParsePinned]: NAME=SHA256, and =LISTED if the server's
// name differs.
func (p Pinned) String() string {
	text := p.Name + "=" + p.SHA256
	if p.Listed != p.Name {
		text += "=" + p.Listed
	}
	return text
}

// ParsePinned is the inverse of [Pinned.String], and reads nothing else.
func ParsePinned(text string) (Pinned, error) {
	name, rest, _ := strings.Cut(text, "=")
	sum, listed, _ := strings.Cut(rest, "=")
	p := Pinned{Name: name, Listed: cmp.Or(listed, name), SHA256: sum}
	if b, err := hex.DecodeString(sum); err != nil || len(b) != sha256.Size || !isName(name) || p.String() != text {
		return Pinned{}, errors.New("expected NAME=SHA256 or NAME=SHA256=LISTED, as bcpmesh tool import writes it")
	}
	return p, nil
}

// isListed reports whether exactly one tool of a list has the name, and matches the
// pin.
func (p Pinned) isListed(listed []*sdk.Tool) bool {
	found := 0
	for _, tool := range listed {
		if tool.Name != p.Listed {
			continue
		}
		if pin, err := Pin(tool); err != nil || pin != p.SHA256 {
			return false
		}
		found++
	}
	return found == 1
}

var planned = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// isName reports whether a plan can have the name.
func isName(name string) bool { return planned.MatchString(name) }
