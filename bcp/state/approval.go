package state

import (
	"crypto/sha256"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// newest returns the last releases that fit a view, oldest first.
func newest(releases []bcp.Release) []bcp.Release {
	size := 0
	for i := len(releases) - 1; i >= 0; i-- {
		if size += len(releases[i].Content); size > maxReleaseBytes {
			releases = releases[i+1:]
			break
		}
	}
	return slices.Clip(releases)
}

// ItemsFor returns what waits for this approver: items of the channels whose
// approvers it is one of, oldest first, and the channels taking turns, so that
// one that floods does not hide the others (PROTOCOL P7.1).
func (s *State) ItemsFor(approver bcp.AgentName) []bcp.Item {
	items := s.itemsWhere(func(it bcp.Item) bool { return s.mayDecide(approver, it) }, func(it *bcp.RunItem) bool { return s.mayDecideRun(approver, it) })
	turn := make(map[bcp.ChannelKey]int)
	turns := make(map[bcp.ItemID]int, len(items))
	for _, it := range items {
		turns[it.ID] = turn[it.Channel()]
		turn[it.Channel()]++
	}
	slices.SortStableFunc(items, func(a, b bcp.Item) int { return turns[a.ID] - turns[b.ID] })
	return items
}

// mayDecide reports whether a person is an approver of the item's channel.
func (s *State) mayDecide(approver bcp.AgentName, it bcp.Item) bool {
	return s.approves(approver, s.channels[it.Channel()])
}

// View returns an item as an approver of its channel sees it. The code is empty,
// item_not_found, item_expired, already_decided or not_permitted.
func (s *State) View(approver bcp.AgentName, id bcp.ItemID) (bcp.ItemView, bcp.Code) {
	if it, ok := s.runs.Item(id); ok {
		if !s.mayDecideRun(approver, &it) {
			return bcp.ItemView{}, bcp.NotPermitted
		}
		view := bcp.ItemView{Item: it.Item, Content: it.Content, SHA256: sha256.Sum256(it.Content), Effect: &it.Effect,
			Source: bcp.Source{Agent: it.Effect.Service, Description: it.Effect.Description, Taint: it.Taint}}
		view.Endorse = s.limit(approver, &view)
		return view, ""
	}
	it := s.findItem(id)
	if it == nil {
		return bcp.ItemView{}, s.goneItem(id, s.last.Time)
	}
	if !s.mayDecide(approver, it.Item) {
		return bcp.ItemView{}, bcp.NotPermitted
	}
	view := bcp.ItemView{Item: it.Item, Justification: it.justification, JustificationBits: it.carries, SHA256: sha256.Sum256(it.content)}
	if it.Kind != bcp.ItemEscalation {
		view.Content = it.content
	}
	if v := s.itemValidator(it); v != nil {
		view.Spec = v.Spec()
	}
	source := it.Reader
	if p, ok := parseProposal(it.content); ok && it.Kind == bcp.ItemProposal {
		view.Spec, source = p.Subscription.Spec, it.Controller
	}
	if it.Kind == bcp.ItemEscalation {
		// As it was asked, without defaults: encoded, it is the bytes that SHA256 is
		// of, so an approver can compare what is shown with what is signed.
		var asked bcp.Spec
		if json.Unmarshal(it.content, &asked, json.RejectUnknownMembers(true)) == nil {
			view.Spec = asked
		}
	}
	if a := s.agents[source]; a != nil {
		view.Source = bcp.Source{Agent: source, Description: a.definition.Description, Network: a.definition.Network,
			Tools: a.definition.Tools, Taint: bcp.MaxTaint(a.definition.BaseTaint, a.reported)}
	}
	if a := s.agents[it.Controller]; a != nil {
		view.Earlier = newest(a.earlierReleases())
	}
	view.Endorse = s.limit(approver, &view)
	return view, ""
}

// Preview judges an edit without deciding anything.
func (s *State) Preview(approver bcp.AgentName, body []byte) (bcp.EditPreview, bcp.Refusal) {
	a, code := bcp.ParseApproval(body)
	if code != "" {
		return bcp.EditPreview{}, bcp.RefusalOf(code)
	}
	if it, ok := s.runs.Item(a.Item); ok {
		return s.previewResult(approver, &it, &a)
	}
	it := s.findItem(a.Item)
	switch {
	case it == nil:
		return bcp.EditPreview{}, bcp.RefusalOf(s.goneItem(a.Item, s.last.Time))
	case !s.mayDecide(approver, it.Item):
		return bcp.EditPreview{}, bcp.RefusalOf(bcp.NotPermitted)
	}
	verdict := s.judgeEdit(it, a)
	if verdict.Answer.IsZero() {
		return bcp.EditPreview{}, bcp.Refusal{Error: bcp.Malformed, Detail: bcp.ReaderDetail(verdict.Reason.Code(), verdict.Reason, verdict.Field, "", "")}
	}
	content := verdict.Answer.JSON()
	return bcp.EditPreview{Item: it.ID, Content: content, SHA256: sha256.Sum256(content), Anomalies: verdict.Anomalies}, bcp.Refusal{}
}

// judgeEdit validates what a person wrote in place of an answer. Anomalies do
// not hold it again: a person has seen it.
func (s *State) judgeEdit(it *itemState, a bcp.Approval) bcp.Verdict {
	v := s.itemValidator(it)
	if v == nil || it.Kind == bcp.ItemEscalation || len(a.Response) == 0 {
		return bcp.Verdict{Outcome: bcp.Reject, Reason: bcp.ReasonMalformed}
	}
	return v.Validate(a.Response, bcp.JSON)
}

// DecideApproval judges what a person says about an item, with the credentials
// of the connection that it came over, as the server knows it. A decision that
// counts has Verdict Accept, whatever was decided.
func (s *State) DecideApproval(m bcp.Moment, approver bcp.AgentName, from bcp.Sender, act bcp.Act, body []byte) bcp.Decision {
	d := s.next(m, bcp.KindApproval)
	d.Agent, d.Role, d.Event, d.RawBytes = approver, bcp.RoleApprover, string(act), len(body)
	a, code := bcp.ParseApproval(body)
	if code != "" {
		return refuse(d, bcp.CheckMessage, code)
	}
	d.Item = a.Item
	if it, ok := s.runs.Item(a.Item); ok {
		return s.decideRunItem(d, m, &it, from, act, &a)
	}
	it := s.findItem(a.Item)
	if it == nil {
		return refuse(d, bcp.CheckItem, s.goneItem(a.Item, d.Time))
	}
	d.Controller, d.Reader, d.Query, d.Subscription, d.Category = it.Controller, it.Reader, it.Query, it.subscription, it.Category
	q := s.queries[it.Query]
	if !d.At().Before(it.Deadline) || !d.At().Before(a.Expires) || it.Kind == bcp.ItemEscalation && q.isCancelled() {
		return refuse(d, bcp.CheckInTime, bcp.ItemExpired)
	}
	content, code := s.decidedBytes(it, act, a)
	stands := func() bool { return act == bcp.RejectItem || s.isReleasable(it, content) }
	if check, refused := s.judgeApproval(&it.Item, s.mayDecide(approver, it.Item), stands, from, act, &a, content, code); refused != "" {
		return refuse(d, check, refused)
	}
	d.Verdict, d.Note = bcp.Accept, a.Reason
	signed(&d, from, &a)
	s.carryOut(&d, m, it, act, content)
	return d
}

// isReleasable reports whether an item may still be released: the definitions may have
// changed since it was held (PROTOCOL P1.5), and those of today hold; and it may
// have been erased. It may be rejected all the same.
func (s *State) isReleasable(it *itemState, content []byte) bool {
	if p, ok := parseProposal(content); it.Kind == bcp.ItemProposal {
		_, code := s.judgeProposal(it.Controller, &p)
		return ok && code == ""
	}
	if it.Kind == bcp.ItemHanded {
		return true // nothing is released
	}
	if len(content) == 0 || it.Category > s.channels[it.Channel()].definition.MaxCategory {
		return false
	}
	v := s.itemValidator(it)
	return v != nil && (it.Kind == bcp.ItemEscalation || string(v.Validate(content, bcp.JSON).Answer.JSON()) == string(content))
}

// decidedBytes returns the bytes that an act is about.
func (s *State) decidedBytes(it *itemState, act bcp.Act, a bcp.Approval) ([]byte, bcp.Code) {
	switch {
	case act == bcp.RejectItem && len(a.Response) == 0:
		return []byte(a.Reason), ""
	case a.Reason != "":
		return nil, bcp.Malformed
	case act == bcp.Approve && len(a.Response) == 0:
		return it.content, ""
	case act == bcp.EditItem:
		if verdict := s.judgeEdit(it, a); !verdict.Answer.IsZero() {
			return verdict.Answer.JSON(), ""
		}
	}
	return nil, bcp.Malformed
}

// carryOut makes the decision do what the person wants.
func (s *State) carryOut(d *bcp.Decision, m bcp.Moment, it *itemState, act bcp.Act, content []byte) {
	ch, q := s.channels[it.Channel()], s.queries[it.Query]
	d.Epoch = ch.newest()
	if q != nil {
		d.Epoch = q.epoch
	}
	switch {
	case it.Kind == bcp.ItemHanded: // it was shown
	case it.Kind == bcp.ItemProposal:
		if act == bcp.Approve {
			d.Payload = content
		}
	case it.Kind == bcp.ItemEscalation && act == bcp.Approve:
		d.Deadline = d.Time
		if s.rolesShown(&ch.definition, d.Time) {
			d.Deadline += int64(ch.definition.QueryTTL)
		}
	case it.Kind == bcp.ItemEscalation:
		s.fail(d, m, ch, q, bcp.EscalationDenied)
		return
	case act == bcp.RejectItem:
		s.settleItem(d, m, it, bcp.ApprovalRejected)
		return
	default:
		d.Payload = content
		s.settleItem(d, m, it, "")
		return
	}
	d.Balance = ch.pool(d.Epoch)
}

// settleItem ends an item whose content was charged when it was held: with its
// delivery, or with an outcome, which only the Controller of a query hears. The
// Reader gets the final result (PROTOCOL P7.6).
func (s *State) settleItem(d *bcp.Decision, m bcp.Moment, it *itemState, outcome bcp.Code) {
	ch := s.allChannels[it.Channel()]
	if pushes := ch.findPushes(it.Subscription); outcome == "" && pushes.window > 0 {
		d.Release, d.Taint = pushes.endWithRoom(d.Time), bcp.MaxTaint(s.answerTaint(it.Reader, d.Time), it.Taint)
		d.Nominal, d.Capacity, d.Timing, d.Prepaid = it.Nominal, it.Capacity, ch.definition.ReleaseInterval > 0, true
	} else if outcome == "" || it.Query != "" {
		s.deliver(d, m, ch, outcome)
		d.Taint = bcp.MaxTaint(d.Taint, it.Taint) // what was forgotten since makes nothing clean
		d.Nominal, d.Capacity, d.Timing, d.Prepaid = it.Nominal, it.Capacity, ch.definition.ReleaseInterval > 0, true
	}
	d.Notice = newNoticeID(m)
	d.Balance = ch.pool(d.Epoch)
}
