package definition

import "strings"

// notYAML is said of a mistake that has no better text.
const notYAML = "this is not YAML that can be read"

// syntaxTexts says in the words of definitions what the YAML library complains of, by a
// part of its message. The first that is found holds.
var syntaxTexts = []struct{ library, ours string }{
	{"sequence end token ']' not found", "a list that begins with [ is not closed: expected ]"},
	{"',' or ']' must be specified", "expected a comma or ] in a list that begins with ["},
	{"could not find '[' character", "there is a ] without its ["},
	{"expected sequence element, but found ','", "expected an entry of the list in front of the comma"},
	{"flow mapping end token '}'", "a mapping that begins with { is not closed: expected }"},
	{"',' or '}' must be specified", "expected a comma or } in a mapping that begins with {"},
	{"could not find '{' character", "there is a } without its {"},
	{"could not find flow map content", "expected a value after the colon, in a mapping that begins with {"},
	{"expected map key-value delimiter ':'", "expected a colon after the key"},
	{"implicit line break", "a key has to be on one line"},
	{"block sequence entries are not allowed", "a list entry (-) cannot begin here: is it indented as the entries above?"},
	{"mapping value is not allowed", "a second colon in one line: put the text in quotes"},
	{"value is not allowed in this context", "a value cannot be here: is it indented as the lines above, or does it need quotes?"},
	{"non-map value is specified", "expected a key with a colon, as the lines above have"},
	{"unexpected key name", "a key cannot be here: is it indented as the keys above?"},
	{"found an invalid key", "this cannot be a key: put it in quotes"},
	{"could not find map", "expected a key with a colon"},
	{"could not find value for mapping key", "expected a value after the colon"},
	{"unexpected scalar value", "a value cannot be here: put text of several words on one line, or in quotes"},
	{"end character of", "text in quotes is not closed"},
	{"end single-quote character", "text in quotes is not closed: expected '"},
	{"end double-quote character", "text in quotes is not closed: expected \""},
	{"escape character", "there is no such escape in double quotes: write \\\\ for a backslash, or use single quotes"},
	{"is a reserved character", "text cannot begin with this character: put it in quotes"},
	{"tab character", "tabs are not allowed: indent with spaces"},
	{"number of indent", "expected deeper indentation below | or >"},
	{"invalid header option", "expected nothing but a comment after | or >"},
}

// syntaxText translates a message of the YAML library. It quotes none: the library's
// words are those of its source code.
func syntaxText(message string) string {
	for _, t := range syntaxTexts {
		if strings.Contains(message, t.library) {
			return t.ours
		}
	}
	return notYAML
}
