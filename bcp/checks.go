package bcp

import "github.com/bcpmesh/bcpmesh/bcp/wire"

// Check is one of the rules that a message is held to, one after the other: the
// first that objects decides. The decision of a refusal names it.
type Check uint8

// The checks; their numbers are frozen, since journals hold them.
const (
	CheckRefusals       Check = 1
	CheckMessage        Check = 2
	CheckChannelFirst   Check = 3
	CheckShape          Check = 4
	CheckRepeat         Check = 5
	CheckChannel        Check = 6
	CheckCategory       Check = 7
	CheckSpec           Check = 8
	CheckJustified      Check = 9
	CheckOwnWords       Check = 10
	CheckSessionFailed  Check = 11
	CheckEscalations    Check = 12
	CheckCat2Queries    Check = 13
	CheckBudget         Check = 14
	CheckPushBudget     Check = 15
	CheckCapacityBudget Check = 16
	CheckWindowBudget   Check = 17
	CheckTotalBudget    Check = 18
	CheckReader         Check = 19
	CheckOutbox         Check = 20
	CheckQuery          Check = 21
	CheckAnswered       Check = 22
	CheckCancelled      Check = 23
	CheckDeadline       Check = 24
	CheckNoInformation  Check = 25
	CheckAnswer         Check = 26
	CheckQueue          Check = 27
	CheckSubscription   Check = 28
	CheckController     Check = 29
	CheckAct            Check = 30
	CheckItem           Check = 31
	CheckInTime         Check = 32
	CheckDigest         Check = 33
	CheckApprover       Check = 34
	CheckSignature      Check = 35
	CheckStands         Check = 36
	CheckApproval       Check = 37
	CheckPermission     Check = 38
	CheckErasure        Check = 39
	CheckRate           Check = 40
	CheckFilter         Check = 41
	CheckBatch          Check = 42
	CheckKeeper         Check = 43
	CheckNetwork        Check = 44
	CheckLinks          Check = 45
	CheckEgressBudget   Check = 46
	CheckEgressBytes    Check = 47
	CheckRole           Check = 48
	CheckModel          Check = 49
	CheckCostBudget     Check = 50
	CheckTokenBudget    Check = 51
	CheckSuspended      Check = 52
	CheckEndorse        Check = 53
	CheckHandle         Check = 54
)

// CheckInfo says what a check is.
type CheckInfo struct {
	Check Check
	Name  string // its word in records
	Rule  string // of bcp/PROTOCOL.md
	Text  string // what holds where it passes
	Key   string // of the definition that it looks at, empty for none
}

var checks = []CheckInfo{
	{},
	{CheckRefusals, "refusals", "P4.7", "the agent has not used up its refusals of this minute", "max_refusals"},
	{CheckMessage, "message", "P2.2", "the message is well-formed, in the agent's encoding, and within its size", "encoding"},
	{CheckChannelFirst, "channel_first", "P1.4", "there is a channel to look up an invalid spec in", ""},
	{CheckShape, "shape", "P3.1", "the spec has the keys of its category", ""},
	{CheckRepeat, "repeat", "P2.6", "its id was not used for other bytes", ""},
	{CheckChannel, "channel", "P1.4", "both agents declare the channel", "bcp_channels"},
	{CheckCategory, "category", "P1.3", "the channel allows the category", "max_category"},
	{CheckSpec, "spec", "P3.1", "the spec is valid", ""},
	{CheckJustified, "justified", "P6.1", "an escalation has a justification", "base_category"},
	{CheckOwnWords, "own_words", "P6.4", "the justification quotes nothing that was delivered", ""},
	{CheckSessionFailed, "session_failed", "P6.2", "the session has not tried more escalations than it has", "max_escalations"},
	{CheckEscalations, "escalations", "P6.2", "the session has an escalation left", "max_escalations"},
	{CheckCat2Queries, "cat2_queries", "P4.4", "the epoch has a query of category 2 left", "max_cat2_queries"},
	{CheckBudget, "budget", "P4.2", "the epoch's budget has room", "budget_bits"},
	{CheckPushBudget, "push_budget", "P4.7", "what pushes may take of it has room", "push_budget_bits"},
	{CheckCapacityBudget, "capacity_budget", "P4.2", "the epoch's capacity budget has room", "capacity_budget_bits"},
	{CheckWindowBudget, "window_budget", "P4.4", "the sliding window has room", "window_budget_bits"},
	{CheckTotalBudget, "total_budget", "P1.3", "the controller's budget over all its channels has room", "total_budget_bits"},
	{CheckReader, "reader", "P9.2", "the reader's command could be started", "command"},
	{CheckOutbox, "outbox", "P9.1", "the channel has not too many deliveries that wait", ""},
	{CheckQuery, "query", "P3.10", "the query is one that the reader was sent", ""},
	{CheckAnswered, "answered", "P3.10", "the query is not answered, or ended, already", ""},
	{CheckCancelled, "cancelled", "P7.6", "the controller has not closed the session", ""},
	{CheckDeadline, "deadline", "P9.2", "the query's time is not over", "query_ttl"},
	{CheckNoInformation, "no_information", "P3.9", "the spec allows not_enough_information", "allow_not_enough_information"},
	{CheckAnswer, "answer", "P3", "the answer is one of its spec", ""},
	{CheckQueue, "queue", "P7.4", "one more item may wait for a person", "max_pending_approvals"},
	{CheckSubscription, "subscription", "P1.4", "the controller declares the subscription", "subscriptions"},
	{CheckController, "controller", "P9.2", "the controller's command could be started", "command"},
	{CheckAct, "act", "P10", "the operator's message is about an agent that it can be about", ""},
	{CheckItem, "item", "P7.3", "the item waits", ""},
	{CheckInTime, "in_time", "P7.3", "neither the item nor the signature has expired", "approval_ttl"},
	{CheckDigest, "digest", "P7.3", "the decision is about the bytes that wait", ""},
	{CheckApprover, "approver", "P7.3", "the person is an approver of the channel", "approvers"},
	{CheckSignature, "signature", "P7.3", "the person signed the decision", ""},
	{CheckStands, "stands", "P1.5", "the definitions of today still allow the item", "max_category"},
	{CheckApproval, "approval", "P7.3", "the decision is one that the item can have", ""},
	{CheckPermission, "permission", "P1.4", "the agent's channels give it the subject", "bcp_channels"},
	{CheckErasure, "erasure", "P11.5", "the mesh needs nothing of what would be erased", ""},
	{CheckRate, "rate", "P12.1", "the subscription's rate has room for a push", "max_rate"},
	{CheckFilter, "filter", "P12.2", "the subscription's condition holds for the answer", "publish_when"},
	{CheckBatch, "batch", "P12.3", "the delivery of the subscription's window takes one push more", "batch_window"},
	{CheckKeeper, "keeper", "P13.5", "the agent's keeper fetches what the agent asked for", "network"},
	{CheckNetwork, "network", "P13.2", "the agent may reach the host", "network"},
	{CheckLinks, "links", "P13.2", "the agent may put URLs together", "links_only"},
	{CheckEgressBudget, "egress_budget", "P13.3", "the bits of the window have room", "egress_budget_bits"},
	{CheckEgressBytes, "egress_bytes", "P13.3", "the bytes of the window, and those of the host, have room", "egress_bytes"},
	{CheckRole, "role", "P14.2", "agents of other organisations have shown the roles that are required of them", "requires_role"},
	{CheckModel, "model", "P15.2", "the mesh knows the model, and its price if there is a budget for it", "model"},
	{CheckCostBudget, "cost_budget", "P15.3", "the dollars of the window have room", "cost_budget"},
	{CheckTokenBudget, "token_budget", "P15.3", "the tokens of the window have room", "token_budget"},
	{CheckSuspended, "suspended", "P16.1", "the agent is not suspended", "on_suspect"},
	{CheckEndorse, "endorse", "P7.8", "the mesh lets the person endorse so much", "endorse"},
	{CheckHandle, "handle", "P3.12", "each handle is of a sealed value of the controller's open session", ""},
}

// Info returns what a check is; that of an unknown one is empty.
func (c Check) Info() CheckInfo {
	if int(c) >= len(checks) {
		return CheckInfo{}
	}
	return checks[c]
}

var checkNames = func() (words []string) {
	for i := range checks {
		words = append(words, checks[i].Name)
	}
	return words
}()

func (c Check) String() string                { return wire.Word(checkNames, c) }
func (c Check) MarshalText() ([]byte, error)  { return wire.MarshalWord(checkNames, c) }
func (c *Check) UnmarshalText(b []byte) error { return wire.ParseWord(checkNames, b, c) }

// DecidedBy returns the number of the rule that decided, in PROTOCOL.md; it is empty where
// every rule was kept and nothing else is to say.
func (d *Decision) DecidedBy() string {
	switch {
	case d.Repeat:
		return "P2.6"
	case d.Check == CheckAnswer:
		return reasonRule(d.Reason, d.Category)
	case d.Check != 0:
		return d.Check.Info().Rule
	case d.Kind == KindAsk && d.Verdict == Hold:
		return "P6.3"
	case d.Verdict == Hold && d.Category == 3:
		return "P3.5"
	case d.Verdict == Hold:
		return "P3.6"
	case d.Kind == KindApproval:
		return "P7.3"
	case d.Endorsed != nil && (d.Kind.IsRun() || d.Endorsed.Tool != ""):
		return "P7.9"
	case d.Endorsed != nil:
		return "P7.8"
	case d.Kind == KindBatch:
		return "P12.3"
	case d.Kind == KindExpire && d.Outcome == Cancelled:
		return "P7.6"
	case d.Kind == KindExpire && d.Outcome == BudgetExhausted:
		return "P4.2"
	case d.Kind == KindExpire && d.Item != "":
		return "P7.3"
	case d.Kind == KindExpire:
		return "P9.2"
	case d.Outcome == NotEnoughInformation:
		return "P3.9"
	}
	return ""
}

// reasonRule is the number of the rule that an answer of a category broke.
func reasonRule(r Reason, c Category) string {
	switch r {
	case ReasonTooLarge, ReasonMalformed:
		return "P2.2"
	case ReasonWords, ReasonWordLength:
		return "P3.3"
	case ReasonScript, ReasonLook, ReasonCharacters, ReasonAlphabet, ReasonEmpty:
		return "P3.4"
	case ReasonAnomaly:
		return "P3.6"
	}
	switch c {
	case 1:
		return "P3.1"
	case 3:
		return "P3.5"
	}
	return "P3.2"
}
