package gateway

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Config is what a gateway needs.
type Config struct {
	// State is the mesh, its rules and constraints.
	State state.Config
	// Conn is the journal's connection to account CORE. It should reconnect by
	// itself. The gateway sets its DisconnectErrHandler. The caller closes it,
	// after Stop.
	Conn *nats.Conn
	// Connect returns a further connection to account CORE. The gateway takes 16 at
	// most, which agents share, or on a cluster one for each agent and role:
	// everything from and to an agent goes over one of them. They should reconnect
	// by themselves; Stop closes them. It is required.
	Connect func() (*nats.Conn, error)
	// Slow, if set, is called by the gateway's goroutine to have less read of an
	// agent that floods: one with 1,000 refusals or more in a second that were
	// only counted (PROTOCOL P4.7). It must not block.
	Slow func(bcp.AgentName, bcp.Role)
	// Kick, if set, is called by the gateway's goroutine to disconnect such an
	// agent, behind the record that counts them. It must not block.
	Kick func(bcp.AgentName, bcp.Role)
	// Wake, if set, is called by the gateway's goroutine when something waits
	// for an agent that is not connected. It must not block.
	Wake func(bcp.AgentName)
	// Reload, if set, is called when the operator asks for it, by a goroutine
	// of its own: it ends in a call of [Gateway.Reload].
	Reload func(context.Context) (Reloaded, error)
	// Credentials, if set, has changes of credentials recorded, and tells the operator
	// who is connected. A goroutine of its own calls it with what the operator sent.
	Credentials func(ctx context.Context, body []byte) (Applied, error)
	// Storage, if set, tells the operator how full the disk is. A goroutine of its
	// own calls it.
	Storage func(context.Context) status.Storage
	// Agents, if set, tells the operator how the agents are, from one on. A goroutine of
	// its own calls it.
	Agents func(ctx context.Context, from bcp.AgentName) (status.Agents, error)
	// ConnectTool connects for the calls of kernels' tools. Without it no call is made.
	ConnectTool ConnectTool
	// Unheard reports whether nobody can get a call that is published to a subject now. nil
	// is never.
	Unheard func(subject string) bool
	// Closed, if set, says what may not be let through now. It must not block.
	Closed func() Closing
	// Marks, if set, has agents and people tell whether the journal was set back.
	Marks *Marks
	// Now is the clock; nil is the machine's.
	Now func() time.Time
	// Shard is the number of the journal, 0 on a single machine.
	Shard int
	// Cluster says that the streams are on a cluster, where leaders come and go and
	// another gateway may take over. It does not depend on how many copies they have.
	Cluster bool
	// Snapshots, if set, bound what a start reads of the journal. One is made when
	// the gateway ends, and while it serves behind each SnapshotEvery decisions,
	// but not more often than once a minute; 0 is 100,000, and another number
	// has no least time.
	Snapshots     *jetstream.Snapshots
	SnapshotEvery uint64
	// Bases holds what a truncated journal begins behind. Without it, one that is
	// truncated is refused.
	Bases *jetstream.Bases
	// Roles, if set, has agents of other organisations judged.
	Roles *Roles
	// Quarantine, if set, has the messages that are refused unread since the gateway made
	// a mistake over them.
	Quarantine *Quarantine
	// SyncKeys, if set, writes the stream of sealing keys to the disk: for a store
	// that syncs at intervals.
	SyncKeys func() error
	// Interrupter, if set, makes this gateway's requests to the journal: it
	// can be told that no answer will come before Start has returned.
	Interrupter *jetstream.Interrupter
	// Logger, nil discards. It never gets a byte of an agent's message.
	Logger hclog.Logger
	// OnDecision, if set, is called by the gateway's goroutine with each decision
	// of its own once it is stored, in order, no more than once. One whose record is
	// stored without an acknowledgement comes when the journal is read again. It must
	// not block, nor keep the pointer.
	OnDecision func(*bcp.Decision)
	// OnUnrecorded, if set, is called with each alert that has no record, since none can or
	// must be made. It must not block.
	OnUnrecorded func(bcp.Alert)
	// OnView, if set, is called by the gateway's goroutine when a person is shown an item
	// that is held. It must not block.
	OnView func(person bcp.AgentName, item bcp.ItemID)
}
