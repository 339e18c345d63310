package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Behind a base, wherever the journal was cut, each decision compares as it does
// when the whole journal is read: by the definitions that decided, to the byte,
// and by others too, but for what follows from asks that are cut off.
//
// covers P11.3, P4.5
func TestRedecideBehindABase(t *testing.T) {
	t.Parallel()
	acts := []string{"ask planner mail yes id=r1", "ask planner mail text", "ask planner mail text", "ask planner mail three why=so", "ask clerk mail num", "ask planner mail name",
		"answer mail # {\"ok\":true}", "answer mail # {\"q\":\"a_b\"}", "answer mail # junk", "answer mail # nei", "answer mail # {\"summary\":\"a_b\"}", "answer mail # {\"n\":7}",
		"push mail planner alarm {\"ok\":true} id=p1", "push mail planner note {\"q\":\"one_two_three_four_five_six\"}", "push mail planner note " + answerWord(heldAnswer),
		"approve @", "reject @ no", "edit @ {\"q\":\"fine\"}", "edit @ {\"summary\":\"so\"}", "open planner", "close planner", "report planner web",
		"ack planner", "due", "wait 5m", "wait 16m", "wait 25h", "process planner unavailable", "process planner started", "start"}
	others := map[string]func(*bcp.Channel){
		"the same":     func(*bcp.Channel) {},
		"another case": func(c *bcp.Channel) { c.PreserveCase, c.MaxRetries = true, 0 },
		"less":         func(c *bcp.Channel) { c.MaxCategory, c.Budget = 2, 30*bcp.Bit },
		"flagged":      func(c *bcp.Channel) { c.OnAnomaly = bcp.AnomalyFlag },
		"slots":        func(c *bcp.Channel) { c.ReleaseInterval = time.Minute },
	}
	found := map[Comparison]int{}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, testMesh())
		w.act("start")
		n := rapid.IntRange(10, 60).Draw(r, "acts")
		cut := rapid.IntRange(0, n-1).Draw(r, "cut")
		var base []byte
		var journal [][]byte
		var history []string
		for i := range n {
			act := rapid.SampledFrom(acts).Draw(r, "act")
			if strings.Contains(act, "#") && len(w.queries) == 0 || strings.Contains(act, "@") && len(w.items) == 0 {
				act = "start"
			}
			act = strings.Replace(act, "#", fmt.Sprint(max(1, len(w.queries)-rapid.IntRange(0, 2).Draw(r, "query"))), 1)
			act = strings.Replace(act, "@", fmt.Sprint(max(1, len(w.items)-rapid.IntRange(0, 1).Draw(r, "item"))), 1)
			history = append(history, act)
			w.act(act)
			if i == cut {
				var err error
				if base, err = w.state.Checkpoint(); err != nil {
					t.Fatal(err)
				}
				journal, history = w.journal, append(history, "truncate")
			}
		}
		for name, edit := range others {
			config := w.config
			if config.Mesh = edited(edit); name != "the same" {
				config.Definitions = bcp.Digest{7}
			}
			behind := must(NewRedeciderBehind(config, base))
			want := w.redecide(config, nil)[len(journal):]
			got := w.redecideBy(behind, w.journal[len(journal):], nil)
			for i := range want {
				found[got[i].Comparison]++
				if want[i].Comparison == ComparedFollows && want[i].Ask <= uint64(len(journal)) && name != "the same" {
					continue // whether that ask would be refused the base does not tell
				}
				if diff := cmp.Diff(want[i], got[i]); diff != "" {
					d, _ := w.open(w.journal[len(journal)+i])
					r.Fatalf("%s\n%s: decision %d, %s of %s (-whole +base):\n%s", strings.Join(history, "\n"), name, d.Seq, d.Kind, d.Agent, diff)
				}
			}
		}
	})
	for _, c := range []Comparison{ComparedSame, ComparedDiffers} {
		if found[c] == 0 {
			t.Errorf("none are %s: the histories are too narrow", c)
		}
	}
}
