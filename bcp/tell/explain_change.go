package tell

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// changes says what would have let a refused or held message through: keys of
// the definitions with a value that suffices, or another message.
func (e *explainer) changes() []string {
	d, c := e.d, &e.channel
	key := func(name string, value any) string {
		return fmt.Sprintf("%s: %v on the channel of %s and %s", name, value, d.Controller, d.Reader)
	}
	switch d.Check {
	case bcp.CheckRefusals:
		if e.mesh != nil {
			return []string{"wait for the next minute", fmt.Sprintf("a max_refusals above %d/m in mesh.yaml", e.mesh.MaxRefusals)}
		}
		return []string{"wait for the next minute", "a higher max_refusals in mesh.yaml"}
	case bcp.CheckMessage:
		return []string{e.smaller()}
	case bcp.CheckChannelFirst, bcp.CheckChannel:
		return []string{fmt.Sprintf("an entry {peer: %s, role: controller} of %s and an entry {peer: %s, role: reader} of %s, under bcp_channels", d.Reader, d.Controller, d.Controller, d.Reader)}
	case bcp.CheckShape, bcp.CheckSpec:
		return []string{"a spec that bcpmesh validate takes"}
	case bcp.CheckRepeat:
		if d.Kind == bcp.KindEgress {
			return []string{"another egress_id for another request"}
		}
		if d.Kind == bcp.KindUsage {
			return []string{"another call_id for another call"}
		}
		return []string{"another request_id or push_id for other bytes"}
	case bcp.CheckRole:
		return []string{"an attestation that meets requires_role: bcpmesh role verify judges one"}
	case bcp.CheckCategory:
		changes := []string{key("max_category", d.Category)}
		if e.known {
			changes = append(changes, fmt.Sprintf("an ask in category %d", c.MaxCategory))
		}
		return changes
	case bcp.CheckJustified:
		own := "escalation.justification, in the controller's own words"
		if e.known {
			own += fmt.Sprintf(", at most %d of them and %d characters", c.MaxJustificationWords, c.MaxJustificationChars)
			if c.JustificationVocabulary != "" {
				own = fmt.Sprintf("escalation.justification, at most %d words of the list %s", c.MaxJustificationWords, c.JustificationVocabulary)
			}
		}
		return e.withBase(own)
	case bcp.CheckHandle:
		return []string{"use a handle as it came, in the session in which it came"}
	case bcp.CheckOwnWords:
		return e.withBase("a justification that repeats no six words of a delivery, in whatever order and spelling")
	case bcp.CheckSessionFailed, bcp.CheckEscalations:
		changes := []string{"a new session: bcpmesh session close, then open", "an ask that is no escalation"}
		if e.known {
			changes = append(changes, key("max_escalations", c.MaxEscalations+1)+", for the next session")
		}
		return changes
	case bcp.CheckCat2Queries:
		changes := []string{"an ask in category 1", "a new epoch: bcpmesh session open --renew"}
		if e.known {
			changes = append(changes, key("max_cat2_queries", c.MaxCat2Queries+1))
		}
		return changes
	case bcp.CheckBudget, bcp.CheckPushBudget, bcp.CheckCapacityBudget, bcp.CheckWindowBudget, bcp.CheckTotalBudget:
		return e.cheaper()
	case bcp.CheckReader:
		return []string{fmt.Sprintf("a command of %s that can be started", d.Reader)}
	case bcp.CheckController:
		return []string{fmt.Sprintf("a command of %s that can be started", d.Controller)}
	case bcp.CheckSuspended:
		return []string{fmt.Sprintf("the operator: bcpmesh taint %s --lift, after a look at why", d.Agent)}
	case bcp.CheckOutbox:
		return []string{fmt.Sprintf("%s acknowledges the deliveries that wait for it", d.Controller)}
	case bcp.CheckQuery:
		return []string{"an answer to a query that the gateway sent to this reader, on the subject that it names"}
	case bcp.CheckAnswered:
		return []string{"nothing: a query is answered once"}
	case bcp.CheckCancelled:
		return []string{"the controller asks again in a session that it leaves open"}
	case bcp.CheckDeadline:
		changes := []string{"an answer within the query's time"}
		if e.known {
			changes = append(changes, key("query_ttl", "more than "+c.QueryTTL.String()))
		}
		return changes
	case bcp.CheckNoInformation:
		return []string{"allow_not_enough_information: true in the ask"}
	case bcp.CheckAnswer:
		return e.answerable()
	case bcp.CheckQueue:
		changes := []string{"approvers decide what waits: bcpmesh approvals"}
		if e.known {
			changes = append(changes, key("max_pending_approvals", c.MaxPendingApprovals+1))
		}
		return changes
	case bcp.CheckSubscription:
		return []string{fmt.Sprintf("a subscription with id: %s in the entry {peer: %s, role: controller} of %s", d.Subscription, d.Reader, d.Controller)}
	case bcp.CheckFilter:
		return []string{"an answer for which publish_when holds, which bcp_subscriptions_active shows the reader",
			fmt.Sprintf("another publish_when of the subscription %s, or none", d.Subscription)}
	case bcp.CheckAct:
		return []string{"an act that bcpmesh has a command for, about an agent of the mesh"}
	case bcp.CheckItem:
		return []string{"an item of bcpmesh approvals"}
	case bcp.CheckInTime:
		return []string{"a decision before the item's deadline", key("approval_ttl", "longer")}
	case bcp.CheckDigest:
		return []string{"a decision about what bcpmesh approvals ITEM shows now"}
	case bcp.CheckApprover:
		return []string{fmt.Sprintf("%s among the approvers of the channel or of mesh.yaml", d.Agent)}
	case bcp.CheckSignature:
		return []string{"a decision signed with the key of the connection that it comes over"}
	case bcp.CheckEndorse:
		return []string{fmt.Sprintf("an entry of endorse in mesh.yaml that names %s for this channel, with as many uses and bits and so long a time", d.Agent)}
	case bcp.CheckStands:
		return []string{"the definitions under which it was held", "rejecting the item"}
	case bcp.CheckApproval:
		return []string{"a decision that this kind of item can have; an edit has to be valid for its spec"}
	case bcp.CheckKeeper, bcp.CheckNetwork:
		return e.reachable()
	case bcp.CheckLinks:
		return []string{"a link of a page that the agent was served, or one of its start_urls", "links_only: false of " + string(d.Agent)}
	case bcp.CheckEgressBudget:
		return []string{"wait for the end of the window", fmt.Sprintf("egress_budget_bits of %s: %s more", d.Agent, roundBits(d.Lack)), "links instead of URLs that the agent puts together"}
	case bcp.CheckEgressBytes:
		return []string{"wait for the end of the window", fmt.Sprintf("a greater egress_bytes or egress_host_bytes of %s", d.Agent)}
	case bcp.CheckModel:
		return []string{"a model that mesh.yaml has under models, or provider/model", "its price in mesh.yaml, or no cost_budget of " + string(d.Agent)}
	case bcp.CheckCostBudget:
		return []string{"wait for the end of the window", fmt.Sprintf("a greater cost_budget of %s, or a cheaper model", d.Agent)}
	case bcp.CheckTokenBudget:
		return []string{"wait for the end of the window", fmt.Sprintf("a greater token_budget of %s", d.Agent)}
	case bcp.CheckPermission:
		return []string{"a channel that gives the agent this subject, under bcp_channels of both ends; subjects of the mesh's own it is never given"}
	}
	if d.Verdict == bcp.Hold && d.Kind != bcp.KindAsk && d.Category < 3 {
		return []string{key("on_anomaly", "flag") + " delivers it with its codes", "an answer that the rules do not object to"}
	}
	if d.Verdict == bcp.Hold {
		return []string{"nothing: category 3 always waits for a person (P3.5, P6.3); an ask in category 2 does not"}
	}
	return nil
}

// reachable says what would have a host be reached.
func (e *explainer) reachable() []string {
	if c := e.d.Egress; c != nil {
		switch c.Why {
		case guard.DenyAll, guard.HostDenied, guard.PortDenied:
			return []string{fmt.Sprintf("the host, and its port, in network of %s", e.d.Agent)}
		case guard.PrivateAddress:
			return []string{"the address with its port in network, or its prefix in allow_addresses of mesh.yaml"}
		case "":
		default:
			return []string{"another URL: " + c.Why.Error()}
		}
	}
	return []string{"a URL that the agent may fetch"}
}

func (e *explainer) smaller() string {
	if e.d.Kind == bcp.KindEgress || e.d.Kind == bcp.KindUsage {
		return "a message that bcp/PROTOCOL.md has, of at most 16 KiB"
	}
	if e.d.Code == bcp.MessageTooLarge {
		return "a shorter message: what an agent may send follows from the longest text of the spec"
	}
	if e.mesh != nil {
		if a, ok := e.mesh.Agent(e.d.Agent); ok {
			return fmt.Sprintf("exactly the documented message, in %s", a.Encoding)
		}
	}
	return "exactly the documented message, in the sender's encoding"
}

// withBase adds that category 2 need not be an escalation.
func (e *explainer) withBase(first string) []string {
	changes := []string{first}
	if e.d.Category == 2 && e.known && e.channel.BaseCategory == 1 {
		changes = append(changes, fmt.Sprintf("base_category: 2 on the channel of %s and %s", e.d.Controller, e.d.Reader))
	}
	return changes
}

// cheaper says what would fit a budget, and which budget would do.
func (e *explainer) cheaper() []string {
	d := e.d
	info := d.Check.Info()
	where := fmt.Sprintf("on the channel of %s and %s", d.Controller, d.Reader)
	if d.Check == bcp.CheckTotalBudget {
		where = "of " + string(d.Controller)
	}
	left := remaining(d)
	more := fmt.Sprintf("a %s that is %s greater, %s", info.Key, d.Lack, where)
	if enough, known := e.enough(); known {
		more = fmt.Sprintf("%s: %s %s", info.Key, roundBits(enough), where)
	}
	changes := []string{more}
	form := fmt.Sprintf("a form that costs at most %s: ", left.Words())
	switch words := left / bcp.WordBits; {
	case d.Check == bcp.CheckCapacityBudget:
		changes = append(changes, form+"fewer possible answers")
	case left < bcp.Bit:
		changes = append(changes, "nothing: the least that anything costs is 1 bit")
	case words == 0:
		changes = append(changes, form+fmt.Sprintf("%s at 1 bit each", Count(int(left/bcp.Bit), "boolean")))
	default:
		changes = append(changes, form+fmt.Sprintf("%s at 11 bits each, or %s at 1 bit", Count(int(words), "word"), Count(int(left/bcp.Bit), "boolean")))
	}
	if d.Check == bcp.CheckWindowBudget {
		return append(changes, "time: bcpmesh ledger forecast shows when the window gives back how much")
	}
	return append(changes, "a new epoch: bcpmesh session open --renew")
}

// roundBits writes bits as a definition can have them.
func roundBits(b bcp.Bits) string {
	if b%bcp.Bit == 0 {
		return fmt.Sprint(int64(b / bcp.Bit))
	}
	return b.String()
}

// answerable says how an answer would have been taken.
func (e *explainer) answerable() []string {
	d := e.d
	where := "of the spec"
	if d.Field != "" {
		where = "of " + d.Field
	}
	switch d.Reason {
	case bcp.ReasonWords:
		return []string{"fewer words", fmt.Sprintf("a greater max_words %s; each word costs %s", where, bcp.WordBits.Words())}
	case bcp.ReasonWordLength:
		return []string{"words of at most 24 characters"}
	case bcp.ReasonLength:
		return []string{"a shorter answer", "a greater max_chars " + where}
	case bcp.ReasonLook:
		return []string{"other words beside it that show its script", "alphabet: " + strings.Join(text.Alphabets()[3:], ", ") + " " + where + ", whichever the answers are in"}
	case bcp.ReasonAlphabet:
		return []string{"letters of its alphabet", "alphabet: any " + where + ", which costs capacity bits"}
	case bcp.ReasonValue:
		return []string{"one of the values " + where, "another value in them: log2 of their number is the price"}
	case bcp.ReasonRange:
		return []string{"a number within min and max", "wider bounds " + where + ": log2 of their range is the price"}
	case bcp.ReasonAnomaly:
		return []string{"an answer that the rules do not object to", fmt.Sprintf("on_anomaly: hold on the channel of %s and %s, so that a person decides, or flag", d.Controller, d.Reader)}
	case bcp.ReasonMissing:
		return []string{"an answer to every field and question"}
	case bcp.ReasonUnknownName:
		return []string{"only the fields and questions of the spec"}
	case bcp.ReasonType, bcp.ReasonFormat:
		return []string{"a value of the exact type and format " + where}
	case bcp.ReasonEmpty:
		return []string{"a word or more"}
	}
	return []string{"an answer as the spec has it: bcpmesh validate judges one"}
}
