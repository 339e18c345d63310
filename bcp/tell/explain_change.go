package tell

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// remedies say what would let a refused message through, each by itself, by the check that
// objected: keys of the definitions, or another message. What is in braces stands for the
// names of the decision.
var remedies = map[bcp.Check][]string{
	bcp.CheckRefusals:      {"wait for the next minute", "a higher max_refusals in mesh.yaml"},
	bcp.CheckMessage:       {"exactly the documented message, in the sender's encoding, and no longer than its spec needs"},
	bcp.CheckChannelFirst:  {bothEntries},
	bcp.CheckChannel:       {bothEntries},
	bcp.CheckShape:         {validSpec},
	bcp.CheckSpec:          {validSpec},
	bcp.CheckRepeat:        {"another request_id, push_id, egress_id or call_id for other bytes"},
	bcp.CheckRole:          {"an attestation that meets requires_role: bcpmesh role verify judges one"},
	bcp.CheckCategory:      {"a higher max_category {channel}", "an ask in a lower category"},
	bcp.CheckJustified:     {"escalation.justification, in the controller's own words, within max_justification_words and max_justification_chars", "an ask that is no escalation"},
	bcp.CheckHandle:        {"use a handle as it came, in the session in which it came"},
	bcp.CheckOwnWords:      {"a justification that repeats no six words of a delivery, in whatever order and spelling", "an ask that is no escalation"},
	bcp.CheckSessionFailed: {newSession, "an ask that is no escalation"},
	bcp.CheckEscalations:   {newSession, "an ask that is no escalation", "a higher max_escalations {channel}, for the next session"},
	bcp.CheckCat2Queries:   {"an ask in category 1", newEpoch, "a higher max_cat2_queries {channel}"},
	bcp.CheckReader:        {"a command of {reader} that can be started"},
	bcp.CheckController:    {"a command of {controller} that can be started"},
	bcp.CheckSuspended:     {"the operator: bcpmesh taint {agent} --lift, after a look at why"},
	bcp.CheckOutbox:        {"{controller} acknowledges the deliveries that wait for it"},
	bcp.CheckQuery:         {"an answer to a query that the gateway sent to this reader, on the subject that it names"},
	bcp.CheckAnswered:      {"nothing: a query is answered once"},
	bcp.CheckCancelled:     {"the controller asks again in a session that it leaves open"},
	bcp.CheckDeadline:      {"an answer within the query's time", "a longer query_ttl {channel}"},
	bcp.CheckNoInformation: {"allow_not_enough_information: true in the ask"},
	bcp.CheckAnswer:        {"an answer as the spec has it: bcpmesh validate judges one", "a spec that allows it, at its price"},
	bcp.CheckQueue:         {"approvers decide what waits: bcpmesh approvals", "a higher max_pending_approvals {channel}"},
	bcp.CheckSubscription:  {"a subscription with id: {subscription} in the entry {peer: {reader}, role: controller} of {controller}"},
	bcp.CheckFilter:        {"an answer for which publish_when holds, which bcp_subscriptions_active shows the reader", "another publish_when of the subscription {subscription}, or none"},
	bcp.CheckAct:           {"an act that bcpmesh has a command for, about an agent of the mesh"},
	bcp.CheckItem:          {"an item of bcpmesh approvals"},
	bcp.CheckInTime:        {"a decision before the item's deadline", "a longer approval_ttl {channel}"},
	bcp.CheckDigest:        {"a decision about what bcpmesh approvals ITEM shows now"},
	bcp.CheckApprover:      {"{agent} among the approvers of the channel or of mesh.yaml"},
	bcp.CheckSignature:     {"a decision signed with the key of the connection that it comes over"},
	bcp.CheckEndorse:       {"an entry of endorse in mesh.yaml that names {agent} for this channel, with as many uses and bits and so long a time"},
	bcp.CheckStands:        {"the definitions under which it was held", "rejecting the item"},
	bcp.CheckApproval:      {"a decision that this kind of item can have; an edit has to be valid for its spec"},
	bcp.CheckKeeper:        {"a URL that the agent may fetch"},
	bcp.CheckNetwork:       {"the host, and its port, in network of {agent}", "of a private address also its prefix in allow_addresses of mesh.yaml"},
	bcp.CheckLinks:         {"a link of a page that the agent was served, or one of its start_urls", "links_only: false of {agent}"},
	bcp.CheckEgressBudget:  {windowEnds, "a greater egress_budget_bits of {agent}", "links instead of URLs that the agent puts together"},
	bcp.CheckEgressBytes:   {windowEnds, "a greater egress_bytes or egress_host_bytes of {agent}"},
	bcp.CheckModel:         {"a model that mesh.yaml has under models, or provider/model", "its price in mesh.yaml, or no cost_budget of {agent}"},
	bcp.CheckCostBudget:    {windowEnds, "a greater cost_budget of {agent}, or a cheaper model"},
	bcp.CheckTokenBudget:   {windowEnds, "a greater token_budget of {agent}"},
	bcp.CheckPermission:    {"a channel that gives the agent this subject, under bcp_channels of both ends; subjects of the mesh's own it is never given"},
}

const (
	bothEntries = "an entry {peer: {reader}, role: controller} of {controller} and an entry {peer: {controller}, role: reader} of {reader}, under bcp_channels"
	validSpec   = "a spec that bcpmesh validate takes"
	newSession  = "a new session: bcpmesh session close, then open"
	newEpoch    = "a new epoch: bcpmesh session open --renew"
	windowEnds  = "wait for the end of the window"
)

// changes says what would have let a refused or held message through.
func (e *explainer) changes() (changes []string) {
	d := e.d
	switch {
	case isBudget(d.Check):
		changes = e.cheaper()
	case d.Check != 0 || d.Verdict != bcp.Hold:
		changes = remedies[d.Check]
	case d.Kind == bcp.KindAsk || d.Category == 3:
		changes = []string{"nothing: category 3 always waits for a person (P3.5, P6.3); an ask in category 2 does not"}
	default:
		changes = []string{"on_anomaly: flag {channel} delivers it with its codes", "an answer that the rules do not object to"}
	}
	names := strings.NewReplacer("{channel}", "on the channel of "+string(d.Controller)+" and "+string(d.Reader),
		"{controller}", string(d.Controller), "{reader}", string(d.Reader), "{agent}", string(d.Agent), "{subscription}", string(d.Subscription))
	named := make([]string, len(changes))
	for i, change := range changes {
		named[i] = names.Replace(change)
	}
	return named
}

// cheaper says which budget would do, and what would fit this one.
func (e *explainer) cheaper() []string {
	check, where, otherwise := e.d.Check, "{channel}", newEpoch
	switch check {
	case bcp.CheckTotalBudget:
		where = "of {controller}"
	case bcp.CheckWindowBudget:
		otherwise = "time: the window gives back what is older than it is long"
	}
	more := fmt.Sprintf("a %s that is %s greater, %s", check.Info().Key, e.d.Lack, where)
	if enough, known := e.enough(); known {
		more = fmt.Sprintf("%s: %s %s", check.Info().Key, enough, where)
	}
	return []string{more, fmt.Sprintf("a form that costs at most %s: a boolean costs 1 bit, a word 11", remaining(e.d).Words()), otherwise}
}
