package hosts

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
)

// The lines around an addition to a TOML file. A table may follow anything, so the rest
// of the file need not be parsed.
const (
	tomlBegin = "# Added by bcpmesh adopt; bcpmesh adopt --undo takes it out."
	tomlEnd   = "# End of what bcpmesh adopt added."
)

// bareKey matches a key that TOML allows without quotes.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return quoted(name)
}

// tomlEntry is an entry of a file in TOML: what stands between the lines, or nothing at its
// end.
type tomlEntry struct {
	content  []byte
	head     string // of the block
	from, to int
}

func findTOML(content []byte, key, name string) (*tomlEntry, error) {
	if !plainTOML(content) {
		return nil, ErrSyntax
	}
	e := &tomlEntry{content: content, head: tomlBegin + "\n[" + key + "." + tomlKey(name) + "]\n"}
	rest := content
	if from := bytes.Index(content, []byte(e.head)); from == 0 || from > 0 && content[from-1] == '\n' {
		end := bytes.Index(content[from:], []byte("\n"+tomlEnd+"\n"))
		if end < 0 {
			return nil, ErrSyntax
		}
		e.from, e.to = from, from+end+len("\n"+tomlEnd+"\n")
		rest = splice(content, e.from, e.to, "")
	}
	if tomlHas(rest, key, name) {
		return nil, ErrTaken
	}
	return e, nil
}

func (e *tomlEntry) there() bool { return e.to > 0 }

func (e *tomlEntry) put(s Server) []byte {
	var args []string
	for _, a := range s.Args {
		args = append(args, quoted(a))
	}
	block := e.head + "command = " + quoted(s.Command) + "\nargs = [" + strings.Join(args, ", ") + "]\n" + tomlEnd + "\n"
	switch n := len(e.content); {
	case e.there():
		return splice(e.content, e.from, e.to, block)
	case n == 0:
	case e.content[n-1] != '\n':
		block = "\n\n" + block
	default:
		block = "\n" + block
	}
	return append(bytes.Clone(e.content), block...)
}

func (e *tomlEntry) server() (s Server) {
	for line := range strings.Lines(string(e.content[e.from:e.to])) {
		// Both are written as JSON writes them.
		if value, ok := strings.CutPrefix(line, "command = "); ok {
			_ = json.Unmarshal([]byte(value), &s.Command)
		} else if value, ok := strings.CutPrefix(line, "args = "); ok {
			_ = json.Unmarshal([]byte(value), &s.Args)
		}
	}
	return s
}

func (e *tomlEntry) remove() []byte {
	from := e.from
	if from > 1 && e.content[from-1] == '\n' && e.content[from-2] == '\n' { // the empty line before it
		from--
	}
	return splice(e.content, from, e.to, "")
}

// tomlHas reports whether a file seems to have an entry for a server: a table, a dotted
// key, or an inline table with all servers. A similar entry is enough: existing ones are
// not changed.
func tomlHas(content []byte, key, name string) bool {
	servers := `["']?` + regexp.QuoteMeta(key) + `["']?\s*`
	entry := servers + `\.\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*[\].=]`
	return regexp.MustCompile(`(?m)^\s*(\[+\s*)?` + entry + `|^\s*` + servers + `=`).Match(content)
}

// plainTOML reports whether a table can be appended to a file: by counting quotes, no
// multi-line text is open at the end.
func plainTOML(content []byte) bool {
	return bytes.Count(content, []byte(`"""`))%2 == 0 && bytes.Count(content, []byte(`'''`))%2 == 0 && !bytes.Contains(content, []byte{0})
}
