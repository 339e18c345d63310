package definition

import (
	"bytes"
	"unicode"

	"github.com/goccy/go-yaml/token"
)

// checkLines refuses what the library drops or what makes it slow: tabs and
// other control characters, and many blank lines in a row.
func checkLines(s *source, text []byte, before int) bool {
	ok, blank, number := true, 0, before
	for line := range bytes.Lines(text) {
		number++
		for column, r := range []rune(string(bytes.TrimSuffix(line, []byte("\n")))) {
			if r == '\t' {
				s.errorf(position{number, column + 1}, CodeForbiddenYAML, "", "tabs are not allowed: indent with spaces, and write \"\\t\" in quotes")
			} else if isControl(r) || r == '\u2028' || r == '\u2029' {
				s.errorf(position{number, column + 1}, CodeEncoding, "", "expected text without control characters")
			} else {
				continue
			}
			ok = false
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			blank = 0
			continue
		}
		if blank++; blank > maxBlankLines {
			s.errorf(position{number, 1}, CodeTooMany, "", "expected at most %d blank lines in a row", maxBlankLines)
			return false
		}
	}
	return ok
}

// forbidden says what of YAML definitions do without, and why the word for it
// is an error.
var forbidden = map[token.Type]string{
	token.AnchorType:     "anchors (&) are not allowed: write the value out",
	token.AliasType:      "aliases (*) are not allowed: write the value out, or put text that begins with * in quotes",
	token.MergeKeyType:   "merge keys (<<) are not allowed: write the keys out",
	token.TagType:        "tags (!) are not allowed: put text that begins with ! in quotes",
	token.DirectiveType:  "directives (%) are not allowed",
	token.MappingKeyType: "keys that begin with ? are not allowed",
}

// checkTokens refuses, before the parser recurses, what is forbidden or too
// deep. It returns false where parsing makes no sense.
func checkTokens(s *source, tokens token.Tokens, before int) bool {
	ok, keys, flow, content := true, 0, 0, false
	entries, line := 0, 0 // list entries in the line
	for _, t := range tokens {
		if t.Position == nil {
			continue
		}
		at := position{t.Position.Line + before, t.Position.Column}
		if message, found := forbidden[t.Type]; found {
			s.errorf(at, CodeForbiddenYAML, "", "%s", message)
			ok = false
		}
		switch t.Type {
		case token.DirectiveType:
			return false
		case token.InvalidType:
			s.errorf(at, CodeSyntax, "", "%s", syntaxText(t.Error))
			return false
		case token.DocumentHeaderType, token.DocumentEndType:
			if content || t.Type == token.DocumentEndType {
				s.errorf(at, CodeForbiddenYAML, "", "expected one YAML document: \"---\" and \"...\" inside it are not allowed")
				return false
			}
		case token.CommentType:
			continue
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.MappingValueType:
			if keys++; keys > maxKeys {
				s.errorf(at, CodeTooMany, "", "expected at most %d keys in a file", maxKeys)
				return false
			}
		case token.SequenceEntryType:
			if t.Position.Line != line {
				entries, line = 0, t.Position.Line
			}
			entries++
		}
		content = true
		if flow > MaxDepth || entries > MaxDepth {
			s.errorf(at, CodeTooDeep, "", "expected at most %d levels of lists and mappings", MaxDepth)
			return false
		}
	}
	return ok
}

// checkColons demands white space after the colon of a key without quotes:
// the library takes {a:1} for {a: 1}, and YAML for {"a:1": null}.
func checkColons(s *source, tokens token.Tokens, text []byte, before int) bool {
	lines := bytes.Split(text, []byte("\n"))
	ok, quoted := true, false
	var runes []rune // of the line with this number
	number := 0
	for _, t := range tokens {
		if t.Type == token.MappingValueType && !quoted && t.Position != nil && t.Position.Line >= 1 && t.Position.Line <= len(lines) {
			if number != t.Position.Line {
				number = t.Position.Line
				runes = []rune(string(lines[number-1]))
			}
			if column := t.Position.Column; column >= 1 && column < len(runes) && runes[column-1] == ':' && !unicode.IsSpace(runes[column]) {
				s.errorf(position{t.Position.Line + before, column}, CodeSyntax, "", "expected a space after the colon")
				ok = false
			}
		}
		quoted = t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType
	}
	return ok
}
