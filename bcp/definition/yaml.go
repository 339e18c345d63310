package definition

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// position is a place in a file, from 1.
type position struct{ line, column int }

// node is a value of the strict subset of YAML that definitions use, in its place in the file. Its tag is its kind, as
// messages name it; that of a value that is not there is empty.
type node = yaml.Node

// The kinds. What has an error in the report already is nothing.
const (
	nodeText    = "text"
	nodeInteger = "a whole number" // plain decimal digits
	nodeNumber  = "a number"       // every other number
	nodeBoolean = "true or false"
	nodeNull    = "nothing"
	nodeMapping = "a mapping"
	nodeList    = "a list"
)

func positionOf(n *node) position { return position{n.Line, n.Column} }

// entries are the keys of a mapping and their values.
func entries(n *node) iter.Seq2[*node, *node] {
	return func(yield func(key, value *node) bool) {
		for i := 0; n.Tag == nodeMapping && i < len(n.Content) && yield(n.Content[i], n.Content[i+1]); i += 2 {
		}
	}
}

// valueOf returns the value of a key of a mapping, or an empty node.
func valueOf(n *node, name string) *node {
	for key, value := range entries(n) {
		if key.Value == name {
			return value
		}
	}
	return &node{}
}

// notYAML is said of a mistake that has no better text.
const notYAML = "this is not YAML that can be read"

// syntaxTexts says in the words of definitions what the YAML library complains of, by a
// part of its message. The first that is found holds.
var syntaxTexts = []struct{ library, ours string }{
	{"',' or ']'", "a list that begins with [ is not closed: expected a comma or ]"},
	{"',' or '}'", "a mapping that begins with { is not closed: expected a comma or }"},
	{"node content", "expected a value: is there a [ or { without its end, a ] or } without its beginning, or a comma too many?"},
	{"end of stream", "text in quotes is not closed"},
	{"escape", "there is no such escape in double quotes: write \\\\ for a backslash, or use single quotes"},
	{"mapping values are not allowed", "a second colon in one line, or other indentation than above: put text with a colon in quotes"},
	{"could not find expected ':'", "expected a key with a colon, as the lines above have"},
	{"expected key", "a key cannot be here: is it indented as the keys above?"},
	{"expected '-'", "expected a list entry (-): is it indented as the entries above?"},
	{"block sequence entries", "a list entry (-) cannot begin here: is it indented as the entries above?"},
	{"cannot start any token", "text cannot begin with this character: put it in quotes"},
	{"comment or line break", "expected nothing but a comment after | or >"},
}

// What of YAML definitions do without.
const (
	noAliases = "aliases (*) are not allowed: write the value out, or put text that begins with * in quotes"
	noAnchors = "anchors (&) are not allowed: write the value out"
	noTags    = "tags (!) are not allowed: put text that begins with ! in quotes"
	noMerge   = "merge keys (<<) are not allowed: write the keys out"
)

// parseYAML reads one mapping. before is the number of lines of the file above
// text. It returns nil after an error that leaves nothing to check.
func parseYAML(s *source, text []byte, before int) *node {
	content, ok := checkLines(s, text, before)
	switch {
	case !ok:
		return nil
	case !content:
		return &node{Line: before + 1, Column: 1, Tag: nodeMapping}
	}
	var document yaml.Node
	if err := yaml.Load(text, &document); err != nil || len(document.Content) != 1 {
		s.syntaxError(err, before)
		return nil
	}
	c, root := checker{source: s, before: before}, document.Content[0]
	c.check(root, "")
	if root.Tag == nodeNull || c.tooDeep {
		return nil
	}
	if root.Tag != nodeMapping {
		s.errorf(positionOf(root), CodeWrongType, "", "expected keys and values such as \"name: main\", got %s", root.Tag)
		return nil
	}
	return root
}

// DefectPlaces returns what finds the line and the column, from 1, of what is wrong in a contract: of the nearest
// value that is there, since YAML reads JSON; or where the text stops to be JSON. It reads the text once: there may be
// thousands of defects.
func DefectPlaces(text []byte) func(contract.Defect) (line, column int) {
	var document yaml.Node
	whole := &object{node: &node{Line: 1, Column: 1}}
	if stopped := new(wire.Error); errors.As(wire.Check(text), &stopped) {
		place := placeOf(text, stopped.Offset)
		whole.node.Line, whole.node.Column = place.line, place.column
	} else if yaml.Load(text, &document) == nil {
		whole.node = document.Content[0]
		c := checker{source: &source{report: &Report{}}}
		c.check(whole.node, "")
	}
	return func(d contract.Defect) (line, column int) {
		at := whole.at(d.Where)
		if d.Unknown != "" {
			at = whole.at(join(d.Where, d.Unknown))
		}
		return at.line, at.column
	}
}

// checkLines refuses control characters, directives and all documents but one, which the library
// lets through. It reports whether there is anything but comments.
func checkLines(s *source, text []byte, before int) (content, ok bool) {
	number := before
	ok = true
	for line := range bytes.Lines(text) {
		number++
		refuse := func(column int, code, why string) {
			s.errorf(position{number, column + 1}, code, "", "%s", why)
			ok = false
		}
		for column, r := range []rune(string(bytes.TrimSuffix(line, []byte("\n")))) {
			if r == '\t' {
				refuse(column, CodeForbiddenYAML, "tabs are not allowed: indent with spaces, and write \"\\t\" in quotes")
				break
			} else if isControl(r) || r == '\u2028' || r == '\u2029' {
				refuse(column, CodeEncoding, "expected text without control characters")
				break
			}
		}
		begins, rest := line[:min(3, len(line))], bytes.TrimSpace(line[min(3, len(line)):])
		marker := string(begins) == "---" || string(begins) == "..."
		switch trimmed := bytes.TrimSpace(line); {
		case marker && (content || begins[0] == '.') && (len(rest) == 0 || line[3] == ' '):
			refuse(0, CodeForbiddenYAML, "expected one YAML document: \"---\" and \"...\" inside it are not allowed")
		case line[0] == '%' && !content:
			refuse(0, CodeForbiddenYAML, "directives (%) are not allowed")
		case len(trimmed) > 0 && trimmed[0] != '#' && !isFence(line):
			content = true
		}
	}
	return content, ok
}

// syntaxError reports what the library says of a text that it cannot read. It quotes none: the library's
// words are those of its source code.
func (s *source) syntaxError(err error, before int) {
	at, code, message := position{before + 1, 1}, CodeSyntax, notYAML
	var problem *yaml.LoadError
	if errors.As(err, &problem) {
		for _, t := range syntaxTexts {
			if strings.Contains(problem.Message, t.library) {
				message = t.ours
				break
			}
		}
		switch problem.Stage {
		case yaml.ComposerStage: // without anchors there is nothing to refer to
			code, message = CodeForbiddenYAML, noAliases
		case yaml.ScannerStage:
			if strings.Contains(problem.Message, "max depth") {
				code, message = CodeTooDeep, tooDeep
			}
		}
		mark := problem.Mark
		if begun := problem.ContextMark; begun.Line > 0 && !strings.Contains(problem.ContextMsg, "block") { // what is not closed
			mark = begun
		}
		if mark.Line > 0 {
			at = position{mark.Line + before, max(mark.Column, 1)}
		}
	}
	s.errorf(at, code, "", "%s", message)
}

var tooDeep = fmt.Sprintf("expected at most %d levels of lists and mappings", MaxDepth)

// checker gives the library's nodes their kinds and their places in the file, and reports
// all that the subset leaves out.
type checker struct {
	source *source
	before int // lines above
	depth  int
	// tooDeep says that something is left out: nothing of the tree counts.
	tooDeep bool
}

// refuse reports a node, of which nothing is left.
func (c *checker) refuse(n *node, code, key, format string, args ...any) {
	c.source.errorf(positionOf(n), code, key, format, args...)
	n.Tag, n.Value, n.Content = nodeNull, "", nil
}

// place puts a node where it is in the file, and refuses what is not of the subset.
func (c *checker) place(n *node, key string) (allowed bool) {
	n.Line, n.Column = n.Line+c.before, max(n.Column, 1)
	why := ""
	switch {
	case n.Kind == yaml.AliasNode:
		why = noAliases
	case n.Anchor != "":
		why = noAnchors
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		why = noTags
	case n.Tag == "!!merge":
		why = noMerge
	default:
		return true
	}
	c.refuse(n, CodeForbiddenYAML, key, "%s", why)
	return false
}

func (c *checker) check(n *node, key string) {
	c.depth++
	defer func() { c.depth-- }()
	switch allowed := c.place(n, key); {
	case c.depth > MaxDepth:
		c.tooDeep = true
		c.refuse(n, CodeTooDeep, key, "%s", tooDeep)
	case !allowed:
	case n.Kind == yaml.MappingNode:
		c.mapping(n, key)
	case n.Kind == yaml.SequenceNode:
		n.Tag = nodeList
		for i, value := range n.Content {
			c.check(value, index(key, i))
		}
	default:
		if n.Tag = nodeText; n.Style == 0 {
			n.Tag = plainKind(n.Value)
		}
		if n.Tag == nodeNull {
			c.refuse(n, CodeNull, key, "expected a value; leave the key out for its default")
		} else if !utf8.ValidString(n.Value) || strings.ContainsFunc(n.Value, isControl) {
			c.refuse(n, CodeEncoding, key, "expected text without control characters")
		}
	}
}

// mapping keeps the entries whose keys are right.
func (c *checker) mapping(n *node, path string) {
	all := n.Content
	n.Tag, n.Content = nodeMapping, nil
	first := map[string]int{} // lines
	for i := 0; i < len(all); i += 2 {
		k, name := all[i], all[i].Value
		key := join(path, boundedKey(name))
		switch allowed := c.place(k, key); {
		case first[name] > 0:
			c.refuse(k, CodeDuplicateKey, key, "this key is already in line %d", first[name])
		case !allowed:
		case n.Style&yaml.FlowStyle == 0 && k.Column != n.Column:
			k.Column = n.Column
			c.refuse(k, CodeForbiddenYAML, key, "keys that begin with ? are not allowed")
		case k.Kind != yaml.ScalarNode || k.Style == 0 && plainKind(name) != nodeText:
			c.refuse(k, CodeWrongType, key, "expected a key that is text")
		default:
			first[name] = k.Line
			c.check(all[i+1], key)
			n.Content = append(n.Content, k, all[i+1])
		}
	}
}

var (
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	number  = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|^[-+]?0[xob][0-9a-fA-F_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

// plainKind classifies a scalar without quotes: the YAML 1.2 core schema, and
// every form that YAML 1.1 took for a number is a number here too, so that no
// reader of the file can take it for text.
func plainKind(text string) string {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return nodeNull
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return nodeBoolean
	}
	switch {
	case decimal.MatchString(text) && text != "-0":
		return nodeInteger
	case number.MatchString(text):
		return nodeNumber
	default:
		return nodeText
	}
}

// isControl reports characters that no definition needs in a value: they would
// reach terminals and prompts.
func isControl(r rune) bool { return (r < 0x20 && r != '\n' && r != '\t') || (r >= 0x7f && r < 0xa0) }

// boundedKey makes a key fit for a path: without secrets, and bounded.
func boundedKey(key string) string {
	key = guard.Redact(key, guard.Keys) // before it is cut
	if runes := []rune(key); len(runes) > maxQuoted {
		return string(runes[:maxQuoted]) + "…"
	}
	return key
}
