package corpus

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readers know the formats of tools. Each takes its own data and ignores the rest.
var readers = []struct {
	format Format
	read   func(document, *Found)
}{
	{BIPIA, readBIPIA}, {AgentDojo, readAgentDojo}, {InjecAgent, readInjecAgent}, {Garak, readGarak},
	{Spikee, readSpikee}, {PyRIT, readPyRIT}, {Promptfoo, readPromptfoo},
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// text adds a value if it is a text.
func (f *Found) text(v any) {
	if s, ok := v.(string); ok {
		f.Texts = append(f.Texts, s)
	}
}

// readBIPIA: an object of categories, each a list of strings.
func readBIPIA(d document, f *Found) {
	categories := object(d.whole)
	for _, name := range slices.Sorted(maps.Keys(categories)) {
		texts := list(categories[name])
		if len(texts) == 0 {
			f.Texts = nil
			return
		}
		for _, v := range texts {
			if _, ok := v.(string); !ok {
				f.Texts = nil
				return
			}
			f.text(v)
		}
	}
}

// readAgentDojo: the log of a run has its injections, and the outputs of tools.
func readAgentDojo(d document, f *Found) {
	run := object(d.whole)
	injections, messages := object(run["injections"]), list(run["messages"])
	if injections == nil || messages == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(injections)) {
		f.text(injections[name])
	}
	for _, m := range messages {
		message := object(m)
		if message["role"] != "tool" {
			continue
		}
		f.text(message["content"])
		for _, part := range list(message["content"]) {
			f.text(object(part)["content"])
			f.text(object(part)["text"])
		}
	}
}

// readInjecAgent: cases with an attacker's instruction and a tool's response.
func readInjecAgent(d document, f *Found) {
	for _, record := range d.records {
		if _, ok := object(record)["Attacker Instruction"]; ok {
			f.text(object(record)["Attacker Instruction"])
			f.text(object(record)["Tool Response"])
		}
	}
}

// readGarak: payloads of a file, or prompts of the attempts of a report or hit log.
func readGarak(d document, f *Found) {
	if file := object(d.whole); file["garak_payload_name"] != nil {
		for _, v := range list(file["payloads"]) {
			f.text(v)
		}
		return
	}
	for _, v := range d.records {
		record := object(v)
		_, generator := record["generator"]
		if record["entry_type"] != "attempt" && !(generator && record["probe"] != nil && record["prompt"] != nil) {
			continue
		}
		f.text(record["prompt"])
		for _, turn := range list(object(record["prompt"])["turns"]) {
			if content := object(turn)["content"]; object(turn)["role"] == "user" {
				f.text(content)
				f.text(object(content)["text"])
			}
		}
	}
}

// readSpikee: seeds, and data sets generated from them.
func readSpikee(d document, f *Found) {
	for _, v := range d.records {
		record := object(v)
		_, judged := record["judge_name"]
		_, long := record["long_id"]
		text, _ := record["text"].(string)
		instruction, _ := record["instruction"].(string)
		switch {
		case text != "" && strings.Contains(text, placeholder):
			f.jailbreaks = append(f.jailbreaks, text)
			f.text(text)
		case text != "" && (judged || long):
			f.text(text)
		case instruction != "" && (judged || record["instruction_type"] != nil):
			f.instructions = append(f.instructions, instruction)
			f.text(instruction)
		}
	}
}

// readPyRIT: seeds with a value each, in a list or in groups of lists.
func readPyRIT(d document, f *Found) {
	file := object(d.yaml)
	for _, key := range []string{"prompts", "seeds", "groups", "seed_groups"} {
		for _, v := range list(file[key]) {
			seed := object(v)
			f.text(seed["value"])
			for _, inner := range []string{"prompts", "seeds"} {
				for _, v := range list(seed[inner]) {
					f.text(object(v)["value"])
				}
			}
		}
	}
	f.text(file["value"])
}

// readPromptfoo: the variables of tests.
func readPromptfoo(d document, f *Found) {
	file := d.yaml
	if file == nil {
		file = d.whole
	}
	tests := list(file)
	if tests == nil {
		tests = list(object(file)["tests"])
	}
	for _, test := range tests {
		vars := object(object(test)["vars"])
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			f.text(vars[name])
			for _, v := range list(vars[name]) {
				f.text(v)
			}
		}
	}
}

// seeds matches the keys of known YAML.
var seeds = regexp.MustCompile(`(?m)^(prompts|seeds|groups|seed_groups|value|tests)[ \t]*:|^- *vars[ \t]*:|^- *description[ \t]*:`)

// Bounds of YAML: the library recurses, and takes long for many blank lines.
const (
	deepest   = 32 // lists and mappings in each other
	mostKeys  = 100_000
	mostBlank = 200 // lines in a row
)

// bounded reports whether the parser can read tokens without going too deep.
func bounded(tokens token.Tokens) bool {
	flow, entries, line, keys := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position == nil {
			return false
		}
		switch t.Type {
		case token.DirectiveType, token.InvalidType, token.MappingKeyType:
			return false
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.MappingValueType:
			keys++
		case token.SequenceEntryType:
			if t.Position.Line != line {
				entries, line = 0, t.Position.Line
			}
			entries++
		}
		if flow > deepest || entries > deepest || keys > mostKeys {
			return false
		}
	}
	return true
}

// sparse reports whether there are many blank lines in a row.
func sparse(text []byte) bool {
	blank := 0
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 {
			blank = 0
		} else if blank++; blank > mostBlank {
			return true
		}
	}
	return false
}

// readYAML reads texts, lists and mappings; anchors, aliases and tags are ignored. It
// returns nil for unknown or too long YAML.
func readYAML(text []byte) (v any) {
	if !seeds.Match(text) || sparse(text) {
		return nil
	}
	if len(text) > maxYAMLBytes {
		return map[string]any{}
	}
	defer func() {
		if recover() != nil { // the library is not made for hostile files
			v = nil
		}
	}()
	tokens := lexer.Tokenize(string(text))
	if !bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil || len(file.Docs) == 0 {
		return nil
	}
	return plain(file.Docs[0].Body, 0)
}

func plain(n ast.Node, depth int) any {
	if depth > deepest {
		return nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		values := make([]any, len(n.Values))
		for i, v := range n.Values {
			values[i] = plain(v, depth+1)
		}
		return values
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return n.Value
	}
	return nil
}

func mapping(values []*ast.MappingValueNode, depth int) map[string]any {
	m := map[string]any{}
	for _, v := range values {
		m[v.Key.GetToken().Value] = plain(v.Value, depth+1)
	}
	return m
}
