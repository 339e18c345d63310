package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A budget that is used up refuses the next call, and refuses it in the same words after the keeper was killed, and after mesh
// and keepers were: a keeper that has forgotten everything asks the mesh, and the provider is not asked again. That holds for
// what the provider counted, and for a call in which the keeper was killed, which counts as reserved.
//
// covers P15.1, P15.3, P15.4
func TestSpentBudgetOutlivesKills(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		budget string
		killed bool // in the call that takes the budget
	}{
		"counted": {"token_budget: 50000\n", false},
		// One call is reserved with more than 21,024 tokens.
		"in doubt": {"token_budget: 30000\nmax_output_tokens: 20000\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			held, release := make(chan struct{}), make(chan struct{}) // the first call
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 && c.killed {
					held <- struct{}{}
					<-release
				}
				w.Header().Set("Content-Type", "text/event-stream")
				events := callOf("answer", `{"breaking":true}`)
				events[2] = `{"choices":[],"usage":{"prompt_tokens":50000,"completion_tokens":9}}`
				for _, data := range events {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
				}
			}))
			t.Cleanup(model.Close)
			t.Cleanup(func() { close(release) })
			k, ask := newKillable(t, model.URL+"/v1", "tools: []\n"+c.budget)
			refuses := func(d bcp.Delivery) {
				t.Helper()
				if d.Outcome != bcp.NotEnoughInformation {
					t.Errorf("a question that no budget pays for: %+v", d)
				}
			}
			if c.killed {
				first := make(chan bcp.Delivery, 1)
				go func() { first <- ask() }()
				select {
				case <-held:
				case d := <-first:
					t.Fatalf("the question has ended, and no model was asked: %+v", d)
				}
				k.mustStrike(1)
				refuses(<-first)
			} else {
				if d := ask(); d.Outcome != "" {
					t.Fatalf("the budget pays for one question: %+v", d)
				}
				refuses(ask())
			}
			before := k.usage().refused
			if len(before) != 1 {
				t.Fatalf("refused were %q", before)
			}
			for life, round := range []int{1, 3} {
				k.mustStrike(round)
				refuses(ask())
				refused := k.usage().refused
				if len(refused) != life+2 || slices.ContainsFunc(refused, func(r string) bool { return r != before[0] }) {
					t.Errorf("refused were %q", refused)
				}
			}
			u := k.usage()
			if n := asked.Load(); n != 1 || len(u.reserves) != 1 || len(u.twice) > 0 {
				t.Errorf("the provider was asked %d times; calls that are recorded: %v, and twice %q", n, u.reserves, u.twice)
			}
			if (len(u.settled) == 0) != c.killed {
				t.Errorf("settled: %v", u.settled)
			}
			for q := range u.queries {
				if u.answers[q]+u.ended[q] != 1 {
					t.Errorf("the question %s has %d answers and ended %d times without one", q, u.answers[q], u.ended[q])
				}
			}
			t.Log(u.refused[0])
		})
	}
}
