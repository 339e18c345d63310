package corpus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// played returns a copy of a mesh in which no budget, rate, window or queue stops a
// trial: the specs and their rules are unchanged.
func played(m *bcp.Mesh) *bcp.Mesh {
	quiet := redteam.Quiet(m)
	quiet.MaxRefusals = 1 << 30
	quiet.Channels = append([]bcp.Channel(nil), m.Channels...)
	for i := range quiet.Channels {
		ch := &quiet.Channels[i]
		ch.Budget, ch.PushBudget, ch.CapacityBudget, ch.WindowBudget = 1<<30*bcp.Bit, 1<<29*bcp.Bit, 0, 0
		ch.ReleaseInterval, ch.MaxCat2Queries, ch.MaxPendingApprovals, ch.MaxEscalations = 0, -1, 1<<20, 1<<20
		ch.JustificationVocabulary, ch.MaxJustificationWords, ch.MaxJustificationChars = "", bcp.DefaultJustificationWords, bcp.DefaultJustificationChars
		ch.Subscriptions = append([]bcp.Subscription(nil), ch.Subscriptions...)
		for j := range ch.Subscriptions {
			ch.Subscriptions[j].MaxRate, ch.Subscriptions[j].BatchWindow = bcp.Rate{}, 0
		}
	}
	quiet.Agents = append([]bcp.Agent(nil), quiet.Agents...)
	for i := range quiet.Agents {
		quiet.Agents[i].TotalBudget = 0
	}
	return quiet
}

// play says the sample through a running mesh, over stock connections, and compares.
func (r *runner) play(ctx context.Context, state string, m *bcp.Mesh, seed uint64) (Played, error) {
	list := r.chosen()
	result := Played{}
	broken, err := redteam.Use(ctx, redteam.Setup{State: state, Name: "corpus", Definition: played(m), Seed: seed}, func(rig *redteam.Rig) {
		for i, s := range list {
			if _, differs := s.sayOn(rig, i); differs != "" {
				result.Differs = append(result.Differs, differs)
			}
			result.Said++
		}
	})
	if err != nil {
		return result, fmt.Errorf("corpus: %d of %d were said: %w", result.Said, len(list), err)
	}
	result.Differs = append(result.Differs, broken...)
	return result, nil
}

// sayOn sends an answer on a mesh and returns its delivery, and any difference from
// the validator's decision.
func (s said) sayOn(rig *redteam.Rig, number int) (got redteam.Delivery, differs string) {
	ch := s.form.channel
	controller, reader := rig.Client(ch.Controller, bcp.RoleController), rig.Client(ch.Reader, bcp.RoleReader)
	var heard string
	if id := s.form.subscription; id != "" {
		heard = reader.Push(ch.Controller, string(id), s.answer, fmt.Sprintf(`,"push_id":"corpus-%d"`, number)).Text("status")
		if heard == "delivered" {
			got = controller.Pushed()
		}
	} else {
		spec, err := json.Marshal(s.form.spec)
		if err != nil {
			return got, err.Error()
		}
		query := controller.Ask(ch.Reader, `{"type":"bcp_query_request","escalation":{"justification":"the narrow question was not answered"},`+string(spec[1:]))
		reader.Answer(reader.Query(query), `"response":`+s.answer)
		if heard = reader.Result(query).Text("status"); heard == "delivered" {
			got = controller.Delivery(query)
		}
	}
	want := outcomeWord(s.verdict.Outcome)
	if heard != want {
		return got, fmt.Sprintf("%s to %s is %q, and was to be %q: %.200s", ch.Reader, ch.Controller, heard, want, s.answer)
	}
	if heard == "delivered" && string(got.Response) != s.verdict.Answer.String() {
		return got, fmt.Sprintf("%s gets %.200s, and was to get %.200s", ch.Controller, got.Response, s.verdict.Answer.JSON())
	}
	return got, ""
}
