package corpus

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of input.
const (
	MaxStrings     = 1_000_000
	MaxStringBytes = 64 << 10  // of one string; the rest of it is cut off
	MaxFileBytes   = 256 << 20 // of one file
	maxYAMLBytes   = 4 << 20
	maxFiles       = 100_000
)

// Errors of [Load].
var (
	ErrFormat  = errors.New("no corpus in a form that is known")
	ErrField   = errors.New("records without a text in that field")
	ErrTooMany = fmt.Errorf("more than %d strings", MaxStrings)
	ErrTooBig  = fmt.Errorf("a file of more than %d bytes (YAML: %d)", MaxFileBytes, maxYAMLBytes)
)

// Format is how a file keeps its strings.
type Format string

// The formats, by the tools and benchmarks that write them.
const (
	BIPIA      Format = "bipia"      // benchmark/*_attack_{train,test}.json
	AgentDojo  Format = "agentdojo"  // logs of runs
	InjecAgent Format = "injecagent" // test_cases_{dh,ds}_*.json
	Garak      Format = "garak"      // payloads, report.jsonl, hitlog.jsonl
	Spikee     Format = "spikee"     // jailbreaks times instructions, and generated data sets
	PyRIT      Format = "pyrit"      // seed prompts, YAML
	Promptfoo  Format = "promptfoo"  // tests, YAML or JSON
	Records    Format = "records"    // JSON, JSON lines or CSV, with a field
	Lines      Format = "lines"      // a string a line; lines that begin with # or [ are ignored
)

// licences are those of the tools' own published sets.
var licences = map[Format]string{
	BIPIA: "MIT", AgentDojo: "MIT", InjecAgent: "MIT", Garak: "Apache-2.0", Spikee: "Apache-2.0", PyRIT: "MIT", Promptfoo: "MIT",
}

// Formats returns all formats, in the order in which they are recognised.
func Formats() []Format {
	return []Format{BIPIA, AgentDojo, InjecAgent, Garak, Spikee, PyRIT, Promptfoo, Records, Lines}
}

// Options say how to read files. The zero value recognises them by content.
type Options struct {
	Format Format
	// Field is the text field in a record of JSON or CSV: a name, or names separated
	// by dots.
	Field string
}

// Source is one file, or a built-in set.
type Source struct {
	Name    string `json:"name"`
	Format  Format `json:"format"`
	Licence string `json:"licence,omitempty"` // of the tool's own set; a file may have another
	Strings int    `json:"strings"`           // that no source before it has
	Cut     int    `json:"cut,omitzero"`      // strings that were longer than [MaxStringBytes]
}

// Text is one string of a corpus.
type Text struct {
	Text   string
	Label  string // its language or format, if it is one of ours
	Source int
}

// Set is a corpus. No text is in it twice.
type Set struct {
	Texts   []Text
	Sources []Source
	Passed  int // files of a folder that are not a corpus
	seen    map[string]bool
}

// Load reads a file, or the recognised files below a folder. In a folder, plain lines
// and records without a field are not a corpus unless options say so.
func Load(fsys fs.FS, name string, o Options) (Set, error) {
	set := Set{seen: map[string]bool{}}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return set, err
	}
	if !info.IsDir() {
		b, err := read(fsys, name, info)
		if err != nil {
			return set, err
		}
		found, err := Parse(b, o)
		if err != nil {
			return set, err
		}
		return set, set.add(path.Base(name), found, found.product())
	}
	var files []string
	err = fs.WalkDir(fsys, name, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != name && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if files = append(files, file); len(files) > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		return nil
	})
	if err != nil {
		return set, err
	}
	return set, set.folder(fsys, name, files, o)
}

// folder adds files. Jailbreaks and instructions of spikee in one folder are
// multiplied.
func (s *Set) folder(fsys fs.FS, root string, files []string, o Options) error {
	for i, file := range files {
		info, err := fs.Stat(fsys, file)
		if err != nil {
			return err
		}
		b, err := read(fsys, file, info)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		found, err := Parse(b, o)
		if errors.Is(err, ErrFormat) || errors.Is(err, ErrField) || o.Format == "" && found.Format == Lines {
			s.Passed++
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		texts := found.Texts
		if len(found.jailbreaks) > 0 {
			found.instructions = instructionsBeside(fsys, files, i, o)
			texts = found.product()
		}
		if err := s.add(strings.TrimPrefix(strings.TrimPrefix(file, root), "/"), found, texts); err != nil {
			return err
		}
	}
	if len(s.Sources) == 0 {
		return ErrFormat
	}
	return nil
}

// instructionsBeside are those of spikee in the folder of a file.
func instructionsBeside(fsys fs.FS, files []string, at int, o Options) (list []string) {
	for i, file := range files {
		if i == at || path.Dir(file) != path.Dir(files[at]) || path.Ext(file) != ".jsonl" {
			continue
		}
		info, err := fs.Stat(fsys, file)
		if err != nil {
			continue
		}
		if b, err := read(fsys, file, info); err == nil {
			if found, err := Parse(b, o); err == nil {
				list = append(list, found.instructions...)
			}
		}
	}
	return list
}

func read(fsys fs.FS, name string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("no file")
	}
	if info.Size() > MaxFileBytes {
		return nil, ErrTooBig
	}
	return fs.ReadFile(fsys, name)
}

// add takes the texts of one source.
func (s *Set) add(name string, found Found, texts []string) error {
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	source := Source{Name: name, Format: found.Format, Licence: licences[found.Format]}
	for _, text := range texts {
		text = strings.TrimSpace(strings.ToValidUTF8(text, "\ufffd"))
		if len(text) > MaxStringBytes {
			end := MaxStringBytes
			for !utf8.RuneStart(text[end]) {
				end--
			}
			text = text[:end]
			source.Cut++
		}
		if text == "" || s.seen[text] {
			continue
		}
		if len(s.Texts) == MaxStrings {
			return ErrTooMany
		}
		s.seen[text] = true
		s.Texts = append(s.Texts, Text{Text: text, Source: len(s.Sources)})
		source.Strings++
	}
	s.Sources = append(s.Sources, source)
	return nil
}

// Join adds the texts and sources of another set.
func (s *Set) Join(other Set) error {
	for i, source := range other.Sources {
		var texts []string
		for _, t := range other.Texts {
			if t.Source == i {
				texts = append(texts, t.Text)
			}
		}
		if err := s.add(source.Name, Found{Format: source.Format}, texts); err != nil {
			return err
		}
		s.Sources[len(s.Sources)-1].Cut = source.Cut
	}
	s.Passed += other.Passed
	return nil
}

// Found is the contents of a file.
type Found struct {
	Format Format
	Texts  []string

	jailbreaks, instructions []string // of spikee
}

// placeholder is the place of the instruction in a jailbreak of spikee.
const placeholder = "<INSTRUCTION>"

// product says each instruction in each jailbreak; without instructions, the texts.
func (f Found) product() []string {
	if len(f.jailbreaks) == 0 || len(f.instructions) == 0 {
		return f.Texts
	}
	var texts []string
	for _, jailbreak := range f.jailbreaks {
		for _, instruction := range f.instructions {
			if len(texts) > MaxStrings {
				return texts
			}
			texts = append(texts, strings.ReplaceAll(jailbreak, placeholder, instruction))
		}
	}
	return texts
}

// document is a file, parsed in every way that works.
type document struct {
	text    []byte
	whole   any   // if it is one JSON value
	records []any // if each of its lines is a JSON object, or the whole is a list of them
	yaml    any   // if it looks like known YAML
}

// Parse finds the strings of a file. It never panics.
func Parse(b []byte, o Options) (Found, error) {
	if o.Format != "" && !slices.Contains(Formats(), o.Format) {
		return Found{}, ErrFormat
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	d := document{text: b}
	if o.Format != Lines {
		d.read()
	}
	if d.yaml != nil && len(b) > maxYAMLBytes {
		return Found{}, ErrTooBig
	}
	if o.Field != "" && (o.Format == "" || o.Format == Records) {
		if found, err := byField(d, o.Field); err == nil {
			return found, nil
		}
	}
	if o.Format == Records {
		return Found{}, ErrField
	}
	for _, r := range readers {
		if o.Format != "" && o.Format != r.format {
			continue
		}
		found := Found{Format: r.format}
		r.read(d, &found)
		if len(found.Texts) > 0 {
			return found, nil
		}
	}
	if o.Field != "" && o.Format == "" {
		return Found{}, ErrField
	}
	if o.Format == "" && (d.whole != nil || d.records != nil) {
		return Found{}, fmt.Errorf("%w; records of one's own need the name of their field", ErrFormat)
	}
	if o.Format != "" && o.Format != Lines || !utf8.Valid(b) {
		return Found{}, ErrFormat
	}
	found := Found{Format: Lines}
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' {
			found.Texts = append(found.Texts, string(line))
		}
	}
	if len(found.Texts) == 0 {
		return found, ErrFormat
	}
	return found, nil
}

// read reads a file as JSON, JSON lines, or YAML.
func (d *document) read() {
	trimmed := bytes.TrimSpace(d.text)
	if len(trimmed) == 0 {
		return
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		if json.Unmarshal(trimmed, &d.whole) == nil {
			if list, ok := d.whole.([]any); ok && len(list) > 0 {
				d.records = objects(list)
			} else if object, ok := d.whole.(map[string]any); ok {
				d.records = []any{object}
			}
			return
		}
		d.whole = nil
		for line := range bytes.Lines(trimmed) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			var record map[string]any
			if json.Unmarshal(line, &record) != nil {
				d.records = nil
				break
			}
			d.records = append(d.records, record)
		}
		if d.records != nil {
			return
		}
	}
	d.yaml = readYAML(d.text)
}

// objects returns a list if it has nothing but objects.
func objects(list []any) []any {
	for _, v := range list {
		if _, ok := v.(map[string]any); !ok {
			return nil
		}
	}
	return list
}

// byField takes a field of records, or a column.
func byField(d document, field string) (Found, error) {
	found := Found{Format: Records}
	if d.records == nil && d.whole == nil {
		return column(d.text, field)
	}
	names := strings.Split(field, ".")
	for _, record := range d.records {
		collectTexts(record, names, &found.Texts)
	}
	if len(found.Texts) == 0 {
		return found, ErrField
	}
	return found, nil
}

// collectTexts collects the texts under a path; a list on the path stands for each of
// its members.
func collectTexts(v any, names []string, texts *[]string) {
	if list, ok := v.([]any); ok {
		for _, member := range list {
			collectTexts(member, names, texts)
		}
		return
	}
	if len(names) == 0 {
		if text, ok := v.(string); ok {
			*texts = append(*texts, text)
		}
		return
	}
	if object, ok := v.(map[string]any); ok {
		if next, there := object[names[0]]; there {
			collectTexts(next, names[1:], texts)
		}
	}
}

// column takes a column of CSV by its title.
func column(text []byte, title string) (Found, error) {
	found := Found{Format: Records}
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	head, err := r.Read()
	if err != nil {
		return found, ErrField
	}
	place := slices.Index(head, title)
	if place < 0 {
		return found, ErrField
	}
	for {
		row, err := r.Read()
		if err != nil {
			break // the end, or no longer CSV
		}
		if place < len(row) {
			found.Texts = append(found.Texts, strings.Clone(row[place]))
		}
	}
	if len(found.Texts) == 0 {
		return found, ErrField
	}
	return found, nil
}
