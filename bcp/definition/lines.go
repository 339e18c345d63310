package definition

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// SubscriptionLines are the lines of a subscription in a definition, without its
// dash and indentation: its members in JSON, which the front matter reads too. Texts are quoted, and what cannot be seen is escaped.
func SubscriptionLines(sub *bcp.ProposedSubscription) (lines []string) {
	text, err := json.Marshal(sub)
	if err != nil {
		return nil // what is no UTF-8 is no text of a definition
	}
	from := jsontext.NewDecoder(bytes.NewReader(text))
	next := func() string { // a token
		token, _ := from.ReadToken()
		return token.String()
	}
	for next(); from.PeekKind() != '}'; {
		switch name := next(); name {
		case "fields", "questions":
			lines = append(lines, name+":")
			for next(); from.PeekKind() != ']'; {
				lines = append(lines, "  - "+inFlow(from))
			}
			next()
		default:
			lines = append(lines, name+": "+inFlow(from))
		}
	}
	return lines
}

// inFlow writes the next value in one line.
func inFlow(from *jsontext.Decoder) string {
	token, _ := from.ReadToken()
	kind, open := token.Kind(), token.String()
	switch kind {
	case '"':
		return strconv.Quote(open)
	case '{', '[':
	default:
		return open
	}
	var members []string
	for from.PeekKind() != kind+2 { // the closing one, in ASCII
		name := ""
		if kind == '{' {
			token, _ := from.ReadToken()
			name = token.String() + ": "
		}
		members = append(members, name+inFlow(from))
	}
	end, _ := from.ReadToken()
	return open + strings.Join(members, ", ") + end.String()
}
