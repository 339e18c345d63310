package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/tighten"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// tightening are the flags of audit tighten.
type tightening struct{ again }

// learner gathers the history of channels.
type learner struct {
	channels map[bcp.ChannelKey]*learnt
	current  *bcp.Mesh
}

type learnt struct {
	tighten.History
	held  map[bcp.ItemID]tighten.Message // that wait for a person
	bySeq map[uint64]int
	// decisions are those about Messages, by what is proposed.
	decisions []tighten.Decision
}

// Run proposes narrower definitions, which it learns from what was answered.
func (f *tightening) Run(ctx context.Context, p *cli.Program, _ []string) error {
	_, current, err := f.Load()
	if err != nil {
		return err
	}
	l := &learner{channels: map[bcp.ChannelKey]*learnt{}, current: current}
	if err := f.within(ctx, p, current, l.learn); err != nil {
		return err
	}
	for _, history := range l.channels {
		for i, m := range history.Messages {
			history.bySeq[m.Seq] = i
		}
	}
	proposals, err := l.propose(func(by *bcp.Mesh, each func(*bcp.Decision, state.Redecision) error) error {
		return f.within(ctx, p, by, each)
	})
	if err != nil {
		return err
	}
	return p.Out.Show(proposals, func() {
		for _, proposal := range proposals {
			showProposal(p.Out, proposal)
		}
		if !slices.ContainsFunc(proposals, func(p *tighten.Proposal) bool { return len(p.Changes) > 0 }) {
			p.Out.Talkf("no lines are proposed")
		}
	})
}

// propose makes the proposals, and has the history decided again by them.
func (l *learner) propose(again func(*bcp.Mesh, func(*bcp.Decision, state.Redecision) error) error) ([]*tighten.Proposal, error) {
	proposed := *l.current
	proposed.Files = nil // what was recorded is by another context
	proposed.Channels = slices.Clone(l.current.Channels)
	var proposals []*tighten.Proposal
	for i := range proposed.Channels {
		c := &proposed.Channels[i]
		history := l.channels[c.ChannelKey]
		if history == nil || l.current.IsKernel(c.Controller) || l.current.IsKernel(c.Reader) {
			continue
		}
		history.decisions = make([]tighten.Decision, len(history.Messages))
		proposal := tighten.Propose(*c, c.Settings(l.current, constraint.Compile), &history.History)
		proposal.Rates()
		*c = proposal.Channel
		proposals = append(proposals, proposal)
	}
	if len(proposals) == 0 {
		return nil, cli.Failf("there is nothing to learn from: no channel has messages in the journal").WithHint("bcpmesh audit replay shows what was said, when and on which channel")
	}
	err := again(&proposed, func(d *bcp.Decision, r state.Redecision) error {
		key, _ := d.Channel()
		if history := l.channels[key]; history != nil && history.decisions != nil {
			if i, known := history.bySeq[d.Seq]; known {
				history.decisions[i] = decidedAgain(d, &r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, proposal := range proposals {
		proposal.Decided(l.channels[proposal.Channel.ChannelKey].decisions)
	}
	return proposals, nil
}

// within is decide for what is in the span.
func (f *again) within(ctx context.Context, p *cli.Program, by *bcp.Mesh, each func(*bcp.Decision, state.Redecision) error) error {
	_, err := f.decide(ctx, p, by, func(d *bcp.Decision, r state.Redecision) error {
		if d.At().Before(f.Since.At) {
			return nil
		}
		return each(d, r)
	})
	return err
}

// learn takes what was delivered of a decision.
func (l *learner) learn(d *bcp.Decision, _ state.Redecision) error {
	key, of := d.Channel()
	if _, defined := l.current.Channel(key); !of || !defined {
		return nil
	}
	h := l.channels[key]
	if h == nil {
		h = &learnt{held: map[bcp.ItemID]tighten.Message{}, bySeq: map[uint64]int{}}
		h.Epochs, h.Pushes = map[uint64]tighten.Use{}, map[bcp.SubscriptionID][]int64{}
		l.channels[key] = h
	}
	if d.Epoch > 0 {
		u := h.Epochs[d.Epoch]
		h.Epochs[d.Epoch] = tighten.Use{Nominal: max(u.Nominal, d.Balance.Spent()), Capacity: max(u.Capacity, d.Balance.SpentCapacity())}
	}
	if d.Kind == bcp.KindPush && (d.Verdict == bcp.Accept || d.Verdict == bcp.Hold) {
		h.Pushes[d.Subscription] = append(h.Pushes[d.Subscription], d.Time)
	}
	m := tighten.Message{Seq: d.Seq, Time: d.Time, Subscription: d.Subscription, Epoch: d.Epoch, Answer: d.Payload, Use: tighten.Use{Nominal: d.Nominal, Capacity: d.Capacity}}
	switch {
	case d.Erased:
	case d.Kind == bcp.KindAsk && d.Accepted():
		h.Asked = max(h.Asked, d.Category)
	case d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && (d.Event == string(bcp.Approve) || d.Event == string(bcp.EditItem)):
		held, known := h.held[d.Item]
		if delete(h.held, d.Item); known {
			if len(d.Payload) > 0 {
				held.Answer = d.Payload
			}
			h.Messages = append(h.Messages, held)
		}
	case d.Kind != bcp.KindPush && d.Kind != bcp.KindAnswer || len(d.Payload) == 0:
	case d.Verdict == bcp.Hold:
		h.held[d.Item] = m
	case d.Verdict == bcp.Accept && len(d.Anomalies) == 0:
		h.Messages = append(h.Messages, m)
	}
	return nil
}

// decidedAgain is what came of a message; nothing where it cannot be decided.
func decidedAgain(d *bcp.Decision, r *state.Redecision) tighten.Decision {
	switch r.Comparison {
	case state.ComparedSame:
		return tighten.Decision{Use: tighten.Use{Nominal: d.Nominal, Capacity: d.Capacity}}
	case state.ComparedFollows:
		return tighten.Decision{Refused: true}
	case state.ComparedDiffers:
		if r.Would.Verdict == bcp.Reject {
			return tighten.Decision{Refused: true, Field: r.Would.FieldName(), Rate: r.Would.Code == bcp.RateLimited}
		}
		return tighten.Decision{Use: tighten.Use{Nominal: r.Would.Nominal, Capacity: r.Would.Capacity}}
	}
	return tighten.Decision{}
}

// showProposal shows one channel.
func showProposal(o *cli.Output, p *tighten.Proposal) {
	o.Heading(fmt.Sprintf("%s: %s", cli.ChannelName(p.Controller, p.Reader), cli.Count(p.Messages, "message")))
	for i := range p.Changes {
		c := &p.Changes[i]
		var figures []string
		for _, bits := range []struct {
			what       string
			was, would bcp.Bits
		}{{"nominal", c.NominalWas, c.Nominal}, {"capacity", c.CapacityWas, c.Capacity}} {
			if was := bits.was.Rounded(); bits.would > 0 && (c.Item != "" || c.Subscription == "") {
				if bits.was == 0 {
					was = "no limit"
				}
				figures = append(figures, fmt.Sprintf("%s %s to %s", bits.what, was, bits.would.Rounded()))
			}
		}
		figures = append(figures, fmt.Sprintf("refuses %d", c.Refused))
		o.Printf("%s\n", strings.Join(cli.Compact(cmp.Or(string(c.Subscription), "the channel"), c.Item, strings.Join(figures, ", ")), "  "))
		o.Printf("  - %s\n  + %s\n", cli.Plain(c.Was), cli.Plain(c.Would))
	}
	if len(p.Changes) > 0 {
		o.Printf("together: refuses %d of %d; the others carry %s of capacity instead of %s\n", p.Refused, p.Messages, p.Capacity.Words(), p.CapacityWas.Rounded())
	}
	if len(p.Outliers) > 0 {
		o.Printf("look at decisions %s: for them and their like no room is made\n", strings.Trim(fmt.Sprint(p.Outliers), "[]"))
	}
	for _, line := range p.Advice {
		o.Printf("* %s\n", cli.Plain(line))
	}
	o.Printf("\n")
}
