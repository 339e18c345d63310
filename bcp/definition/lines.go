package definition

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// SubscriptionLines are the lines of a subscription in a definition, without its
// dash and indentation: its members in JSON, which the front matter reads too. Texts are quoted, and what cannot be seen is escaped.
func SubscriptionLines(sub *bcp.ProposedSubscription) (lines []string) {
	text, err := json.Marshal(sub, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		return nil // what is no UTF-8 is no text of a definition
	}
	from := jsontext.NewDecoder(bytes.NewReader(text))
	skip := func() { _, _ = from.ReadToken() }
	for skip(); from.PeekKind() != '}'; {
		name, _ := from.ReadToken()
		key := name.String() + ":"
		if key != "fields:" && key != "questions:" {
			lines = append(lines, key+" "+inFlow(from))
			continue
		}
		lines = append(lines, key)
		for skip(); from.PeekKind() != ']'; {
			lines = append(lines, "  - "+inFlow(from))
		}
		skip()
	}
	return lines
}

// memberName is a name in JSON: in a text there is a backslash in front of each quote.
var memberName = regexp.MustCompile(`"([a-z_]+)": `)

// inFlow returns the next value in one line.
func inFlow(from *jsontext.Decoder) string {
	value, _ := from.ReadValue()
	var b strings.Builder
	for _, r := range memberName.ReplaceAllString(string(value), "$1: ") {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
