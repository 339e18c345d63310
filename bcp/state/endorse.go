package state

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// maxEndorsements is how many of a channel are remembered: each up to its end, so that
// none is given twice.
const maxEndorsements = 32

// endorsement is what a person lets the gateway release without them (PROTOCOL P7.8).
type endorsement struct {
	id           bcp.EndorsementID
	by           bcp.AgentName
	subscription bcp.SubscriptionID
	spec         bcp.Digest // zero, which no spec has, once it was erased
	codes        []string
	given, until int64
	uses         int // as given
	bits         bcp.Bits
	usesLeft     int // 0 once it was revoked
	bitsLeft     bcp.Bits
}

// findEndorsement returns an endorsement of the channel, or nil.
func (ch *channelState) findEndorsement(id bcp.EndorsementID) *endorsement {
	i := slices.IndexFunc(ch.endorsements, func(e endorsement) bool { return e.id == id })
	if i < 0 {
		return nil
	}
	return &ch.endorsements[i]
}

// wasErased reports whether what an endorsement is about was erased.
func (ch *channelState) wasErased(id bcp.EndorsementID) bool {
	e := ch.findEndorsement(id)
	return e != nil && e.spec.IsZero()
}

// approves reports whether a person is an approver of the channel. An agent never is,
// whatever a definition says.
func (s *State) approves(person bcp.AgentName, ch *channelState) bool {
	return ch != nil && s.agents[person] == nil && slices.Contains(ch.definition.Approvers, person)
}

// isAllowed reports whether the definitions of today let the person give the endorsement:
// they are looked at each time that it is used, so that it ends with what it was given by.
func (s *State) isAllowed(e *endorsement, ch *channelState) bool {
	return s.approves(e.by, ch) && ch.definition.Endorse.Allows(e.by, e.uses, e.bits, time.Duration(e.until-e.given))
}

// endorsed returns the endorsement by which an answer is released that has to be held, as it
// is after that, or nil: the oldest that fits. A summary is always for a person.
func (s *State) endorsed(d *bcp.Decision, ch *channelState, v *bcp.Validator, capacity bcp.Bits) *bcp.EndorseChange {
	if d.Category == 3 || len(ch.endorsements) == 0 {
		return nil
	}
	spec := bcp.SpecDigest(v.Spec())
	for i := range ch.endorsements {
		e := &ch.endorsements[i]
		after := bcp.EndorseChange{ID: e.id, Uses: e.usesLeft - 1, Bits: e.bitsLeft - capacity}
		if e.subscription == d.Subscription && !spec.IsZero() && e.spec == spec && s.isAllowed(e, ch) && e.releases(d, &after, capacity) {
			return &after
		}
	}
	return nil
}

// releases reports whether the decision may use the endorsement once more, and leaves this.
func (e *endorsement) releases(d *bcp.Decision, after *bcp.EndorseChange, capacity bcp.Bits) bool {
	return d.Time < e.until && bcp.EndorsedBy(d.Anomalies, e.codes) && after.Uses >= 0 && after.Bits >= 0 &&
		after.Uses == e.usesLeft-1 && after.Bits == e.bitsLeft-capacity
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
	ch := s.channels[a.Channel()]
	if !s.approves(approver, ch) {
		return refuse(d, bcp.CheckApprover, bcp.NotPermitted)
	}
	d.Controller, d.Reader = a.Controller, a.Reader
	statement := a.Statement()
	if act == bcp.Endorse && !s.signedBy(from, a.Signature, a.Passkey, statement) {
		return refuse(d, bcp.CheckSignature, bcp.NotPermitted)
	}
	known := ch.findEndorsement(a.ID)
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
	case !ch.definition.Endorse.Allows(approver, a.Uses, bcp.Bits(a.Bits)*bcp.Bit, a.Until.Sub(d.At())):
		return refuse(d, bcp.CheckEndorse, bcp.NotPermitted)
	case a.Subscription != "" && (ch.subscriptions[a.Subscription] == nil || bcp.SpecDigest(ch.subscriptions[a.Subscription].Spec()) != a.Spec):
		return refuse(d, bcp.CheckStands, bcp.NotPermitted)
	case ch.rememberedEndorsements(d.Time) >= maxEndorsements:
		return refuse(d, bcp.CheckQueue, bcp.ApprovalQueueFull)
	}
	d.Verdict, d.Subscription, d.Spec = bcp.Accept, a.Subscription, a.Spec[:]
	d.Endorsed = &bcp.EndorseChange{ID: a.ID, Uses: a.Uses, Bits: bcp.Bits(a.Bits) * bcp.Bit, Codes: a.Codes, Until: a.Until.UnixNano()}
	sign(&d, from, a.Signature, a.Passkey, sha256.Sum256(statement), a.Until)
	return d
}

func (ch *channelState) rememberedEndorsements(now int64) (n int) {
	for i := range ch.endorsements {
		if ch.endorsements[i].until > now {
			n++
		}
	}
	return n
}

// checkEndorsed refuses a decision that gives, revokes or uses an endorsement otherwise
// than those before it leave it.
func (s *State) checkEndorsed(d *bcp.Decision, ch *channelState) bool {
	change := d.Endorsed
	if change == nil {
		return d.Kind != bcp.KindEndorse || d.Verdict == bcp.Reject
	}
	e := ch.findEndorsement(change.ID)
	switch d.Kind {
	case bcp.KindEndorse:
		if d.Verdict != bcp.Accept || d.Event == string(bcp.Revoke) {
			return d.Verdict == bcp.Accept && e != nil && change.Uses == 0 && change.Bits == 0
		}
		return e == nil && change.Uses > 0 && change.Bits > 0 && change.Until > d.Time && bcp.Endorsable(change.Codes) && ch.rememberedEndorsements(d.Time) < maxEndorsements
	case bcp.KindAnswer, bcp.KindPush:
		return e != nil && d.Verdict == bcp.Accept && d.Category != 3 && !d.Flagged && e.subscription == d.Subscription && e.releases(d, change, d.Capacity)
	}
	return false
}

// applyEndorsed gives or revokes the endorsement, or counts it down.
func (s *State) applyEndorsed(d *bcp.Decision, ch *channelState) {
	change := d.Endorsed
	if change == nil {
		return
	}
	if e := ch.findEndorsement(change.ID); e != nil {
		e.usesLeft, e.bitsLeft = change.Uses, change.Bits
		return
	}
	ch.endorsements = slices.DeleteFunc(ch.endorsements, func(e endorsement) bool { return e.until <= d.Time })
	given := endorsement{id: change.ID, by: d.Agent, subscription: d.Subscription, codes: change.Codes, given: d.Time, until: change.Until,
		uses: change.Uses, bits: change.Bits, usesLeft: change.Uses, bitsLeft: change.Bits}
	copy(given.spec[:], d.Spec)
	ch.endorsements = append(ch.endorsements, given)
}

// Endorsements returns those of the channels that a person is an approver of, oldest first
// in each, while they are remembered.
func (s *State) Endorsements(approver bcp.AgentName, m bcp.Moment) []bcp.EndorsementView {
	var list []bcp.EndorsementView
	now := s.now(m)
	for i := range s.mesh.Channels {
		key := s.mesh.Channels[i].ChannelKey
		ch := s.channels[key]
		if !s.approves(approver, ch) {
			continue
		}
		for j := range ch.endorsements {
			e := &ch.endorsements[j]
			if e.until > now {
				list = append(list, bcp.EndorsementView{ID: e.id, By: e.by, Controller: key.Controller, Reader: key.Reader, Subscription: e.subscription, Codes: e.codes,
					Given: time.Unix(0, e.given).UTC(), Until: time.Unix(0, e.until).UTC(), Uses: e.uses, Bits: e.bits, UsesLeft: e.usesLeft, BitsLeft: e.bitsLeft, Ended: s.whyEnded(e, ch)})
			}
		}
	}
	return list
}

// whyEnded says why an endorsement releases nothing before its time is over.
func (s *State) whyEnded(e *endorsement, ch *channelState) string {
	switch {
	case e.usesLeft == 0:
		return "used up, or revoked"
	case e.spec.IsZero():
		return "erased"
	case !s.isAllowed(e, ch):
		return "not allowed any more"
	}
	return ""
}
