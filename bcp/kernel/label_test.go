package kernel_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// fataler is a test of Go, or of rapid.
type fataler = bcptest.TB

func mustLabel(t fataler, s string) kernel.Label {
	t.Helper()
	var l kernel.Label
	err := l.UnmarshalJSON([]byte(s))
	stopIf(t, err != nil, "%s: %v", s, err)
	return l
}

func spelled(l kernel.Label) string {
	b, _ := l.MarshalJSON()
	return string(b)
}

// modelLabel is a label as the page defines it: sets, and a map of influence.
type modelLabel struct {
	sources, subjects, readers map[string]bool // readers nil: anything
	influence                  map[string]int  // -1: unbounded
}

func drawModel(t *rapid.T) modelLabel {
	set := func(name string, of ...string) map[string]bool {
		s := map[string]bool{}
		for _, one := range of {
			if rapid.Bool().Draw(t, name+one) {
				s[one] = true
			}
		}
		return s
	}
	m := modelLabel{sources: set("source ", "user_query", "tool_read", "q_llm", "derived"), subjects: set("subject ", "user", "third_party"), influence: map[string]int{}}
	if rapid.Bool().Draw(t, "limited") {
		m.readers = set("reader ", "kim@example.org", "x", "y", "z")
	}
	origins := []string{"p", "p.u", "p.v", "p.u.w", "p1", "d/p", "d/p.u", "p-x", "q"}
	for range rapid.IntRange(0, 4).Draw(t, "origins") {
		o := rapid.SampledFrom(origins).Draw(t, "origin")
		m.influence[o] = rapid.SampledFrom([]int{0, 1, 2, 7, -1}).Draw(t, "bits")
	}
	m.influence = withoutParts(m.influence)
	return m
}

// withoutParts drops every origin that is a part of another.
func withoutParts(influence map[string]int) map[string]int {
	kept := maps.Clone(influence)
	maps.DeleteFunc(kept, func(o string, _ int) bool {
		for other := range influence {
			if strings.HasPrefix(o, other+".") {
				return true
			}
		}
		return false
	})
	return kept
}

func (m modelLabel) join(o modelLabel) modelLabel {
	union := func(a, b map[string]bool) map[string]bool {
		u := maps.Clone(a)
		maps.Copy(u, b)
		return u
	}
	j := modelLabel{sources: union(m.sources, o.sources), subjects: union(m.subjects, o.subjects), readers: m.readers, influence: maps.Clone(m.influence)}
	j.sources["derived"] = true
	switch {
	case m.readers == nil:
		j.readers = o.readers
	case o.readers != nil:
		j.readers = maps.Clone(m.readers)
		maps.DeleteFunc(j.readers, func(r string, _ bool) bool { return !o.readers[r] })
	}
	for origin, bits := range o.influence {
		before, known := j.influence[origin]
		if !known || bits < 0 || before >= 0 && bits > before {
			j.influence[origin] = bits
		}
	}
	j.influence = withoutParts(j.influence)
	return j
}

func (m modelLabel) json() string {
	list := func(set map[string]bool) string {
		if set == nil {
			return "null"
		}
		words := slices.Sorted(maps.Keys(set))
		for i := range words {
			words[i] = fmt.Sprintf("%q", words[i])
		}
		return "[" + strings.Join(words, ",") + "]"
	}
	var influence []string
	for _, origin := range slices.Sorted(maps.Keys(m.influence)) {
		bits := fmt.Sprint(m.influence[origin])
		if bits == "-1" {
			bits = `"unbounded"`
		}
		influence = append(influence, fmt.Sprintf("%q:%s", origin, bits))
	}
	return fmt.Sprintf(`{"influence":{%s},"readers":%s,"sources":%s,"subjects":%s}`, strings.Join(influence, ","), list(m.readers), list(m.sources), list(m.subjects))
}

// The join is what the definition says: unions, an intersection in which anything is
// neutral, the greatest influence of each origin without those that are parts.
// covers KER-36, KER-37, KER-38, KER-39, KER-51, KER-52, KER-89, KER-90, KER-91, KER-92, C-25
func TestJoinIsItsDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawModel(t), drawModel(t), drawModel(t)
		la, lb, lc := mustLabel(t, a.json()), mustLabel(t, b.json()), mustLabel(t, c.json())
		if got, want := spelled(kernel.Join(la, lb)), a.join(b).json(); got != want {
			t.Fatalf("%s and %s:\ngot  %s\nwant %s", a.json(), b.json(), got, want)
		}
		got := spelled(kernel.Join(lb, la))
		stopIf(t, got != spelled(kernel.Join(la, lb)), "not commutative: %s", got)
		x, y := spelled(kernel.Join(kernel.Join(la, lb), lc)), spelled(kernel.Join(la, kernel.Join(lb, lc)))
		stopIf(t, x != y, "not associative: %s, %s", x, y)
		got = spelled(kernel.Join(la))
		stopIf(t, got != a.json(), "the join of one is another: %s", got)
		// Taint only grows, and nothing that one may not read, the other may.
		j := kernel.Join(la, lb)
		if (la.Tainted() && la.Sources&kernel.UserQuery != 0) && !j.Tainted() || la.ThirdParty() && !j.ThirdParty() || j.Width() < la.Width() && !anyParts(a, b) {
			t.Fatalf("%s and %s: the join is less: %s", a.json(), b.json(), spelled(j))
		}
		for _, r := range []kernel.Capability{"kim@example.org", "x", "y", "z"} {
			if j.Readers.Admit(caps(r)) && !(la.Readers.Admit(caps(r)) && lb.Readers.Admit(caps(r))) {
				t.Fatalf("%s and %s: %s may read the join", a.json(), b.json(), r)
			}
		}
	})
}

// anyParts reports whether the join drops an origin as a part.
func anyParts(a, b modelLabel) bool {
	all := maps.Clone(a.influence)
	maps.Copy(all, b.influence)
	return len(withoutParts(all)) < len(all)
}

func TestLabelZeroDenies(t *testing.T) {
	t.Parallel()
	var l kernel.Label
	failIf(t, !l.Tainted() || l.Readers.Admit(caps("x")) || l.Parsers.Admit(caps("x")),
		"the zero label is trusted: %s", spelled(l))
	l = kernel.Join()
	failIf(t, !l.Tainted(), "the join of nothing is trusted")
	l = kernel.Join(kernel.Trusted(), kernel.Trusted())
	failIf(t, l.Tainted() || l.Sources&kernel.Derived == 0, "a join of trusted values is tainted, or is not marked as one")
}

// What a tool returns.
// covers KER-11, KER-20, KER-45, KER-54, KER-93, C-24
func TestResultLabels(t *testing.T) {
	t.Parallel()
	const trusted = `{"influence":{},"readers":null,"sources":["user_query"],"subjects":[]}`
	answer := `{"influence":{"a":1},"readers":["x"],"sources":["q_llm","user_query"],"subjects":["third_party"]}`
	mine := kernel.Tool{Name: "t", Level: kernel.Read, Output: mustType(`{"type":"boolean"}`), Readers: caps("x", "y"), Subjects: kernel.SubjectUser}
	with := func(change func(*kernel.Tool)) *kernel.Tool {
		tool := mine
		change(&tool)
		return &tool
	}
	for _, c := range []struct {
		name       string
		tool       *kernel.Tool
		args, want string
	}{
		{"a read", &mine, trusted, `{"influence":{"s":1},"readers":["x","y"],"sources":["tool_read","user_query"],"subjects":["user"]}`},
		{"a write reads, too", with(func(t *kernel.Tool) { t.Level = kernel.Write }), trusted, `{"influence":{"s":1},"readers":["x","y"],"sources":["tool_read","user_query"],"subjects":["user"]}`},
		{"nothing may read it by default", with(func(t *kernel.Tool) { t.Readers = nil }), trusted, `{"influence":{"s":1},"readers":[],"sources":["tool_read","user_query"],"subjects":["user"]}`},
		{"readers are never more than those of the arguments", &mine, answer, `{"influence":{"s":1},"readers":["x"],"sources":["q_llm","tool_read","user_query"],"subjects":["third_party","user"]}`},
		{"a pure tool passes through", with(func(t *kernel.Tool) { t.Level = kernel.Pure }), answer, `{"influence":{"a":1},"readers":["x"],"sources":["q_llm","user_query"],"subjects":["third_party","user"]}`},
		{"a trusted one as well", with(func(t *kernel.Tool) { t.Trusted = true }), trusted, `{"influence":{},"readers":null,"sources":["user_query"],"subjects":["user"]}`},
		{"a trusted one washes nothing", with(func(t *kernel.Tool) { t.Trusted = true }), answer, `{"influence":{"a":1},"readers":["x"],"sources":["q_llm","user_query"],"subjects":["third_party","user"]}`},
		{"a text has no bound", with(func(t *kernel.Tool) { t.Output = mustType(`{"type":"string"}`) }), trusted, `{"influence":{"s":"unbounded"},"readers":["x","y"],"sources":["tool_read","user_query"],"subjects":["user"]}`},
		{"what only some may parse", with(func(t *kernel.Tool) { t.Parsers = []string{"local"} }), trusted, `{"influence":{"s":1},"parsers":["local"],"readers":["x","y"],"sources":["tool_read","user_query"],"subjects":["user"]}`},
	} {
		expect(t, spelled(c.tool.ResultLabel(mustLabel(t, c.args), "s")), c.want, "%s", c.name)
	}
	k := mustKernel(t, nil)
	got, ok := k.ParseLabel("Slot", mustLabel(t, `{"influence":{"a":1,"b":9},"readers":["x"],"sources":["tool_read"],"subjects":["third_party"]}`), "p")
	want := `{"influence":{"p":6},"readers":["x"],"sources":["q_llm","tool_read"],"subjects":["third_party"]}`
	failIf(t, !ok || spelled(got) != want, "a parse:\ngot  %s\nwant %s", spelled(got), want)
	_, ok = k.ParseLabel("Else", kernel.Trusted(), "p")
	failIf(t, ok, "a schema that is not there has a label")
}

// How many bits a type can carry: the logarithm of the number of its values, rounded
// up once for the whole.
func TestWidths(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]kernel.Width{
		`{"type":"boolean"}`: 1, `{"type":"boolean","nullable":true}`: 2, `{"enum":["a"]}`: 0, `{"enum":["a"],"nullable":true}`: 1,
		`{"enum":["a","b"]}`: 1, `{"enum":["a","b","c"]}`: 2, `{"enum":["a","b","c","d"]}`: 2, `{"enum":["a","b","c","d","e"]}`: 3,
		`{"type":"integer"}`: kernel.Unbounded, `{"type":"integer","minimum":0}`: kernel.Unbounded, `{"type":"integer","minimum":0,"maximum":0}`: 0,
		`{"type":"integer","minimum":0,"maximum":1}`: 1, `{"type":"integer","minimum":-1,"maximum":1}`: 2, `{"type":"integer","minimum":1,"maximum":256}`: 8,
		`{"type":"integer","minimum":1,"maximum":257}`: 9, `{"type":"integer","minimum":0,"maximum":2000}`: 11,
		`{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`: 64,
		`{"type":"number"}`: kernel.Unbounded, `{"type":"number","minimum":0,"maximum":1}`: kernel.Unbounded,
		`{"type":"string"}`: kernel.Unbounded, `{"type":"string","maxLength":1}`: 21, `{"type":"string","maxLength":10}`: 210,
		`{"type":"object","properties":{}}`: 0, shape("a:boolean", "b:boolean"): 2, shape("a:boolean", `b:{"enum":["x","y","z"]}`, `c:{"type":"integer","minimum":0,"maximum":9}`): 6,
		shape("a:boolean", "b:string"): kernel.Unbounded, `{"type":"object","properties":{"a":{"type":"boolean"}},"required":[]}`: 2,
		`{"type":"array","items":{"type":"boolean"}}`: kernel.Unbounded, `{"type":"array","items":{"type":"boolean"},"maxItems":0}`: 0,
		`{"type":"array","items":{"type":"boolean"},"maxItems":3}`: 4, `{"type":"array","items":{"type":"string"},"maxItems":1}`: kernel.Unbounded,
		`{"type":"array","items":{"enum":["x"]},"maxItems":3}`: 2,
	} {
		expect(t, mustType(schema).Width(), want, "%s", schema)
	}
	var none *kernel.Type
	failIf(t, none.Width() != kernel.Unbounded || new(kernel.Type).Width() != kernel.Unbounded, "what is no type is narrow")
}

// The label of each step of a plan, before it runs.
// covers KER-35, KER-56, KER-57, KER-109
func TestLabelsOfSteps(t *testing.T) {
	t.Parallel()
	k := mustKernel(t, nil)
	checked, fault := k.ReadPlan([]byte(steps(constX, inbox, slots, mergeXY, contacts,
		`{"kind":"merge","id":"own","inputs":{"a":{"ref":"s","path":"slot"},"b":{"ref":"s","path":"urgent"}}}`,
		`{"kind":"merge","id":"both","inputs":{"a":{"ref":"s","path":"slot"},"b":{"ref":"s"}}}`,
		words(`["a",{"ref":"inbox","path":"latest.subject"}]`),
		`{"kind":"merge","id":"part","inputs":{"a":{"ref":"n","path":"many"}}}`,
		sub(""), strings.ReplaceAll(sub(`,"schema_ref":"Slot"`), `"d"`, `"e"`))), frame(k, "all"))
	stopIf(t, fault.Code != "", "%v", fault)
	want := map[string]string{
		"c":        `{"influence":{},"readers":null,"sources":["user_query"],"subjects":[]}`,
		"inbox":    `{"influence":{"inbox":"unbounded"},"readers":[],"sources":["tool_read","user_query"],"subjects":["user"]}`,
		"s":        `{"influence":{"s":6},"readers":[],"sources":["q_llm","tool_read","user_query"],"subjects":["user"]}`,
		"m":        `{"influence":{"inbox.latest":"unbounded"},"readers":[],"sources":["derived","tool_read","user_query"],"subjects":["user"]}`,
		"contacts": `{"influence":{"contacts":"unbounded"},"readers":[],"sources":["tool_read","user_query"],"subjects":["third_party"]}`,
		"own":      `{"influence":{"s.slot":2,"s.urgent":1},"readers":[],"sources":["derived","q_llm","tool_read","user_query"],"subjects":["user"]}`,
		"both":     `{"influence":{"s":6},"readers":[],"sources":["derived","q_llm","tool_read","user_query"],"subjects":["user"]}`,
		"n":        `{"influence":{"inbox.latest.subject":"unbounded"},"readers":[],"sources":["derived","tool_read","user_query"],"subjects":["user"]}`,
		"part":     `{"influence":{"n.many":1},"readers":[],"sources":["derived","tool_read","user_query"],"subjects":["user"]}`,
		"d":        `{"influence":{},"readers":null,"sources":["derived","q_llm","user_query"],"subjects":[]}`,
		"e":        `{"influence":{"e":6},"readers":null,"sources":["derived","q_llm","user_query"],"subjects":[]}`,
	}
	got := map[string]string{}
	for _, s := range checked.Steps() {
		got[s.ID] = spelled(s.Label)
		expect(t, s.Hazy, s.ID == "d" || s.ID == "e", "%s: hazy", s.ID)
	}
	diff := cmp.Diff(want, got)
	failIf(t, diff != "", "%v", diff)
}

// A label that names too many parts counts none.
func TestLabelOfManyOrigins(t *testing.T) {
	t.Parallel()
	l := kernel.Trusted()
	for i := range 128 {
		l = kernel.Join(l, tainted(kernel.Influence{Origin: kernel.Origin(fmt.Sprintf("p%03d", i)), Bits: 1}))
	}
	failIf(t, len(l.Influence) != 128 || l.Width() != 128, "128 origins: %d bits", l.Width())
	l = kernel.Join(l, tainted(kernel.Influence{Origin: "q", Bits: 1}))
	failIf(t, l.Width() != kernel.Unbounded || len(l.Influence) > 2, "129 origins: %s bits of %d", l.Width(), len(l.Influence))
}

// What is written of a label is read, and nothing else; anything may parse what says nothing of it, or null.
func TestLabelsAreRead(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"sources":["user_query"],"subjects":[],"readers":null,"parsers":null,"influence":{}}`: `{"influence":{},"readers":null,"sources":["user_query"],"subjects":[]}`,
		`{"readers":["x"],"parsers":[],"influence":{"a":2},"tools":["r","w"]}`:                  `{"influence":{"a":2},"parsers":[],"readers":["x"],"sources":[],"subjects":[]}`,
		`{"sources":["x"]}`: "", `{"readers":["X!"]}`: "", `{"influence":{"a":-1}}`: "", `{"tools":["w","r"]}`: "", `{"tools":[1]}`: "", `{"more":1}`: "", `[]`: "", `null`: "",
	} {
		var l kernel.Label
		err := l.UnmarshalJSON([]byte(in))
		failIf(t, (err == nil) != (want != "") || err == nil && spelled(l) != want, "%s: %s, %v", in, spelled(l), err)
	}
}
