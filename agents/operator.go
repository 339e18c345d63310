package agents

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Operator is the client of whoever owns the mesh's state folder. It needs no
// Start. Its methods may be used concurrently.
//
// Errors of all methods: [*RefusedError]; [*UnansweredError] when ctx ended
// first.
type Operator struct{ conn *Connection }

// NewOperator returns the Operator of a connection.
func NewOperator(c *Connection) *Operator { return &Operator{conn: c} }

// Sessions returns the newest session of each Controller.
func (o *Operator) Sessions(ctx context.Context) ([]bcp.SessionView, error) {
	var list struct {
		Sessions []bcp.SessionView `json:"sessions"`
	}
	err := o.request(ctx, bcp.ControlSessions, bcp.Control{}, &list)
	return list.Sessions, err
}

// Renew opens new epochs on all channels of a Controller: their budgets are full
// again (PROTOCOL P4.4).
func (o *Operator) Renew(ctx context.Context, controller bcp.AgentName) error {
	return o.request(ctx, bcp.ControlRenew, bcp.Control{Agent: controller}, &receipt{})
}

// ReportTaint says what an agent has read. Its taint rises and stays.
func (o *Operator) ReportTaint(ctx context.Context, agent bcp.AgentName, source bcp.TaintSource) error {
	return o.request(ctx, bcp.ControlTaint, bcp.Control{Agent: agent, Taint: &bcp.TaintReport{Source: source}}, &receipt{})
}

// ResetTaint forgets what was reported for an agent and what it was exposed to:
// for an agent that has begun anew and remembers nothing.
func (o *Operator) ResetTaint(ctx context.Context, agent bcp.AgentName) error {
	return o.request(ctx, bcp.ControlResetTaint, bcp.Control{Agent: agent}, &receipt{})
}

// Reloaded tells what a reload did.
type Reloaded struct {
	Changes []string `json:"changes"`          // permissions that were taken and given
	Notes   []string `json:"notes,omitempty"`  // what holds from the next start on
	Errors  []string `json:"errors,omitempty"` // of the definitions: then nothing was changed
}

// Reload has the mesh load its definitions again: all or nothing.
func (o *Operator) Reload(ctx context.Context) (Reloaded, error) {
	var r Reloaded
	err := o.request(ctx, bcp.ControlReload, bcp.Control{}, &r)
	return r, err
}

type receipt struct {
	Session bcp.SessionID `json:"session_id"`
}

func (o *Operator) request(ctx context.Context, act string, message, reply any) error {
	return o.conn.askJSON(ctx, subjects.Control(act), message, reply)
}

// OnAlert calls handler with each alert of the mesh until the connection ends,
// one at a time (PROTOCOL P4.6). Operators, approvers and auditors may listen.
// Alerts that come while the connection is away are missed; they stand in the
// audit.
func (c *Connection) OnAlert(handler func(bcp.Alert)) error {
	_, err := c.nc.Subscribe(subjects.Alerts(), func(m *nats.Msg) {
		var a bcp.Alert
		if bcp.Decode(m.Data, bcp.JSON, &a) == nil && a.Type == bcp.TypeAlert {
			handler(a)
		}
	})
	if err == nil {
		err = c.nc.Flush()
	}
	if err != nil {
		return fmt.Errorf("agents: listening to alerts: %w", err)
	}
	return nil
}
