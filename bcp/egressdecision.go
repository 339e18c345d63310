package bcp

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// What an agent sends out to hosts (PROTOCOL P13). Its keeper asks before each request,
// and the pool of the agent is part of the state: no record, no packet.

// MaxEgressMessage bounds what a keeper says at once, in bytes.
const MaxEgressMessage = 16 << 10

// EgressAct is what a keeper says.
type EgressAct string

// The acts of a keeper.
const (
	EgressReserve EgressAct = "reserve" // it asks for a request that it is about to send
	EgressSettle  EgressAct = "settle"  // it says how many bytes went over the wire
	EgressRefuse  EgressAct = "refuse"  // it has refused what the agent asked for
)

// EgressBy says who put a URL together.
type EgressBy string

// Who put a URL together; what a request may tell its host depends on it.
const (
	ByComposed EgressBy = "composed" // the agent
	ByLink     EgressBy = "link"     // a page that the agent was served, or start_urls
	ByRedirect EgressBy = "redirect" // the host of the hop before
)

// EgressRequest is what a keeper says about one request of its agent.
type EgressRequest struct {
	Act EgressAct `json:"act"`
	// ID names the request of a reserve and a settle: 1 to 64 letters, digits and hyphens.
	ID string `json:"egress_id,omitempty"`
	// URL is what is about to be fetched, or was refused.
	URL string   `json:"url,omitempty"`
	By  EgressBy `json:"by,omitempty"` // of a reserve
	// NanoBits is what a link tells hosts at most, a bit or more; others have a price that
	// follows from the URL.
	NanoBits int64 `json:"nano_bits,omitzero"`
	// Bytes go over the wire in both directions: of a reserve at most, of a settle in fact.
	Bytes int64 `json:"bytes,omitzero"`
	// Code says why a keeper refuses.
	Code guard.Code `json:"code,omitempty"`
}

// EgressReceipt answers a keeper.
type EgressReceipt struct {
	Type    string `json:"type"`
	Allowed bool   `json:"allowed"`
	// Code says why a reserve is not allowed.
	Code guard.Code `json:"code,omitempty"`
}

// EgressChange is what a decision says of an agent's egress.
type EgressChange struct {
	Act EgressAct `msgpack:"a" json:"act"`
	By  EgressBy  `msgpack:"b,omitempty" json:"by,omitempty"`
	// Entry is the entry of the definition's network that allows the host. The host itself
	// is the agent's word where the entry is a wildcard, and is sealed with the URL.
	Entry string `msgpack:"e,omitempty" json:"entry,omitempty"`
	// Why says why a request was refused.
	Why guard.Code `msgpack:"w,omitempty" json:"why,omitempty"`
	// Bits are what a reserve tells hosts at most, and Bytes what it reserves or a settle
	// counts. Both count up to Until, Unix nanoseconds.
	Bits  Bits  `msgpack:"n,omitempty" json:"bits,omitzero"`
	Bytes int64 `msgpack:"y,omitempty" json:"bytes,omitzero"`
	Until int64 `msgpack:"u,omitempty" json:"until,omitzero"`
	// UsedBits and UsedBytes, with reservations, are what counts after the decision.
	UsedBits  Bits  `msgpack:"s,omitempty" json:"used_bits"`
	UsedBytes int64 `msgpack:"t,omitempty" json:"used_bytes"`
	// Reserved is the decision of a settle's reserve.
	Reserved uint64 `msgpack:"r,omitempty" json:"reserved_seq,omitzero"`
	// Alert says that a budget is exhausted for the first time in a window.
	Alert bool `msgpack:"l,omitempty" json:"alert,omitzero"`
}

// egressPayload is what is sealed of a decision: what the agent chose.
type egressPayload struct {
	ID  string `json:"egress_id"`
	URL string `json:"url,omitempty"`
}

// egressState is what an agent has sent out.
type egressState struct {
	policy   guard.Policy // of its definition
	pool     *guard.Pool
	alerted  int64 // up to when no other alert is due
	refusals refusalCount
}

func newEgressState(e Egress) egressState {
	policy, _ := guard.ParsePolicy(e.Hosts) // what is no entry matches nothing
	return egressState{policy: policy, pool: guard.NewPool()}
}

// limits are those of a definition.
func (e Egress) poolLimits() guard.PoolLimits {
	return guard.PoolLimits{Budget: guard.NanoBits(e.Budget), Bytes: e.MaxBytes, HostBytes: e.MaxHostBytes, Window: e.Window}
}

// ParseEgress reads what a keeper says, strictly. The code is [Malformed] or
// [MessageTooLarge].
func ParseEgress(b []byte) (r EgressRequest, code Code) {
	if len(b) > MaxEgressMessage {
		return r, MessageTooLarge
	}
	if wire.Check(b) != nil || json.Unmarshal(b, &r, json.RejectUnknownMembers(true)) != nil || !r.valid() {
		return EgressRequest{}, Malformed
	}
	return r, ""
}

func (r *EgressRequest) valid() bool {
	switch r.Act {
	case EgressReserve:
		known := r.By == ByComposed || r.By == ByLink || r.By == ByRedirect
		return known && isToken(r.ID, false) && r.URL != "" && r.Bytes > 0 && r.Code == "" && (r.NanoBits == 0 || r.NanoBits >= int64(Bit)) && (r.By == ByLink) == (r.NanoBits > 0)
	case EgressSettle:
		return isToken(r.ID, false) && r.URL == "" && r.By == "" && r.NanoBits == 0 && r.Bytes >= 0 && r.Code == ""
	case EgressRefuse:
		return r.ID == "" && r.By == "" && r.NanoBits == 0 && r.Bytes == 0 && r.Code.Known()
	}
	return false
}

// DecideEgress judges what the keeper of an agent says. It is false for what leaves
// nothing to record: what was answered before, and what comes beyond max_refusals.
func (s *State) DecideEgress(m Moment, agent AgentName, body []byte) (Decision, bool) {
	d := s.next(m, KindEgress)
	d.Agent, d.Role, d.RawBytes = agent, RoleKeeper, len(body)
	a := s.agents[agent]
	if a == nil || a.egress.refusals.used(d.Time, s.mesh.MaxRefusals) {
		return d.refuse(CheckRefusals, RateLimited), false
	}
	d.RawCommitment = d.Commit(body)
	r, code := ParseEgress(body)
	d.Egress = &EgressChange{Act: r.Act}
	if code != "" {
		return s.refuseEgress(d, a, CheckMessage, code, guard.Malformed), true
	}
	switch r.Act {
	case EgressRefuse:
		return s.refuseEgress(d, a, CheckKeeper, NotPermitted, r.Code), true
	case EgressSettle:
		return s.settleEgress(d, a, r)
	default:
		return s.reserveEgress(d, a, r)
	}
}

// refuseEgress refuses, and says what counts.
func (s *State) refuseEgress(d Decision, a *agentState, check Check, code Code, why guard.Code) Decision {
	d = d.refuse(check, code)
	d.Egress.Why = why
	u := a.egress.pool.Use(d.At())
	d.Egress.UsedBits, d.Egress.UsedBytes = Bits(u.Bits), u.Bytes+u.ReservedBytes
	if code == BudgetExhausted {
		d.Egress.Until = a.definition.Egress.poolLimits().Until(d.At())
		d.Egress.Alert = d.Time >= a.egress.alerted
	}
	return d
}

func (s *State) reserveEgress(d Decision, a *agentState, r EgressRequest) (Decision, bool) {
	change, limits := d.Egress, a.definition.Egress.poolLimits()
	change.By = r.By
	target, err := guard.ParseTarget(r.URL)
	if err != nil {
		why, _ := err.(guard.Code)
		return s.refuseEgress(d, a, CheckNetwork, NotPermitted, why), true
	}
	hop := guard.PoolHop{ID: r.ID, Host: target.Authority(), Bits: r.price(target), Bytes: r.Bytes, Until: limits.Until(d.At())}
	if before, open := a.egress.pool.Open(d.At(), r.ID); open {
		if before.Host == hop.Host && before.Bits == hop.Bits && before.Bytes == hop.Bytes {
			d.Verdict = Accept
			return d, false
		}
		return s.refuseEgress(d, a, CheckRepeat, Malformed, guard.Malformed), true
	}
	if err := a.egress.policy.Check(target); err != nil {
		why, _ := err.(guard.Code)
		return s.refuseEgress(d, a, CheckNetwork, NotPermitted, why), true
	}
	if a.definition.Egress.LinksOnly && r.By == ByComposed {
		return s.refuseEgress(d, a, CheckLinks, NotPermitted, guard.LinksOnly), true
	}
	change.Bits, change.Bytes = Bits(hop.Bits), hop.Bytes
	if fit := a.egress.pool.Fit(d.At(), limits, hop); fit != guard.Fits {
		d = s.refuseEgress(d, a, CheckEgressBudget, BudgetExhausted, guard.BudgetExhausted)
		if fit == guard.FitsBits {
			d.Price, d.Lack = change.Bits, change.Bits-max(0, a.definition.Egress.Budget-change.UsedBits)
		} else {
			d.Check = CheckEgressBytes
		}
		return d, true
	}
	if d.Payload, err = Encode(egressPayload{r.ID, target.String()}, JSON); err != nil {
		return s.refuseEgress(d, a, CheckMessage, Malformed, guard.Malformed), true
	}
	d.Verdict, change.Until, change.Entry = Accept, hop.Until, a.egress.policy.Entry(target)
	u := a.egress.pool.Use(d.At())
	change.UsedBits, change.UsedBytes = Bits(u.Bits+hop.Bits), u.Bytes+u.ReservedBytes+hop.Bytes
	return d, true
}

// price is what a request tells hosts at most.
func (r *EgressRequest) price(t guard.Target) guard.NanoBits {
	switch r.By {
	case ByLink:
		return guard.NanoBits(r.NanoBits)
	case ByComposed:
		price, _ := guard.ComposedPrice(t)
		return price
	}
	return 0
}

func (s *State) settleEgress(d Decision, a *agentState, r EgressRequest) (Decision, bool) {
	hop, open := a.egress.pool.Open(d.At(), r.ID)
	if !open { // settled already, or its window is over
		d.Verdict, d.Code = Reject, QueryUnknown
		return d, false
	}
	var err error
	if d.Payload, err = Encode(egressPayload{ID: r.ID}, JSON); err != nil {
		return s.refuseEgress(d, a, CheckMessage, Malformed, guard.Malformed), true
	}
	change := d.Egress
	d.Verdict, change.Bytes, change.Reserved = Accept, r.Bytes, hop.Seq
	change.Until = a.definition.Egress.poolLimits().Until(d.At())
	u := a.egress.pool.Use(d.At())
	change.UsedBits, change.UsedBytes = Bits(u.Bits), u.Bytes+u.ReservedBytes-hop.Bytes+r.Bytes
	return d, true
}

// applyEgress moves what a decision says, and compares the result with what it recorded.
func (s *State) applyEgress(d *Decision) error {
	a, change := s.agents[d.Agent], d.Egress
	if change == nil {
		return errUnfounded
	}
	if a == nil { // an agent that the definitions no longer have
		return nil
	}
	e := &a.egress
	if d.Verdict != Accept {
		if change.Alert {
			e.alerted = change.Until
		}
		return nil
	}
	payload, host, err := egressOf(d)
	if err != nil {
		return err
	}
	switch change.Act {
	case EgressReserve:
		e.pool.Reserve(d.At(), guard.PoolHop{ID: payload.ID, Host: host, Bits: guard.NanoBits(change.Bits), Bytes: change.Bytes, Until: change.Until, Seq: d.Seq})
	case EgressSettle:
		id := payload.ID
		if _, open := e.pool.Open(d.At(), id); !open {
			id = erasedEgress(change.Reserved)
		}
		if !e.pool.Settle(d.At(), id, change.Bytes, change.Until) {
			return errUnfounded
		}
	default:
		return errUnfounded
	}
	if u := e.pool.Use(d.At()); Bits(u.Bits) != change.UsedBits || u.Bytes+u.ReservedBytes != change.UsedBytes {
		return fmt.Errorf("the egress of %s would be %v bits and %d bytes and is recorded as %v and %d", d.Agent, Bits(u.Bits), u.Bytes+u.ReservedBytes, change.UsedBits, change.UsedBytes)
	}
	return nil
}

// erasedEgress is the id of a reservation whose own is erased. No keeper can say it.
func erasedEgress(seq uint64) string { return fmt.Sprintf("#%d", seq) }

// egressOf reads what is sealed of a decision. If it is erased, nobody knows the host.
func egressOf(d *Decision) (p egressPayload, host string, err error) {
	if d.Erased {
		return egressPayload{ID: erasedEgress(d.Seq)}, "", nil
	}
	if err := json.Unmarshal(d.Payload, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, "", err
	}
	if d.Egress.Act == EgressSettle {
		return p, "", nil
	}
	target, err := guard.ParseTarget(p.URL)
	return p, target.Authority(), err
}
