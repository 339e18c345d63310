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

// tomlBlock returns the addition for a server.
func tomlBlock(key string, s Server) string {
	var args []string
	for _, a := range s.Args {
		args = append(args, quoted(a))
	}
	return tomlBegin + "\n[" + key + "." + tomlKey(s.Name) + "]\ncommand = " + quoted(s.Command) + "\nargs = [" + strings.Join(args, ", ") + "]\n" + tomlEnd + "\n"
}

// findTOML returns the position of a server's block.
func findTOML(content []byte, key, name string) (from, to int, found bool, err error) {
	head := []byte(tomlBegin + "\n[" + key + "." + tomlKey(name) + "]\n")
	from = bytes.Index(content, head)
	if from >= 0 && (from == 0 || content[from-1] == '\n') {
		end := bytes.Index(content[from:], []byte("\n"+tomlEnd+"\n"))
		if end < 0 {
			return 0, 0, false, ErrSyntax
		}
		to = from + end + len("\n"+tomlEnd+"\n")
		found = true
	}
	rest := content
	if found {
		rest = splice(content, from, to, "")
	}
	if tomlHas(rest, key, name) {
		return 0, 0, false, ErrTaken
	}
	return from, to, found, nil
}

// tomlHas reports whether a file seems to have an entry for a server: a table, a dotted
// key, or an inline table with all servers. A similar entry is enough: existing ones are
// not changed.
func tomlHas(content []byte, key, name string) bool {
	servers := `["']?` + regexp.QuoteMeta(key) + `["']?\s*`
	entry := servers + `\.\s*["']?` + regexp.QuoteMeta(name) + `["']?\s*[\].=]`
	return regexp.MustCompile(`(?m)^\s*(\[+\s*)?` + entry + `|^\s*` + servers + `=`).Match(content)
}

func addTOML(content []byte, key string, s Server) ([]byte, error) {
	if !plainTOML(content) {
		return nil, ErrSyntax
	}
	from, to, found, err := findTOML(content, key, s.Name)
	if err != nil {
		return nil, err
	}
	block := tomlBlock(key, s)
	if found {
		return splice(content, from, to, block), nil
	}
	switch {
	case len(content) == 0:
	case content[len(content)-1] != '\n':
		block = "\n\n" + block
	default:
		block = "\n" + block
	}
	return append(bytes.Clone(content), block...), nil
}

func serverTOML(content []byte, key, name string) (Server, bool, error) {
	if !plainTOML(content) {
		return Server{}, false, ErrSyntax
	}
	from, to, found, err := findTOML(content, key, name)
	if err != nil || !found {
		return Server{}, false, err
	}
	s := Server{Name: name}
	for line := range strings.Lines(string(content[from:to])) {
		// Both are written as JSON writes them.
		if value, ok := strings.CutPrefix(line, "command = "); ok {
			_ = json.Unmarshal([]byte(value), &s.Command)
		} else if value, ok := strings.CutPrefix(line, "args = "); ok {
			_ = json.Unmarshal([]byte(value), &s.Args)
		}
	}
	return s, true, nil
}

func removeTOML(content []byte, key, name string) ([]byte, bool, error) {
	if !plainTOML(content) {
		return content, false, ErrSyntax
	}
	from, to, found, err := findTOML(content, key, name)
	if err != nil || !found {
		return content, false, err
	}
	if from > 1 && content[from-1] == '\n' && content[from-2] == '\n' { // the empty line before it
		from--
	}
	return splice(content, from, to, ""), true, nil
}

// plainTOML reports whether a table can be appended to a file: by counting quotes, no
// multi-line text is open at the end.
func plainTOML(content []byte) bool {
	return bytes.Count(content, []byte(`"""`))%2 == 0 && bytes.Count(content, []byte(`'''`))%2 == 0 && !bytes.Contains(content, []byte{0})
}
