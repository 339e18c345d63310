package state

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxEndorsements is how many of a channel, or of a kernel, are remembered: each up to its
// end, so that none is given twice.
const maxEndorsements = 32

// endorsement is what a person lets the gateway release without them (PROTOCOL P7.8, P7.9).
type endorsement struct {
	id           bcp.EndorsementID
	by           bcp.AgentName
	subscription bcp.SubscriptionID
	tool         string     // of calls
	spec         bcp.Digest // zero, which no spec has, once it was erased
	codes        []string
	given, until int64
	uses         int // as given
	bits         bcp.Bits
	usesLeft     int // 0 once it was revoked
	bitsLeft     bcp.Bits
}

// endorsements are those of a channel, or of a kernel's calls, that were given, oldest first,
// at least up to their ends.
type endorsements []endorsement

// valid reports whether they are endorsements of calls, or of what a channel releases.
func (l endorsements) valid(calls bool) bool {
	for i := range l {
		e := &l[i]
		if l[:i].find(e.id) != nil || !isOf(e.codes, e.tool) || (e.tool != "") != calls || e.usesLeft < 0 || e.usesLeft > e.uses || e.bitsLeft < 0 || e.bitsLeft > e.bits {
			return false
		}
	}
	return true
}

// find returns one, or nil.
func (l endorsements) find(id bcp.EndorsementID) *endorsement {
	i := slices.IndexFunc(l, func(e endorsement) bool { return e.id == id })
	if i < 0 {
		return nil
	}
	return &l[i]
}

func (l endorsements) remembered(now int64) (n int) {
	for i := range l {
		if l[i].until > now {
			n++
		}
	}
	return n
}

// forget forgets what those that were given before a time are of.
func (l endorsements) forget(before int64) {
	for i := range l {
		if l[i].given < before {
			l[i].spec = bcp.Digest{}
		}
	}
}

// KnowsEndorsement reports whether an endorsement was given, and not erased since.
func (s *State) KnowsEndorsement(key bcp.ChannelKey, id bcp.EndorsementID) bool {
	e := s.endorsed[key].find(id)
	return e != nil && !e.spec.IsZero()
}

// approves reports whether a person is an approver of the channel. An agent never is,
// whatever a definition says.
func (s *State) approves(person bcp.AgentName, ch *channelState) bool {
	return ch != nil && s.agents[person] == nil && slices.Contains(ch.definition.Approvers, person)
}

// approvesKey is approves, also for a kernel.
func (s *State) approvesKey(person bcp.AgentName, key bcp.ChannelKey) bool {
	if key.Reader != "" {
		return s.approves(person, s.channels[key])
	}
	k := s.mesh.Kernel(key.Controller)
	return k != nil && s.agents[person] == nil && slices.Contains(k.Approvers, person)
}

// endorseRule says who may endorse on a channel, or calls of a tool of a kernel.
func (s *State) endorseRule(key bcp.ChannelKey, tool string) (rule bcp.EndorseRule) {
	if ch := s.channels[key]; ch != nil && tool == "" {
		return ch.definition.Endorse
	}
	for i := range s.mesh.EndorseTools {
		if of := &s.mesh.EndorseTools[i]; key == (bcp.ChannelKey{Controller: of.Kernel}) && tool == of.Tool {
			return of.EndorseRule
		}
	}
	return rule
}

// limit is how much a person may endorse of what is like an item.
func (s *State) limit(person bcp.AgentName, view *bcp.ItemView) *bcp.EndorseLimit {
	e, why := bcp.EndorsementOf(view, "")
	if rule := s.endorseRule(e.Channel(), e.Tool); why == "" && slices.Contains(rule.People, person) {
		return &bcp.EndorseLimit{Uses: rule.MaxUses, Seconds: int64(rule.MaxTime / time.Second), Bits: int(rule.MaxBits / bcp.Bit)}
	}
	return nil
}

// isAllowed reports whether the definitions of today let the person give the endorsement:
// they are looked at each time that it is used, so that it ends with what it was given by.
func (s *State) isAllowed(e *endorsement, key bcp.ChannelKey) bool {
	rule := s.endorseRule(key, e.tool)
	return s.approvesKey(e.by, key) && rule.Allows(e.by, e.uses, e.bits, time.Duration(e.until-e.given))
}

// endorsedBy returns the endorsement by which an answer is released that has to be held, as it
// is after that, or nil. A summary is always for a person.
func (s *State) endorsedBy(d *bcp.Decision, ch *channelState, v *bcp.Validator, capacity bcp.Bits) *bcp.EndorseChange {
	if d.Category == 3 || len(s.endorsed[ch.definition.ChannelKey]) == 0 {
		return nil
	}
	spec := bcp.SpecDigest(v.Spec())
	return s.lets(ch.definition.ChannelKey, d.Time, capacity, func(e *endorsement) bool {
		return e.subscription == d.Subscription && e.spec == spec && bcp.EndorsedBy(d.Anomalies, e.codes)
	})
}

// EndorsedCall returns the endorsement by which a call is made that a person would have to
// decide about, as it is after that, or nil.
func (s *State) EndorsedCall(c bcp.EndorsedCall) *bcp.EndorseChange {
	return s.lets(bcp.ChannelKey{Controller: c.Kernel}, c.Time, c.Bits, func(e *endorsement) bool { return e.tool == c.Tool && e.spec == c.Critical })
}

// lets returns the oldest endorsement that fits and may be used, as it is after that.
func (s *State) lets(key bcp.ChannelKey, now int64, cost bcp.Bits, fits func(*endorsement) bool) *bcp.EndorseChange {
	list := s.endorsed[key]
	for i := range list {
		e := &list[i]
		after := bcp.EndorseChange{ID: e.id, Uses: e.usesLeft - 1, Bits: e.bitsLeft - cost}
		if !e.spec.IsZero() && fits(e) && s.isAllowed(e, key) && e.releases(now, &after) {
			return &after
		}
	}
	return nil
}

// releases reports whether a decision may use the endorsement once more, and leave this.
func (e *endorsement) releases(now int64, after *bcp.EndorseChange) bool {
	return now < e.until && after.Uses >= 0 && after.Bits >= 0 && after.Uses == e.usesLeft-1 && after.Bits <= e.bitsLeft
}

// DecideEndorse judges what a person says about an endorsement, with the credentials of
// the connection that it came over.
func (s *State) DecideEndorse(m bcp.Moment, approver bcp.AgentName, from bcp.Sender, act bcp.Act, body []byte) bcp.Decision {
	d := s.next(m, bcp.KindEndorse)
	d.Agent, d.Role, d.Event, d.RawBytes = approver, bcp.RoleApprover, string(act), len(body)
	a, code := bcp.ParseEndorsement(act, body)
	if code != "" {
		return refuse(d, bcp.CheckMessage, code)
	}
	key := a.Channel()
	if !s.approvesKey(approver, key) {
		return refuse(d, bcp.CheckApprover, bcp.NotPermitted)
	}
	d.Controller, d.Reader = key.Controller, key.Reader
	statement := a.Statement()
	if act == bcp.Endorse && !s.signedBy(from, a.Signature, a.Passkey, statement) {
		return refuse(d, bcp.CheckSignature, bcp.NotPermitted)
	}
	list, rule := s.endorsed[key], s.endorseRule(key, a.Tool)
	known := list.find(a.ID)
	switch {
	case act == bcp.Revoke && known == nil:
		return refuse(d, bcp.CheckItem, bcp.ItemNotFound)
	case act == bcp.Revoke && known.usesLeft == 0, act == bcp.Endorse && known != nil:
		return refuse(d, bcp.CheckItem, bcp.AlreadyDecided)
	case act == bcp.Revoke:
		d.Verdict, d.Endorsed = bcp.Accept, &bcp.EndorseChange{ID: a.ID}
		return d
	case !d.At().Before(a.Until):
		return refuse(d, bcp.CheckInTime, bcp.ItemExpired)
	case !rule.Allows(approver, a.Uses, bcp.Bits(a.Bits)*bcp.Bit, a.Until.Sub(d.At())):
		return refuse(d, bcp.CheckEndorse, bcp.NotPermitted)
	case a.Subscription != "" && !s.subscribes(&a):
		return refuse(d, bcp.CheckStands, bcp.NotPermitted)
	case list.remembered(d.Time) >= maxEndorsements:
		return refuse(d, bcp.CheckQueue, bcp.ApprovalQueueFull)
	}
	d.Verdict, d.Subscription, d.Spec = bcp.Accept, a.Subscription, a.Spec[:]
	d.Endorsed = &bcp.EndorseChange{ID: a.ID, Uses: a.Uses, Bits: bcp.Bits(a.Bits) * bcp.Bit, Codes: a.Codes, Tool: a.Tool, Until: a.Until.UnixNano()}
	sign(&d, from, a.Signature, a.Passkey, sha256.Sum256(statement), a.Until)
	return d
}

// subscribes reports whether the subscription that an endorsement is of asks for its spec.
func (s *State) subscribes(e *bcp.Endorsement) bool {
	v := s.channels[e.Channel()].subscriptions[e.Subscription]
	return v != nil && bcp.SpecDigest(v.Spec()) == e.Spec
}

// checkEndorsed refuses a decision that gives, revokes or uses an endorsement otherwise
// than those before it leave it.
func (s *State) checkEndorsed(d *bcp.Decision, key bcp.ChannelKey) bool {
	change := d.Endorsed
	if change == nil {
		return d.Kind != bcp.KindEndorse || d.Verdict == bcp.Reject
	}
	list := s.endorsed[key]
	e := list.find(change.ID)
	switch {
	case d.Kind == bcp.KindEndorse && (d.Verdict != bcp.Accept || d.Event == string(bcp.Revoke)):
		return d.Verdict == bcp.Accept && e != nil && change.Uses == 0 && change.Bits == 0
	case d.Kind == bcp.KindEndorse:
		return e == nil && change.Uses > 0 && change.Bits > 0 && change.Until > d.Time && isOf(change.Codes, change.Tool) && (change.Tool != "") == (key.Reader == "") &&
			list.remembered(d.Time) < maxEndorsements
	case d.Kind == bcp.KindAnswer || d.Kind == bcp.KindPush:
		return e != nil && d.Verdict == bcp.Accept && d.Category != 3 && !d.Flagged && e.subscription == d.Subscription && bcp.EndorsedBy(d.Anomalies, e.codes) &&
			e.releases(d.Time, change) && change.Bits == e.bitsLeft-d.Capacity
	case d.Kind.IsRun():
		return e != nil && d.Verdict == bcp.Accept && e.releases(d.Time, change)
	}
	return false
}

// isOf reports whether an endorsement is either of answers with these codes, or of calls.
func isOf(codes []string, tool string) bool {
	if tool != "" {
		return len(codes) == 0
	}
	return bcp.Endorsable(codes)
}

// applyEndorsed gives or revokes the endorsement, or counts it down.
func (s *State) applyEndorsed(d *bcp.Decision, key bcp.ChannelKey) {
	change, list := d.Endorsed, s.endorsed[key]
	if change == nil {
		return
	}
	if e := list.find(change.ID); e != nil {
		e.usesLeft, e.bitsLeft = change.Uses, change.Bits
		return
	}
	list = slices.DeleteFunc(list, func(e endorsement) bool { return e.until <= d.Time })
	given := endorsement{id: change.ID, by: d.Agent, subscription: d.Subscription, tool: change.Tool, codes: change.Codes, given: d.Time, until: change.Until,
		uses: change.Uses, bits: change.Bits, usesLeft: change.Uses, bitsLeft: change.Bits}
	copy(given.spec[:], d.Spec)
	s.endorsed[key] = append(list, given)
}

// ApplyCall makes what a decision says of an endorsement of a kernel's calls, and nothing
// else. It is false where that does not follow from those before it.
func (s *State) ApplyCall(d *bcp.Decision) bool {
	key := bcp.ChannelKey{Controller: d.Controller}
	if d.Run != nil {
		key.Controller = d.Run.Kernel
	}
	if !s.checkEndorsed(d, key) {
		return false
	}
	s.applyEndorsed(d, key)
	return true
}

// Endorsements returns those of the channels, then of the kernels, that a person is an
// approver of, oldest first in each, while they are remembered.
func (s *State) Endorsements(approver bcp.AgentName, m bcp.Moment) []bcp.EndorsementView {
	var list []bcp.EndorsementView
	now := s.now(m)
	add := func(key bcp.ChannelKey) {
		of := s.endorsed[key]
		for i := range of {
			e := &of[i]
			if e.until <= now || !s.approvesKey(approver, key) {
				continue
			}
			v := bcp.EndorsementView{By: e.by, Given: time.Unix(0, e.given).UTC(), UsesLeft: e.usesLeft, BitsLeft: e.bitsLeft, Ended: s.whyEnded(e, key), Endorsement: bcp.Endorsement{
				ID: e.id, Controller: key.Controller, Reader: key.Reader, Subscription: e.subscription, Codes: e.codes, Uses: e.uses, Bits: int(e.bits / bcp.Bit), Until: time.Unix(0, e.until).UTC()}}
			if e.tool != "" {
				v.Controller, v.Kernel, v.Tool = "", key.Controller, e.tool
			}
			list = append(list, v)
		}
	}
	for i := range s.mesh.Channels {
		add(s.mesh.Channels[i].ChannelKey)
	}
	for i := range s.mesh.Kernels {
		add(bcp.ChannelKey{Controller: s.mesh.Kernels[i].Kernel})
	}
	return list
}

// whyEnded says why an endorsement releases nothing before its time is over.
func (s *State) whyEnded(e *endorsement, key bcp.ChannelKey) string {
	switch {
	case e.usesLeft == 0:
		return "used up, or revoked"
	case e.spec.IsZero():
		return "erased"
	case !s.isAllowed(e, key):
		return "not allowed any more"
	}
	return ""
}
