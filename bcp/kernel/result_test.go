package kernel_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// naming is a kernel whose plans return one of two types.
func naming(t *testing.T) *kernel.Kernel {
	t.Helper()
	return steered(t, func(d *kernel.Definition) {
		d.Results = []kernel.Schema{
			{Name: "mood", Reader: "desk", Spec: mustSpec(`{"category":1,"fields":[{"name":"hot","type":"boolean"}]}`)},
			{Name: "face", Reader: "desk", Spec: mustSpec(`{"category":1,"fields":[{"name":"face","type":"enum","values":["a","b"]}]}`)},
		}
	})
}

const (
	onHot    = `"dials","path":"hot"`
	hotOnly  = `{"kind":"merge","id":"m","inputs":{"hot":{"ref":"dials","path":"hot"}}}`
	asMood   = `{"kind":"result","id":"r","source":{"ref":"m"},"schema_ref":"mood"}`
	moods    = hotOnly + "," + asMood
	faces    = `{"kind":"merge","id":"m","inputs":{"face":{"ref":"dials","path":"face"}}},{"kind":"result","id":"r","source":{"ref":"m"},"schema_ref":"face"}`
	twoTypes = `"true":[` + moods + `],"false":[` + faces + `]`
)

// A plan returns another type in each case of a when: the end says which, also after a
// start in the middle. The choice is a fork like any other: it is priced, and the value has
// its label.
// covers KER-32, KER-55, KER-106
func TestPlansReturnOneOfSeveralTypes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][3]string{
		`{"hot":true,"face":"a"}`:  {"mood", `{"hot":true}`, "w/true/r"},
		`{"hot":false,"face":"c"}`: {"face", `{"face":"c"}`, "w/false/r"},
	} {
		g := newGateway(t, naming(t))
		g.begin("all")
		g.plan(steps(face, when(onHot, "", twoTypes)))
		g.crash()
		c := g.result(answer)
		end := g.end(kernel.Committed, "")
		if got := [3]string{end.End.Result, string(end.Final), end.End.Step}; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if c.Totals.Control == 0 || !end.End.Label.Tainted() {
			t.Errorf("steered by %s, labelled %+v", c.Totals.Control, end.End.Label)
		}
		if events := g.events(); !strings.Contains(events, "run_committed:"+want[0]) {
			t.Errorf("events: %s", events)
		}
	}
}

// What is wrong with a named result is said at its step, before anything runs: each way
// through the plan ends with one, of a type that there is and that the value may be of.
// covers KER-32
func TestNamedResultsAreChecked(t *testing.T) {
	t.Parallel()
	named, without := naming(t), steered(t, nil)
	result := func(source, name string) string {
		return `{"kind":"result","id":"r","source":` + source + `,"schema_ref":"` + name + `"}`
	}
	const dials = `{"ref":"dials"}`
	inner := `{"kind":"when","id":"v","on":{"ref":"dials","path":"face"},"cases":{"a":[` + moods + `]},"else":[` + faces + `]}`
	for name, test := range map[string]struct {
		kernel *kernel.Kernel
		plan   string
		code   kernel.Code
		step   string
	}{
		"no when":                      {named, steps(face, hotOnly, asMood), "", ""},
		"two in two cases":             {named, steps(face, when(onHot, "", twoTypes)), "", ""},
		"a when in a when":             {named, steps(face, when(onHot, `,"else":[`+faces+`]`, `"true":[`+inner+`]`)), "", ""},
		"no name":                      {named, steps(face), kernel.TypeMismatch, "dials"},
		"a name that there is not":     {named, steps(face, result(dials, "taste")), kernel.UnknownSchema, "r"},
		"no name at all":               {named, steps(face, result(dials, "")), kernel.UnknownSchema, "r"},
		"the name of a question":       {named, steps(face, result(dials, "Flags")), kernel.UnknownSchema, "r"},
		"another shape":                {named, steps(face, result(dials, "mood")), kernel.TypeMismatch, "r"},
		"the other's shape":            {named, steps(face, when(onHot, "", strings.Replace(twoTypes, `"schema_ref":"face"`, `"schema_ref":"mood"`, 1))), kernel.TypeMismatch, "r"},
		"a value that there is not":    {named, steps(face, result(`{"ref":"x"}`, "mood")), kernel.UnknownRef, "r"},
		"one case ends otherwise":      {named, steps(face, when(onHot, "", `"true":[`+moods+`],"false":[`+telling+`]`)), kernel.TypeMismatch, "tell"},
		"one case has no step":         {named, steps(face, when(onHot, "", `"true":[`+moods+`],"false":[]`)), kernel.TypeMismatch, "w"},
		"no else":                      {named, steps(face, when(onHot, "", `"true":[`+moods+`]`)), kernel.TypeMismatch, "w"},
		"one of two inner ends":        {named, steps(face, when(onHot, `,"else":[`+faces+`]`, `"true":[`+strings.Replace(inner, faces, telling, 1)+`]`)), kernel.TypeMismatch, "tell"},
		"in a loop":                    {named, steps(list, face, each(`"max":1,"on_more":"first"`, moods)), kernel.TypeMismatch, "loop"},
		"what is in a case by a path":  {named, strings.Replace(steps(face, when(onHot, "", twoTypes)), `"final":"w"`, `"final":"w/true/r"`, 1), kernel.NoFinal, ""},
		"of a kernel without names":    {without, steps(face, hotOnly, asMood), kernel.UnknownKind, "r"},
		"in a case, of another's path": {without, strings.Replace(steps(look, when(`"look"`, "", `"true":[`+telling+`]`)), `"final":"w"`, `"final":"w/true/tell"`, 1), kernel.NoFinal, ""},
		"a reference into a case":      {without, steps(look, when(`"look"`, "", `"true":[`+telling+`]`), mergeOf("w/true/tell")), kernel.UnknownRef, "m"},
	} {
		at := frame(test.kernel, "all")
		at.ControlBits = 40
		if _, fault := test.kernel.ReadPlan([]byte(test.plan), at); fault.Code != test.code || fault.Step != test.step {
			t.Errorf("%s: got %+v, want %s %s: %s", name, fault, test.code, test.step, test.plan)
		}
	}
	sub := frame(named, "all")
	sub.Depth = 1
	if _, fault := named.ReadPlan([]byte(steps(face, hotOnly, asMood)), sub); fault.Code != kernel.UnknownKind || fault.Step != "r" {
		t.Errorf("in a sub-run: %+v", fault)
	}
}

// A planner is told of the types by their names; the records of who has one type say none.
func TestPlannersHearOfNamedResults(t *testing.T) {
	t.Parallel()
	var request struct {
		Result  json.RawMessage
		Results []struct {
			Name   string
			Answer json.RawMessage
		}
	}
	g := newGateway(t, naming(t))
	g.begin("all")
	body := g.next(kernel.ReleasePlan).Body
	if err := json.Unmarshal(body, &request); err != nil || request.Result != nil || len(request.Results) != 2 ||
		request.Results[1].Name != "face" || !strings.Contains(string(request.Results[1].Answer), `"enum":["a","b"]`) {
		t.Errorf("%v: told %s", err, body)
	}
}
