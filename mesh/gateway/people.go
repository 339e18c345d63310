package gateway

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// approvals are the decisions of people about what waits for them, and endorsements.
type approvals struct{ plain }

// channel is that of the item or the endorsement.
func (approvals) channel(g *Gateway, m *message) bcp.ChannelKey {
	if act := acts[m.subject.Verb]; act == bcp.Endorse || act == bcp.Revoke {
		e, _ := bcp.ParseEndorsement(act, m.body)
		return e.Channel()
	}
	act, _ := bcp.ParseApproval(m.body)
	for _, item := range g.state.ItemsFor(m.subject.Agent) {
		if item.ID == act.Item {
			return bcp.ChannelKey{Controller: item.Controller, Reader: item.Reader}
		}
	}
	return bcp.ChannelKey{}
}

func (approvals) decide(g *Gateway, now bcp.Moment, o *outcome) (bcp.Decision, bool) {
	m := o.message
	act := acts[m.subject.Verb]
	if act == bcp.EditItem && unsigned(m.body) {
		return bcp.Decision{}, false
	}
	if act == bcp.Endorse || act == bcp.Revoke {
		return g.state.DecideEndorse(now, m.subject.Agent, m.from, act, m.body), true
	}
	d := g.state.DecideApproval(now, m.subject.Agent, m.from, act, m.body)
	if d.Kind.IsRun() {
		c, err := kernel.ReadRecord(&d)
		if err != nil {
			return bcp.Decision{Code: bcp.Unavailable}, false
		}
		o.change = &c
	}
	return d, true
}

func (approvals) release(g *Gateway, o *outcome) {
	g.answer(o.message, g.decided(o))
	if d := &o.decision; len(g.dispatched[d.Query]) == 0 {
		g.sendQuery(d.Query)
	}
}

var acts = map[subjects.Verb]bcp.Act{
	subjects.VerbApprove: bcp.Approve,
	subjects.VerbReject:  bcp.RejectItem,
	subjects.VerbEdit:    bcp.EditItem,
	subjects.VerbEndorse: bcp.Endorse,
	subjects.VerbRevoke:  bcp.Revoke,
}

// unsigned reports whether an edit only asks for a preview.
func unsigned(body []byte) bool {
	a, code := bcp.ParseApproval(body)
	return code == "" && a.Signature == "" && a.Passkey == nil
}

// decided returns the reply to an approver's act.
func (g *Gateway) decided(o *outcome) any {
	d, m := &o.decision, o.message
	if d.Kind == bcp.KindEndorse && d.Verdict == bcp.Accept {
		return bcp.Decided{Item: bcp.ItemID(d.Endorsed.ID), Act: bcp.Act(d.Event)}
	}
	if d.Verdict == bcp.Accept {
		return bcp.Decided{Item: d.Item, Act: bcp.Act(d.Event)}
	}
	if d.Code == bcp.Malformed && m.subject.Verb == subjects.VerbEdit {
		if _, why := g.state.Preview(m.subject.Agent, m.body); why.Error != "" {
			return why
		}
	}
	return bcp.RefusalOf(d.Code)
}

// answer shows what an unsigned edit would release.
func (approvals) answer(g *Gateway, o *outcome) {
	if preview, refused := g.state.Preview(o.message.subject.Agent, o.body); refused.Error != "" {
		g.answer(o.message, refused)
	} else {
		g.answer(o.message, preview)
	}
}

// viewings are requests of people that decide nothing: the list, or one item.
type viewings struct{ undecided }

func (viewings) answer(g *Gateway, o *outcome) {
	m := o.message
	approver := m.subject.Agent
	if m.subject.Verb == subjects.VerbList {
		items := g.state.ItemsFor(approver)
		g.answer(m, itemList{Items: items[:min(len(items), maxListed)], Endorsements: g.state.Endorsements(approver, g.moment())})
		return
	}
	a, code := bcp.ParseApproval(m.body)
	var view bcp.ItemView
	if code == "" {
		view, code = g.state.View(approver, a.Item)
	}
	if code != "" {
		g.answer(m, bcp.RefusalOf(code))
		return
	}
	if g.config.OnView != nil {
		g.config.OnView(approver, a.Item)
	}
	if view.Kind == bcp.ItemHanded {
		view.Sealed, _ = g.unseal(view.Controller, bcp.HandleOf(view.Content))
	}
	g.answer(m, view)
}

// maxListed is the maximum length of a list, which must fit in a message. It
// takes items of all channels in turn; the rest comes when these are decided.
const maxListed = 1000

type itemList struct {
	Items        []bcp.Item            `json:"items"`
	Endorsements []bcp.EndorsementView `json:"endorsements,omitempty"`
}
