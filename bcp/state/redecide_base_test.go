package state

import (
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
			act := w.draw(r, randomActs)
			history = append(history, act)
			w.act(act)
			if i == cut {
				var err error
				base, err = w.state.Checkpoint()
				noError(t, err)
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
		failIf(t, found[c] == 0, "none are %s: the histories are too narrow", c)
	}
}
