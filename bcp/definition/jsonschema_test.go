package definition_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// compiledSchemas are the JSON Schemas of the levels, checked against their meta-schema.
func compiledSchemas(t *testing.T) map[*definition.Level]*jsonschema.Schema {
	t.Helper()
	compiled := map[*definition.Level]*jsonschema.Schema{}
	for _, level := range []*definition.Level{definition.LevelMesh, definition.LevelAgent, definition.LevelService} {
		compiler := jsonschema.NewCompiler()
		noError(t, compiler.AddResource("schema.json", must(jsonschema.UnmarshalJSON(strings.NewReader(jsonSchema(level))))))
		compiled[level] = must(compiler.Compile("schema.json"))
	}
	return compiled
}

// folderIn reads the definitions in a folder.
func folderIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	folder := map[string][]byte{}
	for _, pattern := range []string{"mesh.yaml", "agents/*.md", "tools/*.yaml"} {
		for _, name := range must(fs.Glob(os.DirFS(dir), pattern)) {
			folder[name] = []byte(readFile(dir + "/" + name))
		}
	}
	return folder
}

// instance reads YAML as an editor does.
func instance(t *testing.T, text string) any {
	t.Helper()
	var document yaml.Node
	noError(t, yaml.Load([]byte(text), &document))
	var untimed func(n *yaml.Node) // a date is text
	untimed = func(n *yaml.Node) {
		if n.Tag == "!!timestamp" {
			n.Tag = "!!str"
		}
		for _, inner := range n.Content {
			untimed(inner)
		}
	}
	untimed(&document)
	var value any
	noError(t, document.Decode(&value))
	return value
}

// yamlOf returns the YAML of a definition file and its level.
func yamlOf(name string, content []byte) (string, *definition.Level) {
	if path.Dir(name) == "tools" {
		return string(content), definition.LevelService
	}
	if path.Ext(name) == ".yaml" {
		return string(content), definition.LevelMesh
	}
	front, _, _ := strings.Cut(strings.TrimPrefix(string(content), "---\n"), "\n---")
	return front + "\n", definition.LevelAgent
}

// refusals returns the places that a schema refuses, as the loader names them.
func refusals(t *testing.T, s *jsonschema.Schema, text string) []string {
	t.Helper()
	err := s.Validate(instance(t, text))
	if err == nil {
		return nil
	}
	var top *jsonschema.ValidationError
	stopIf(t, !errors.As(err, &top), "%v", err)
	var places []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				walk(cause)
			}
			return
		}
		place := ""
		for _, part := range e.InstanceLocation {
			if _, err := strconv.Atoi(part); err == nil {
				place += "[" + part + "]"
			} else {
				place = strings.TrimPrefix(place+"."+part, ".")
			}
		}
		places = append(places, place)
	}
	walk(top)
	return places
}

// What loads fits the schemas: the seed's examples, those that init writes and
// those of the reference.
//
// covers P1.2, P1.3, SUB-118
func TestJSONSchemaAcceptsWhatLoads(t *testing.T) {
	t.Parallel()
	folders := examplesIn(t)
	for _, dir := range []string{"testdata/seed", "../../cmd/bcpmesh/internal/define/meshes/research", "../../cmd/bcpmesh/internal/define/meshes/mailroom"} {
		folders[dir] = folderIn(t, dir)
	}
	schemas := compiledSchemas(t)
	for folder, contents := range folders {
		mesh, report := definition.Parse(contents)
		failIf(t, mesh == nil || len(mesh.Agents) < 2, "%s does not load: %v", folder, report.Errors)
		for name, content := range contents {
			text, level := yamlOf(name, content)
			expect(t, schemas[level].Validate(instance(t, text)), nil, "%s: %s", folder, name)
		}
	}
}

// Whole files that an editor must mark, at the place that check names.
//
// covers P1.2, P1.3, P1.4, SUB-21
func TestJSONSchemaRefuses(t *testing.T) {
	t.Parallel()
	const channel = "name: a\nbcp_channels:\n- peer: b\n  role: controller\n  max_category: 2\n  budget_bits: 10\n"
	const subscription = channel + "  subscriptions:\n  - id: s\n    category: 1\n"
	tests := []struct {
		level      *definition.Level
		text, want string
	}{
		{definition.LevelMesh, "nam: x\n", ""},
		{definition.LevelMesh, "- a\n", ""},
		{definition.LevelMesh, "name:\n", "name"},
		{definition.LevelMesh, "bcp_channels: []\n", ""},
		{definition.LevelAgent, "description: no name\n", ""},
		{definition.LevelAgent, "name: a\nreplicas: 1\n", ""},
		{definition.LevelAgent, "name: a\nbcp_channels: [r]\n", "bcp_channels[0]"},
		{definition.LevelAgent, "name: a\nbcp_channels: [{peer: r}]\n", "bcp_channels[0]"},
		{definition.LevelAgent, "name: a\nbcp_channels: [{role: reader}]\n", "bcp_channels[0]"},
		{definition.LevelAgent, channel + "  on_anomly: flag\n", "bcp_channels[0]"},
		{definition.LevelAgent, subscription + "    max_rate: 1\n", "bcp_channels[0].subscriptions[0].max_rate"},
		{definition.LevelAgent, subscription + "    fields: [{name: f, type: string}]\n", "bcp_channels[0].subscriptions[0].fields[0].type"},
		{definition.LevelAgent, subscription + "    fields: [{name: f, type: boolean, optional: true}]\n", "bcp_channels[0].subscriptions[0].fields[0]"},
		{definition.LevelAgent, subscription + "    questions: [{id: q, question: What?, expected_format: summary}]\n", "bcp_channels[0].subscriptions[0].questions[0].expected_format"},
		{definition.LevelAgent, "name: a\ncron_schedules: [{schedule: 0 * * * *}]\n", "cron_schedules[0]"},
	}
	schemas := compiledSchemas(t)
	for _, tt := range tests {
		got := refusals(t, schemas[tt.level], tt.text)
		failIf(t, !slices.Contains(got, tt.want), "%q: refused at %q, want %q", tt.text, got, tt.want)
		file, text := "mesh.yaml", tt.text
		if tt.level == definition.LevelAgent {
			file, text = "agents/a.md", "---\n"+text+"---\n"
		}
		contents := files("agents/r.md", "---\nname: r\n---\n")
		contents[file] = []byte(text)
		mesh, _ := definition.Parse(contents)
		failIf(t, mesh != nil, "%q loads", tt.text)
	}
}

// The loader takes the values of every key at a limit, and none past it, of another type or
// of another form, which it says at its place; the schemas take all that loads.
//
// covers P1.1, P1.2, P1.3, ALF-30, ALF-31
func TestKeysTakeTheirValues(t *testing.T) {
	t.Parallel()
	schemas := compiledSchemas(t)
	checked := 0
	for _, k := range definition.Schema() {
		good, bad := candidates(k)
		for i, value := range append(good, bad...) {
			want := i < len(good)
			root, text, at := around(k.Level, k.Name+": "+value, k.Name)
			text += "\n"
			here := func(place string) bool {
				return place == at || strings.HasPrefix(place, at+"[") || strings.HasPrefix(place, at+".")
			}
			s, contents := schemas[root], files("agents/a.md", "---\n"+text+"---\n")
			switch root {
			case definition.LevelMesh:
				contents = files("mesh.yaml", text)
			case definition.LevelService:
				contents = files("tools/a.yaml", text)
			}
			if want && slices.ContainsFunc(refusals(t, s, text), here) {
				t.Errorf("%.80q: refused by the schema at %q", text, refusals(t, s, text))
			}
			_, report := definition.Parse(contents)
			loads := !slices.ContainsFunc(report.Errors, func(p definition.Problem) bool {
				// Some errors depend on more than the key.
				// That a text is a URL is for the loader to say.
				if k.Level == definition.LevelModel && k.Name == "base_url" && p.Code == definition.CodeBadValue {
					return false
				}
				return here(p.Key) && (p.Code != definition.CodeMissingKey || p.Key != at) && p.Code != definition.CodeUnknownPerson && p.Code != definition.CodeUnknownList && p.Code != definition.CodeReleaseInterval
			})
			failIf(t, loads != want, "%.80q: loads: %v, %v", text, loads, report.Errors)
			if begins := strings.Index(text, k.Name+": "+value) + len(k.Name+": ") + 1; !want && !slices.ContainsFunc(report.Errors, func(p definition.Problem) bool {
				return here(p.Key) && p.Column >= begins && p.Column < begins+max(1, len(value))
			}) {
				t.Errorf("%.80q: no error at column %d: %v", text, begins, report.Errors)
			}
			checked++
		}
	}
	failIf(t, checked < 400, "%d values", checked)
}

// around puts text into a mapping of a level, and returns the file's level and the path of its keys.
func around(level *definition.Level, text, path string) (root *definition.Level, whole, at string) {
	for _, k := range definition.Schema() {
		switch {
		case k.Child != level:
			continue
		case k.Type == definition.TypeObjects:
			return around(k.Level, k.Name+": [{"+text+"}]", k.Name+"[0]."+path)
		case k.Type == definition.TypeNamedObjects:
			return around(k.Level, k.Name+": {s: {"+text+"}}", k.Name+".s."+path)
		default:
			return around(k.Level, k.Name+": {"+text+"}", k.Name+"."+path)
		}
	}
	return level, text, path
}

// candidates returns YAML values that a key takes and that it refuses.
func candidates(k definition.Key) (good, bad []string) {
	text := func(n int64) string { return strconv.Quote(strings.Repeat("a", int(n))) }
	list := func(n int64, item string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = strings.ReplaceAll(item, "#", strconv.Itoa(i))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	bad = []string{"null", "{x: 1}"}
	if k.Type != definition.TypeWord {
		good = append(good, k.Words...)
	}
	if len(k.Words) > 0 {
		bad = append(bad, "nope", strings.ToUpper(k.Words[0]))
	}
	lists := func(item string) {
		good = append(good, list(k.Min, item), list(k.Max, item))
		bad = append(bad, list(k.Max+1, item), "[7]", "7")
		if k.Min > 0 {
			bad = append(bad, list(k.Min-1, item))
		}
	}
	switch k.Type {
	case definition.TypeWord:
		good = append(good, k.Words...)
		bad = append(bad, "7", "true")
	case definition.TypeText:
		good = append(good, text(k.Min), text(k.Max), strconv.Quote(strings.Repeat("ä", int(k.Max))))
		bad = append(bad, text(k.Max+1), "7", "true", "[a]")
		if k.Min > 0 {
			bad = append(bad, text(k.Min-1))
		}
	case definition.TypeName:
		good = append(good, "a", "0-a-", text(63))
		bad = append(bad, text(64), `""`, "A", "-a", "a_b", "ä", "gateway", "7")
	case definition.TypeSubscription:
		good = append(good, "a", "-A0", text(64))
		bad = append(bad, text(65), `""`, "a_b", "ä", "7")
	case definition.TypeInteger:
		good = append(good, whole(k.Min), whole(k.Max))
		bad = append(bad, "1.5", "1.0", "0x1", "01", "+1", "1_0", "1e0", ".inf", "99999999999999999999", "9223372036854775808", `"1"`, "true", "x")
		if k.Min != 0 || k.Max != 0 {
			bad = append(bad, whole(k.Min-1), whole(k.Max+1))
		}
	case definition.TypeBoolean:
		good = append(good, "true", "false")
		bad = append(bad, `"true"`, "1", "yes")
	case definition.TypeBits, definition.TypeUSD:
		good = append(good, whole(k.Min), whole(k.Min)+".5", whole(k.Max))
		bad = append(bad, whole(k.Min-1), whole(k.Max+1), whole(k.Max)+".5", `"5"`, "0.0000000001", "1e3", ".nan", "x")
	case definition.TypeDuration:
		good = append(good, whole(k.Min)+"s", whole(k.Max)+"s", "0d0h0m"+whole(k.Max)+"s", whole(k.Max/3600)+"h"+whole(k.Max%3600)+"s")
		bad = append(bad, `""`, "30", "soon", "1m1h", "1.5h", "1h 1m", "-1s", "1w", whole(k.Min-1)+"s", whole(k.Max+1)+"s", "99999999999999999999d")
	case definition.TypeRate:
		good = append(good, whole(k.Min)+"/m", whole(k.Max)+"/m", "1/s")
		bad = append(bad, "30", "30/h", "/m", "1.5/m", `""`, "1/m/s", "1234567890/m", whole(k.Min-1)+"/m", whole(k.Max+1)+"/m", whole(k.Max/60+1)+"/s")
	case definition.TypePushRate:
		good = append(good, "1/s", "2/m", "1/h", "10/d", whole(k.Max)+"/d")
		bad = append(bad, "1", "0/h", "01/h", "1/w", "/h", "1.5/h", "-1/h", "1/h/h", `""`, "12345/h", "1 /h", whole(k.Max+1)+"/d")
	case definition.TypeTimeZone:
		good = append(good, "UTC", "Europe/Berlin")
		bad = append(bad, `""`, "Local", "Mars/Olympus", "../UTC", "7")
	case definition.TypeCron:
		good = append(good, `"0 8 * * 1-5"`, `"*/5 0,12 1 JAN mon"`)
		bad = append(bad, `"0 * * *"`, `"0 0 * * * *"`, `"@daily"`, `"TZ=UTC 0 * * * *"`, `"60 * * * *"`, `""`, "7")
	case definition.TypeTexts:
		lists("v#")
		bad = append(bad, "text")
	case definition.TypeHosts:
		lists("h#.test")
		good = append(good, "a.test, b.test:8443", `["*.a.test", "[2606:4700::1]:80", 8.8.8.8]`, "intranet:8080", "[A.test]")
		bad = append(bad, `""`, "[a.test, a.test]", `[""]`, "7", "[a.test, 'http://b.test']", "['127.1']", "['*.test']", "None", "intranet", "[outbound]", "[none, a.test]", "everything and more")
	case definition.TypePrefixes:
		lists("10.#.0.0/16")
		good = append(good, `["64:ff9b::/96"]`, "[10.0.0.0/8]", "['fd00::/8']")
		bad = append(bad, "10.0.0.0/8", "[10.0.0.0/8, 10.0.0.0/8]", `[""]`, "[7]", "[10.0.0.0/7]", "[0.0.0.0/0]", "['::/0']", "[10.1.2.3/16]", "[10.0.0.0]", "['10.0.0.0/08']", "['::ffff:10.0.0.0/104']")
	case definition.TypeBytes:
		good = append(good, "4MiB", "64MiB", "2GiB", "1TiB", "4096KiB")
		bad = append(bad, "64", "64MB", "MiB", "1.5MiB", `""`, "1234567890KiB", "4095KiB", "1025GiB")
	case definition.TypeSecretName:
		good = append(good, "env:A", "env:_A_9", "file:hook.url", `"file:/etc/a b"`)
		bad = append(bad, `""`, "https://example.org/hook", `"env:"`, "env:9", `"file:"`, "env:A B", "7")
	case definition.TypeKeyPlace:
		good = append(good, "env:A", "file:a b", `"command:pass show x"`)
		bad = append(bad, `""`, "sk-1", `"env:"`, "env:9", `"command:"`, "7")
	case definition.TypeVariables:
		lists("V_#")
		bad = append(bad, "[BCPMESH_CREDS]", "[A B]", `[""]`, "V")
	case definition.TypeServer:
		good = append(good, "smtp.example.org:587", "127.0.0.1:25", `"[::1]:25"`)
		bad = append(bad, `""`, "smtp.example.org", "https://smtp.example.org:25", "a b:25", "a:1234567")
	case definition.TypeOrigin:
		good = append(good, "https://mesh.example.org", "https://mesh.example.org:8443", "http://localhost:4280")
		bad = append(bad, `""`, "mesh.example.org", "http://mesh.example.org", "https://", "https://mesh.example.org/", "https://kim@mesh.example.org", "https://mesh.example.org:0", "https://mesh.example.org:123456", "http://localhost.example.org", "javascript:alert(1)", `"https://a b"`, `"https://mesh.example.org:"`)
	case definition.TypeMailAddress:
		good = append(good, "desk@example.org", "a+b@x")
		bad = append(bad, `""`, "desk", "a b@x", `"a@x\nBcc: b@x"`, "Desk <desk@example.org>")
	case definition.TypeOrganisation:
		good = append(good, "org1.example", "a", "x-1.b2", strings.Repeat("a.", 126)+"b")
		bad = append(bad, `""`, "Org1.example", "a..b", "-a", "a-", "a b", "org1.example.", strings.Repeat("a.", 126)+"bc", strings.Repeat("a", 64))
	case definition.TypeMailAddresses:
		lists("v#@x")
		bad = append(bad, "[v]", "[v@x, v@x]", "v@x")
	case definition.TypeChoices:
		good = append(good, "["+strings.Join(k.Words, ", ")+"]", "["+k.Words[0]+"]")
		bad = append(bad, "[]", "[nope]", "[7]", "["+k.Words[0]+", "+k.Words[0]+"]")
	case definition.TypeTools:
		lists("v#")
		good = append(good, "Read, Write", "["+text(128)+"]")
		bad = append(bad, `""`, "["+text(129)+"]", `[""]`, "[a, a]")
	case definition.TypeNames:
		lists("v#")
		bad = append(bad, "[A]", "[gateway]", "[v, v]", "text")
	case definition.TypeWordLists:
		good = append(good, "{}", "{x: [a, b]}", "{A_-0: [a]}", "{x: ["+strings.Repeat("é", 24)+"]}")
		bad = append(bad, "[a]", "{x: []}", "{x: a}", "{x: [7]}", `{"x y": [a]}`, `{x: [""]}`, "{x: [a b]}", "{x: [a.b]}", "{x: [a--b]}", "{x: ["+strings.Repeat("é", 25)+"]}")
		if k.Max > 0 {
			var lists []string
			for i := range k.Max + 1 {
				lists = append(lists, fmt.Sprintf("l%d: [a]", i))
			}
			good = append(good, "{"+strings.Join(lists[:k.Max], ", ")+"}")
			bad = append(bad, "{"+strings.Join(lists, ", ")+"}")
		}
	case definition.TypeNameLists, definition.TypeNamedObjects:
		bad = append(bad, "[a]", "7", `{"x y": [a]}`)
		if k.Type == definition.TypeNameLists {
			good = append(good, "{x: []}", "{x: [a, b], A_-0: [a]}")
			bad = append(bad, "{x: a}", "{x: [7]}", "{x: [a, a]}", "{x: "+list(257, "c#")+"}")
		}
		if k.Min > 0 {
			bad = append(bad, "{}")
		} else {
			good = append(good, "{}")
		}
	case definition.TypeObject:
		bad = append(bad, "[a]", "7", "text")
	case definition.TypeClosed:
		good = append(good, "{type: boolean}", "{enum: [a, b]}", "{type: object, properties: {x: {type: string, maxLength: 5}}}")
		bad = append(bad, "[a]", "7", "text", "{maxItems: 7}")
	case definition.TypeCalls:
		good = append(good, "[{}]", "[{args: {to: kim, n: 12.5, list: [a, true]}}]")
		bad = append(bad, "[]", "[7]", "{}", list(k.Max+1, "{}"))
	case definition.TypeObjects:
		bad = append(bad, list(k.Max+1, "{}"), "[7]", "text")
		if k.Min > 0 {
			bad = append(bad, list(k.Min-1, "{}"))
		} else {
			good = append(good, "[]")
		}
	}
	return good, bad
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
