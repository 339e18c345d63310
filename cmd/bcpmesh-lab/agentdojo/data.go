package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
)

// suite is one suite of tasks with its tools and what they read.
type suite struct {
	tables
	Name  string
	Tools []toolSpec
	Users []task
	Goals []task
	score *score.Suite
	// formats are what Readers can be asked for.
	formats []*format
	// traced says that there is no state: a tool returns what it did to the ground truth, also one that writes.
	traced bool
	page   string // the template of what is written about it
	// bare leaves out the rule about literals of plans.
	bare bool
}

// tables are what AgentDojo's programs say about a suite. A suite may bring its own.
type tables struct {
	Lists       map[string]listSpec   `json:"lists"`       // by tool that returns one
	Directories map[string]string     `json:"directories"` // who and what there is, as an operator knows
	Effects     map[string][]string   `json:"effects"`     // by tool
	Conditions  map[string]string     `json:"conditions"`  // by task and goal
	Calls       map[string][]taskCall `json:"calls"`       // of goals of which the ground truth has none
}

//go:embed suites.yaml
var suitesYAML []byte

type toolSpec struct {
	Name     string   `json:"name"`
	Level    string   `json:"effect_level"`
	Critical []string `json:"critical"`
	Egress   bool     `json:"egress"` // it reads, and what it is asked leaves the mesh
	Reach    string   `json:"-"`      // of a suite that says so: outside
	Input    struct {
		Properties map[string]jsontext.Value `json:"properties"`
		Required   []string                  `json:"required"`
	} `json:"input_schema"`
}

// listSpec says which list of the environment a tool returns: of the elements at Path whose fields hold the arguments in
// Match, the field Take.
type listSpec struct {
	Path  string            `json:"path"`
	Match map[string]string `json:"match"`
	Take  string            `json:"take"`
}

// task is a user's task or an attacker's goal.
type task struct {
	ID     string     `json:"id"`
	Text   string     `json:"text"`
	Calls  []taskCall `json:"calls"`
	Output string     `json:"output"`
	// Of a suite that says so: Branch that a call is made only if what was read says so, Loop that calls are made for each of a
	// list, Again that one is made again that was refused; Why what a plan that is written before anything is read cannot have.
	Branch, Loop, Again bool   `json:"-"`
	Why                 string `json:"-"`
}

// returned is what a call returned to the ground truth: the one with these arguments, or else the next of its tool.
func (t *task) returned(tool string, args map[string]jsontext.Value, earlier int) (text string) {
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Tool != tool {
			continue
		}
		if maps.EqualFunc(c.Args, args, func(arg taskArg, value jsontext.Value) bool { return same(arg.Value, value) }) {
			return c.Returned
		}
		if earlier >= 0 {
			text = c.Returned
		}
		earlier--
	}
	return text
}

// taskCall is a call of the ground truth.
type taskCall struct {
	Tool     string             `json:"tool"`
	Args     map[string]taskArg `json:"args"`
	Returned string             `json:"-"` // of a suite that is traced
}

// is reports whether two calls are the same.
func (c *taskCall) is(o *taskCall) bool {
	return c.Tool == o.Tool && maps.EqualFunc(c.Args, o.Args, func(a, b taskArg) bool { return same(a.Value, b.Value) })
}

// reads reports whether an argument comes from what an earlier call returned.
func (c *taskCall) reads(call int) bool {
	for _, arg := range c.Args {
		if slices.Contains(arg.Sources, call) {
			return true
		}
	}
	return false
}

// shares reports whether two calls have an argument in common that content chose.
func (c *taskCall) shares(o *taskCall) bool {
	for _, a := range c.Args {
		for _, b := range o.Args {
			if a.From == "data" && b.From == "data" && same(a.Value, b.Value) {
				return true
			}
		}
	}
	return false
}

// taskArg is an argument with where it comes from: the user's text (prompt), an earlier output (data), or both (composed). From
// a read it is all that the tool Value returns.
type taskArg struct {
	Value   jsontext.Value `json:"value"`
	From    string         `json:"from"`
	Sources []int          `json:"-"` // the calls whose outputs it is made of, where that is known
}

func (s *suite) tool(name string) *toolSpec {
	i := slices.IndexFunc(s.Tools, func(t toolSpec) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Tools[i]
}

// effect reports whether calls of a tool are effects: it writes, or what it is asked leaves the mesh.
func (t *toolSpec) effect() bool { return t.Level == "write" || t.Egress }

// load reads the suites of a folder.
func load(dir string) ([]*suite, error) {
	read := loadDojo
	if _, err := os.Stat(filepath.Join(dir, "injections.jsonl")); err == nil {
		read = loadDyn
	}
	suites, err := read(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range suites {
		if err := s.checkConditions(); err != nil {
			return nil, fmt.Errorf("the suite %s: %w", s.Name, err)
		}
	}
	return suites, nil
}

// loadDojo reads AgentDojo's suites.
func loadDojo(dir string) (suites []*suite, err error) {
	known := map[string]tables{}
	if err := readYAML(suitesYAML, &known); err != nil {
		return nil, err
	}
	return suites, eachLine(filepath.Join(dir, "tasks.jsonl"), func(content []byte) error {
		var line struct {
			Suite string     `json:"suite"`
			Kind  string     `json:"kind"`
			Tools []toolSpec `json:"tools"`
		}
		var t task
		if err := errors.Join(json.Unmarshal(content, &line), json.Unmarshal(content, &t)); err != nil {
			return err
		}
		if line.Kind == "suite" {
			s := &suite{Name: line.Suite, page: "AgentDojo", Tools: line.Tools, tables: known[line.Suite]}
			suites = append(suites, s)
			return errors.Join(json.Unmarshal(content, &s.tables), s.read(filepath.Join(dir, "suites", s.Name)))
		}
		if len(suites) == 0 || suites[len(suites)-1].Name != line.Suite {
			return fmt.Errorf("a task of %s stands before its suite", line.Suite)
		}
		s := suites[len(suites)-1]
		if len(t.Calls) == 0 {
			t.Calls = s.Calls[t.ID]
		}
		for _, c := range t.Calls {
			if s.tool(c.Tool) == nil {
				return fmt.Errorf("%s of %s calls %s, which is no tool", t.ID, s.Name, c.Tool)
			}
			normaliseArgs(c.Args)
		}
		if line.Kind == "injection" {
			s.Goals = append(s.Goals, t)
		} else {
			s.Users = append(s.Users, t)
		}
		return nil
	})
}

// eachLine visits the lines of a file.
func eachLine(path string, visit func([]byte) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(content) {
		if err := visit(line); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// readYAML reads YAML as the JSON that it is. The library takes no tabs between quotes.
func readYAML(content []byte, into any) error {
	inJSON, err := yaml.YAMLToJSON(bytes.ReplaceAll(content, []byte("\t"), []byte(`\t`)))
	if err != nil {
		return err
	}
	return json.Unmarshal(inJSON, into)
}

// normaliseArgs says of a file that is attached its id alone, and writes some words where the ground truth leaves them open.
func normaliseArgs(args map[string]taskArg) {
	for name, arg := range args {
		if arg.From == "read" {
			continue
		}
		if texts := scalarTexts(arg.Value); len(texts) == 1 && (strings.HasPrefix(texts[0], "<") || texts[0] == "...") {
			args[name] = taskArg{Value: quote("some words about it"), From: "data"}
			continue
		}
		var files []struct {
			ID string `json:"file_id"`
		}
		if arg.Value.Kind() != '[' || json.Unmarshal(arg.Value, &files) != nil || len(files) == 0 {
			continue
		}
		ids := make([]string, len(files))
		for i := range files {
			ids[i] = files[i].ID
		}
		arg.Value, _ = json.Marshal(ids) // texts
		args[name] = arg
	}
}

// read reads the environment, and makes formats of what there is.
func (s *suite) read(dir string) error {
	for i := range s.Tools {
		s.Tools[i].Egress = s.Tools[i].Egress || s.Tools[i].Name == "get_webpage"
	}
	whole, usual := map[string]any{}, map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		switch name := strings.TrimSuffix(e.Name(), ".yaml"); {
		case err != nil || strings.Contains(string(content), "!include"):
			return err // it has nothing but the other files
		case name == "injection_vectors":
			return readUsual(content, usual)
		case name == "environment":
			return readYAML(content, &whole)
		default:
			var part any
			err := readYAML(content, &part)
			whole[name] = part
			return err
		}
	})
	s.score = score.New(whole, usual, s.Effects)
	choices, state := map[string][]string{}, s.score.State("")
	for name, path := range s.Directories {
		choices[name] = listOf(state, listSpec{Path: path}, nil)
	}
	s.formats = formatsWith(choices)
	return err
}

// checkConditions compiles the conditions of a suite's tasks and goals, and refuses one that the ground truth does not meet.
func (s *suite) checkConditions() error {
	if err := s.score.Compile(s.Conditions); err != nil {
		return err
	}
	for i, t := range slices.Concat(s.Users, s.Goals) {
		truth := s.score.Begin("")
		if i >= len(s.Users) && truth.Holds(t.ID) {
			return fmt.Errorf("%s is reached before anything was done", t.ID)
		}
		for _, c := range t.Calls {
			truth.Did(score.Call{Tool: c.Tool, Args: s.argValues(truth.State, c.Args)})
		}
		if truth.Answer = t.Output; !truth.Holds(t.ID) {
			return fmt.Errorf("%s: its ground truth does not meet its condition: %v changed", t.ID, truth.Changed())
		}
	}
	return nil
}

// readUsual reads what is in the places for injections when nobody attacks.
func readUsual(content []byte, usual map[string]string) error {
	var vectors map[string]struct {
		Default string `json:"default"`
	}
	err := readYAML(content, &vectors)
	for name, v := range vectors {
		usual[name] = v.Default
	}
	return err
}

// scalarTexts are the scalars of a value as texts.
func scalarTexts(v jsontext.Value) []string {
	switch v.Kind() {
	case '[':
		var texts []string
		for _, e := range listElements(v) {
			texts = append(texts, scalarTexts(e)...)
		}
		return texts
	case '{':
		var fields map[string]jsontext.Value
		var texts []string
		if json.Unmarshal(v, &fields) == nil {
			for _, name := range sortedKeys(fields) {
				texts = append(texts, scalarTexts(fields[name])...)
			}
		}
		return texts
	case '"':
		var text string
		if json.Unmarshal(v, &text) != nil {
			return nil
		}
		return []string{text}
	default:
		return []string{string(v)}
	}
}

// listElements are the elements of a list; of anything else it is itself.
func listElements(v jsontext.Value) []jsontext.Value {
	var elements []jsontext.Value
	if v.Kind() == '[' && json.Unmarshal(v, &elements) == nil {
		return elements
	}
	return []jsontext.Value{v}
}

// quote is a text in JSON.
func quote(text string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD")) // of valid UTF-8 it never fails
	return b
}
