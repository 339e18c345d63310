package bcp

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Kind of a decision: what happened. The numbers are frozen, since journals
// hold them.
type DecisionKind uint8

// The kinds of decisions.
const (
	KindStart       DecisionKind = 1  // a gateway began to write
	KindSession     DecisionKind = 2  // a Controller opened or closed its session
	KindAsk         DecisionKind = 3  // an ask was accepted, held or refused
	KindAnswer      DecisionKind = 4  // an answer to a query
	KindPush        DecisionKind = 5  // a push against a subscription
	KindAcknowledge DecisionKind = 6  // an agent has its delivery
	KindExpire      DecisionKind = 7  // a query or an item ran out of time
	KindConnect     DecisionKind = 8  // an agent connected
	KindDisconnect  DecisionKind = 9  // an agent's connection ended
	KindViolation   DecisionKind = 10 // the server denied an agent a subject
	KindRefusals    DecisionKind = 11 // refusals beyond max_refusals, counted
	KindAlert       DecisionKind = 12 // something that an operator should look at
	KindApproval    DecisionKind = 13 // a person decided about an item, or was refused
	KindProcess     DecisionKind = 14 // an agent's command started, ended, or could not be started
	KindReload      DecisionKind = 15 // other definitions hold from here on
	KindTaint       DecisionKind = 16 // what an agent read was reported, or forgotten
	KindPrompt      DecisionKind = 17 // a cron schedule came up
	KindErase       DecisionKind = 18 // the sealing keys of a channel's days are destroyed
	KindTruncate    DecisionKind = 19 // the operator has the journal begin here
	KindCredential  DecisionKind = 20 // credentials were given or taken, or keys changed
	KindBatch       DecisionKind = 21 // a window ended: its pushes are one delivery
	KindPropose     DecisionKind = 22 // a Controller proposed a subscription
	KindEgress      DecisionKind = 23 // an agent's keeper asked for a request to a host, or told of one
	KindRun         DecisionKind = 24 // a requester, a person or time about a run of a kernel
	KindPlan        DecisionKind = 25 // a planner, or time, about a plan
	KindStep        DecisionKind = 26 // a Reader's answer to a run, or a person about a call
	KindCall        DecisionKind = 27 // time, or a restart, about a call
	KindOutcome     DecisionKind = 28 // a tool's answer to a call
	KindDeclare     DecisionKind = 29 // an agent of another organisation declared its roles, or was judged again
	KindUsage       DecisionKind = 30 // an agent's keeper asked for a call of its model, or told of one
	KindEndorse     DecisionKind = 31 // a person gave or revoked an endorsement, or was refused
	KindHand        DecisionKind = 32 // a Controller handed a sealed value to a person
)

// kindRow is what holds of all decisions of a kind.
type kindRow struct {
	word string // in audit subjects and tools
	verb string // what its agent does, in a sentence; empty if it says more
	// item is what waits for a person where one is held, if that follows from the kind.
	item ItemKind
	// kept is how much of the message a record keeps, 0 if that depends on the verdict.
	// What a mistake was made over is kept whole.
	kept int
	// checks are those that the message is held to, in the order of the code; a test
	// compares the two. Nothing refuses a kind without.
	checks []Check
}

var kinds = [...]kindRow{
	KindStart:   {word: "start"},
	KindSession: {word: "session", kept: MaxFreeBytes, checks: []Check{CheckRefusals, CheckMessage}},
	KindAsk: {word: "ask", verb: "asks", item: ItemEscalation, checks: []Check{CheckRefusals, CheckSuspended, CheckMessage, CheckChannelFirst, CheckShape, CheckRepeat, CheckChannel, CheckRole, CheckCategory, CheckSpec, CheckHandle,
		CheckJustified, CheckOwnWords, CheckSessionFailed, CheckEscalations, CheckCat2Queries,
		CheckBudget, CheckPushBudget, CheckCapacityBudget, CheckWindowBudget, CheckTotalBudget, CheckReader, CheckOutbox}},
	KindAnswer: {word: "answer", verb: "answers", checks: []Check{CheckRefusals, CheckSuspended, CheckMessage, CheckQuery, CheckAnswered, CheckCancelled, CheckDeadline, CheckNoInformation, CheckAnswer, CheckQueue}},
	KindPush: {word: "push", verb: "pushes", checks: []Check{CheckRefusals, CheckSuspended, CheckMessage, CheckRepeat, CheckSubscription, CheckRole, CheckRate, CheckBatch, CheckAnswer, CheckFilter,
		CheckBudget, CheckPushBudget, CheckCapacityBudget, CheckWindowBudget, CheckTotalBudget, CheckQueue, CheckOutbox, CheckController}},
	KindAcknowledge: {word: "acknowledge", verb: "has it"},
	KindExpire:      {word: "expire"},
	KindConnect:     {word: "connect"},
	KindDisconnect:  {word: "disconnect"},
	KindViolation:   {word: "violation", kept: MaxFreeBytes, checks: []Check{CheckPermission}},
	KindRefusals:    {word: "refusals", kept: MaxFreeBytes},
	KindAlert:       {word: "alert", kept: MaxRawBytes},
	KindApproval:    {word: "approval", checks: []Check{CheckMessage, CheckItem, CheckInTime, CheckDigest, CheckApprover, CheckSignature, CheckStands, CheckApproval}},
	KindProcess:     {word: "process"},
	KindReload:      {word: "reload"},
	KindTaint:       {word: "taint", kept: MaxFreeBytes, checks: []Check{CheckAct}},
	KindPrompt:      {word: "prompt"},
	KindErase:       {word: "erase", checks: []Check{CheckAct, CheckErasure}},
	KindTruncate:    {word: "truncate"},
	KindCredential:  {word: "credential"},
	KindBatch:       {word: "batch"},
	KindPropose:     {word: "propose", item: ItemProposal, checks: []Check{CheckChannel, CheckCategory, CheckSpec, CheckQueue}},
	KindEgress:      {word: "egress", checks: []Check{CheckRefusals, CheckMessage, CheckSuspended, CheckKeeper, CheckNetwork, CheckRepeat, CheckLinks, CheckEgressBudget, CheckEgressBytes}},
	KindRun:         {word: "run"},
	KindPlan:        {word: "plan"},
	KindStep:        {word: "step"},
	KindCall:        {word: "call"},
	KindOutcome:     {word: "outcome"},
	KindDeclare:     {word: "declare", kept: MaxFreeBytes, checks: []Check{CheckRefusals, CheckRole}},
	KindUsage:       {word: "usage", checks: []Check{CheckRefusals, CheckMessage, CheckSuspended, CheckModel, CheckRepeat, CheckTokenBudget, CheckCostBudget}},
	KindEndorse:     {word: "endorse", checks: []Check{CheckMessage, CheckApprover, CheckSignature, CheckItem, CheckInTime, CheckEndorse, CheckStands, CheckQueue}},
	KindHand:        {word: "hand", item: ItemHanded, kept: MaxFreeBytes, checks: []Check{CheckRefusals, CheckHandle}},
}

func (k DecisionKind) String() string { return wire.Word(kindWords, k) }

// MarshalText returns the word that audit subjects and tools use.
func (k DecisionKind) MarshalText() ([]byte, error) { return wire.MarshalWord(kindWords, k) }

var kindWords = func() (words []string) {
	for i := range kinds {
		words = append(words, kinds[i].word)
	}
	return words
}()

// row returns that of the kind; an unknown one has nothing.
func (k DecisionKind) row() (row kindRow) {
	if int(k) < len(kinds) {
		row = kinds[k]
	}
	return row
}

// Verb is what the agent of such a decision does, as "asks", or nothing if one sentence
// does not say it.
func (k DecisionKind) Verb() string { return k.row().verb }

// Item is what waits for a person where a decision of the kind is held, or nothing if that
// depends on more.
func (k DecisionKind) Item() ItemKind { return k.row().item }

// IsRun reports whether decisions of the kind are about a run of a kernel.
func (k DecisionKind) IsRun() bool { return k >= KindRun && k <= KindOutcome }

// Checks returns the checks of a kind of decision in the order in which they are
// made, empty for a kind that nothing can refuse.
func Checks(kind DecisionKind) []Check { return slices.Clone(kind.row().checks) }

// DecisionKinds returns every kind.
func DecisionKinds() []DecisionKind {
	var all []DecisionKind
	for k := KindStart; int(k) < len(kinds); k++ {
		all = append(all, k)
	}
	return all
}
