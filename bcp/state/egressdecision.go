package state

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// egressPayload is what is sealed of a decision: what the agent chose.
type egressPayload struct {
	ID  string `json:"egress_id"`
	URL string `json:"url,omitempty"`
}

// limits are those of a definition.
func poolLimits(e bcp.Egress) guard.PoolLimits {
	return guard.PoolLimits{Budget: guard.NanoBits(e.Budget), Bytes: e.MaxBytes, HostBytes: e.MaxHostBytes, Window: e.Window}
}

// DecideEgress judges what the keeper of an agent says. It is false for what leaves
// nothing to record: what was answered before, and what comes beyond max_refusals.
func (s *State) DecideEgress(m bcp.Moment, agent bcp.AgentName, body []byte) (bcp.Decision, bool) {
	d, a := s.fromKeeper(m, bcp.KindEgress, agent, body)
	if a == nil {
		return d, false
	}
	r, code := bcp.ParseEgress(body)
	d.Egress = &bcp.EgressChange{Act: r.Act}
	if code != "" {
		return s.refuseEgress(d, a, bcp.CheckMessage, code, guard.Malformed), true
	}
	if r.Act == bcp.EgressReserve && s.suspended[agent] {
		return s.refuseEgress(d, a, bcp.CheckSuspended, bcp.Suspended, guard.Suspended), true
	}
	switch r.Act {
	case bcp.EgressRefuse:
		return s.refuseEgress(d, a, bcp.CheckKeeper, bcp.NotPermitted, r.Code), true
	case bcp.EgressSettle:
		return s.settleEgress(d, a, r)
	default:
		return s.reserveEgress(d, a, r)
	}
}

// refuseEgress refuses, and says what counts.
func (s *State) refuseEgress(d bcp.Decision, a *agentState, check bcp.Check, code bcp.Code, why guard.Code) bcp.Decision {
	d = refuse(d, check, code)
	d.Egress.Why = why
	u := a.egress.pool.Use(d.At())
	d.Egress.UsedBits, d.Egress.UsedBytes = bcp.Bits(u.Bits), u.Bytes+u.ReservedBytes
	if code == bcp.BudgetExhausted {
		d.Egress.Until = poolLimits(a.definition.Egress).Until(d.At())
		d.Egress.Alert = d.Time >= a.egress.alerted
	}
	return d
}

func (s *State) reserveEgress(d bcp.Decision, a *agentState, r bcp.EgressRequest) (bcp.Decision, bool) {
	change, limits := d.Egress, poolLimits(a.definition.Egress)
	change.By = r.By
	target, err := guard.ParseTarget(r.URL)
	if err != nil {
		why, _ := err.(guard.Code)
		return s.refuseEgress(d, a, bcp.CheckNetwork, bcp.NotPermitted, why), true
	}
	hop := guard.PoolHop{ID: r.ID, Host: target.Authority(), Bits: egressPrice(&r, target), Bytes: r.Bytes, Until: limits.Until(d.At())}
	if before, open := a.egress.pool.Open(d.At(), r.ID); open {
		if before.Host == hop.Host && before.Bits == hop.Bits && before.Bytes == hop.Bytes {
			d.Verdict = bcp.Accept
			return d, false
		}
		return s.refuseEgress(d, a, bcp.CheckRepeat, bcp.Malformed, guard.Malformed), true
	}
	if err := a.egress.policy.Check(target); err != nil {
		why, _ := err.(guard.Code)
		return s.refuseEgress(d, a, bcp.CheckNetwork, bcp.NotPermitted, why), true
	}
	if a.definition.Egress.LinksOnly && r.By == bcp.ByComposed {
		return s.refuseEgress(d, a, bcp.CheckLinks, bcp.NotPermitted, guard.LinksOnly), true
	}
	change.Bits, change.Bytes = bcp.Bits(hop.Bits), hop.Bytes
	if fit := a.egress.pool.Fit(d.At(), limits, hop); fit != guard.Fits {
		d = s.refuseEgress(d, a, bcp.CheckEgressBudget, bcp.BudgetExhausted, guard.BudgetExhausted)
		if fit == guard.FitsBits {
			d.Price, d.Lack = change.Bits, change.Bits-max(0, a.definition.Egress.Budget-change.UsedBits)
		} else {
			d.Check = bcp.CheckEgressBytes
		}
		return d, true
	}
	if d.Payload, err = bcp.Encode(egressPayload{r.ID, target.String()}, bcp.JSON); err != nil {
		return s.refuseEgress(d, a, bcp.CheckMessage, bcp.Malformed, guard.Malformed), true
	}
	d.Verdict, change.Until, change.Entry = bcp.Accept, hop.Until, a.egress.policy.Entry(target)
	u := a.egress.pool.Use(d.At())
	change.UsedBits, change.UsedBytes = bcp.Bits(u.Bits+hop.Bits), u.Bytes+u.ReservedBytes+hop.Bytes
	return d, true
}

// egressPrice is what a request tells hosts at most.
func egressPrice(r *bcp.EgressRequest, t guard.Target) guard.NanoBits {
	switch r.By {
	case bcp.ByLink:
		return guard.NanoBits(r.NanoBits)
	case bcp.ByComposed:
		price, _ := guard.ComposedPrice(t)
		return price
	}
	return 0
}

func (s *State) settleEgress(d bcp.Decision, a *agentState, r bcp.EgressRequest) (bcp.Decision, bool) {
	hop, open := a.egress.pool.Open(d.At(), r.ID)
	if !open { // settled already, or its window is over
		d.Verdict, d.Code = bcp.Reject, bcp.QueryUnknown
		return d, false
	}
	var err error
	if d.Payload, err = bcp.Encode(egressPayload{ID: r.ID}, bcp.JSON); err != nil {
		return s.refuseEgress(d, a, bcp.CheckMessage, bcp.Malformed, guard.Malformed), true
	}
	change := d.Egress
	d.Verdict, change.Bytes, change.Reserved = bcp.Accept, r.Bytes, hop.Seq
	change.Until = poolLimits(a.definition.Egress).Until(d.At())
	u := a.egress.pool.Use(d.At())
	change.UsedBits, change.UsedBytes = bcp.Bits(u.Bits), u.Bytes+u.ReservedBytes-hop.Bytes+r.Bytes
	return d, true
}

// applyEgress moves what a decision says, and compares the result with what it recorded.
func (s *State) applyEgress(d *bcp.Decision) error {
	a, change := s.allAgents[d.Agent], d.Egress
	if change == nil {
		return errUnfounded
	}
	if a == nil { // nobody that is known
		return nil
	}
	e := &a.egress
	if d.Verdict != bcp.Accept {
		if change.Alert {
			e.alerted = change.Until
		}
		return nil
	}
	payload, host, err := openEgress(d)
	if err != nil {
		return err
	}
	switch change.Act {
	case bcp.EgressReserve:
		e.pool.Reserve(d.At(), guard.PoolHop{ID: payload.ID, Host: host, Bits: guard.NanoBits(change.Bits), Bytes: change.Bytes, Until: change.Until, Seq: d.Seq})
	case bcp.EgressSettle:
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
	if u := e.pool.Use(d.At()); bcp.Bits(u.Bits) != change.UsedBits || u.Bytes+u.ReservedBytes != change.UsedBytes {
		return fmt.Errorf("the egress of %s would be %v bits and %d bytes and is recorded as %v and %d", d.Agent, bcp.Bits(u.Bits), u.Bytes+u.ReservedBytes, change.UsedBits, change.UsedBytes)
	}
	return nil
}

// erasedEgress is the id of a reservation whose own is erased. No keeper can say it.
func erasedEgress(seq uint64) string { return fmt.Sprintf("#%d", seq) }

// openEgress reads what is sealed of a decision. If it is erased, nobody knows the host.
func openEgress(d *bcp.Decision) (p egressPayload, host string, err error) {
	if d.Erased {
		return egressPayload{ID: erasedEgress(d.Seq)}, "", nil
	}
	if err := json.Unmarshal(d.Payload, &p, json.RejectUnknownMembers(true)); err != nil {
		return p, "", err
	}
	if d.Egress.Act == bcp.EgressSettle {
		return p, "", nil
	}
	target, err := guard.ParseTarget(p.URL)
	return p, target.Authority(), err
}
