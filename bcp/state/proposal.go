package state

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// judgeProposal is what today's definitions say of a proposal.
func (s *State) judgeProposal(controller bcp.AgentName, p *bcp.Proposal) (bcp.Check, bcp.Code) {
	ch := s.channels[bcp.ChannelKey{Controller: controller, Reader: p.Reader}]
	if ch == nil {
		return bcp.CheckChannel, bcp.NoChannel
	}
	if category := p.Subscription.Category; category.Valid() && category > ch.definition.MaxCategory {
		return bcp.CheckCategory, bcp.CategoryDenied
	}
	sub, err := p.Subscription.Subscription()
	interval := ch.definition.ReleaseInterval
	if err != nil || ch.subscriptions[sub.ID] != nil || interval > 0 && sub.BatchWindow%interval != 0 {
		return bcp.CheckSpec, bcp.InvalidQuery
	}
	if _, err := bcp.Compile(sub.Spec, ch.settings.OfSubscription(sub, len(ch.subscriptions)+1)); err != nil {
		return bcp.CheckSpec, bcp.InvalidQuery
	}
	return 0, ""
}

// propose judges a Controller's proposal. One that stands waits for a person; one
// that says the same as another that waits has no effect of its own. In the clear the
// decision has no name that the Controller chose: not the subscription's, and the
// Reader's only if there is a channel to it.
func (s *State) propose(d bcp.Decision, m bcp.Moment, p *bcp.Proposal) bcp.Decision {
	d.Kind = bcp.KindPropose
	check, code := s.judgeProposal(d.Controller, p)
	if check != bcp.CheckChannel {
		d.Reader = p.Reader
	}
	if code != "" {
		return refuse(d, check, code)
	}
	d.Category = p.Subscription.Category
	content, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return refuse(d, bcp.CheckSpec, bcp.InvalidQuery)
	}
	waiting := 0
	for _, it := range s.items {
		if it.Kind != bcp.ItemProposal || it.Controller != d.Controller || it.Reader != d.Reader {
			continue
		}
		if waiting++; string(it.content) == string(content) {
			d.Repeat, d.Verdict, d.Item = true, bcp.Hold, it.ID
			return d
		}
	}
	if waiting >= bcp.MaxProposals {
		return refuse(d, bcp.CheckQueue, bcp.ApprovalQueueFull)
	}
	ch := s.channels[bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}]
	d.Verdict, d.Item, d.Spec = bcp.Hold, newItemID(m), content
	d.Deadline = d.Time + int64(ch.definition.ApprovalTTL)
	a := s.agents[d.Controller]
	exposure, _ := a.learnt(d.Time)
	d.Taint = bcp.MaxTaint(bcp.MaxTaint(a.definition.BaseTaint, a.reported), exposure)
	return d
}

// Approved returns the proposals that people approved within the last day and that
// the definitions do not have, oldest first.
func (s *State) Approved() []bcp.ApprovedProposal {
	list := []bcp.ApprovedProposal{}
	for _, gone := range s.decided {
		p, ok := parseProposal(gone.content)
		if ch := s.channels[bcp.ChannelKey{Controller: gone.channel.Controller, Reader: p.Reader}]; !ok || ch == nil || ch.subscriptions[p.Subscription.ID] != nil {
			continue
		}
		list = append(list, bcp.ApprovedProposal{Item: gone.id, Controller: gone.channel.Controller, Proposal: p, Approved: time.Unix(0, gone.at).UTC()})
	}
	return list
}
