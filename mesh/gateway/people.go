package gateway

import (
	"context"
	"errors"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Requests of people: approvers decide about held items, the operator
// administers the mesh. Only acts that change something are recorded.

// decideApproval judges an approver's act.
func (g *Gateway) decideApproval(m bcp.Moment, in *input) (bcp.Decision, bool) {
	act, decides := verbAct(in.subject.Verb)
	if !decides || act == bcp.EditItem && unsigned(in.body) {
		return bcp.Decision{}, false
	}
	if act == bcp.Endorse || act == bcp.Revoke {
		return g.state.DecideEndorse(m, in.subject.Agent, in.from, act, in.body), true
	}
	d := g.state.DecideApproval(m, in.subject.Agent, in.from, act, in.body)
	if d.Kind.IsRun() {
		c, err := kernel.ReadRecord(&d)
		if err != nil {
			return bcp.Decision{Code: bcp.Unavailable}, false
		}
		in.change = &c
	}
	return d, true
}

func verbAct(verb subjects.Verb) (act bcp.Act, decides bool) {
	switch verb {
	case subjects.VerbApprove:
		return bcp.Approve, true
	case subjects.VerbReject:
		return bcp.RejectItem, true
	case subjects.VerbEdit:
		return bcp.EditItem, true
	case subjects.VerbEndorse:
		return bcp.Endorse, true
	case subjects.VerbRevoke:
		return bcp.Revoke, true
	}
	return "", false
}

// unsigned reports whether an edit only asks for a preview.
func unsigned(body []byte) bool {
	a, code := bcp.ParseApproval(body)
	return code == "" && a.Signature == "" && a.Passkey == nil
}

// decided returns the reply to an approver's act.
func (g *Gateway) decided(d *bcp.Decision, in *input) any {
	if d.Kind == bcp.KindEndorse && d.Verdict == bcp.Accept {
		return bcp.Decided{Item: bcp.ItemID(d.Endorsed.ID), Act: bcp.Act(d.Event)}
	}
	if d.Verdict == bcp.Accept {
		return bcp.Decided{Item: d.Item, Act: bcp.Act(d.Event)}
	}
	if d.Code == bcp.Malformed && in.subject.Verb == subjects.VerbEdit {
		if _, why := g.state.Preview(in.subject.Agent, in.body); why.Error != "" {
			return why
		}
	}
	return bcp.RefusalOf(d.Code)
}

// answerApproval answers requests that change nothing: the list, one item, the
// preview of an edit.
func (g *Gateway) answerApproval(in *input) {
	approver := in.subject.Agent
	switch in.subject.Verb {
	case subjects.VerbList:
		items := g.state.ItemsFor(approver)
		g.answer(in, itemList{Items: items[:min(len(items), maxListed)], Endorsements: g.state.Endorsements(approver, g.moment())})
	case subjects.VerbEdit:
		if preview, refused := g.state.Preview(approver, in.body); refused.Error != "" {
			g.answer(in, refused)
		} else {
			g.answer(in, preview)
		}
	case subjects.VerbGet:
		a, code := bcp.ParseApproval(in.body)
		var view bcp.ItemView
		if code == "" {
			view, code = g.state.View(approver, a.Item)
		}
		if code != "" {
			g.answer(in, bcp.RefusalOf(code))
		} else {
			if g.config.OnView != nil {
				g.config.OnView(approver, a.Item)
			}
			if view.Kind == bcp.ItemHanded {
				view.Sealed, _ = g.unseal(view.Controller, bcp.HandleOf(view.Content))
			}
			g.answer(in, view)
		}
	default:
		g.answer(in, bcp.RefusalOf(bcp.Malformed))
	}
}

// maxListed is the maximum length of a list, which must fit in a message. It
// takes items of all channels in turn; the rest comes when these are decided.
const maxListed = 1000

type itemList struct {
	Items        []bcp.Item            `json:"items"`
	Endorsements []bcp.EndorsementView `json:"endorsements,omitempty"`
}

type sessionList struct {
	Sessions []bcp.SessionView `json:"sessions"`
}

type proposalList struct {
	Proposals []bcp.ApprovedProposal `json:"proposals"`
}

type forecastList struct {
	Forecasts []bcp.Forecast `json:"forecasts"`
}

// reconcile adds up the journal so far again, in the background, and then
// answers. Requests that come meanwhile get the same answer.
func (g *Gateway) reconcile(in *input) {
	if g.reconciling = append(g.reconciling, in); len(g.reconciling) > 1 {
		return
	}
	last, pools := g.state.Last(), g.state.Pools()
	g.calls.Go(func() {
		ctx, cancel := g.whileServing(context.Background(), reconcileTimeout)
		defer cancel()
		var answer any
		result, err := g.recount(ctx, last, pools)
		if answer = result; err != nil {
			g.log.Error("reconciling", "error", err)
			answer = bcp.RefusalOf(bcp.Unavailable)
		}
		g.tell(event{call: func() {
			for _, in := range g.reconciling {
				g.answer(in, answer)
			}
			g.reconciling = nil
		}})
	})
}

func (g *Gateway) recount(ctx context.Context, last uint64, pools []bcp.PoolBalance) (status.Reconciliation, error) {
	g.reading.RLock()
	defer g.reading.RUnlock()
	conn, err := g.config.Connect()
	if err != nil {
		return status.Reconciliation{}, err
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		return status.Reconciliation{}, err
	}
	return jetstream.Reconcile(ctx, js, g.config.Bases, last, pools)
}

// Reloaded is the result of a reload.
type Reloaded struct {
	// Changes are the removed and added permissions, one a line.
	Changes []string `json:"changes"`
	// Notes list what takes effect only at the next start.
	Notes []string `json:"notes,omitempty"`
	// Errors are those of the definitions: then nothing was changed.
	Errors []string `json:"errors,omitempty"`
}

// Applied is the result of applying the key store's changes.
type Applied struct {
	// Recorded counts the changes that were added to the audit.
	Recorded int `json:"recorded"`
	// Connections are those of agents and people.
	Connections []ClientConnection `json:"connections,omitempty"`
}

// ClientConnection is an open connection.
type ClientConnection struct {
	Key   string        `json:"public_key"` // of its credentials
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"`
	Host  string        `json:"host"`
	Since time.Time     `json:"since"`
}

// answerControl answers the operator's acts that do not involve the state.
func (g *Gateway) answerControl(in *input) {
	switch act := in.subject.Event; {
	case act == bcp.ControlSessions:
		g.answer(in, sessionList{Sessions: g.state.Sessions(g.clock())})
		return
	case act == bcp.ControlProposals:
		g.answer(in, proposalList{Proposals: g.state.Approved()})
		return
	case act == bcp.ControlForecast:
		g.answer(in, forecastList{Forecasts: g.state.Forecasts(g.clock())})
		return
	case act == bcp.ControlReconcile:
		g.reconcile(in)
		return
	case act == bcp.ControlErase:
		g.answer(in, Erased{Reasons: in.reasons})
		return
	case act == bcp.ControlKey:
		g.giveKey(in)
		return
	case act == bcp.ControlCredentials && g.config.Credentials != nil:
		g.calls.Go(func() {
			ctx, cancel := g.whileServing(context.Background(), reloadTimeout)
			defer cancel()
			var answer any
			result, err := g.config.Credentials(ctx, in.body)
			if answer = result; err != nil {
				g.log.Error("looking at the key store", "error", err)
				answer = bcp.RefusalOf(bcp.Unavailable)
			}
			g.tell(event{call: func() { g.answer(in, answer) }})
		})
		return
	case act == bcp.ControlStorage && g.config.Storage != nil:
		g.calls.Go(func() {
			s := g.config.Storage(context.Background())
			g.tell(event{call: func() {
				s.Decisions, s.Closed = g.state.Last(), g.closedBy()
				g.answer(in, s)
			}})
		})
		return
	case act == bcp.ControlAgents && g.config.Agents != nil:
		g.tellAgents(in)
		return
	case act == bcp.ControlTruncate && g.config.Truncate != nil:
		g.truncate(in)
		return
	case act == bcp.ControlStorage, act == bcp.ControlCredentials, act == bcp.ControlAgents, act == bcp.ControlTruncate, g.config.Reload == nil:
		g.answer(in, bcp.RefusalOf(bcp.Unavailable))
		return
	}
	g.calls.Go(func() {
		ctx, cancel := g.whileServing(context.Background(), reloadTimeout)
		defer cancel()
		result, err := g.config.Reload(ctx)
		if err != nil {
			g.log.Error("reloading", "error", err)
			result.Errors = append(result.Errors, err.Error())
		}
		g.tell(event{call: func() { g.answer(in, result) }})
	})
}

// tellAgents sends the status of the agents, beginning with one.
func (g *Gateway) tellAgents(in *input) {
	c, ok := bcp.ParseControl(in.body)
	if !ok || c != (bcp.Control{Agent: c.Agent}) {
		g.answer(in, bcp.RefusalOf(bcp.Malformed))
		return
	}
	g.calls.Go(func() {
		ctx, cancel := g.whileServing(context.Background(), recordTimeout)
		defer cancel()
		var answer any
		list, err := g.config.Agents(ctx, c.Agent)
		if answer = list; err != nil {
			g.log.Error("looking at the agents", "error", err)
			answer = bcp.RefusalOf(bcp.Unavailable)
		}
		g.tell(event{call: func() { g.answer(in, answer) }})
	})
}

// whileServing returns a context for work that must not delay the gateway's end: it
// ends after a time, and as soon as the gateway is about to stop.
func (g *Gateway) whileServing(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	g.calls.Go(func() {
		select {
		case <-g.ending:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// giveKey gives the operator a sealing key, which is in the state folder anyway:
// so its owner can also open content while the mesh runs.
func (g *Gateway) giveKey(in *input) {
	c, ok := bcp.ParseControl(in.body)
	if !ok || c.Key == "" || c.Agent != "" || c.Taint != nil || c.Erase != nil {
		g.answer(in, bcp.RefusalOf(bcp.Malformed))
		return
	}
	g.calls.Go(func() {
		ctx, cancel := g.whileServing(context.Background(), recordTimeout)
		defer cancel()
		var answer any
		given, err := g.keys.Give(ctx, c.Key)
		switch answer = given; {
		case errors.Is(err, subjects.ErrSubject):
			answer = bcp.RefusalOf(bcp.Malformed)
		case err != nil:
			g.log.Error("giving out a sealing key", "error", err)
			answer = bcp.RefusalOf(bcp.Unavailable)
		}
		g.tell(event{call: func() { g.answer(in, answer) }})
	})
}

const (
	// reloadTimeout is the timeout of a reload, and recordTimeout that of its record.
	reloadTimeout = 30 * time.Second
	recordTimeout = 10 * time.Second
	// reconcileTimeout bounds the reading of a whole journal.
	reconcileTimeout = 10 * time.Minute
)

// Inspect calls f with the state, between two steps. f must not keep it or take
// long. It returns the context's cause if that ends first, or an error if the
// gateway ended.
func (g *Gateway) Inspect(ctx context.Context, f func(*state.State)) error {
	called := make(chan struct{})
	g.tellUntil(ctx, event{call: func() {
		defer close(called)
		if ctx.Err() == nil {
			f(g.state)
		}
	}})
	select {
	case <-called:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.done:
		return errEnded
	}
}

// Waiting calls f with the ids of what waits for an agent (queries, deliveries,
// notices), as soon as it has no connection: the server reports the end of one a
// moment later. Of several calls the last counts. f must not block.
func (g *Gateway) Waiting(agent bcp.AgentName, f func(ids []string)) {
	g.tell(event{call: func() {
		g.leaving[agent] = f
		g.reportAbsent(agent)
	}})
}

// reportAbsent answers a call of Waiting for an agent, if it has no connection.
func (g *Gateway) reportAbsent(agent bcp.AgentName) {
	f := g.leaving[agent]
	if f == nil || g.agents[agentRole{agent, bcp.RoleReader}] != nil || g.agents[agentRole{agent, bcp.RoleController}] != nil {
		return
	}
	delete(g.leaving, agent)
	var ids []string
	for _, id := range g.state.OpenQueries(agent) {
		ids = append(ids, string(id))
	}
	for _, key := range g.state.ChannelsOf(agent) {
		for _, out := range g.state.Outbox(key) {
			ids = append(ids, string(out.DeliveryID))
		}
	}
	for _, role := range []bcp.Role{bcp.RoleReader, bcp.RoleController} {
		for _, n := range g.state.Notices(agent, role) {
			ids = append(ids, string(n.ID))
		}
	}
	f(ids)
}

var errEnded = errors.New("the gateway has ended")

// prune stops listening to agents and people that are not in the definitions.
func (g *Gateway) prune() {
	known := map[bcp.AgentName]bool{bcp.Operator: true}
	for _, a := range g.config.State.Mesh.Agents {
		known[a.Name] = true
	}
	for _, name := range g.config.State.Mesh.Approvers {
		known[name] = true
	}
	serves := map[agentRole]bool{}
	if state := g.runState(); state != nil {
		for _, k := range state.Kernels() {
			for _, who := range servesKernel(k) {
				serves[who] = true
			}
		}
	}
	g.drop(func(who agentRole) bool { return !known[who.Agent] && !serves[who] })
}

// alert sends people an alert about a decision. The audit has the alerts that
// get lost.
func (g *Gateway) alert(d *bcp.Decision) {
	alert, ok := d.Alert()
	if !ok {
		return
	}
	g.publishAlert(alert)
}

func (g *Gateway) publishAlert(alert bcp.Alert) {
	switch alert.Alert {
	case bcp.AlertHeld, bcp.AlertFlood:
	case bcp.AlertModelFails, bcp.AlertModelWorks: // logged with what the provider says
	default:
		g.log.Warn("alert", "kind", string(alert.Alert), "agent", alert.Agent, "controller", alert.Controller, "reader", alert.Reader)
	}
	g.publish(agentRole{bcp.Operator, bcp.RoleOperator}, subjects.Alert(alert.Alert), "", alert)
}
