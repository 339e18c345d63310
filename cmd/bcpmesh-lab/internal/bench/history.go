package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// historyLasts is the age of the oldest decision of a history: less than the
// day for which the ids of pushes are kept, so that all of them are.
const historyLasts = 20 * time.Hour

// writeHistory fills the journal of a state folder with pushes and their
// acknowledgements, decided as the gateway decides them.
func writeHistory(ctx context.Context, folder string, def *bcp.Mesh, s shape, decisions int) (err error) {
	_, bundle, err := mesh.Keys(folder, def)
	if err != nil {
		return err
	}
	srv, err := server.Start(ctx, server.Config{StateDir: folder, Bundle: bundle, SyncInterval: time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Stop(context.WithoutCancel(ctx))) }()
	conn, err := srv.Gateway()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := natsjs.New(conn)
	if err != nil {
		return err
	}
	if err := jetstream.Create(ctx, js, jetstream.Topology{Replicas: def.Replicas}); err != nil {
		return err
	}
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return err
	}
	state, err := state.New(state.Config{Mesh: def, Constraints: constraint.Compile, Verify: accounts.Verify, VerifyPasskey: accounts.VerifiesPasskey,
		Schedules: definition.ParseSchedule, Definitions: definition.Digest(def), Version: "bench"})
	if err != nil {
		return err
	}
	h := history{state: state, keys: jetstream.NewSealingKeys(js), now: time.Now().Add(-historyLasts), tick: historyLasts / time.Duration(decisions+1)}
	if err := h.add(ctx, state.DecideStart(h.moment(), "bench"), nil); err != nil {
		return err
	}
	for push := 0; h.written+len(h.records) < decisions; push++ {
		reader := push % s.Readers
		controller := reader
		if s.Crossed {
			controller = push / s.Readers % s.Controllers
		}
		if err := h.push(reader, controller, func(d bcp.Decision, message []byte) error { return h.add(ctx, d, message) }); err != nil {
			return err
		}
		if len(h.records) >= jetstream.MaxRecordDecisions {
			if err := h.write(ctx, journal); err != nil {
				return err
			}
		}
	}
	return h.write(ctx, journal)
}

var errRefused = errors.New("a message of a measurement was refused")

type history struct {
	state   *state.State
	keys    *jetstream.SealingKeys
	now     time.Time
	tick    time.Duration
	records [][]byte
	written int
}

func (h *history) moment() bcp.Moment {
	h.now = h.now.Add(h.tick)
	m := bcp.Moment{Now: h.now, Fresh: rand.Text()}
	_, _ = rand.Read(m.Salt[:]) // it does not fail
	return m
}

// push has a push and its acknowledgement decided, and applies both.
func (h *history) push(reader, controller int, apply func(d bcp.Decision, message []byte) error) error {
	m := h.moment()
	body := pushBody(controllerName(controller), m.Fresh)
	d := h.state.DecidePush(m, readerName(reader), controllerName(controller), subscription, body)
	if d.Verdict != bcp.Accept {
		return fmt.Errorf("%w: %s", errRefused, d.Code)
	}
	if err := apply(d, body); err != nil {
		return err
	}
	if d, ok := h.state.DecideAcknowledge(h.moment(), controllerName(controller), bcp.RoleController, d.Delivery); ok {
		return apply(d, nil)
	}
	return nil
}

func (h *history) add(ctx context.Context, d bcp.Decision, message []byte) error {
	if err := h.keys.Seal(ctx, &d, message); err != nil {
		return err
	}
	record, err := bcp.EncodeDecision(&d)
	if err != nil {
		return err
	}
	h.records = append(h.records, record)
	return h.state.Apply(&d, bcp.RecordDigest(record))
}

func (h *history) write(ctx context.Context, journal *jetstream.Journal) error {
	err := journal.Append(ctx, h.records)
	h.written += len(h.records)
	h.records = h.records[:0]
	return err
}
