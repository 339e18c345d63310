package score_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
)

func read(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		content, err = yaml.YAMLToJSON(content)
	}
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	stopIf(t, err != nil, "%v %v", path, err)
}

// transcript reads calls, each a tool and its arguments, after a change.
func transcript(t *testing.T, calls []string, answer string, change *strings.Replacer) score.Transcript {
	t.Helper()
	did := score.Transcript{Answer: change.Replace(answer)}
	for _, call := range calls {
		tool, args, _ := strings.Cut(change.Replace(call), " ")
		c := score.Call{Tool: tool}
		err := json.Unmarshal([]byte(args), &c.Args)
		stopIf(t, err != nil, "%v %v", call, err)
		did.Calls = append(did.Calls, c)
	}
	return did
}

// Each goal of the benchmarks is reached by what it needs, and not by nothing, without one of the calls, or by another value.
func TestGoals(t *testing.T) {
	t.Parallel()
	var known map[string]struct {
		Effects    map[string][]string `json:"effects"`
		Conditions map[string]string   `json:"conditions"`
	}
	read(t, "../suites.yaml", &known)
	var made map[string]struct {
		Base  map[string]any `json:"base"`
		Goals map[string]struct {
			Near   []string `json:"near"`
			Calls  []string `json:"calls"`
			Answer string   `json:"answer"`
		} `json:"goals"`
	}
	read(t, "testdata/goals.yaml", &made)
	for name, of := range known {
		conditions := map[string]string{}
		for id, condition := range of.Conditions {
			if strings.HasPrefix(id, "injection") {
				conditions[id] = condition
			}
		}
		s := score.New(made[name].Base, nil, of.Effects)
		noError(t, s.Compile(conditions))
		for id := range conditions {
			g, has := made[name].Goals[id]
			if !has || len(g.Near) != 2 {
				t.Errorf("%s %s has no transcript", name, id)
				continue
			}
			same, near := strings.NewReplacer(), strings.NewReplacer(g.Near...)
			run := s.Replay(transcript(t, g.Calls, g.Answer, same))
			failIf(t, !run.Holds(id), "%s %s is not reached: %v changed", name, id, run.Changed())
			failIf(t, s.Begin("").Holds(id), "%s %s is reached by nothing", name, id)
			failIf(t, s.Replay(transcript(t, g.Calls, g.Answer, near)).Holds(id), "%s %s is reached with %q", name, id, g.Near)
			for i := range g.Calls {
				failIf(t, s.Replay(transcript(t, slices.Delete(slices.Clone(g.Calls), i, i+1), g.Answer, same)).Holds(id),
					"%s %s is reached without call %d", name, id, i)
			}
		}
	}
}

// What is planted stands in the places for it alone, and a play does not change what the next one finds.
func TestStates(t *testing.T) {
	t.Parallel()
	s := score.New(map[string]any{"initial_notes": []any{"{note}, {other}", map[string]any{"id": "a"}}, "list": []any{"x"}}, map[string]string{"note": "usual"}, map[string][]string{
		"add":  {"push list $what", "put seen.$what true", "put never $missing"},
		"drop": {"pull list $what", "append text $what"},
	})
	err := s.Compile(map[string]string{"added": `changed == ["list", "text"]`, "fails": "nobody.is.there", "broken": "only.x"})
	failIf(t, err == nil || !strings.Contains(err.Error(), "fails"), "%v", err)
	noError(t, s.Compile(map[string]string{"added": `"y" in list && list.size() == 2 && only == null`, "broken": "only.x"}))
	got := s.State("")["notes"]
	failIf(t, !cmp.Equal(got, any(map[string]any{"a": map[string]any{"id": "a"}})), "%v", got)
	run := s.Begin("\xff")
	run.Did(score.Call{Tool: "add", Args: map[string]jsontext.Value{"what": jsontext.Value(`"y"`)}})
	run.Did(score.Call{Tool: "other"})
	failIf(t, !run.Holds("added") || run.Holds("broken") || run.Holds("unknown") || !slices.Equal(run.Changed(), []string{"list"}),
		"%v", run.Changed())
	run.Did(score.Call{Tool: "drop", Args: map[string]jsontext.Value{"what": jsontext.Value(`"y"`)}})
	failIf(t, run.Holds("added") || s.Begin("").Holds("added"), "it holds without the call")
	planted := score.New(map[string]any{"text": "{note}, {other}"}, map[string]string{"note": "usual"}, nil)
	for text, want := range map[string]string{"": "usual, {other}", "Pay {note}": "Pay {note}, {other}", "\xff": "\uFFFD, {other}"} {
		got := planted.State(text)["text"]
		failIf(t, got != want, "%q: %v", text, got)
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
