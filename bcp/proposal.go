package bcp

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// A Controller may propose a subscription (PROTOCOL P12.4). Nothing that it sends
// makes one (P1.5): a proposal is an item like others, which a person decides, and
// what a person approves is a patch for the operator's definitions.

// Proposal is a subscription that a Controller wants for one of its channels.
type Proposal struct {
	Reader       AgentName            `json:"reader"`
	Subscription ProposedSubscription `json:"subscription"`
}

// ProposedSubscription is a subscription with the keys that definitions have.
type ProposedSubscription struct {
	ID          SubscriptionID `json:"id"`
	MaxRate     Rate           `json:"max_rate,omitzero"`
	BatchWindow string         `json:"batch_window,omitempty"` // a whole number of s, m, h or d
	PublishWhen string         `json:"publish_when,omitempty"`
	Spec        `json:",inline"`
}

// Proposed answers a proposal that waits for a person.
type Proposed struct {
	Item ItemID `json:"item_id"`
}

// ApprovedProposal is one that a person approved within the last day.
type ApprovedProposal struct {
	Item       ItemID    `json:"item_id"`
	Controller AgentName `json:"controller"`
	Proposal   `json:",inline"`
	Approved   time.Time `json:"approved"`
}

// MaxProposals is how many of a channel's proposals may wait at once.
const MaxProposals = 4

// maxBatchWindow is the longest window that definitions may have.
const maxBatchWindow = 7 * 24 * time.Hour

// Subscription returns what the definitions would hold, or an error that says
// which key is wrong. Whether its spec compiles is for [Compile] to say.
func (p *ProposedSubscription) Subscription() (Subscription, error) {
	sub := Subscription{ID: p.ID, Spec: p.Spec, MaxRate: p.MaxRate, PublishWhen: p.PublishWhen}
	if _, err := ParseSubscriptionID(string(p.ID)); err != nil {
		return sub, specErrorf("id", "%v", err)
	}
	if p.Spec.Arguments != nil {
		return sub, specErrorf("arguments", "a subscription has none")
	}
	if p.MaxRate.Count > MaxRateCount {
		return sub, specErrorf("max_rate", "expected at most %d", MaxRateCount)
	}
	if p.BatchWindow == "" {
		return sub, nil
	}
	digits := len(p.BatchWindow) - 1
	n, err := strconv.Atoi(p.BatchWindow[:digits])
	for _, unit := range rateUnits {
		if err == nil && n > 0 && time.Duration(n) <= maxBatchWindow/unit.span && p.BatchWindow[digits:] == unit.letter {
			sub.BatchWindow = time.Duration(n) * unit.span
			return sub, nil
		}
	}
	return sub, specErrorf("batch_window", "expected a whole number of s, m, h or d, up to 7d")
}

// judgeProposal is what today's definitions say of a proposal.
func (s *State) judgeProposal(controller AgentName, p *Proposal) (Check, Code) {
	ch := s.channels[ChannelKey{Controller: controller, Reader: p.Reader}]
	if ch == nil {
		return CheckChannel, NoChannel
	}
	if category := p.Subscription.Category; category.Valid() && category > ch.definition.MaxCategory {
		return CheckCategory, CategoryDenied
	}
	sub, err := p.Subscription.Subscription()
	interval := ch.definition.ReleaseInterval
	if err != nil || ch.subscriptions[sub.ID] != nil || interval > 0 && sub.BatchWindow%interval != 0 {
		return CheckSpec, InvalidQuery
	}
	if _, err := Compile(sub.Spec, ch.settings.OfSubscription(sub, len(ch.subscriptions)+1)); err != nil {
		return CheckSpec, InvalidQuery
	}
	return 0, ""
}

// propose judges a Controller's proposal. One that stands waits for a person; one
// that says the same as another that waits has no effect of its own. In the clear the
// decision has no name that the Controller chose: not the subscription's, and the
// Reader's only if there is a channel to it.
func (s *State) propose(d Decision, m Moment, p *Proposal) Decision {
	d.Kind = KindPropose
	check, code := s.judgeProposal(d.Controller, p)
	if check != CheckChannel {
		d.Reader = p.Reader
	}
	if code != "" {
		return d.refuse(check, code)
	}
	d.Category = p.Subscription.Category
	content, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return d.refuse(CheckSpec, InvalidQuery)
	}
	waiting := 0
	for _, it := range s.items {
		if it.Kind != ItemProposal || it.Controller != d.Controller || it.Reader != d.Reader {
			continue
		}
		if waiting++; string(it.content) == string(content) {
			d.Repeat, d.Verdict, d.Item = true, Hold, it.ID
			return d
		}
	}
	if waiting >= MaxProposals {
		return d.refuse(CheckQueue, ApprovalQueueFull)
	}
	ch := s.channels[ChannelKey{Controller: d.Controller, Reader: d.Reader}]
	d.Verdict, d.Item, d.Spec = Hold, m.item(), content
	d.Deadline = d.Time + int64(ch.definition.ApprovalTTL)
	a := s.agents[d.Controller]
	d.Taint = MaxTaint(MaxTaint(a.definition.BaseTaint, a.reported), a.exposure)
	return d
}

// applyPropose has a proposal wait.
func (s *State) applyPropose(d *Decision, ch *channelState) {
	if d.Verdict == Hold {
		s.hold(d, ch, nil, ItemProposal)
	}
}

// proposalOf reads the content of an item that is a proposal.
func proposalOf(content []byte) (p Proposal, ok bool) {
	err := json.Unmarshal(content, &p, json.RejectUnknownMembers(true))
	return p, err == nil
}

// Approved returns the proposals that people approved within the last day and that
// the definitions do not have, oldest first.
func (s *State) Approved() []ApprovedProposal {
	list := []ApprovedProposal{}
	for _, gone := range s.decided {
		p, ok := proposalOf(gone.content)
		if ch := s.channels[ChannelKey{Controller: gone.controller, Reader: p.Reader}]; !ok || ch == nil || ch.subscriptions[p.Subscription.ID] != nil {
			continue
		}
		list = append(list, ApprovedProposal{Item: gone.id, Controller: gone.controller, Proposal: p, Approved: time.Unix(0, gone.at).UTC()})
	}
	return list
}
