package bcp_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What an agent is told to do is something that an agent may do: to widen a channel is
// for people, and a model that is told to would try, or have somebody try.
func TestAdviceOfRefusalsIsForAgents(t *testing.T) {
	t.Parallel()
	for _, line := range bcp.Catalogue() {
		for _, word := range []string{"raise", "definition", "declare", "policy", "configur", "mesh.yaml", "budget_bits", "max_"} {
			failIf(t, line.To&(bcp.ToReader|bcp.ToController) != 0 && strings.Contains(line.Decision, word),
				"%s tells an agent to %q", line.Code, line.Decision)
		}
	}
}

// What a Controller can hear of a query that ends without an answer is what
// its failure price counts.
//
// covers P4.1, P10
func TestOutcomesAreThoseThatArePriced(t *testing.T) {
	t.Parallel()
	priced := map[bcp.Code]bool{
		bcp.Rejected: true, bcp.Expired: true, bcp.Cancelled: true, bcp.Unavailable: true, bcp.Internal: true, // any query
		bcp.NotEnoughInformation: true,                            // where it is allowed
		bcp.ApprovalRejected:     true, bcp.ApprovalExpired: true, // where an answer may be held
		bcp.EscalationDenied: true, // summaries
		bcp.Held:             true, // not an end
		bcp.BudgetExhausted:  true, // follows from the pushes of its slot, which are
	}
	for _, line := range bcp.Catalogue() {
		failIf(t, line.Outcome && line.To&bcp.ToController != 0 && !priced[line.Code],
			"%s is an outcome that capacity.go does not count", line.Code)
		failIf(t, priced[line.Code] && !line.Outcome, "%s is counted and is no outcome", line.Code)
	}
}

// The seed's five texts, word for word.
//
// covers SUB-113, SUB-114, SUB-115, P10
func TestReaderHearsTheSeedsTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   bcp.Code
		reason bcp.Reason
		field  string
		want   string
	}{
		{bcp.SubscriptionNotFound, 0, "", "No active subscription 'research-findings' from controller 'main'"},
		{bcp.BudgetExhausted, 0, "", "Bandwidth budget exhausted for channel to 'main'"},
		{bcp.ControllerUnavailable, 0, "", "Controller 'main' is unavailable"},
		{bcp.ApprovalRejected, 0, "", "Publish rejected by reviewer: no reason given"},
		{bcp.ValidationFailed, bcp.ReasonWords, "q1", "q1: has too many words"},
		{bcp.ValidationFailed, bcp.ReasonUnknownName, "", "a name that the spec does not have"},
		{bcp.ValidationFailed, 0, "", "the answer does not match its spec"},
		{bcp.Malformed, bcp.ReasonMalformed, "", "the answer is not well-formed"},
		{bcp.MessageTooLarge, bcp.ReasonTooLarge, "", "the answer is larger than its spec allows"},
		{bcp.QueryUnknown, 0, "", "no such query is open"},
	} {
		expect(t, bcp.ReaderDetail(c.code, c.reason, c.field, "research-findings", "main"), c.want, "%s", c.code)
	}
}

// Every reason has a text and a code of the Reader's list.
//
// covers SUB-114, P10
func TestReasons(t *testing.T) {
	t.Parallel()
	texts := map[string]bool{}
	for r := bcp.ReasonTooLarge; r <= bcp.ReasonLook; r++ {
		failIf(t, texts[r.String()] || r.String() == "" || r.String() == "invalid", "reason %d says %q", r, r)
		texts[r.String()] = true
		failIf(t, r.Code().Info().To&bcp.ToReader == 0, "reason %d has the code %q", r, r.Code())
	}
	if past := bcp.ReasonLook + 1; past.String() != "invalid" || past.Code() != bcp.ValidationFailed {
		t.Errorf("a reason that there is not says %q, %q", past, past.Code())
	}
}
