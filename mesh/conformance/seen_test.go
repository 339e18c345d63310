package conformance_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/conformance"
)

// unseeable are the checks that nobody but a gateway can make.
var unseeable = map[bcp.Role][]string{
	bcp.RoleReader: {
		"READER-01", "READER-02", "READER-09", "READER-10", "READER-12", "READER-13", "READER-14", "READER-15", "READER-16", "READER-17",
	},
	bcp.RoleController: {
		"CONTROLLER-02", "CONTROLLER-04", "CONTROLLER-05", "CONTROLLER-06", "CONTROLLER-07", "CONTROLLER-08", "CONTROLLER-11", "CONTROLLER-13",
	},
}

const other bcp.AgentName = "other"

// records draws what a mesh may record, in any order.
func records(t *rapid.T, query bcp.QueryID) []bcp.Decision {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) bcp.Decision {
		return bcp.Decision{
			Kind:  bcp.DecisionKind(rapid.IntRange(1, 22).Draw(t, "kind")),
			Agent: rapid.SampledFrom([]bcp.AgentName{candidate, other}).Draw(t, "agent"), Role: rapid.SampledFrom([]bcp.Role{bcp.RoleReader, bcp.RoleController}).Draw(t, "role"),
			Reader: rapid.SampledFrom([]bcp.AgentName{candidate, other}).Draw(t, "reader"), Controller: rapid.SampledFrom([]bcp.AgentName{candidate, other}).Draw(t, "controller"),
			Query: rapid.SampledFrom([]bcp.QueryID{"", query}).Draw(t, "query"), Delivery: rapid.SampledFrom([]bcp.DeliveryID{"", "d1", "d2"}).Draw(t, "delivery"),
			Notice: rapid.SampledFrom([]bcp.DeliveryID{"", "n1"}).Draw(t, "notice"), Verdict: rapid.SampledFrom([]bcp.Outcome{bcp.Reject, bcp.Accept, bcp.Hold}).Draw(t, "verdict"),
			Code:    rapid.SampledFrom([]bcp.Code{"", bcp.Malformed, bcp.ValidationFailed, bcp.RateLimited, bcp.BudgetExhausted}).Draw(t, "code"),
			Outcome: rapid.SampledFrom([]bcp.Code{"", bcp.Held, bcp.Expired}).Draw(t, "outcome"), Release: rapid.Int64Range(0, 1).Draw(t, "release"),
			Event: rapid.SampledFrom([]string{"", "publish", "subscribe", "connect"}).Draw(t, "event"), Family: rapid.SampledFrom([]string{"", "reply"}).Draw(t, "family"),
		}
	}), 0, 12).Draw(t, "records")
}

// Whatever is seen: what only a gateway can see is never decided; without an audit
// nothing is known of a Controller, and of a Reader nothing but its answers; and
// nothing passes of which there is no trace.
//
// covers P9.1, P9.3, A-REPLY
func TestJudgeClaimsNoMoreThanItSaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := conformance.Seen{Role: rapid.SampledFrom([]bcp.Role{bcp.RoleReader, bcp.RoleController}).Draw(t, "role"), Agent: candidate, Peer: other}
		s.Audited = rapid.Bool().Draw(t, "audited")
		if s.Audited {
			s.Records = records(t, "q1")
			s.Waited = rapid.IntRange(0, len(s.Records)).Draw(t, "waited")
		}
		asked := rapid.Bool().Draw(t, "asked")
		if s.Role == bcp.RoleReader && asked {
			q := conformance.Question{Category: 1, Query: "q1"}
			if rapid.Bool().Draw(t, "answered") {
				q.Delivery = &bcp.Delivery{QueryID: "q1", Outcome: rapid.SampledFrom([]bcp.Code{"", bcp.Rejected, bcp.Held, bcp.NotEnoughInformation}).Draw(t, "end")}
			}
			s.Questions = []conformance.Question{q}
		}
		report := conformance.Judge(s)
		if len(report.Checks) != len(conformance.Rules(s.Role)) {
			t.Fatalf("%d checks", len(report.Checks))
		}
		for _, c := range report.Checks {
			decided := c.Result == conformance.Passed || c.Result == conformance.Failed
			switch {
			case decided && slices.Contains(unseeable[s.Role], c.ID):
				t.Errorf("%s is decided: %s", c.ID, c.Result)
			case decided && !s.Audited && (s.Role == bcp.RoleController || len(s.Questions) == 0 || !slices.Contains([]string{"READER-03", "READER-06", "READER-07"}, c.ID)):
				t.Errorf("%s is decided without an audit: %s", c.ID, c.Result)
			case c.Result == conformance.Passed && s.Audited && len(s.Records) == 0 && len(s.Questions) == 0 && !slices.Contains([]string{"READER-19", "CONTROLLER-14"}, c.ID):
				t.Errorf("%s passes, and nothing happened", c.ID)
			case (c.Result == conformance.Passed) != (c.Detail == ""):
				t.Errorf("%s %s: %q", c.ID, c.Result, c.Detail)
			}
		}
		if report.OK() && len(report.Failed()) > 0 {
			t.Error("it is well, and failed")
		}
	})
}

// Each check that can be seen is seen red for its own fault, and no other is.
//
// covers P9.1, P9.4, P3.10, P10, A-DOUBLE
func TestJudgeSeesFaults(t *testing.T) {
	t.Parallel()
	answer := func(code bcp.Code, delivery bcp.DeliveryID) bcp.Decision {
		d := bcp.Decision{Kind: bcp.KindAnswer, Reader: candidate, Controller: other, Query: "q1", Verdict: bcp.Reject, Code: code, Delivery: delivery}
		if code == "" {
			d.Verdict = bcp.Accept
		}
		return d
	}
	violation := func(role bcp.Role, act, family string) bcp.Decision {
		return bcp.Decision{Kind: bcp.KindViolation, Agent: candidate, Role: role, Event: act, Family: family}
	}
	delivered := func(kind bcp.DecisionKind, outcome bcp.Code) bcp.Decision {
		return bcp.Decision{Kind: kind, Reader: other, Controller: candidate, Delivery: "d1", Outcome: outcome, Verdict: bcp.Accept}
	}
	asked := []conformance.Question{{Category: 1, Query: "q1", Delivery: &bcp.Delivery{}}}
	ended := func(category bcp.Category, outcome bcp.Code) []conformance.Question {
		return []conformance.Question{{Category: category, Query: "q1", Delivery: &bcp.Delivery{Outcome: outcome}}}
	}
	for name, c := range map[string]struct {
		questions []conformance.Question
		records   []bcp.Decision
		failed    []string
	}{
		"a Reader that answers":        {asked, []bcp.Decision{answer("", "d1")}, nil},
		"that is silent":               {[]conformance.Question{{Category: 2, Query: "q1"}}, nil, []string{"READER-04"}},
		"whose answers are rejected":   {ended(3, bcp.Rejected), nil, []string{"READER-05"}},
		"whose query expires":          {ended(1, bcp.Expired), nil, []string{"READER-03"}},
		"that is corrected":            {asked, []bcp.Decision{answer(bcp.ValidationFailed, ""), answer("", "d1")}, []string{"READER-03"}},
		"that gives up":                {ended(1, bcp.Expired), []bcp.Decision{answer(bcp.Malformed, "")}, []string{"READER-03", "READER-11"}},
		"that has one try":             {ended(1, bcp.Rejected), []bcp.Decision{answer(bcp.Malformed, "d1")}, []string{"READER-03"}},
		"whose answer comes too late":  {asked, []bcp.Decision{answer("", "d1"), answer(bcp.AlreadyAnswered, "")}, nil},
		"that answers twice":           {asked, []bcp.Decision{answer("", "d1"), violation(bcp.RoleReader, "publish", "reply")}, []string{"READER-08"}},
		"that pushes badly":            {asked, []bcp.Decision{{Kind: bcp.KindPush, Reader: candidate, Controller: other, Verdict: bcp.Reject, Code: bcp.ValidationFailed}}, []string{"READER-18"}},
		"that pushes too much":         {asked, []bcp.Decision{{Kind: bcp.KindPush, Reader: candidate, Controller: other, Verdict: bcp.Reject, Code: bcp.BudgetExhausted}}, nil},
		"that pries":                   {asked, []bcp.Decision{violation(bcp.RoleReader, "subscribe", "")}, []string{"READER-19"}},
		"whose other side pries":       {asked, []bcp.Decision{violation(bcp.RoleController, "subscribe", "")}, nil},
		"that connects too often":      {asked, []bcp.Decision{violation(bcp.RoleReader, "connect", "")}, nil},
		"whose neighbour pushes badly": {asked, []bcp.Decision{{Kind: bcp.KindPush, Reader: other, Verdict: bcp.Reject, Code: bcp.ValidationFailed}}, nil},

		"a Controller that acknowledges": {nil, []bcp.Decision{delivered(bcp.KindPush, ""), delivered(bcp.KindAcknowledge, "")}, nil},
		"that does not":                  {nil, []bcp.Decision{delivered(bcp.KindPush, "")}, []string{"CONTROLLER-01"}},
		"that takes no outcome":          {nil, []bcp.Decision{delivered(bcp.KindExpire, bcp.Expired)}, []string{"CONTROLLER-03"}},
		"that takes no prompt":           {nil, []bcp.Decision{{Kind: bcp.KindPrompt, Agent: candidate, Role: bcp.RoleController, Notice: "n1"}}, []string{"CONTROLLER-09"}},
		"that takes the newest prompt": {nil, []bcp.Decision{
			{Kind: bcp.KindPrompt, Agent: candidate, Role: bcp.RoleController, Notice: "n1"}, {Kind: bcp.KindPrompt, Agent: candidate, Role: bcp.RoleController, Notice: "n2"},
			{Kind: bcp.KindAcknowledge, Agent: candidate, Role: bcp.RoleController, Notice: "n2"},
		}, nil},
		"that acknowledges twice": {nil, []bcp.Decision{violation(bcp.RoleController, "publish", "reply")}, []string{"CONTROLLER-10"}},
		"that asks badly":         {nil, []bcp.Decision{{Kind: bcp.KindAsk, Controller: candidate, Verdict: bcp.Reject, Code: bcp.InvalidQuery}}, []string{"CONTROLLER-12"}},
		"that asks too much":      {nil, []bcp.Decision{{Kind: bcp.KindAsk, Controller: candidate, Verdict: bcp.Reject, Code: bcp.BudgetExhausted}}, nil},
		"that pries too":          {nil, []bcp.Decision{violation(bcp.RoleController, "publish", "streams")}, []string{"CONTROLLER-14"}},
		"that is not waited for": {nil, []bcp.Decision{
			{Kind: bcp.KindPush, Controller: candidate, Reader: other, Verdict: bcp.Accept, Delivery: "d1", Time: 1, Release: 2},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := conformance.Seen{Role: bcp.RoleController, Agent: candidate, Peer: other, Questions: c.questions, Audited: true, Records: c.records, Waited: len(c.records)}
			if c.questions != nil {
				s.Role = bcp.RoleReader
			}
			if got := conformance.Judge(s).Failed(); !slices.Equal(got, c.failed) {
				t.Errorf("failed %v, not %v", got, c.failed)
			}
		})
	}
}

// What was not acknowledged is waited for, but for what is released later.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	s := conformance.Seen{Role: bcp.RoleController, Agent: candidate, Peer: other, Audited: true, Records: []bcp.Decision{
		{Kind: bcp.KindPush, Controller: candidate, Delivery: "d1"},
		{Kind: bcp.KindPush, Controller: candidate, Delivery: "d2"},
		{Kind: bcp.KindPush, Controller: candidate, Delivery: "d3", Time: 1, Release: 2},
		{Kind: bcp.KindPush, Controller: other, Delivery: "d4"},
		{Kind: bcp.KindAcknowledge, Controller: candidate, Delivery: "d2"},
	}}
	if n := s.Unacknowledged(); n != 1 {
		t.Errorf("%d are", n)
	}
}
