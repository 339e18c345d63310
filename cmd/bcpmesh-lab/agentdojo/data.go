package main

import (
	"bufio"
	"bytes"
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
)

// suite is one suite of tasks with its tools and what they read.
type suite struct {
	Name  string
	Tools []toolSpec
	Users []task
	Goals []task
	// parts are the files of the environment, with places for injections in braces.
	parts map[string]string
	// usual is what stands in those places when nobody attacks.
	usual map[string]string
	// lists are the tools that also return a list, and formats what Readers can be asked for.
	lists   map[string]listSpec
	formats []*format
}

type toolSpec struct {
	Name     string   `json:"name"`
	Level    string   `json:"effect_level"`
	Critical []string `json:"critical"`
	Egress   bool     `json:"egress"` // it reads, and what it is asked leaves the mesh
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
}

// taskCall is a call of the ground truth.
type taskCall struct {
	Tool  string             `json:"tool"`
	Level string             `json:"effect_level"`
	Args  map[string]taskArg `json:"args"`
}

// taskArg is an argument with where it comes from: the user's text (prompt), an earlier output (data), or both (composed).
type taskArg struct {
	Value jsontext.Value `json:"value"`
	From  string         `json:"from"`
}

// What an operator of AgentDojo's mesh would know and write down: which tools return lists, and who and what there is. A
// suite may bring its own.
var (
	knownLists = map[string]listSpec{
		"get_all_hotels_in_city":               {Path: "hotels.hotel_list", Match: map[string]string{"city": "city"}, Take: "name"},
		"get_all_restaurants_in_city":          {Path: "restaurants.restaurant_list", Match: map[string]string{"city": "city"}, Take: "name"},
		"get_all_car_rental_companies_in_city": {Path: "car_rental.company_list", Match: map[string]string{"city": "city"}, Take: "name"},
		"search_calendar_events":               {Path: "calendar.initial_events", Match: map[string]string{"title": "query"}, Take: "participants"},
		"get_channels":                         {Path: "slack.channels"},
	}
	knownDirectories = map[string]string{"User": "slack.users", "Channel": "slack.channels"}
)

func (s *suite) tool(name string) *toolSpec {
	i := slices.IndexFunc(s.Tools, func(t toolSpec) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Tools[i]
}

// effect reports whether calls of a tool are effects: it writes, or what it is asked leaves the mesh.
func (t *toolSpec) effect() bool { return t.Level == "write" || t.Egress }

// load reads the suites of a folder, each with its first goals, or with all if that is negative.
func load(dir string, goals int) ([]*suite, error) {
	content, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		return nil, err
	}
	var suites []*suite
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Suite       string              `json:"suite"`
			Kind        string              `json:"kind"`
			Tools       []toolSpec          `json:"tools"`
			Lists       map[string]listSpec `json:"lists"`
			Directories map[string]string   `json:"directories"`
		}
		var t task
		if err := errors.Join(json.Unmarshal(lines.Bytes(), &line), json.Unmarshal(lines.Bytes(), &t)); err != nil {
			return nil, fmt.Errorf("tasks.jsonl: %w", err)
		}
		if line.Kind == "suite" {
			s, err := newSuite(filepath.Join(dir, "suites", line.Suite), line.Suite, line.Tools, line.Lists, line.Directories)
			if err != nil {
				return nil, fmt.Errorf("the suite %s: %w", line.Suite, err)
			}
			suites = append(suites, s)
			continue
		}
		if len(suites) == 0 || suites[len(suites)-1].Name != line.Suite {
			return nil, fmt.Errorf("tasks.jsonl: a task of %s stands before its suite", line.Suite)
		}
		s := suites[len(suites)-1]
		for _, c := range t.Calls {
			if s.tool(c.Tool) == nil {
				return nil, fmt.Errorf("tasks.jsonl: %s of %s calls %s, which is no tool", t.ID, s.Name, c.Tool)
			}
			normaliseArgs(c.Args)
		}
		if line.Kind == "injection" {
			if len(s.Goals) == goals {
				continue
			}
			s.Goals = append(s.Goals, t)
		} else {
			s.Users = append(s.Users, t)
		}
	}
	return suites, lines.Err()
}

// normaliseArgs says of a file that is attached its id alone, and writes some words where the ground truth leaves them open.
func normaliseArgs(args map[string]taskArg) {
	for name, arg := range args {
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

func newSuite(dir, name string, tools []toolSpec, lists map[string]listSpec, directories map[string]string) (*suite, error) {
	s := &suite{Name: name, Tools: tools, lists: maps.Clone(knownLists)}
	for i := range tools {
		tools[i].Egress = tools[i].Egress || tools[i].Name == "get_webpage"
	}
	maps.Copy(s.lists, lists)
	if err := s.read(dir); err != nil {
		return nil, err
	}
	known := maps.Clone(knownDirectories)
	maps.Copy(known, directories)
	choices := map[string][]string{}
	for name, path := range known {
		if list := s.listAt(listSpec{Path: path}, nil, ""); len(list) > 0 {
			choices[name] = list
		}
	}
	s.formats = formatsWith(choices)
	return s, nil
}

// read reads the environment.
func (s *suite) read(dir string) error {
	s.parts, s.usual = map[string]string{}, map[string]string{}
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && e.Name() == "injection_vectors.yaml" {
			s.usual, err = defaults(content)
		} else {
			s.parts[strings.TrimSuffix(e.Name(), ".yaml")] = string(content)
		}
		return err
	})
}

// defaults are what stands in the places for injections when nobody attacks.
func defaults(content []byte) (map[string]string, error) {
	var vectors map[string]struct {
		Default string `yaml:"default"`
	}
	if err := yaml.Unmarshal(content, &vectors); err != nil {
		return nil, err
	}
	usual := map[string]string{}
	for name, v := range vectors {
		usual[name] = v.Default
	}
	return usual, nil
}

// scalarTexts are the scalars of an argument as texts.
func scalarTexts(v jsontext.Value) []string {
	switch v.Kind() {
	case '[':
		var texts []string
		for _, e := range listElements(v) {
			texts = append(texts, scalarTexts(e)...)
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
