package state

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Apply changes the state as d says; record is the digest of d's bytes as they
// stand in the journal. A decision that does not follow the one before, or
// whose balance is not what the state computes, is [ErrReplay], and the state
// must be thrown away.
func (s *State) Apply(d *bcp.Decision, record bcp.Digest) error {
	if d.Seq != s.last.Seq+1 || d.Prev != s.head || d.Time < s.last.Time {
		return fmt.Errorf("%w: decision %d does not follow %d", ErrReplay, d.Seq, s.last.Seq)
	}
	if err := s.apply(d, quotableRuns(d)); err != nil {
		return fmt.Errorf("%w: decision %d: %w", ErrReplay, d.Seq, err)
	}
	s.dropEnvelopes(d)
	if s.origin == 0 {
		s.origin = d.Time
	}
	s.last, s.head = lastDecision{d.Seq, d.Time, d.Context}, record
	s.prune(d.Time)
	return nil
}

func (s *State) apply(d *bcp.Decision, runs [][8]byte) error {
	s.meet(d)
	s.countShare(d)
	s.countRecord(d)
	if d.Repeat {
		s.repeat(d)
		return nil
	}
	s.see(d, contract.SeenIn(d))
	more := s.answeredAgain(d)
	if more != nil {
		more.others++
	}
	s.remember(d)
	s.applySession(d, runs)
	s.applyAgent(d)
	switch d.Kind {
	case bcp.KindEgress:
		return s.applyEgress(d)
	case bcp.KindUsage:
		return s.applyUsage(d)
	}
	if d.Kind == bcp.KindDeclare {
		return s.applyDeclare(d)
	}
	if d.Kind.IsRun() || d.Run != nil {
		return s.applyRun(d)
	}
	if d.Kind == bcp.KindEndorse && d.Reader == "" && d.Controller != "" && !s.ApplyCall(d) {
		return errUnfounded
	}
	key, ok := d.Channel()
	if !ok {
		return nil
	}
	ch := s.allChannels[key]
	if ch == nil {
		return nil // nobody met such a channel
	}
	ch.settleEpoch(d.Time)
	if err := s.check(d, ch); err != nil {
		return err
	}
	switch d.Kind {
	case bcp.KindAsk:
		return s.applyAsk(d, ch)
	case bcp.KindAnswer, bcp.KindPush, bcp.KindExpire:
		s.applyEndorsed(d, key)
		return s.applyEnd(d, ch)
	case bcp.KindEndorse:
		s.applyEndorsed(d, key)
	case bcp.KindApproval:
		return s.applyApproval(d, ch)
	case bcp.KindAcknowledge:
		ch.acknowledged(d.Delivery)
		delete(s.waiting, d.Delivery)
	case bcp.KindAlert:
		s.applyAlert(d, ch)
	case bcp.KindBatch:
		p := ch.pushes[d.Subscription] // what waited for the end of its window is a delivery now
		p.batches = slices.DeleteFunc(p.batches, func(b batch) bool { return b.release == d.Release })
		s.post(d, ch, "")
	case bcp.KindPropose:
		if d.Verdict == bcp.Hold {
			s.hold(d, ch, nil, bcp.ItemProposal)
		}
	case bcp.KindHand:
		s.applyHand(d, ch)
	}
	return nil
}

func (s *State) applyAsk(d *bcp.Decision, ch *channelState) error {
	if session := &ch.controller.session; d.Code == bcp.EscalationLimitReached && d.Session == session.id && session.begun {
		ch.enterSession(d.Session)
		ch.failed = true
	}
	if !d.Accepted() {
		s.noteExhausted(d, ch)
		return nil
	}
	v, prices, err := s.asked(d.Spec, d.Nominal, d.Capacity, d.Category, ch)
	if err != nil && d.Context == s.context && !d.Erased {
		return err
	}
	if err := s.charge(d, ch, nil); err != nil {
		return err
	}
	ch.enterSession(d.Session)
	if d.Escalation {
		ch.escalations++
		if d.Category == 2 && ch.armedAt(d.Time) > 0 {
			ch.settleArms(d.Time)
			ch.armed--
		}
	}
	q := &queryState{
		channel: ch.definition.ChannelKey, session: d.Session, epoch: d.Epoch, category: d.Category, validator: v, prices: prices,
		nominal: d.Nominal, capacity: d.Capacity, accepted: d.Seq, since: d.Time, deadline: d.Deadline, phase: phaseSent, sent: true,
		spec: d.Spec,
	}
	if d.Unfunded {
		q.nominal, q.capacity, q.validator, q.prices, q.sent, q.unfunded, q.cancelled = 0, 0, nil, bcp.Prices{}, false, true, true
	}
	s.begin(d.Query, q)
	if d.Event != "" { // it brings its Reader what another one said
		s.report(d.Reader, bcp.TaintHigh, d.Event)
	}
	if d.Verdict == bcp.Hold {
		q.phase, q.sent = phaseGate, false
		s.hold(d, ch, q, bcp.ItemEscalation)
	} else {
		s.addTimer(timer{at: d.Deadline, query: d.Query})
	}
	s.wakeForVoid(d.Query, q)
	s.post(d, ch, "")
	return nil
}

// asked compiles an accepted ask's spec and compares its prices with what was
// reserved. Under other definitions than those of the decision they may
// differ, a spec may have been erased, and the channel may be a past one: then there is no
// validator, and the query is void.
func (s *State) asked(b []byte, nominal, capacity bcp.Bits, category bcp.Category, ch *channelState) (*bcp.Validator, bcp.Prices, error) {
	void := bcp.Prices{Nominal: nominal, Capacity: capacity, FailedNominal: min(bcp.Bit, nominal), FailedCapacity: capacity}
	if s.channels[ch.definition.ChannelKey] == nil {
		return nil, void, nil
	}
	v, err := s.findCompiled(ch, b), error(nil)
	if v == nil {
		var spec bcp.Spec
		if err = json.Unmarshal(b, &spec, json.RejectUnknownMembers(true)); err == nil {
			v, _, err = s.validator(ch, spec)
		}
	}
	if err == nil && (v.Prices().Nominal != nominal || v.Prices().Reserve() != capacity || v.Spec().Category != category) {
		err = errors.New("the price of the spec differs from the reserved one")
	}
	if err != nil {
		return nil, void, err
	}
	return v, v.Prices(), nil
}

// wakeForVoid has a query that the definitions of today do not ask be ended.
func (s *State) wakeForVoid(id bcp.QueryID, q *queryState) {
	if q.validator == nil && !q.unfunded && q.reserves() {
		s.addTimer(timer{at: q.since, query: id, void: true})
	}
}

// enterSession notes the session that the channel's escalations belong to.
func (ch *channelState) enterSession(session bcp.SessionID) {
	if ch.session != session {
		ch.session, ch.escalations, ch.armed, ch.arming, ch.failed = session, 0, 0, 0, false
	}
}

// settleArms moves what the Controller has heard of by now.
func (ch *channelState) settleArms(now int64) {
	if ch.armingAt <= now {
		ch.armed, ch.arming = ch.armed+ch.arming, 0
	}
}

// applyEnd applies whatever ends or holds a query, and pushes.
func (s *State) applyEnd(d *bcp.Decision, ch *channelState) error {
	var q *queryState
	if d.Kind != bcp.KindPush {
		q = s.queries[d.Query]
	}
	if d.Delivery == "" && d.Item == "" && !d.Gathered() { // refused, or sent again
		if q != nil && d.Kind == bcp.KindAnswer && d.Attempt > q.attempt {
			q.attempt = d.Attempt
		}
		s.noteExhausted(d, ch)
		return nil
	}
	s.drop(d, bcp.ItemExpired)
	if err := s.charge(d, ch, q); err != nil {
		return err
	}
	if d.Kind == bcp.KindPush {
		ch.notePush(d)
	}
	if q != nil {
		s.end(d, ch, q)
	}
	s.enclose(d)
	if d.Verdict == bcp.Hold {
		kind := bcp.ItemAnomaly
		if d.Category == 3 {
			kind = bcp.ItemSummary
		}
		s.hold(d, ch, q, kind)
	}
	s.release(d, ch, d.Client)
	return nil
}

// applyApproval applies what a person decided.
func (s *State) applyApproval(d *bcp.Decision, ch *channelState) error {
	if d.Verdict != bcp.Accept {
		return nil
	}
	client := bcp.ClientID("")
	if it := s.items[d.Item]; it != nil {
		client = it.client
	}
	s.drop(d, bcp.AlreadyDecided)
	q := s.queries[d.Query]
	if q == nil { // a push
		s.release(d, ch, client)
		return nil
	}
	if d.Delivery == "" { // let through its gate
		q.phase, q.sent, q.item, q.deadline = phaseSent, true, "", d.Deadline
		s.addTimer(timer{at: d.Deadline, query: d.Query})
		return nil
	}
	if err := s.charge(d, ch, q); err != nil {
		return err
	}
	s.end(d, ch, q)
	s.post(d, ch, client)
	return nil
}

// drop ends the item that the decision is about; code is what a later decision
// about it hears. The Reader whose answer it was gets the result.
func (s *State) drop(d *bcp.Decision, code bcp.Code) {
	it := s.items[d.Item]
	if it == nil {
		return
	}
	if it.counted {
		s.allChannels[it.Channel()].pending--
	}
	if p := s.allChannels[it.Channel()].pools[d.Epoch]; it.Query != "" && it.Kind != bcp.ItemEscalation && p != nil {
		p.held--
	}
	delete(s.items, it.ID)
	gone := decidedItem{id: it.ID, at: d.Time, code: code}
	if it.Kind == bcp.ItemProposal && d.Kind == bcp.KindApproval && d.Event == string(bcp.Approve) {
		gone.content, gone.channel = d.Payload, it.Channel()
	}
	s.decided = append(s.decided, gone)
	if d.Notice != "" {
		result := d.Result()
		result.PushID = it.client
		s.notify(it.Reader, notice{id: d.Notice, role: bcp.RoleReader, peer: it.Controller, at: it.Since.UnixNano(), result: result})
	}
}

// release puts what the decision lets through where it waits: in the outbox, or
// with the other pushes of its window.
func (s *State) release(d *bcp.Decision, ch *channelState, client bcp.ClientID) {
	if d.Gathered() {
		s.addToBatch(d, ch)
	} else {
		s.post(d, ch, client)
	}
}

// end moves a query to its last phase, or to the one before where its answer
// waits for a person.
func (s *State) end(d *bcp.Decision, ch *channelState, q *queryState) {
	q.phase, q.heard, q.item = phaseEnded, bcp.AlreadyAnswered, ""
	switch {
	case d.Verdict == bcp.Hold:
		q.phase = phaseHeld
		return
	case d.Outcome == bcp.Expired:
		q.heard = bcp.QueryExpired
	case d.Outcome == bcp.Cancelled:
		q.heard = bcp.Cancelled
	}
	q.ended = d.Time
	q.validator, q.prices, q.spec = nil, bcp.Prices{}, nil // its memory is of a day
	s.endings = append(s.endings, d.Query)
	s.ended(d.Query, q)
	switch d.Outcome {
	case bcp.NotEnoughInformation, bcp.Rejected, bcp.Expired:
		if q.category == 1 && ch.session == q.session {
			ch.settleArms(d.Time)
			ch.arming, ch.armingAt = ch.arming+1, d.Release
		}
	}
}

// hold makes the item that waits for a person; q is nil for a push.
func (s *State) hold(d *bcp.Decision, ch *channelState, q *queryState, kind bcp.ItemKind) {
	if q != nil {
		q.item = d.Item
	}
	it := &itemState{subscription: d.Subscription, counted: kind == bcp.ItemSummary || kind == bcp.ItemAnomaly, content: d.Payload, Item: bcp.Item{
		ID: d.Item, Kind: kind, Controller: d.Controller, Reader: d.Reader, Query: d.Query, Subscription: d.Subscription,
		Category: d.Category, Anomalies: d.Anomalies, Taint: d.Taint, Nominal: d.Nominal, Capacity: d.Capacity,
		Since: d.At(), Deadline: time.Unix(0, d.Deadline).UTC(),
	}}
	switch kind {
	case bcp.ItemEscalation:
		it.content, it.justification, it.carries = d.Spec, d.Justification, d.JustificationBits
	case bcp.ItemHanded:
		it.content = d.Spec
	case bcp.ItemProposal:
		it.content = d.Spec
		p, _ := parseProposal(d.Spec)
		it.Subscription = p.Subscription.ID
	default:
		it.client = d.Client
	}
	if it.counted {
		ch.pending++
	}
	s.items[d.Item] = it
	s.addTimer(timer{at: d.Deadline, item: d.Item})
}

// applyHand has a sealed value wait for a person.
func (s *State) applyHand(d *bcp.Decision, ch *channelState) {
	if d.Verdict != bcp.Hold {
		return
	}
	s.hold(d, ch, nil, bcp.ItemHanded)
	id, i, _ := bcp.HandleOf(d.Spec).Parse()
	if e := s.envelopes[id]; e != nil {
		e.handed |= 1 << i
	}
}

// post puts the delivery into the outbox: by release slot, and within a slot
// in an order that the Reader did not choose: queries as they were asked, then
// pushes as they are declared, equal ones by their bytes.
func (s *State) post(d *bcp.Decision, ch *channelState, client bcp.ClientID) {
	message, ok := d.Message()
	if !ok {
		return
	}
	if d.Query == "" && s.mesh.IsKernel(d.Reader) {
		message.RunID = string(client)
	}
	out := Outgoing{Delivery: message, Controller: d.Controller, Seq: d.Seq, Release: time.Unix(0, d.Release).UTC(), since: d.Time, order: d.Seq}
	if d.Place > 0 {
		if q := s.queries[d.Query]; q != nil {
			out.order = q.accepted
		} else {
			const behindQueries = 1 << 63
			out.order = behindQueries - firstPlace + d.Place
		}
	}
	at := len(ch.outbox)
	if at > 0 && out.before(&ch.outbox[at-1]) {
		at = sort.Search(at, func(i int) bool { return out.before(&ch.outbox[i]) })
	}
	ch.outbox = slices.Insert(ch.outbox, at, out)
	ch.count(&out, 1)
	s.waiting[out.DeliveryID] = ch.definition.ChannelKey
}

// charge moves bits as d says and compares the result with what d recorded.
func (s *State) charge(d *bcp.Decision, ch *channelState, q *queryState) error {
	if after := ch.balanceAfter(d, q); after != d.Balance {
		return fmt.Errorf("the balance of epoch %d would be %+v and is recorded as %+v", d.Epoch, after, d.Balance)
	}
	if ch.pools[d.Epoch] == nil {
		ch.pools[d.Epoch] = &pool{}
	}
	p := ch.pools[d.Epoch]
	p.flow.addDecision(d, q)
	ch.flow.addDecision(d, q)
	settled := d.Balance.Settled - p.Settled
	if d.BudgetWindow > 0 {
		ch.window = *ch.window.over(d.BudgetWindow)
		ch.window.recorded = true
	}
	if settled > 0 {
		ch.window.add(d.Time, max(d.Time, d.Slot), settled)
	}
	p.Balance = d.Balance
	if d.Kind == bcp.KindAsk || d.Kind == bcp.KindPush {
		ch.openEpoch(d)
	}
	if d.Kind == bcp.KindAsk {
		p.open++
	} else if q.reserves() {
		p.open--
		if d.Verdict == bcp.Hold {
			p.held++
		}
	}
	ch.closeEpochs(d.Time)
	s.noteSpending(ch, settled)
	return nil
}

// prune forgets queries that ended long ago, and timers of what ended. It is
// part of Apply alone, so that a state that is read from a journal forgets the
// same.
func (s *State) prune(now int64) {
	for len(s.endings) > 0 && s.queries[s.endings[0]].forgotten(now) {
		delete(s.queries, s.endings[0])
		s.endings = s.endings[1:]
	}
	for len(s.decided) > 0 && now-s.decided[0].at >= clientMemory {
		s.decided = s.decided[1:]
	}
	for len(s.deadline) > 0 && s.obsolete(s.deadline[0]) {
		heap.Pop(&s.deadline)
	}
}
