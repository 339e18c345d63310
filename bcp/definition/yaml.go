package definition

import (
	"bytes"
	"errors"
	"fmt"
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

// node is a value of the strict subset of YAML that definitions use.
type node struct {
	position
	kind    nodeKind
	text    string // of a scalar, as it reads
	entries []entry
	items   []*node
}

// entry is one key of a mapping.
type entry struct {
	position
	key   string
	value *node
}

// value returns the value of a key of a mapping, or an empty node.
func (n *node) value(key string) *node {
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return &node{}
}

type nodeKind uint8

const (
	nodeText    nodeKind = iota + 1
	nodeInteger          // plain decimal digits
	nodeNumber           // every other number
	nodeBoolean
	nodeNull
	nodeMapping
	nodeList
)

// String names the kind as messages do.
func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a whole number", "a number", "true or false", "nothing", "a mapping", "a list"}[k]
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
		return &node{position: position{before + 1, 1}, kind: nodeMapping}
	}
	var document yaml.Node
	if err := yaml.Load(text, &document); err != nil || len(document.Content) != 1 {
		s.syntaxError(err, before)
		return nil
	}
	c := converter{source: s, before: before}
	root := c.node(document.Content[0], "")
	if root.kind == nodeNull || c.tooDeep {
		return nil
	}
	if root.kind != nodeMapping {
		s.errorf(root.position, CodeWrongType, "", "expected keys and values such as \"name: main\", got %v", root.kind)
		return nil
	}
	return root
}

// DefectPlaces returns what finds the line and the column, from 1, of what is wrong in a contract: of the nearest
// value that is there, since YAML reads JSON; or where the text stops to be JSON. It reads the text once: there may be
// thousands of defects.
func DefectPlaces(text []byte) func(contract.Defect) (line, column int) {
	var document yaml.Node
	whole := &object{node: &node{position: position{1, 1}}}
	if stopped := new(wire.Error); errors.As(wire.Check(text), &stopped) {
		whole.node.position = placeOf(text, stopped.Offset)
	} else if yaml.Load(text, &document) == nil {
		c := converter{source: &source{report: &Report{}}}
		whole.node = c.node(document.Content[0], "")
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

// converter turns the library's tree into ours and reports all that the
// subset leaves out.
type converter struct {
	source *source
	before int // lines above
	depth  int
	// tooDeep says that something is left out: nothing of the tree counts.
	tooDeep bool
}

func (c *converter) at(n *yaml.Node) position {
	return position{n.Line + c.before, max(n.Column, 1)}
}

// allowed reports whether a value, or a key, is of the subset.
func (c *converter) allowed(n *yaml.Node, key string) bool {
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
	c.source.errorf(c.at(n), CodeForbiddenYAML, key, "%s", why)
	return false
}

func (c *converter) node(n *yaml.Node, key string) *node {
	at := c.at(n)
	if c.depth++; c.depth > MaxDepth {
		c.tooDeep = true
		c.source.errorf(at, CodeTooDeep, key, "%s", tooDeep)
		return reported(at)
	}
	defer func() { c.depth-- }()
	switch {
	case !c.allowed(n, key):
		return reported(at)
	case n.Kind == yaml.MappingNode:
		return c.mapping(n, key)
	case n.Kind == yaml.SequenceNode:
		list := &node{position: at, kind: nodeList}
		for i, value := range n.Content {
			list.items = append(list.items, c.node(value, index(key, i)))
		}
		return list
	case n.Style != 0:
		return c.textNode(n.Value, at, key)
	}
	return c.plain(n.Value, at, key)
}

func (c *converter) mapping(n *yaml.Node, path string) *node {
	m := &node{position: c.at(n), kind: nodeMapping}
	first := map[string]position{}
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		at, name := c.at(k), k.Value
		key := join(path, boundedKey(name))
		if before, again := first[name]; again {
			c.source.errorf(at, CodeDuplicateKey, key, "this key is already in line %d", before.line)
			continue
		}
		switch {
		case !c.allowed(k, key):
		case n.Style&yaml.FlowStyle == 0 && at.column != m.column:
			c.source.errorf(position{at.line, m.column}, CodeForbiddenYAML, key, "keys that begin with ? are not allowed")
		case k.Kind != yaml.ScalarNode || k.Style == 0 && plainKind(name) != nodeText:
			c.source.errorf(at, CodeWrongType, key, "expected a key that is text")
		default:
			first[name] = at
			m.entries = append(m.entries, entry{position: at, key: name, value: c.node(n.Content[i+1], key)})
		}
	}
	return m
}

func (c *converter) textNode(text string, at position, key string) *node {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		c.source.errorf(at, CodeEncoding, key, "expected text without control characters")
		return reported(at)
	}
	return &node{position: at, kind: nodeText, text: text}
}

func (c *converter) plain(text string, at position, key string) *node {
	switch kind := plainKind(text); kind {
	case nodeNull:
		c.source.errorf(at, CodeNull, key, "expected a value; leave the key out for its default")
		return reported(at)
	case nodeText:
		return c.textNode(text, at, key)
	default:
		return &node{position: at, kind: kind, text: text}
	}
}

// reported stands for a value whose error is in the report already.
func reported(at position) *node { return &node{position: at, kind: nodeNull} }

var (
	decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	number  = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|^[-+]?0[xob][0-9a-fA-F_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

// plainKind classifies a scalar without quotes: the YAML 1.2 core schema, and
// every form that YAML 1.1 took for a number is a number here too, so that no
// reader of the file can take it for text.
func plainKind(text string) nodeKind {
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
