package definition

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// position is a place in a file, from 1.
type position struct{ line, column int }

// node is a value of the strict subset of YAML that definitions use.
type node struct {
	position
	kind    nodeKind
	text    string // of a scalar, as it reads
	further int    // the least column of its further lines; 0 without any
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

// parseYAML reads one mapping. before is the number of lines of the file above
// text. It returns nil after an error that leaves nothing to check.
//
// The YAML library has been seen to panic on odd input; a panic of it becomes
// a syntax error. It cannot overflow the stack or take unbounded time, since
// depth, keys and blank lines are bounded first.
func parseYAML(s *source, text []byte, before int) (root *node) {
	defer func() {
		if recover() != nil {
			s.errorf(position{before + 1, 1}, CodeSyntax, "", notYAML)
			root = nil
		}
	}()
	if !checkLines(s, text, before) {
		return nil
	}
	tokens := lexer.Tokenize(string(text))
	if !checkTokens(s, tokens, before) || !checkColons(s, tokens, text, before) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntaxError(err, before)
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return emptyDocument(s, text, before)
	}
	c := converter{source: s, before: before}
	root = c.node(file.Docs[0].Body, "")
	if root.kind == nodeNull || c.misread {
		return nil
	}
	if root.kind != nodeMapping {
		s.errorf(root.position, CodeWrongType, "", "expected keys and values such as \"name: main\", got %v", root.kind)
		return nil
	}
	return root
}

// emptyDocument stands for a file without keys, unless the library overlooked
// something in it.
func emptyDocument(s *source, text []byte, before int) *node {
	number := before
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !isFence(line) {
			s.errorf(position{number, 1}, CodeSyntax, "", "expected keys and values such as \"name: main\"")
			return nil
		}
	}
	return &node{position: position{before + 1, 1}, kind: nodeMapping}
}

func (s *source) syntaxError(err error, before int) {
	at, message := position{before + 1, 1}, notYAML
	var problem yaml.Error
	if errors.As(err, &problem) {
		message = syntaxText(problem.GetMessage())
		if t := problem.GetToken(); t != nil && t.Position != nil {
			at = position{t.Position.Line + before, t.Position.Column}
		}
	}
	s.errorf(at, CodeSyntax, "", "%s", message)
}

// converter turns the library's tree into ours and reports all that the
// subset leaves out.
type converter struct {
	source *source
	before int // lines above
	depth  int
	// misread says that indentation and tree differ: nothing of the tree counts.
	misread bool
}

func (c *converter) at(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{c.before + 1, 1}
	}
	return position{t.Position.Line + c.before, max(t.Position.Column, 1)}
}

func (c *converter) node(n ast.Node, key string) *node {
	if c.depth++; c.depth > MaxDepth {
		c.source.errorf(c.at(n.GetToken()), CodeTooDeep, key, "expected at most %d levels of lists and mappings", MaxDepth)
		return reported(c.at(n.GetToken()))
	}
	defer func() { c.depth-- }()
	switch n := n.(type) {
	case *ast.MappingNode:
		at := c.at(n.Start)
		if !n.IsFlowStyle && len(n.Values) > 0 {
			at = c.at(n.Values[0].Key.GetToken())
		}
		return c.mapping(n.Values, at, key, n.IsFlowStyle)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{n}, c.at(n.Key.GetToken()), key, n.IsFlowStyle)
	case *ast.SequenceNode:
		list := &node{position: c.at(n.Start), kind: nodeList}
		for i, value := range n.Values {
			item := c.node(value, index(key, i))
			if !n.IsFlowStyle {
				c.checkIndent(item, c.at(n.Entries[i].Start), false)
			}
			list.items = append(list.items, item)
		}
		return list
	case *ast.LiteralNode:
		return c.textNode(n.Value.Value, c.at(n.Start), key)
	case *ast.StringNode:
		scalar := c.string(n, key)
		scalar.further = furtherLines(n.Token.Origin)
		return scalar
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return c.plain(n.GetToken().Value, c.at(n.GetToken()), key)
	case *ast.NullNode:
		return c.null(c.at(n.Token), key)
	default:
		c.source.errorf(c.at(n.GetToken()), CodeForbiddenYAML, key, "this kind of YAML is not allowed in a definition")
		return reported(c.at(n.GetToken()))
	}
}

// checkIndent refuses a value of a block that is in a later line and not
// deeper than its parent: the library has been seen to attach it to the wrong
// one. A list may stand as deep as its key.
func (c *converter) checkIndent(value *node, parent position, key bool) {
	least := parent.column + 1
	if key && value.kind == nodeList {
		least = parent.column
	}
	later := value.line > parent.line && value.column < least
	if value.kind != nodeNull && (later || (value.further != 0 && value.further < least)) {
		c.misread = true
		c.source.errorf(value.position, CodeSyntax, "", "expected this to be indented deeper than line %d", parent.line)
	}
}

func (c *converter) mapping(values []*ast.MappingValueNode, at position, path string, flow bool) *node {
	m := &node{position: at, kind: nodeMapping}
	first := map[string]position{}
	for _, v := range values {
		t := v.Key.GetToken()
		at := c.at(t)
		if !flow && at.column != m.column {
			c.misread = true
			c.source.errorf(at, CodeSyntax, "", "expected this key to be indented like the one in line %d", m.line)
		}
		name := t.Value
		if text, ok := v.Key.(*ast.StringNode); !ok || (t.Type == token.StringType && plainKind(text.Value) != nodeText) {
			c.source.errorf(at, CodeWrongType, join(path, boundedKey(name)), "expected a key that is text")
			continue
		}
		key := join(path, boundedKey(name))
		if before, again := first[name]; again {
			c.source.errorf(at, CodeDuplicateKey, key, "this key is already in line %d", before.line)
			continue
		}
		first[name] = at
		value := c.node(v.Value, key)
		if !flow {
			c.checkIndent(value, at, true)
		}
		m.entries = append(m.entries, entry{position: at, key: name, value: value})
	}
	return m
}

func (c *converter) string(n *ast.StringNode, key string) *node {
	if n.Token.Type != token.StringType {
		return c.textNode(n.Value, c.at(n.Token), key)
	}
	return c.plain(n.Value, c.at(n.Token), key)
}

// furtherLines returns the least column of the second and later lines of a
// scalar, as it is written in the file; 0 where it has none.
func furtherLines(written string) int {
	least := 0
	_, rest, _ := strings.Cut(written, "\n")
	for line := range strings.Lines(rest) {
		text := strings.TrimLeft(line, " ")
		if strings.TrimSpace(text) == "" {
			continue
		}
		if column := len(line) - len(text) + 1; least == 0 || column < least {
			least = column
		}
	}
	return least
}

func (c *converter) textNode(text string, at position, key string) *node {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		c.source.errorf(at, CodeEncoding, key, "expected text without control characters")
		return reported(at)
	}
	return &node{position: at, kind: nodeText, text: text}
}

func (c *converter) plain(text string, at position, key string) *node {
	kind := plainKind(text)
	if kind == nodeNull {
		return c.null(at, key)
	}
	if kind == nodeText {
		return c.textNode(text, at, key)
	}
	return &node{position: at, kind: kind, text: text}
}

func (c *converter) null(at position, key string) *node {
	c.source.errorf(at, CodeNull, key, "expected a value; leave the key out for its default")
	return reported(at)
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
