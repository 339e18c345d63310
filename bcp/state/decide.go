package state

import (
	"crypto/sha256"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The Decide methods judge one message each, in the order of PROTOCOL P10: the
// first code that applies is the one that is heard. One code comes before its
// place: of an agent beyond max_refusals nothing is read (PROTOCOL P4.7). They
// change nothing.

// DecideStart records that a gateway begins to write, and under what.
func (s *State) DecideStart(m bcp.Moment, version string) bcp.Decision {
	d := s.next(m, bcp.KindStart)
	d.Agent, d.Versions, d.Files, d.Changes = bcp.Gateway, Versions(version), s.mesh.Files, bcp.AcceptedLegs(s.mesh)
	s.saySettings(&d)
	return d
}

// DecideAsk judges a Controller's ask. An accepted one reserves its price and
// has a Query; an escalation to category 3 is held at its gate instead.
func (s *State) DecideAsk(m bcp.Moment, controller, reader bcp.AgentName, body []byte) bcp.Decision {
	d, heard := s.fromUnsuspended(m, bcp.KindAsk, controller, bcp.RoleController, body)
	d.Controller, d.Reader = controller, reader
	if !heard {
		return d
	}
	ch := s.channels[bcp.ChannelKey{Controller: controller, Reader: reader}]
	ask, code := bcp.ParseAsk(body, s.Encoding(controller), reader)
	switch {
	case code != "" && code != bcp.InvalidQuery:
		return refuse(d, bcp.CheckMessage, code)
	case code != "" && ch == nil:
		return refuse(d, bcp.CheckChannelFirst, bcp.NoChannel)
	case code != "":
		return refuse(d, bcp.CheckShape, code)
	}
	d.Category = ask.Category
	identify(&d, ask.RequestID, body)
	if s.repeated(&d) {
		return d
	}
	if ch == nil {
		return refuse(d, bcp.CheckChannel, bcp.NoChannel)
	}
	shown, readerShown := s.roleShown(controller, ch.definition.ControllerRole, d.Time), s.roleShown(reader, ch.definition.ReaderRole, d.Time)
	if !shown || !readerShown && ch.definition.ReleaseInterval == 0 {
		d.Excused = shown // the other end has not
		return refuse(d, bcp.CheckRole, bcp.RoleRequired)
	}
	if ask.Category.Valid() && ask.Category > ch.definition.MaxCategory {
		return refuse(d, bcp.CheckCategory, bcp.CategoryDenied)
	}
	handles := s.handles(controller, &ask.Spec)
	if len(ask.Arguments) > ch.definition.MaxArgumentBytes || len(handles) > bcp.MaxHandles {
		return refuse(d, bcp.CheckSpec, bcp.InvalidQuery)
	}
	v, spec, err := s.validator(ch, ask.Spec)
	if err != nil {
		return refuse(d, bcp.CheckSpec, bcp.InvalidQuery)
	}
	for _, h := range handles {
		if e, _ := s.findEnclosed(controller, h, d.Time); e == nil {
			return refuse(d, bcp.CheckHandle, bcp.UnknownHandle)
		}
	}
	// A refused ask begins no session, so the session is set on the copy.
	accepted := d
	s.setSession(&accepted, m, controller, false)
	accepted.Epoch = ch.decisionEpoch(&accepted)
	if check, code := s.escalate(&accepted, ch, ask.Escalation); code != "" {
		if code == bcp.EscalationLimitReached {
			d.Session = accepted.Session
		}
		return refuse(d, check, code)
	}
	prices := v.Prices()
	most := ch.definition.MaxCat2Queries
	if ask.Category == 2 && most >= 0 && ch.pool(accepted.Epoch).Cat2Queries >= most {
		return refuse(d, bcp.CheckCat2Queries, bcp.QueryLimitReached)
	}
	if tight, ok := s.fits(&accepted, ch, prices.Nominal, prices.Reserve()); !ok {
		return exceed(d, tight, prices.Nominal, prices.Reserve())
	}
	// With release slots a Reader that cannot be started, or has not shown its roles, is
	// one that does not answer: its Controller hears so in a slot, and pays for it.
	away := s.agents[reader].unavailable || !readerShown
	if away && ch.definition.ReleaseInterval == 0 {
		return refuse(d, bcp.CheckReader, bcp.ReaderUnavailable)
	}
	if ch.queries() >= maxOutbox {
		return refuse(d, bcp.CheckOutbox, bcp.Unavailable)
	}
	d = accepted
	d.Verdict, d.Query, d.Spec = bcp.Accept, newQueryID(m), spec
	d.Nominal, d.Capacity, d.Timing = prices.Nominal, prices.Reserve(), ch.definition.ReleaseInterval > 0
	if len(handles) > 0 {
		d.Event = string(bcp.SourceAgent)
	}
	tight, funded := s.funded(&d, ch)
	if d.Deadline = d.Time; funded && !away {
		d.Deadline += int64(ch.definition.QueryTTL)
	}
	if !funded {
		d.Unfunded, d.Check, d.Price = true, tight.check, tight.price(d.Nominal, d.Capacity)
		d.Lack = d.Price - tight.funds
	} else if ask.Category == 3 {
		d.Verdict, d.Item, d.Deadline = bcp.Hold, newItemID(m), d.Time+int64(ch.definition.ApprovalTTL)
		s.deliver(&d, m, ch, bcp.Held)
	}
	d.Exposure = s.exposureIn(&d)
	ch.book(&d, nil)
	d.Remaining = max(0, ch.definition.Budget-ch.spent(d.Epoch, d.Time).seen()-d.Nominal)
	return d
}

// escalate applies PROTOCOL P6 to an ask whose session is known.
func (s *State) escalate(d *bcp.Decision, ch *channelState, escalation *bcp.Escalation) (bcp.Check, bcp.Code) {
	current := ch.session == d.Session
	a := s.agents[d.Controller]
	session := s.sessionAt(a, d.Time)
	armed := current && ch.armedAt(d.Time) > 0 && !s.mesh.IsKernel(d.Controller)
	d.Escalation = d.Category == 3 || d.Category == 2 && (armed || ch.definition.BaseCategory == 1)
	reason, carries, ok := "", bcp.Bits(0), false
	if d.Escalation {
		if reason, carries, ok = ch.definition.JudgeJustification(&ch.settings, escalation); !ok {
			return bcp.CheckJustified, bcp.EscalationRequired
		}
		if session.id == d.Session && s.quotes(a, &session, reason, d.Time) {
			return bcp.CheckOwnWords, bcp.EscalationRequired
		}
	}
	if current && ch.failed {
		return bcp.CheckSessionFailed, bcp.EscalationLimitReached
	}
	if d.Escalation && (ch.definition.MaxEscalations == 0 || current && ch.escalations >= ch.definition.MaxEscalations) {
		return bcp.CheckEscalations, bcp.EscalationLimitReached
	}
	d.Justification, d.JustificationBits = reason, carries
	return 0, ""
}

// DecideAnswer judges a Reader's answer to a query. The attempt is the one in
// the reply subject that the Reader answered on.
func (s *State) DecideAnswer(m bcp.Moment, reader bcp.AgentName, id bcp.QueryID, attempt int, body []byte) bcp.Decision {
	d, heard := s.fromUnsuspended(m, bcp.KindAnswer, reader, bcp.RoleReader, body)
	d.Query, d.Reader = id, reader
	if !heard {
		return d
	}
	q := s.queries[id]
	if q != nil && (q.channel.Reader != reader || s.channels[q.channel] == nil || !q.sent || q.forgotten(d.Time)) {
		q = nil
	}
	limit := bcp.MaxControllerMessage
	if q != nil {
		if q.validator != nil {
			limit = q.validator.MaxBytes()
		}
		d.Controller, d.Category, d.Epoch = q.channel.Controller, q.category, q.epoch
	}
	var in bcp.Incoming
	var code bcp.Code
	if len(body) > limit {
		code, d.Reason = bcp.MessageTooLarge, bcp.ReasonTooLarge
	} else if in, code = bcp.ParseResponse(body, s.Encoding(reader)); code == "" && in.QueryID != id {
		code = bcp.Malformed
	}
	if code == bcp.Malformed {
		d.Reason = bcp.ReasonMalformed
	}
	open := q != nil && q.waits() && d.Time < q.deadline
	switch {
	case code != "" && open:
		return s.rejected(d, m, s.channels[q.channel], q, bcp.CheckMessage, code, attempt)
	case code != "":
		return refuse(d, bcp.CheckMessage, code)
	case q == nil:
		return refuse(d, bcp.CheckQuery, bcp.QueryUnknown)
	case !open:
		switch {
		case q.phase != phaseSent:
			d = refuse(d, bcp.CheckAnswered, q.heard)
		case q.isCancelled():
			d = refuse(d, bcp.CheckCancelled, bcp.Cancelled)
		default:
			d = refuse(d, bcp.CheckDeadline, bcp.QueryExpired)
		}
		d.Excused = s.excused(&d)
		return d
	}
	ch := s.channels[q.channel]
	if in.NotEnoughInformation {
		if !q.validator.AllowsNotEnoughInformation() {
			d.Reason = bcp.ReasonValue
			return s.rejected(d, m, ch, q, bcp.CheckNoInformation, bcp.ValidationFailed, attempt)
		}
		d.Verdict = bcp.Accept
		s.fail(&d, m, ch, q, bcp.NotEnoughInformation)
		return d
	}
	verdict := q.validator.Judge(in.Raw)
	d.Reason, d.QueryField, d.Anomalies = verdict.Reason, verdict.Field, verdict.Anomalies
	if verdict.Outcome == bcp.Hold {
		if d.Endorsed = s.endorsedBy(&d, ch, q.validator, q.prices.Capacity); d.Endorsed != nil {
			verdict.Outcome = bcp.Accept
		}
	}
	switch verdict.Outcome {
	default:
		return s.rejected(d, m, ch, q, bcp.CheckAnswer, verdict.Reason.Code(), attempt)
	case bcp.Accept:
		d.Verdict, d.Payload, d.Flagged = bcp.Accept, verdict.Answer.JSON(), len(d.Anomalies) > 0 && d.Endorsed == nil
		s.deliver(&d, m, ch, "")
		if !s.mesh.IsKernel(d.Controller) { // which hands on what it does not show
			d.Payload, d.Enclosed = q.validator.Enclose(verdict.Answer, d.Delivery)
		}
	case bcp.Hold:
		if ch.pending >= ch.definition.MaxPendingApprovals {
			return s.rejected(d, m, ch, q, bcp.CheckQueue, bcp.ApprovalQueueFull, attempt)
		}
		d.Verdict, d.Payload, d.Item = bcp.Hold, verdict.Answer.JSON(), newItemID(m)
		d.Deadline = d.Time + int64(ch.definition.ApprovalTTL)
		d.Taint, d.Exposure = s.answerTaint(reader, d.Time), s.Exposure(d.Controller)
		if q.category != 3 { // a summary's Controller heard it at the gate
			s.deliver(&d, m, ch, bcp.Held)
		}
	}
	d.Nominal, d.Capacity, d.Timing = q.prices.Nominal, q.prices.Capacity, ch.definition.ReleaseInterval > 0
	ch.book(&d, q)
	return d
}

// rejected refuses an answer: the query goes to its Reader again, or ends when
// its retries are used up (PROTOCOL P3.10). An answer to an earlier dispatch
// uses none up.
func (s *State) rejected(d bcp.Decision, m bcp.Moment, ch *channelState, q *queryState, check bcp.Check, code bcp.Code, attempt int) bcp.Decision {
	d = refuse(d, check, code)
	switch {
	case attempt < q.attempt:
		d.Attempt = q.attempt
	case q.attempt < ch.definition.MaxRetries:
		d.Attempt = q.attempt + 1
	default:
		s.fail(&d, m, ch, q, bcp.Rejected)
	}
	return d
}

// fail ends a query without an answer, at the failure price (PROTOCOL P4.3).
func (s *State) fail(d *bcp.Decision, m bcp.Moment, ch *channelState, q *queryState, outcome bcp.Code) {
	s.deliver(d, m, ch, outcome)
	d.Nominal, d.Capacity, d.Timing = q.prices.FailedNominal, q.prices.FailedCapacity, ch.definition.ReleaseInterval > 0
	ch.book(d, q)
}

// DecidePush judges an unsolicited answer against a subscription.
func (s *State) DecidePush(m bcp.Moment, reader, controller bcp.AgentName, id bcp.SubscriptionID, body []byte) bcp.Decision {
	d, heard := s.fromUnsuspended(m, bcp.KindPush, reader, bcp.RoleReader, body)
	d.Reader, d.Controller, d.Subscription = reader, controller, id
	if !heard {
		return d
	}
	ch := s.channels[bcp.ChannelKey{Controller: controller, Reader: reader}]
	var v *bcp.Validator
	limit := bcp.MaxControllerMessage
	if ch != nil {
		if v = ch.subscriptions[id]; v != nil {
			limit = v.MaxBytes()
		}
	}
	if len(body) > limit {
		d.Reason = bcp.ReasonTooLarge
		return refuse(d, bcp.CheckMessage, bcp.MessageTooLarge)
	}
	in, code := bcp.ParseResponse(body, s.Encoding(reader))
	if code == "" && (in.SubscriptionID != id || in.Controller != controller) {
		code = bcp.Malformed
	}
	if code != "" {
		d.Reason = bcp.ReasonMalformed
		return refuse(d, bcp.CheckMessage, code)
	}
	identify(&d, in.PushID, body)
	if s.repeated(&d) {
		return d
	}
	if v == nil {
		return refuse(d, bcp.CheckSubscription, bcp.SubscriptionNotFound)
	}
	d.Category = v.Spec().Category
	if !s.rolesShown(&ch.definition, d.Time) {
		d.Excused = s.roleShown(reader, ch.definition.ReaderRole, d.Time)
		return refuse(d, bcp.CheckRole, bcp.RoleRequired)
	}
	pushes := ch.pushes[id]
	if d.Time < pushes.next() {
		return refuse(d, bcp.CheckRate, bcp.RateLimited)
	}
	if pushes.crowded(d.Time) {
		return refuse(d, bcp.CheckBatch, bcp.RateLimited)
	}
	verdict := v.Judge(in.Raw)
	d.Reason, d.Field, d.Anomalies = verdict.Reason, verdict.Field, verdict.Anomalies
	if verdict.Outcome != bcp.Accept && verdict.Outcome != bcp.Hold {
		check := bcp.CheckAnswer
		if verdict.Reason == bcp.ReasonFiltered {
			check = bcp.CheckFilter
		}
		return refuse(d, check, verdict.Reason.Code())
	}
	d.Epoch, _ = ch.pushEpoch(d.Time)
	d.Nominal, d.Capacity = v.Prices().Nominal, v.Prices().Capacity+bcp.PushTiming(ch.slotsSince(pushes, d.Time, s.origin))
	var endorsed *bcp.EndorseChange
	if verdict.Outcome == bcp.Hold {
		if endorsed = s.endorsedBy(&d, ch, v, d.Capacity); endorsed != nil {
			verdict.Outcome = bcp.Accept
		}
	}
	if !s.refuseWithoutRoom(&d, ch, verdict.Outcome) {
		return d
	}
	d.Endorsed = endorsed
	d.Timing = ch.definition.ReleaseInterval > 0
	d.Verdict, d.Payload = verdict.Outcome, verdict.Answer.JSON()
	if verdict.Outcome == bcp.Hold {
		// A Controller never hears of a held push (PROTOCOL P7.6).
		d.Item, d.Deadline = newItemID(m), d.Time+int64(ch.definition.ApprovalTTL)
		d.Taint, d.Exposure = s.answerTaint(reader, d.Time), s.Exposure(controller)
	} else if d.Flagged = len(d.Anomalies) > 0 && endorsed == nil; pushes.window > 0 {
		d.Release, d.Taint = pushes.end(d.Time), s.answerTaint(reader, d.Time)
	} else {
		s.deliver(&d, m, ch, "")
	}
	ch.book(&d, nil)
	return d
}

// refuseWithoutRoom refuses a valid push if there is no room for it, and charges nothing then.
func (s *State) refuseWithoutRoom(d *bcp.Decision, ch *channelState, outcome bcp.Outcome) bool {
	tight, fits := s.fits(d, ch, d.Nominal, d.Capacity)
	switch {
	case !fits:
		*d = exceed(*d, tight, d.Nominal, d.Capacity)
	case outcome == bcp.Hold && ch.pending >= ch.definition.MaxPendingApprovals:
		*d = refuse(*d, bcp.CheckQueue, bcp.ApprovalQueueFull)
	case ch.gathered() >= maxOutbox:
		*d = refuse(*d, bcp.CheckOutbox, bcp.ControllerUnavailable)
	case s.agents[ch.definition.Controller].unavailable:
		*d = refuse(*d, bcp.CheckController, bcp.ControllerUnavailable)
	default:
		return true
	}
	d.Nominal, d.Capacity, d.Epoch = 0, 0, 0
	return false
}

// DecideAcknowledge records that an agent has a delivery or a notice; it is
// false for an acknowledgement of nothing that waits for one.
func (s *State) DecideAcknowledge(m bcp.Moment, agent bcp.AgentName, role bcp.Role, id bcp.DeliveryID) (bcp.Decision, bool) {
	if who := (agentRole{agent, role}); s.noticed[id] == who {
		d := s.next(m, bcp.KindAcknowledge)
		d.Agent, d.Role, d.Notice = agent, role, id
		return d, true
	}
	key, ok := s.waiting[id]
	if !ok || key.Controller != agent || role != bcp.RoleController {
		return bcp.Decision{}, false
	}
	ch := s.allChannels[key] // also a past one: the delivery may have been on its way
	i := ch.posted(id)
	if i < 0 {
		return bcp.Decision{}, false
	}
	d := s.next(m, bcp.KindAcknowledge)
	d.Agent, d.Role, d.Controller, d.Reader = agent, role, key.Controller, key.Reader
	d.Delivery, d.Query, d.Subscription = id, ch.outbox[i].QueryID, ch.outbox[i].SubscriptionID
	d.Epoch, d.Balance = ch.newest(), ch.pool(ch.newest())
	return d, true
}

// DecideSession opens or closes a Controller's session.
func (s *State) DecideSession(m bcp.Moment, controller bcp.AgentName, body []byte) bcp.Decision {
	d, heard := s.fromAgent(m, bcp.KindSession, controller, bcp.RoleController, body)
	d.Controller = controller
	if !heard {
		return d
	}
	message, code := bcp.ParseSession(body, s.Encoding(controller))
	if code == bcp.InvalidQuery {
		code = bcp.Malformed
	}
	if code != "" {
		return refuse(d, bcp.CheckMessage, code)
	}
	d.Verdict = bcp.Accept
	switch message.Verb {
	case bcp.VerbOpen:
		s.setSession(&d, m, controller, false)
		return d
	case bcp.VerbTaint:
		d.Kind, d.Target, d.Event, d.Taint = bcp.KindTaint, controller, string(message.Taint.Source), taintFrom(message.Taint.Source)
		return d
	case bcp.VerbPropose:
		if s.reported(s.agents[controller], d.Time) { // before its spec is compiled
			return refuse(d, bcp.CheckRefusals, bcp.RateLimited)
		}
		return s.propose(d, m, message.Proposal)
	case bcp.VerbHand:
		if s.reported(s.agents[controller], d.Time) {
			return refuse(d, bcp.CheckRefusals, bcp.RateLimited)
		}
		return s.hand(d, message.Handle)
	case bcp.VerbChannels: // is answered without a decision
		return refuse(d, bcp.CheckMessage, bcp.Malformed)
	}
	if session := s.sessionAt(s.agents[controller], d.Time); session.begun && !session.closed {
		d.Session, d.SessionEnds = session.id, true
	}
	return d
}

// DecideEvent records what happened, of which nothing is decided: that an agent's connection,
// command or credentials changed, or how many messages were refused that nobody read. It
// completes what is said of it.
func (s *State) DecideEvent(m bcp.Moment, said bcp.Decision) bcp.Decision {
	d := s.next(m, said.Kind)
	said.Seq, said.Prev, said.Time, said.Context, said.Salt = d.Seq, d.Prev, d.Time, d.Context, d.Salt
	return said
}

// DecideViolation records that the server denied an agent something, count times. Act
// says what it tried and family what kind of subject it was, in our words. Denied is
// the subject, which the agent chose: it has to be sealed as the message that the
// decision is about.
func (s *State) DecideViolation(m bcp.Moment, agent bcp.AgentName, role bcp.Role, act, family string, denied []byte, count int) bcp.Decision {
	d := s.next(m, bcp.KindViolation)
	d.Agent, d.Role, d.Count, d.Check, d.Code, d.Event, d.Family = agent, role, count, bcp.CheckPermission, bcp.NotPermitted, act, family
	if len(denied) > 0 {
		d.RawBytes, d.RawCommitment = len(denied), d.Commit(denied)
	}
	return d
}

// deliver makes the decision release a delivery to the channel's Controller.
func (s *State) deliver(d *bcp.Decision, m bcp.Moment, ch *channelState, outcome bcp.Code) {
	d.Delivery, d.Outcome = newDeliveryID(m), outcome
	d.Taint = s.answerTaint(ch.definition.Reader, d.Time)
	d.Release, d.Place = ch.slot(d.Time), ch.slotPlace(d.Subscription)
	if d.Session == "" {
		s.setSession(d, m, ch.definition.Controller, true)
	}
	d.Exposure = s.exposureIn(d)
	if d.Kind != bcp.KindAsk { // that an escalation is held is not the Reader's choice
		d.Exposure = bcp.MaxTaint(d.Exposure, d.Taint)
	}
}

// armedAt counts the category 1 queries whose end makes a wider question an
// escalation. One counts from the moment at which the Controller hears of it.
func (ch *channelState) armedAt(now int64) int {
	if ch.armingAt <= now {
		return ch.armed + ch.arming
	}
	return ch.armed
}

// answerTaint is the taint of an agent's answers: what its own taint steps down to,
// or the greatest that it was exposed to as a Controller (PROTOCOL P8.2). A new
// session of its own does not lower it, or two sessions would launder.
func (s *State) answerTaint(reader bcp.AgentName, now int64) bcp.Taint {
	a := s.allAgents[reader]
	if a == nil {
		return bcp.TaintHigh
	}
	exposure, _ := a.learnt(now)
	return bcp.MaxTaint(bcp.MaxTaint(a.definition.BaseTaint, a.reported).StepDown(), exposure)
}

// identify keeps the client's id and what it was used for.
func identify(d *bcp.Decision, id bcp.ClientID, body []byte) {
	if id != "" {
		d.Client, d.ClientDigest = id, sha256.Sum256(body)
	}
}

// exceed refuses a charge for which a budget has no room.
func exceed(d bcp.Decision, l limit, nominal, capacity bcp.Bits) bcp.Decision {
	d.Price = l.price(nominal, capacity)
	d.Lack = d.Price - l.left
	return refuse(d, l.check, bcp.BudgetExhausted)
}
