package conformance

import "github.com/bcpmesh/bcpmesh/bcp"

// Result says how a check ended. The zero value is a failure.
type Result uint8

// The results.
const (
	Failed Result = 0
	Passed Result = 1
	Unseen Result = 2 // the agent did not do what the check is about
)

func (r Result) String() string {
	switch r {
	case Passed:
		return "pass"
	case Unseen:
		return "unseen"
	}
	return "fail"
}

// MarshalText writes the word.
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Rule is one check: a stable id, and the requirement for an agent.
type Rule struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Check is a rule and its result.
type Check struct {
	Rule
	Result Result `json:"result"`
	Detail string `json:"detail,omitzero"` // why it did not pass; never what the agent wrote
}

// The ids of the checks of a Reader.
const (
	readerActive     = "READER-01"
	readerAgain      = "READER-02"
	readerCategory1  = "READER-03"
	readerCategory2  = "READER-04"
	readerCategory3  = "READER-05"
	readerNames      = "READER-06"
	readerEncoding   = "READER-07"
	readerOnce       = "READER-08"
	readerResent     = "READER-09"
	readerResults    = "READER-10"
	readerRejected   = "READER-11"
	readerForeign    = "READER-12"
	readerOther      = "READER-13"
	readerController = "READER-14"
	readerUnknown    = "READER-15"
	readerMalformed  = "READER-16"
	readerReturns    = "READER-17"
	readerPushes     = "READER-18"
	readerPermitted  = "READER-19"
	readerLater      = "READER-20"
)

// The ids of the checks of a Controller.
const (
	controllerPush      = "CONTROLLER-01"
	controllerAgain     = "CONTROLLER-02"
	controllerOutcomes  = "CONTROLLER-03"
	controllerHeld      = "CONTROLLER-04"
	controllerForeign   = "CONTROLLER-05"
	controllerOther     = "CONTROLLER-06"
	controllerSender    = "CONTROLLER-07"
	controllerMalformed = "CONTROLLER-08"
	controllerPrompt    = "CONTROLLER-09"
	controllerOnce      = "CONTROLLER-10"
	controllerReturns   = "CONTROLLER-11"
	controllerAsks      = "CONTROLLER-12"
	controllerPatience  = "CONTROLLER-13"
	controllerPermitted = "CONTROLLER-14"
	controllerLater     = "CONTROLLER-15"
)

// Rules returns all checks of a role, in order; none for a role that no agent
// has. The ids and their meaning are part of the contract.
func Rules(role bcp.Role) []Rule {
	switch role {
	case bcp.RoleReader:
		return []Rule{
			{readerActive, "connects and acknowledges bcp_subscriptions_active (P9.3)"},
			{readerAgain, "acknowledges it again when it is sent again, on the reply subject of that sending (P9.3)"},
			{readerCategory1, "answers a category 1 query in its types, or with not_enough_information (P2, P3.9)"},
			{readerCategory2, "answers a category 2 query in its formats, or with not_enough_information (P2, P3.9)"},
			{readerCategory3, "answers a category 3 query within its words, or with not_enough_information (P2, P3.9)"},
			{readerNames, "names in its answer the query that it answers (P2)"},
			{readerEncoding, "writes in the encoding of its definition (P2)"},
			{readerOnce, "answers each sending of a query once (P3.10)"},
			{readerResent, "answers a query that is sent again, on the new reply subject (P9.5)"},
			{readerResults, "acknowledges bcp_validation_result (P7.6)"},
			{readerRejected, "answers again after its answer was rejected (P3.10)"},
			{readerForeign, "drops a query whose reply subject is another agent's (A-REPLY)"},
			{readerOther, "drops a query whose reply subject is of another query (A-REPLY)"},
			{readerController, "drops a query that names another Controller than its subject (A-REPLY)"},
			{readerUnknown, "gives no answer that the spec does not have to a spec that it does not know (P2)"},
			{readerMalformed, "goes on after messages that are not well-formed (P2)"},
			{readerReturns, "comes back after it was disconnected, and answers (P9.5)"},
			{readerPushes, "pushes only against declared subscriptions, in their types (P2)"},
			{readerPermitted, "publishes and subscribes to nothing that it may not (P1.4)"},
			{readerLater, "goes on as before when messages have members and codes that it does not know (P2.7)"},
		}
	case bcp.RoleController:
		return []Rule{
			{controllerPush, "connects and acknowledges a delivery (P9.1)"},
			{controllerAgain, "acknowledges a delivery again when it is sent again, on the reply subject of that sending (P9.1)"},
			{controllerOutcomes, "acknowledges each outcome of a query (P10)"},
			{controllerHeld, "acknowledges held, and the final outcome after it (P7.6)"},
			{controllerForeign, "drops a delivery whose reply subject is another agent's (A-REPLY)"},
			{controllerOther, "drops a delivery whose reply subject is of another delivery (A-REPLY)"},
			{controllerSender, "drops a delivery that names another sender than its subject (A-REPLY)"},
			{controllerMalformed, "goes on after messages that are not well-formed (P2)"},
			{controllerPrompt, "acknowledges a prompt (P9.4)"},
			{controllerOnce, "acknowledges each sending once (P9.1)"},
			{controllerReturns, "comes back after it was disconnected, and acknowledges what is sent again (P9.1)"},
			{controllerAsks, "asks in messages and specs that are well-formed (P10)"},
			{controllerPatience, "does not repeat at once what was refused as rate_limited (P10)"},
			{controllerPermitted, "publishes and subscribes to nothing that it may not (P1.4)"},
			{controllerLater, "acknowledges deliveries and prompts with members and outcomes that it does not know (P2.7)"},
		}
	}
	return nil
}

// Report is the checklist of one run.
type Report struct {
	Role    bcp.Role `json:"role"`
	Arrived bool     `json:"arrived"` // the agent connected; otherwise everything failed
	Checks  []Check  `json:"checks"`
}

// OK reports whether something passed, and nothing failed.
func (r Report) OK() bool { return len(r.withResult(Passed)) > 0 && len(r.Failed()) == 0 }

// Failed returns the ids of failed checks, in order.
func (r Report) Failed() []string { return r.withResult(Failed) }

func (r Report) withResult(result Result) []string {
	var ids []string
	for _, c := range r.Checks {
		if c.Result == result {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
