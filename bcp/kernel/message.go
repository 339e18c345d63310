package kernel

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Types of messages.
const (
	TypePlanRequest = "bcp_plan_request"
	TypePlan        = "bcp_plan"
	TypeCall        = "bcp_call"
	TypeOutcome     = "bcp_outcome"
)

// envelope reads a message: an object of its type with no keys but these.
func envelope(body []byte, limit int, word string, keys ...string) (Value, Code) {
	if len(body) > limit {
		return Value{}, TooLarge
	}
	v, err := ParseValue(body)
	if err != nil {
		return Value{}, Malformed
	}
	if t := v.member("type"); t != nil && (t.kind != TextValue || t.text != word) || !v.onlyHas(append(keys, "type")...) {
		return Value{}, Malformed
	}
	return v, ""
}

// optionalText returns a member that is a text, or is absent.
func (v *Value) optionalText(key string) (text string, ok bool) {
	m := v.member(key)
	if m == nil {
		return "", true
	}
	return m.text, m.kind == TextValue
}

// runMessage is what a requester asks for.
type runMessage struct {
	request bcp.ClientID
	task    string
	rules   []RunRule
	// planOnly asks for a plan that is judged and not run.
	planOnly bool
	// question is what it answers instead, with answer, unless it refused to.
	question bcp.ItemID
	answer   []byte
	refused  bool
	// anew says that the requester begins anew: it knows nothing of what it was told.
	anew bool
}

// BeginsAnew reports whether a requester's message says that it begins anew.
func BeginsAnew(body []byte) bool {
	m, code := parseRun(body)
	return code == "" && m.anew
}

// parseRun reads {type?, request_id?, task, forbid?: [{tool, when}], plan_only?: true,
// new_session?: true}, or {type?, question_id, answer: object or refused: true,
// new_session?: true}.
func parseRun(body []byte) (runMessage, Code) {
	var m runMessage
	v, code := envelope(body, MaxTask+maxEnvelope*MaxRunRules, bcp.TypeRun, "request_id", "task", "forbid", "plan_only", "new_session", "question_id", "answer", "refused")
	if code != "" {
		return m, code
	}
	if v.member("question_id") != nil {
		return parseReply(&v)
	}
	request, ok1 := v.optionalText("request_id")
	task, ok2 := v.optionalText("task")
	ok := ok1 && ok2 && says(task)
	if request != "" {
		id, err := bcp.ParseClientID(request)
		m.request, ok = id, ok && err == nil
	}
	ok = ok && v.member("answer") == nil && v.member("refused") == nil && v.isTrue("plan_only", &m.planOnly) && v.isTrue("new_session", &m.anew)
	if m.task = task; len(task) > MaxTask {
		return m, TooLarge
	}
	if rules := v.member("forbid"); rules != nil {
		ok = ok && rules.kind == ListValue && len(rules.list) <= MaxRunRules
		for i := range rules.list {
			r := &rules.list[i]
			tool, ok1 := r.optionalText("tool")
			when, ok2 := r.optionalText("when")
			ok = ok && ok1 && ok2 && len(r.keys) == 2
			m.rules = append(m.rules, RunRule{tool, when})
		}
	}
	if !ok {
		return m, Malformed
	}
	return m, ""
}

// parseReply reads what answers a question.
func parseReply(v *Value) (m runMessage, code Code) {
	id, _ := v.optionalText("question_id")
	var err error
	m.question, err = bcp.ParseItemID(id)
	ok := err == nil && v.isTrue("refused", &m.refused) && v.isTrue("new_session", &m.anew)
	said := "refused"
	if answer := v.member("answer"); answer != nil {
		m.answer, said = answer.JSON(), "answer"
	}
	if !ok || !v.onlyHas("type", "question_id", "new_session", said) || (m.answer == nil) != m.refused {
		return runMessage{}, Malformed
	}
	return m, ""
}

// isTrue reads a member that is true, or is absent.
func (v *Value) isTrue(key string, p *bool) bool {
	m := v.member(key)
	*p = m != nil
	return m == nil || m.kind == BoolValue && m.flag
}

// parsePlanMessage reads {type?, plan_id, plan}, {type?, plan_id, refused: true} or
// {type?, plan_id, unavailable: true} and returns the plan's bytes. A plan that is a text is read as what it spells: a
// planner need not look at what its model wrote.
func parsePlanMessage(body []byte, id string) ([]byte, Code) {
	if len(body) > (6*MaxPlanBytes)+maxEnvelope {
		return nil, TooLarge
	}
	m, err := readPlanMessage(body)
	switch {
	case err != nil, m.id != id, (m.refused || m.away) && m.plan != nil, m.refused && m.away:
		return nil, PlannerMalformed
	case m.away:
		return nil, PlannerUnavailable
	case m.refused:
		return nil, PlannerRefused
	case len(m.plan) == 0:
		return nil, PlannerEmpty
	case len(m.plan) > MaxPlanBytes:
		return nil, TooLarge
	default:
		return m.plan, ""
	}
}

// outcome is what a tool answered.
type outcome struct {
	value        Value
	note         string // what it says about its failure
	notPerformed bool
	code         Code
}

// parseOutcome reads {type?, call_id, result}, or {type?, call_id, error: text,
// not_performed?: true, code?: tool_changed} of a call that failed. The code goes with a
// call that was not performed.
func parseOutcome(body []byte, call string, limit int) outcome {
	v, code := envelope(body, limit+maxEnvelope, TypeOutcome, "call_id", "result", "error", "not_performed", "code")
	if code != "" {
		if code == TooLarge {
			return outcome{code: LimitValueBytes}
		}
		return outcome{code: BadOutcome}
	}
	id, ok := v.optionalText("call_id")
	result, failed, not, why := v.member("result"), v.member("error"), v.member("not_performed"), v.member("code")
	o := outcome{code: ToolFailed, notPerformed: not != nil && not.flag}
	switch {
	case !ok, id != call, (result == nil) == (failed == nil), not != nil && (failed == nil || not.kind != BoolValue), failed != nil && failed.kind != TextValue:
		return outcome{code: BadOutcome}
	case why != nil && (!o.notPerformed || Code(why.text) != ToolChanged):
		return outcome{code: BadOutcome}
	case failed != nil:
		if why != nil {
			o.code = ToolChanged
		}
		o.note = strings.ToValidUTF8(failed.text[:min(len(failed.text), maxNote)], "")
		return o
	case len(result.JSON()) > limit:
		return outcome{code: LimitValueBytes}
	default:
		return outcome{value: *result}
	}
}
