package corpus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/corpus"
)

// What is built in has the languages and the numbers that it says.
func TestBuiltIn(t *testing.T) {
	t.Parallel()
	languages, formats := map[string]int{}, map[string]int{}
	for _, text := range corpus.Injections().Texts {
		languages[text.Label]++
	}
	for _, text := range corpus.Benign().Texts {
		formats[text.Label]++
	}
	want := map[string]int{}
	for _, language := range strings.Fields("en de fr es pt it pl ru tr zh ja ar") {
		want[language] = 5
	}
	diff := cmp.Diff(want, languages)
	failIf(t, diff != "", "%v", diff)
	n := len(corpus.Benign().Texts)
	failIf(t, n != 200 || len(formats) != 9 || formats[""] > 0, "%d answers of formats %v", n, formats)
}

// No string of attackers passes category 1 or, unseen, category 3, in whatever way it is
// said; a running mesh decides as the validator did. Where a channel says flag, all arrive:
// what counts can count.
//
// covers A-XQUERY
func TestInjections(t *testing.T) {
	t.Parallel()
	report := must(corpus.Run(t.Context(), corpus.Config{Attacks: corpus.Injections(), Benign: corpus.Benign(), State: t.TempDir(), Seed: 1}))(t)
	broken := report.Broken()
	failIf(t, len(broken) > 0, "%v", broken)
	failIf(t, report.Short != 0 || len(report.Sources) != 2 || report.Played == nil || report.Played.Said < 60,
		"%+v, played %+v", report.Sources, report.Played)
	seen := map[string]bool{}
	for _, row := range report.Attacks {
		seen[fmt.Sprint(row.Category, row.OnAnomaly, row.Way)] = true
		failIf(t, row.Strings != 60 || row.Reached+row.Held+row.Refused != row.Strings || row.Low > float64(row.Reached)/60 || row.High < float64(row.Reached)/60,
			"%+v", row)
		flag := row.OnAnomaly == "flag" && row.Category == 2
		failIf(t, flag && row.Reached != 60, "where all is delivered, %d of 60 arrive %s", row.Reached, row.Way)
		failIf(t, row.Category == 3 && row.Held != 60 || row.Category == 1 && row.Refused != 60, "%+v", row)
	}
	failIf(t, len(seen) != 4*(3+4+3), "rows: %v", seen)
}

// Formats are recognised by content, and have what an attacker wrote and nothing else.
func TestFormats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		options    corpus.Options
		format     corpus.Format
		want       []string
	}{
		{"bipia", `{"Task Automation": ["do this", "do that"], "Ads": ["buy it"]}`, corpus.Options{}, corpus.BIPIA, []string{"buy it", "do this", "do that"}},
		{"agentdojo", `{"suite_name":"workspace","injections":{"email_0":"send it"},"messages":[{"role":"user","content":"sum up"},{"role":"tool","content":"mail: send it"},{"role":"tool","content":[{"type":"text","content":"more"}]}]}`, corpus.Options{}, corpus.AgentDojo, []string{"send it", "mail: send it", "more"}},
		{"injecagent", `[{"User Tool":"x","Attacker Instruction":"unlock it","Tool Response":"{'a': 'unlock it'}"}]`, corpus.Options{}, corpus.InjecAgent, []string{"unlock it", "{'a': 'unlock it'}"}},
		{"garak payloads", `{"garak_payload_name":"n","payload_types":["x"],"payloads":["one","two"]}`, corpus.Options{}, corpus.Garak, []string{"one", "two"}},
		{"garak report", "{\"entry_type\":\"init\"}\n{\"entry_type\":\"attempt\",\"prompt\":\"old\",\"outputs\":[\"no\"]}\n{\"entry_type\":\"attempt\",\"prompt\":{\"turns\":[{\"role\":\"user\",\"content\":{\"text\":\"new\"}},{\"role\":\"assistant\",\"content\":{\"text\":\"no\"}}]}}\n{\"entry_type\":\"eval\",\"probe\":\"p\"}\n", corpus.Options{}, corpus.Garak, []string{"old", "new"}},
		{"garak hit log", "{\"goal\":\"g\",\"prompt\":\"hit\",\"output\":\"no\",\"probe\":\"p\",\"generator\":\"x\"}\n", corpus.Options{}, corpus.Garak, []string{"hit"}},
		{"spikee set", "{\"id\":1,\"long_id\":\"a\",\"text\":\"sum up: x\",\"judge_name\":\"canary\"}\n", corpus.Options{}, corpus.Spikee, []string{"sum up: x"}},
		{"pyrit", "name: n\nprompts:\n  - value: |\n      first line\n      second line\n    harm_categories: [x]\n  - value: \"two\"\n", corpus.Options{}, corpus.PyRIT, []string{"first line\nsecond line", "two"}},
		{"promptfoo", "description: d\ntests:\n  - vars:\n      name: Ann\n      said: [one, two]\n    assert:\n      - {type: contains, value: no}\n", corpus.Options{}, corpus.Promptfoo, []string{"Ann", "one", "two"}},
		{"a field of others", `{"a":["x"]}`, corpus.Options{Field: "body"}, corpus.BIPIA, []string{"x"}},
		{"json lines by field", "{\"a\":{\"b\":\"x\"}}\n{\"a\":[{\"b\":\"y\"},{\"b\":\"z\"}]}\n{\"c\":1}\n", corpus.Options{Field: "a.b"}, corpus.Records, []string{"x", "y", "z"}},
		{"csv by column", "id,text\n1,\"a, b\"\n2,c\n", corpus.Options{Field: "text"}, corpus.Records, []string{"a, b", "c"}},
		{"lines", "# comment\n\none\r\n  two  \nno: yaml\n", corpus.Options{}, corpus.Lines, []string{"one", "two", "no: yaml"}},
		{"json as lines", "{\"a\":1}\n", corpus.Options{Format: corpus.Lines}, corpus.Lines, []string{"{\"a\":1}"}},
		{"mark of the order of bytes", "\ufeff{\"garak_payload_name\":\"n\",\"payloads\":[\"one\"]}", corpus.Options{}, corpus.Garak, []string{"one"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			set := must(corpus.Load(fstest.MapFS{"f": {Data: []byte(test.text)}}, "f", test.options))(t)
			var got []string
			for _, text := range set.Texts {
				got = append(got, text.Text)
			}
			diff := cmp.Diff(test.want, got)
			failIf(t, diff != "" || set.Sources[0].Format != test.format, "%s: %s", set.Sources[0].Format, diff)
		})
	}
}

func TestWhatIsNoCorpus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		options    corpus.Options
		want       error
	}{
		{"nothing", "", corpus.Options{}, corpus.ErrFormat},
		{"records without a field", `[{"a":"b"}]`, corpus.Options{}, corpus.ErrFormat},
		{"another field", `[{"a":"b"}]`, corpus.Options{Field: "c"}, corpus.ErrField},
		{"a field that is no text", `[{"a":1}]`, corpus.Options{Field: "a"}, corpus.ErrField},
		{"another format", "one\n", corpus.Options{Format: corpus.BIPIA}, corpus.ErrFormat},
		{"a format that is none", "one\n", corpus.Options{Format: "csv"}, corpus.ErrFormat},
		{"records without saying which", "{\"a\":1}\n", corpus.Options{Format: corpus.Records}, corpus.ErrField},
		{"bytes", "\xff\xfe\x00", corpus.Options{}, corpus.ErrFormat},
		{"a category of no strings", `{"a":["x"],"b":[1]}`, corpus.Options{}, corpus.ErrFormat},
		{"YAML that is too long", "prompts:\n" + strings.Repeat("#", 4<<20), corpus.Options{}, corpus.ErrTooBig},
		{"YAML that is too deep", "prompts: " + strings.Repeat("[", 5000), corpus.Options{Format: corpus.PyRIT}, corpus.ErrFormat},
	}
	for _, test := range tests {
		found, err := corpus.Parse([]byte(test.text), test.options)
		failIf(t, !errors.Is(err, test.want), "%s: %v, %.100v", test.name, err, found)
	}
}

// A folder is read for what is recognised; what spikee multiplies is multiplied; a string
// that was there counts once.
func TestFolder(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"c/attacks.json":             {Data: []byte(`{"a":["one","two"]}`)},
		"c/deep/again.json":          {Data: []byte(`{"a":["two","three"]}`)},
		"c/README.md":                {Data: []byte("lines\n")},
		"c/context.jsonl":            {Data: []byte("{\"context\":\"x\"}\n")},
		"c/.git/x.json":              {Data: []byte(`{"a":["hidden"]}`)},
		"c/seeds/jailbreaks.jsonl":   {Data: []byte("{\"id\":1,\"jailbreak_type\":\"new\",\"text\":\"obey: <INSTRUCTION>!\"}\n{\"id\":2,\"jailbreak_type\":\"dev\",\"text\":\"now <INSTRUCTION>\"}\n")},
		"c/seeds/instructions.jsonl": {Data: []byte("{\"id\":1,\"instruction_type\":\"x\",\"instruction\":\"pay\"}\n{\"id\":2,\"instruction_type\":\"x\",\"instruction\":\"tell\"}\n")},
	}
	set := must(corpus.Load(files, "c", corpus.Options{}))(t)
	got := map[string]bool{}
	for _, text := range set.Texts {
		got[text.Text] = true
	}
	want := map[string]bool{}
	for _, text := range []string{"one", "two", "three", "pay", "tell", "obey: pay!", "obey: tell!", "now pay", "now tell"} {
		want[text] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || set.Passed != 2 || len(set.Sources) != 4 || set.Sources[1].Strings != 1 {
		t.Errorf("%s\n%+v, passed over %d", diff, set.Sources, set.Passed)
	}
	_, err := corpus.Load(fstest.MapFS{"c/a.txt": {Data: []byte("x\n")}}, "c", corpus.Options{})
	failIf(t, !errors.Is(err, corpus.ErrFormat), "a folder of lines: %v", err)
}

// The longest string is whole and a longer one is cut, on a border of letters.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", corpus.MaxStringBytes/2)
	set, err := corpus.Load(fstest.MapFS{"f": {Data: []byte(long + "\n" + "x" + long + "\n")}}, "f", corpus.Options{})
	failIf(t, err != nil || set.Sources[0].Cut != 1 || set.Texts[0].Text != long || len(set.Texts[1].Text) != corpus.MaxStringBytes-1,
		"%v, %+v", err, set.Sources)
}

// No file makes a loader panic, and what it finds stays within the file's size.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":["b"]}`, `{"injections":{"a":"b"},"messages":[{"role":"tool","content":[{"text":"c"}]}]}`, `[{"Attacker Instruction":"a"}]`,
		`{"garak_payload_name":"a","payloads":["b"]}`, "{\"entry_type\":\"attempt\",\"prompt\":{\"turns\":[]}}\n", "{\"text\":\"a <INSTRUCTION>\"}\n",
		"prompts:\n  - value: |\n      a\n", "tests:\n  - vars: {a: b}\n", "a,b\n\"c\nd\",e\n", "- vars:\n    - &a [*a]\n",
	} {
		f.Add([]byte(seed), "a.b")
		f.Add([]byte(seed), "")
	}
	f.Fuzz(func(t *testing.T, b []byte, field string) {
		for _, format := range append(corpus.Formats(), "") {
			found, err := corpus.Parse(b, corpus.Options{Format: format, Field: field})
			size := 0
			for _, text := range found.Texts {
				size += len(text)
			}
			// A byte that is no UTF-8 becomes three.
			failIf(t, err == nil && (len(found.Texts) == 0 || size > 3*len(b)),
				"%s: %d bytes of %d: %q", format, size, len(b), found.Texts)
		}
	})
}

var failIf = bcptest.FailIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
