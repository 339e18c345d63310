package byhand

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// AskedFor names what a spec asks, in one line.
func AskedFor(spec []byte) string {
	parsed, err := bcp.ParseSpec(spec)
	if err != nil {
		return ""
	}
	var parts []string
	for _, f := range parsed.Fields {
		parts = append(parts, f.Name)
	}
	for _, q := range parsed.Questions {
		parts = append(parts, q.Question)
	}
	if parsed.Directive != "" {
		parts = append(parts, parsed.Directive)
	}
	return strings.Join(parts, " ")
}
