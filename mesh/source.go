package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Source is where the journal of a mesh is: in a state folder on which no mesh runs
// ([Open]), in a running mesh ([Dial]), or on a cluster ([DialCluster]). What an operator
// does with a journal exists once, above it.
//
// Three of its methods ask who has the streams, and say so: a reconciliation needs the
// state of the gateway, where that runs; a truncation is recorded by whoever writes the
// journal; and only streams of our own can be salvaged.
type Source struct {
	// Records are those of the journal, and Keys opens them, for callers with permission to
	// read raw messages (PROTOCOL P11.4).
	Records jetstream.Records
	Keys    *jetstream.SealingKeys

	state string    // its folder: keys, checkpoints, base
	def   *bcp.Mesh // its definitions, if they are at hand

	js       natsjs.JetStream // of the gateway's account, nil if a gateway or nobody has it
	server   *server.Server   // that runs for this source
	store    *accounts.Store
	create   func(context.Context) error
	operator *Operator // of a running mesh
	end      func() error
}

// Operator is a running mesh, as its operator asks it.
type Operator struct {
	Records   jetstream.Records
	Key       jetstream.KeyGiver
	Reconcile func(context.Context) (status.Reconciliation, error)
	// Truncate announces a truncation, if all fields are zero, or has it done.
	Truncate func(context.Context, bcp.Truncation) (jetstream.Position, error)
	Close    func() // disconnects
}

// Open opens a state folder on which no mesh runs, with a server of its own on a private
// address; it may write even when a mesh would have no room left. If a mesh runs on the
// folder, the error wraps [server.ErrInUse]. def, the folder's definitions, may be nil.
// keys say how sealed keys are opened.
func Open(ctx context.Context, state string, def *bcp.Mesh, keys ...accounts.OpenOption) (*Source, error) {
	var serving bcp.Mesh // agents have no business here
	if def != nil {
		serving = *def
	}
	serving.Auditors = append(slices.Clip(serving.Auditors), bcp.Operator) // see Audit
	store, bundle, err := Keys(state, &serving, keys...)
	if err != nil {
		return nil, err
	}
	own, err := server.Start(context.WithoutCancel(ctx), server.Config{StateDir: state, Bundle: bundle})
	if err != nil {
		return nil, err
	}
	s, err := onConnection(func() (*nats.Conn, error) { return own.Gateway(nats.Timeout(10 * time.Second)) }, func() error { return own.Stop(context.Background()) })
	if err != nil {
		return nil, err
	}
	s.state, s.def, s.server, s.store = state, def, own, store
	if err := jetstream.ResumeTruncation(ctx, s.js); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Streams with a damaged description are created again.
	s.create = func(ctx context.Context) error { return jetstream.Create(ctx, s.js, jetstream.Topology{Replicas: 1}) }
	return s, nil
}

// Audit brings audit and ledger of a source of [Open] up to date with its journal, and
// returns where somebody with these creds reads them, like an auditor of a running mesh.
func (s *Source) Audit(ctx context.Context) (url string, creds accounts.Creds, err error) {
	topology := jetstream.Topology{Replicas: 1}
	if s.def != nil {
		topology = newTopology(s.def)
	}
	last, err := jetstream.LastDecision(ctx, s.js)
	if err == nil && last > 0 {
		err = jetstream.NewProjector(s.js, topology, new(jetstream.Interrupter), nil).Project(ctx, last)
	}
	if err == nil {
		creds, err = s.store.Issue(bcp.Operator, bcp.RoleAuditor, auditTime, accounts.ForItself)
	}
	return s.server.URL(), creds, err
}

// auditTime is how long the creds of Audit live.
const auditTime = 24 * time.Hour

// Dial returns the journal of a mesh that runs, with the keys and checkpoints in its state
// folder.
func Dial(state string, def *bcp.Mesh, o Operator) *Source {
	return &Source{Records: o.Records, Keys: jetstream.GivenSealingKeys(o.Key), state: state, def: def, operator: &o, end: func() error {
		if o.Close != nil {
			o.Close()
		}
		return nil
	}}
}

// DialCluster connects to the streams of a cluster, as one of its gateways; others may
// serve. state is the folder that the mesh was exported from, or empty.
func DialCluster(ctx context.Context, config server.ClusterConfig, state string) (*Source, error) {
	c, err := server.ConnectCluster(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := onConnection(func() (*nats.Conn, error) { return c.Gateway() }, func() error { c.Close(); return nil })
	if err != nil {
		return nil, err
	}
	s.state = state
	if err := awaitStreams(ctx, s.js); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// onConnection returns a source with a connection of the gateway's account. end is called
// when that is closed, or with an error.
func onConnection(connect func() (*nats.Conn, error), end func() error) (*Source, error) {
	conn, err := connect()
	if err != nil {
		return nil, errors.Join(err, end())
	}
	s := &Source{end: func() error { conn.Close(); return end() }}
	if s.js, err = natsjs.New(conn, natsjs.WithPublishAsyncMaxPending(2*restoreWindow)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Records, s.Keys = jetstream.JournalRecords(s.js, false), jetstream.NewSealingKeys(s.js)
	return s, nil
}

// Use opens a state folder on which no mesh runs, as [Open] does, calls f and closes it.
func Use(ctx context.Context, state string, def *bcp.Mesh, f func(*Source) error, keys ...accounts.OpenOption) error {
	s, err := Open(ctx, state, def, keys...)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// Close ends what the source needs. It may be called once.
func (s *Source) Close() error { return s.end() }

// folder reports whether the streams are those of a state folder.
func (s *Source) folder() bool { return s.server != nil }

// begin returns where the journal begins.
func (s *Source) begin(ctx context.Context) (begin jetstream.Beginning, err error) {
	err = jetstream.AwaitAnswer(ctx, func() (err error) {
		if s.js != nil {
			begin, err = jetstream.Begin(ctx, s.js)
		} else {
			begin, err = s.Records.Begin(ctx)
		}
		return err
	})
	return begin, err
}

// Export writes the decisions of the journal, with the checkpoints in the state folder,
// as [jetstream.Export] does.
func (s *Source) Export(ctx context.Context, w io.Writer, o jetstream.ExportOptions) (jetstream.Exported, error) {
	var err error
	if o.Begin, err = s.begin(ctx); err != nil {
		return jetstream.Exported{}, fmt.Errorf("exporting the journal: %w", err)
	}
	o.Tree = Tree(s.state)
	return jetstream.Export(ctx, w, s.Records, o)
}

// base returns the base of a truncated journal. That of a cluster is there too.
func (s *Source) base(ctx context.Context, begin jetstream.Beginning) (jetstream.Snapshot, jetstream.BaseFile, error) {
	if s.js != nil && !s.folder() {
		file, err := jetstream.StoredBase(ctx, s.js, begin)
		if err != nil {
			return jetstream.Snapshot{}, file, err
		}
		base, err := file.Open(begin)
		return base, file, err
	}
	return openBases(s.state).Read(ctx, begin)
}

// origin makes what a journal begins with: anew or, where it was truncated, from the
// checkpoint of its base.
func origin[T any](ctx context.Context, s *Source, anew func(state.Config) (T, error), from func(state.Config, []byte) (T, error), config state.Config) (made T, begin jetstream.Beginning, err error) {
	if begin, err = s.begin(ctx); err != nil {
		return made, begin, err
	}
	if !begin.Truncated() {
		made, err = anew(config)
		return made, begin, err
	}
	base, _, err := s.base(ctx, begin)
	var checkpoint []byte
	if err == nil {
		checkpoint, err = s.Keys.OpenCheckpoint(ctx, base.Checkpoint)
	}
	if err == nil {
		made, err = from(config, checkpoint)
	}
	return made, begin, err
}

// replay makes the state that a journal makes, up to a record, or if that is 0 up to the
// newest; and returns its sequence.
func (s *Source) replay(ctx context.Context, config state.Config, upTo uint64) (*state.State, uint64, error) {
	made, begin, err := origin(ctx, s, state.New, state.Restore, config)
	if err != nil {
		return nil, 0, err
	}
	sequence, last := begin.Sequence, uint64(0)
	err = s.Records(ctx, 0, 0, func(r jetstream.Record) error {
		for _, record := range r.Decisions {
			d, err := s.Keys.Decode(ctx, record)
			if err == nil {
				err = made.Apply(&d, bcp.RecordDigest(record))
			}
			if err != nil {
				return err
			}
		}
		if last == 0 {
			last = sequence + 1 + r.Left
		}
		if sequence++; sequence == upTo || sequence == last {
			return errUntil
		}
		return ctx.Err()
	})
	if errors.Is(err, errUntil) {
		err = nil
	}
	return made, sequence, err
}

// Reconcile adds up the journal again and compares the result with the ledger, and with
// the state: that of the gateway, or the one that the journal makes under the definitions.
func (s *Source) Reconcile(ctx context.Context, version string) (r status.Reconciliation, err error) {
	switch {
	case s.operator != nil:
		return s.operator.Reconcile(ctx)
	case !s.folder():
		return r, errors.New("reconcile: only a mesh has a ledger")
	}
	made, _, err := s.replay(ctx, newStateConfig(s.def, version), 0)
	if err == nil {
		r, err = jetstream.Reconcile(ctx, s.js, openBases(s.state), 0, made.Pools())
	}
	if err != nil {
		return r, fmt.Errorf("reconcile: %w", err)
	}
	return r, nil
}

const (
	// streamsPatience is how long a cluster may take to report that an account has
	// streams: it may have to elect its meta leader first.
	streamsPatience = 15 * time.Second
	// streamsAttempt is the timeout of one such request: one that is sent too early
	// never gets a reply.
	streamsAttempt = 2 * time.Second
)

// awaitStreams waits until the server knows that the account has streams; a server
// that has just learnt of the account does not.
func awaitStreams(ctx context.Context, js natsjs.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, streamsPatience)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, streamsAttempt)
		_, err := js.AccountInfo(try)
		end()
		if err == nil || !sleep(ctx, leaseKept/4) {
			return err
		}
	}
}
