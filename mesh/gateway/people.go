package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// What people ask of the gateway: approvers decide about what is held, the
// operator looks after the mesh. Only the acts that change something are
// recorded.

// decideApproval judges an approver's act.
func (g *Gateway) decideApproval(m bcp.Moment, in input) (bcp.Decision, bool) {
	act, decides := actOf(in.subject.Verb)
	if !decides || act == bcp.EditItem && unsigned(in.body) {
		return bcp.Decision{}, false
	}
	return g.state.DecideApproval(m, in.subject.Agent, in.key, act, in.body), true
}

func actOf(verb subjects.Verb) (act bcp.Act, decides bool) {
	switch verb {
	case subjects.VerbApprove:
		return bcp.Approve, true
	case subjects.VerbReject:
		return bcp.RejectItem, true
	case subjects.VerbEdit:
		return bcp.EditItem, true
	}
	return "", false
}

// unsigned reports whether an edit only asks what it would release.
func unsigned(body []byte) bool {
	a, code := bcp.ParseApproval(body)
	return code == "" && a.Signature == ""
}

// decided is what an approver hears of its act.
func (g *Gateway) decided(d *bcp.Decision, in input) any {
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

// answerApproval serves what changes nothing: the list, one item, the preview
// of an edit.
func (g *Gateway) answerApproval(in input) {
	approver := in.subject.Agent
	switch in.subject.Verb {
	case subjects.VerbList:
		items := g.state.ItemsFor(approver)
		g.answer(in, itemList{Items: items[:min(len(items), maxListed)]})
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
			g.answer(in, view)
		}
	default:
		g.answer(in, bcp.RefusalOf(bcp.Malformed))
	}
}

// maxListed is how many items a list has: it has to fit a message, however many
// wait. The channels take turns, so the first are of all of them, and the rest
// comes when these are decided.
const maxListed = 1000

type itemList struct {
	Items []bcp.Item `json:"items"`
}

type sessionList struct {
	Sessions []bcp.SessionView `json:"sessions"`
}

// Reloaded tells what a reload did.
type Reloaded struct {
	// Changes are the permissions that were taken and given, a line each.
	Changes []string `json:"changes"`
	// Notes say what holds only from the next start on.
	Notes []string `json:"notes,omitempty"`
	// Errors are those of the definitions: then nothing was changed.
	Errors []string `json:"errors,omitempty"`
}

// answerControl serves the operator's acts that the state has no part in.
func (g *Gateway) answerControl(in input) {
	if in.subject.Event == bcp.ControlSessions {
		g.answer(in, sessionList{Sessions: g.state.Sessions(g.clock())})
		return
	}
	if g.config.Reload == nil {
		g.answer(in, bcp.RefusalOf(bcp.Unavailable))
		return
	}
	g.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), reloadTimeout)
		defer cancel()
		result, err := g.config.Reload(ctx)
		if err != nil {
			g.log.Error("reloading", "error", err)
			result.Errors = append(result.Errors, err.Error())
		}
		g.tell(event{call: func() { g.answer(in, result) }})
	})
}

const (
	// reloadTimeout bounds one reload, and recordTimeout the record of it.
	reloadTimeout = 30 * time.Second
	recordTimeout = 10 * time.Second
)

// Inspect has f called with the state, between two steps. f must not keep it,
// nor take long. It returns the context's cause where that ends first, or an
// error where the gateway ended.
func (g *Gateway) Inspect(ctx context.Context, f func(*bcp.State)) error {
	called := make(chan struct{})
	g.tell(event{call: func() {
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

// Waiting has f called with the ids of what waits for an agent that is not
// connected: queries, deliveries, notices. f must not block.
func (g *Gateway) Waiting(agent bcp.AgentName, f func(ids []string)) {
	g.tell(event{call: func() {
		var ids []string
		if g.agents[agentRole{agent, bcp.RoleReader}] == nil {
			for _, id := range g.state.OpenQueries(agent) {
				ids = append(ids, string(id))
			}
			for _, n := range g.state.Notices(agent, bcp.RoleReader) {
				ids = append(ids, string(n.ID))
			}
		}
		if g.agents[agentRole{agent, bcp.RoleController}] == nil {
			for _, key := range g.channelsOf(agent) {
				for _, out := range g.state.Outbox(key) {
					ids = append(ids, string(out.DeliveryID))
				}
			}
			for _, n := range g.state.Notices(agent, bcp.RoleController) {
				ids = append(ids, string(n.ID))
			}
		}
		f(ids)
	}})
}

var errEnded = errors.New("the gateway has ended")

// Reload goes on under other definitions (PROTOCOL P1.5). It reads the journal
// under them first; then, between two steps, it calls switchOver, which changes
// what agents may do at the server, and records the change. After an error the
// definitions of before hold here; where switchOver returned none, the caller has
// to switch back.
func (g *Gateway) Reload(ctx context.Context, config bcp.Config, changes []string, switchOver func() error) error {
	result := make(chan error, 1)
	g.tell(event{call: func() {
		if err := ctx.Err(); err != nil {
			result <- err
			return
		}
		result <- g.reload(ctx, config, changes, switchOver)
	}})
	select {
	case err := <-result:
		return err
	case <-g.done:
		return errEnded
	}
}

func (g *Gateway) reload(ctx context.Context, config bcp.Config, changes []string, switchOver func() error) error {
	r, err := replay(ctx, g.journal, g.config.Snapshots, config, g.log)
	if err != nil {
		return err
	}
	next := r.state
	old, before := g.state, g.config.State
	// What the journal does not have holds for nobody.
	goBack := func(err error) error {
		g.state, g.config.State = old, before
		g.prune()
		return err
	}
	g.config.State = config
	if err = g.subscribe(); err == nil {
		err = switchOver()
	}
	if err != nil {
		return goBack(err)
	}
	g.state = next
	o := outcome{decision: g.state.DecideReload(g.moment(), config.Version, changes)}
	if err := g.apply(&o); err != nil {
		return goBack(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := g.record(ctx, []outcome{o}); err != nil {
		g.failed = err // the next state is the journal's
		return goBack(err)
	}
	g.snappedUpTo.Store(r.state.Last() - r.read - 1) // r.state has the reload by now
	g.prune()
	g.log.Info("definitions loaded", "changes", len(changes))
	g.forgetSent()
	g.carryOn()
	return nil
}

// prune closes the connections of agents and people that the definitions do not
// have.
func (g *Gateway) prune() {
	known := map[bcp.AgentName]bool{bcp.Operator: true}
	for _, a := range g.config.State.Mesh.Agents {
		known[a.Name] = true
	}
	for _, name := range g.config.State.Mesh.Approvers {
		known[name] = true
	}
	g.linked.Lock()
	defer g.linked.Unlock()
	for who, conn := range g.links {
		if !known[who.Agent] {
			conn.Close()
			delete(g.links, who)
		}
	}
}

// alert tells people of a decision that somebody should look at. What is lost on
// the way stands in the audit.
func (g *Gateway) alert(d *bcp.Decision) {
	alert, ok := d.Alert()
	if !ok {
		return
	}
	switch alert.Alert {
	case bcp.AlertHeld, bcp.AlertFlood:
	default:
		g.log.Warn("alert", "kind", string(alert.Alert), "agent", alert.Agent, "controller", alert.Controller, "reader", alert.Reader)
	}
	g.publish(agentRole{bcp.Operator, bcp.RoleOperator}, subjects.Alert(alert.Alert), "", alert)
}
