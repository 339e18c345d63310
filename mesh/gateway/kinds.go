package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// requests has the kinds of messages that the gateway gets, but for those to its reply
// subjects, which replies has, by the sender's role.
var (
	requests = map[subjects.Kind]*received{
		subjects.KindAsk:      {asks{}, bcp.RoleController, ClosedToNew},
		subjects.KindPush:     {pushes{}, bcp.RoleReader, ClosedToNew},
		subjects.KindSession:  {sessions{}, bcp.RoleController, Open},
		subjects.KindEgress:   {egresses{}, bcp.RoleKeeper, ClosedToNew},
		subjects.KindUsage:    {usages{}, bcp.RoleKeeper, ClosedToNew},
		subjects.KindApproval: {approvals{}, bcp.RoleApprover, ClosedToAll},
		subjects.KindControl:  {controls{}, bcp.RoleOperator, Open},
		subjects.KindRole:     {roles{}, 0, Open},
		subjects.KindRun:      {runRequests{}, bcp.RoleController, ClosedToNew},
	}
	replies = map[bcp.Role]*received{
		bcp.RoleController: {acknowledgements{}, 0, Open},
		bcp.RoleReader:     {answers{}, 0, ClosedToAll},
		bcp.RolePlanner:    {plans{}, 0, Open},
		bcp.RoleSubplanner: {plans{}, 0, Open},
		bcp.RoleTool:       {toolOutcomes{}, 0, Open},
	}
	// readerReplies has those of Readers to what is no query, by the first letter of the
	// id: those of queries begin with other letters.
	readerReplies = map[byte]*received{
		handshakeLetter: {handshakes{}, 0, Open},
		receiptLetter:   {receipts{}, 0, Open},
		noticeLetter:    {acknowledgements{}, 0, Open},
	}
	// views are requests of people that decide nothing.
	views = &received{viewings{}, bcp.RoleApprover, Open}
)

// requestOn returns what the gateway does with messages on a subject, nil for nothing.
func requestOn(s *subjects.Subject) *received {
	switch s.Kind {
	case subjects.KindApproval:
		if acts[s.Verb] == "" {
			return views
		}
	case subjects.KindReply:
		if other := readerReplies[s.ID[0]]; s.Role == bcp.RoleReader && other != nil {
			return other
		}
		return replies[s.Role]
	}
	return requests[s.Kind]
}

// plain is of requests that are answered only if they are refused.
type plain struct{}

func (plain) answer(*Gateway, *outcome) {}

func (plain) refuse(g *Gateway, o *outcome) { g.answer(o.message, bcp.RefusalOf(o.decision.Code)) }

func (plain) refusal(_ *Gateway, _ *message, code bcp.Code) any { return bcp.RefusalOf(code) }

func (plain) channel(g *Gateway, m *message) bcp.ChannelKey { return g.channelOf(m) }

// undecided is of requests of which nothing is recorded.
type undecided struct{ plain }

func (undecided) decide(*Gateway, bcp.Moment, *outcome) (bcp.Decision, bool) {
	return bcp.Decision{}, false
}

// A releaser releases the recorded decisions of one kind: it sends agents and people what
// follows from them, besides the deliveries, notices and alerts that they name. Of an
// event something may follow besides.
type releaser interface{ release(*Gateway, *outcome) }

// releasers has one for each kind of decision.
var releasers = [...]releaser{
	bcp.KindStart:       silent{},
	bcp.KindSession:     sessions{},
	bcp.KindAsk:         asks{},
	bcp.KindAnswer:      answers{},
	bcp.KindPush:        pushes{},
	bcp.KindAcknowledge: acknowledgements{},
	bcp.KindExpire:      expiries{},
	bcp.KindConnect:     silent{},
	bcp.KindDisconnect:  silent{},
	bcp.KindViolation:   counts{},
	bcp.KindRefusals:    counts{},
	bcp.KindAlert:       controls{},
	bcp.KindApproval:    approvals{},
	bcp.KindProcess:     silent{},
	bcp.KindReload:      silent{},
	bcp.KindTaint:       sessions{},
	bcp.KindPrompt:      silent{},
	bcp.KindErase:       erasures{},
	bcp.KindTruncate:    silent{},
	bcp.KindCredential:  silent{},
	bcp.KindBatch:       silent{},
	bcp.KindPropose:     sessions{},
	bcp.KindEgress:      egresses{},
	bcp.KindRun:         changes{},
	bcp.KindPlan:        changes{},
	bcp.KindStep:        changes{},
	bcp.KindCall:        changes{},
	bcp.KindOutcome:     changes{},
	bcp.KindDeclare:     roles{},
	bcp.KindUsage:       usages{},
	bcp.KindEndorse:     approvals{},
	bcp.KindHand:        sessions{},
}

// silent releases nothing of its own.
type silent struct{}

func (silent) release(*Gateway, *outcome) {}
