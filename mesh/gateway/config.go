package gateway

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// Act does what the operator asks for.
type Act func(ctx context.Context, body []byte) (answer any, err error)

// Config configures a gateway.
type Config struct {
	// State is the mesh, its rules and constraints.
	State state.Config
	// Conn is the journal's connection to account CORE. It should reconnect by
	// itself. The gateway sets its DisconnectErrHandler. The caller closes it,
	// after Stop.
	Conn *nats.Conn
	// Connect returns another connection to account CORE. The gateway takes at most
	// 16, which agents share, or on a cluster one for each agent and role: all
	// messages from and to an agent use one of them. They should reconnect by
	// themselves; Stop closes them. It is required.
	Connect func() (*nats.Conn, error)
	// Slow, if set, is called by the gateway's goroutine to limit the read rate
	// of an agent that floods: one with 1,000 refusals or more in a second that
	// were only counted (PROTOCOL P4.7). It must not block.
	Slow func(bcp.AgentName, bcp.Role)
	// Kick, if set, is called by the gateway's goroutine to disconnect such an
	// agent, after the record that counts them. It must not block.
	Kick func(bcp.AgentName, bcp.Role)
	// Wake, if set, is called by the gateway's goroutine when something waits
	// for a disconnected agent. It must not block.
	Wake func(bcp.AgentName)
	// Acts has, by the word of a control, what the mesh does for its operator: with the
	// message, in its own goroutine. The result is the answer, an error a refusal.
	Acts map[string]Act
	// ConnectTool connects for the calls of kernels' tools. Without it no call is made.
	ConnectTool ConnectTool
	// Unheard reports whether nobody can receive a call published to a subject now. nil
	// means never.
	Unheard func(subject string) bool
	// Closed, if set, returns what must be refused now. It must not block.
	Closed func() Closing
	// Continues says that no other gateway may write to the journal, so that a start is not
	// recorded, and runs go on at the next one.
	Continues bool
	// Marks, if set, has agents and people tell whether the journal was set back.
	Marks *Marks
	// Now is the clock; nil is the machine's.
	Now func() time.Time
	// Cluster says that the streams are on a cluster, where leaders change and
	// another gateway may take over. It does not depend on the number of replicas.
	Cluster bool
	// Snapshots, if set, limit how much of the journal a start reads. One is made
	// when the gateway stops, and while it serves after each SnapshotEvery
	// decisions, but at most once a minute; 0 is 100,000, and another number has
	// no minimum time.
	Snapshots     *jetstream.Snapshots
	SnapshotEvery uint64
	// Bases has the bases of truncated journals. Without it, a truncated journal
	// is refused.
	Bases *jetstream.Bases
	// Roles, if set, has agents of other organisations judged.
	Roles *Roles
	// SyncKeys, if set, writes the stream of sealing keys to disk: for a store
	// that syncs at intervals.
	SyncKeys func() error
	// Interrupter, if set, makes this gateway's requests to the journal: so it
	// can be told even before Start has returned that no reply will come.
	Interrupter *jetstream.Interrupter
	// Logger, nil discards. It never gets a byte of an agent's message.
	Logger hclog.Logger
	// OnDecision, if set, is called by the gateway's goroutine with each of its own
	// decisions once it is stored, in order, at most once. If the record is stored
	// without an acknowledgement, it comes when the journal is read again. It must
	// not block or keep the pointer.
	OnDecision func(*bcp.Decision)
	// OnUnrecorded, if set, is called with each alert that cannot or must not be
	// recorded. It must not block.
	OnUnrecorded func(bcp.Alert)
	// OnView, if set, is called by the gateway's goroutine when a person is shown a held
	// item. It must not block.
	OnView func(person bcp.AgentName, item bcp.ItemID)
}

// Roles are the inputs of negotiations. They include no key of the organisation.
type Roles struct {
	// Attested returns the signed statements about an agent, or an error if there
	// are none. The gateway's goroutine calls it: it may only read small files.
	Attested func(bcp.AgentName) (contract.Papers, error)
	// Sign signs for the agents with the user nkey of the gateway, and says which that is.
	Sign func(message []byte) (key string, signature []byte, err error)
}

// ConnectTool connects as the one user that may call a tool for a kernel: it may publish
// on that subject, and receive nothing. Any goroutine may call refused, when the server
// refuses a call. The caller closes the connection.
type ConnectTool func(kernel, service bcp.AgentName, tool string, refused func()) (*nats.Conn, error)
