package agents

import (
	"context"
	"iter"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Operator is the client of the owner of the mesh's state folder. It needs no
// Start. Its methods may be used concurrently.
//
// Errors of all methods: [*RefusedError]; [*UnansweredError] when ctx ended
// first.
type Operator struct {
	conn *Connection
}

// NewOperator returns the Operator of a connection.
func NewOperator(c *Connection) *Operator { return &Operator{conn: c} }

// Sessions returns the newest session of each Controller.
func (o *Operator) Sessions(ctx context.Context) ([]bcp.SessionView, error) {
	list, err := control[struct {
		Sessions []bcp.SessionView `json:"sessions"`
	}](ctx, o, bcp.ControlSessions, bcp.Control{})
	return list.Sessions, err
}

// Storage returns how full the disk of the mesh is, at most a few seconds old.
func (o *Operator) Storage(ctx context.Context) (status.Storage, error) {
	return control[status.Storage](ctx, o, bcp.ControlStorage, bcp.Control{})
}

// Agents returns the status of each agent, sorted by name: connections, commands that
// the mesh starts, and waiting messages. The output of an agent
// ([status.Command.LastLine]) is hostile: give none of this to an agent.
func (o *Operator) Agents(ctx context.Context) ([]status.Agent, error) {
	var all []status.Agent
	for from := bcp.AgentName(""); ; {
		list, err := o.agentsFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Agents...)
		if list.Next <= from {
			return all, nil
		}
		from = list.Next
	}
}

// Agent returns the status of one agent; ok is false if no agent has this name.
func (o *Operator) Agent(ctx context.Context, name bcp.AgentName) (found status.Agent, ok bool, err error) {
	list, err := o.agentsFrom(ctx, name)
	if err != nil || len(list.Agents) == 0 || list.Agents[0].Agent != name {
		return status.Agent{}, false, err
	}
	return list.Agents[0], true, nil
}

func (o *Operator) agentsFrom(ctx context.Context, from bcp.AgentName) (status.Agents, error) {
	return control[status.Agents](ctx, o, bcp.ControlAgents, bcp.Control{Agent: from})
}

// Proposals returns the subscriptions that people approved within the last day and
// that are not in the definitions.
func (o *Operator) Proposals(ctx context.Context) ([]bcp.ApprovedProposal, error) {
	list, err := control[struct {
		Proposals []bcp.ApprovedProposal `json:"proposals"`
	}](ctx, o, bcp.ControlProposals, bcp.Control{})
	return list.Proposals, err
}

// Renew opens new epochs on all channels of a Controller: their budgets are full
// again (PROTOCOL P4.4).
func (o *Operator) Renew(ctx context.Context, controller bcp.AgentName) error {
	_, err := control[receipt](ctx, o, bcp.ControlRenew, bcp.Control{Agent: controller})
	return err
}

// ReportTaint reports what an agent has read. Its taint rises and stays.
func (o *Operator) ReportTaint(ctx context.Context, agent bcp.AgentName, source bcp.TaintSource) error {
	_, err := control[receipt](ctx, o, bcp.ControlTaint, bcp.Control{Agent: agent, Taint: &bcp.TaintReport{Source: source}})
	return err
}

// ResetTaint clears the reported taint and the exposure of an agent: for an
// agent that was restarted and remembers nothing.
func (o *Operator) ResetTaint(ctx context.Context, agent bcp.AgentName) error {
	_, err := control[receipt](ctx, o, bcp.ControlResetTaint, bcp.Control{Agent: agent})
	return err
}

// Lift ends the suspension of an agent, a planner or a tool service (PROTOCOL P16.3).
func (o *Operator) Lift(ctx context.Context, agent bcp.AgentName) error {
	_, err := control[receipt](ctx, o, bcp.ControlLift, bcp.Control{Agent: agent})
	return err
}

// StopRun ends a run of a kernel: it makes no further call. It returns how the run ended,
// even if it had ended before. Error: [*RunRefusedError] if there is no such run.
func (o *Operator) StopRun(ctx context.Context, run string) (bcp.RunReceipt, error) {
	receipt, err := control[bcp.RunReceipt](ctx, o, bcp.ControlStopRun, bcp.Control{Run: run})
	if err == nil && receipt.Status == "" {
		err = &RunRefusedError{Code: receipt.Code}
	}
	return receipt, err
}

// Reload makes the mesh load its definitions again: all or nothing.
func (o *Operator) Reload(ctx context.Context) (status.Reloaded, error) {
	return control[status.Reloaded](ctx, o, bcp.ControlReload, bcp.Control{})
}

// Erase destroys the keys of a channel's content from before a day (PROTOCOL
// P11.5).
func (o *Operator) Erase(ctx context.Context, r bcp.EraseRequest) (status.Erased, error) {
	return control[status.Erased](ctx, o, bcp.ControlErase, bcp.Control{Erase: &r})
}

// ApplyCredentials makes the mesh read its key store now, and returns when its
// changes are in force at the server and recorded.
func (o *Operator) ApplyCredentials(ctx context.Context) (status.Applied, error) {
	return control[status.Applied](ctx, o, bcp.ControlCredentials, bcp.Control{})
}

// RecordCredentials makes the gateway of a cluster, which has no key store, record
// the operator's changes, oldest first, and returns when it has. They are those of
// one [bcp.CredentialRecordsOf].
func (o *Operator) RecordCredentials(ctx context.Context, changes bcp.CredentialRecords) (status.Applied, error) {
	return control[status.Applied](ctx, o, bcp.ControlCredentials, changes)
}

// Forecasts returns how much the budgets of each channel now allow.
func (o *Operator) Forecasts(ctx context.Context) ([]bcp.Forecast, error) {
	list, err := control[struct {
		Forecasts []bcp.Forecast `json:"forecasts"`
	}](ctx, o, bcp.ControlForecast, bcp.Control{})
	return list.Forecasts, err
}

// Reconcile makes the gateway add up the charges of its whole journal again and
// compare them with the recorded decisions, the ledger and its own state. The
// time depends on the length of the journal, so the connection's Attempt must
// be longer.
func (o *Operator) Reconcile(ctx context.Context) (status.Reconciliation, error) {
	return control[status.Reconciliation](ctx, o, bcp.ControlReconcile, bcp.Control{})
}

// Truncated is a place at which a journal may begin: behind a record.
type Truncated struct {
	Sequence uint64     `json:"sequence"` // of the record
	Decision uint64     `json:"decision"` // its last one
	Head     bcp.Digest `json:"head"`     // of that
	Failed   string     `json:"failed,omitempty"`
}

// Truncate announces a truncation of the journal, and returns what is in front of it; or,
// once that is proven and backed up, it has the mesh record so and cut it off. The mesh
// goes on meanwhile. It takes long, so the connection's Attempt must be longer.
func (o *Operator) Truncate(ctx context.Context, t bcp.Truncation) (Truncated, error) {
	return control[Truncated](ctx, o, bcp.ControlTruncate, bcp.Control{Truncate: &t})
}

// Key returns the sealing key on a subject, for opening content in the journal.
// That is permission to read raw messages, which the owner of the state folder
// has.
func (o *Operator) Key(ctx context.Context, subject string) (bcp.GivenKey, error) {
	return control[bcp.GivenKey](ctx, o, bcp.ControlKey, bcp.Control{Key: subject})
}

// Journal returns the messages of the journal in order, from a sequence number, 0
// for the first, to the current last one, as needed for an export. The error, always
// the last value, is [ErrNoRecords], or an [*UnansweredError] when ctx ended.
func (o *Operator) Journal(ctx context.Context, from uint64) iter.Seq2[Record, error] {
	return NewAuditor(o.conn).read(ctx, subjects.JournalStream, from, "", false)
}

type receipt struct {
	Session bcp.SessionID `json:"session_id"`
}

func control[R any](ctx context.Context, o *Operator, act string, message any) (R, error) {
	return askJSON[R](ctx, o.conn, subjects.Control(act), message)
}
