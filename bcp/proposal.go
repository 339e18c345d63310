package bcp

import (
	"strconv"
	"time"
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

// Proposed answers a proposal, or a sealed value, that waits for a person.
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
