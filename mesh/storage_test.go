package mesh_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The streams beside the journal have half of max_disk_mb at most, and lose their
// oldest messages; the journal gets the rest, and an alert is recorded before it
// is full.
//
// covers P4.5, P4.6, P11.1
func TestStorage(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	m := meshtest.Prepare(t, pair(1000))
	m.Definition.MaxDisk = limit
	m.Start(t)
	if s := m.Storage(); s.Limit != limit || s.Used == 0 || s.Journal == 0 || s.Records == 0 || s.DiskFree == 0 || s.DiskSize < s.DiskFree {
		t.Errorf("%+v", s)
	}
	operator := m.Connect(t, bcp.Operator, bcp.RoleOperator)
	reply := operator.Request(t, subjects.Control(bcp.ControlStorage), "{}").JSON
	failIf(t, !strings.Contains(reply, `"limit_bytes":67108864`), "the operator hears %s", reply)
	failIf(t, m.Count(func(d *bcp.Decision) bool { return d.Kind == bcp.KindAlert }) > 0 && m.Storage().DiskFree > m.Storage().DiskSize/4,
		"an alert where there is room")
	m.Stop(t)

	js, end := m.Streams(t)
	page := make([]byte, 512<<10)
	for range 2 * limit / len(page) { // twice what there is
		msg := &nats.Msg{Subject: subjects.Ledger("main", "mailer"), Data: page, Header: nats.Header{"Bcp-Decision": {"0"}}}
		must(js.PublishMsg(t.Context(), msg))
	}
	held := uint64(0)
	for _, name := range jetstream.Projections() {
		stream := must(js.Stream(t.Context(), name))
		info := stream.CachedInfo()
		failIf(t, info.Config.Discard != natsjs.DiscardOld || info.Config.MaxBytes <= 0 || info.State.Bytes > uint64(info.Config.MaxBytes),
			"%s holds %d bytes with %+v", name, info.State.Bytes, info.Config)
		held += uint64(info.Config.MaxBytes)
	}
	expect(t, held, limit/16*6, "the streams beside the journal may hold bytes of %d", limit)
	fill := func(js natsjs.JetStream, until func(status.Storage, error) bool) {
		t.Helper()
		journal := must(jetstream.OpenJournal(t.Context(), js))
		state := must(state.New(state.Config{Mesh: m.Definition, Version: "test"}))
		noError(t, journal.Replay(t.Context(), func(b []byte) error {
			d, err := bcp.DecodeDecision(b)
			return errors.Join(err, state.Apply(&d, bcp.RecordDigest(b)))
		}))
		for {
			d := state.DecideEvent(bcp.Moment{}, bcp.Decision{Kind: bcp.KindProcess, Agent: "mailer", Event: bcp.ProcessStarted, Note: strings.Repeat("a", len(page))})
			record := must(bcp.EncodeDecision(&d))
			full := errors.Join(journal.Append(t.Context(), [][]byte{record}), state.Apply(&d, bcp.RecordDigest(record)))
			s := must(jetstream.Measure(t.Context(), js))
			if until(s, full) {
				return
			}
		}
	}
	fill(js, func(s status.Storage, _ error) bool { return s.Alert() == bcp.AlertDiskCritical })
	end()
	m.Start(t)
	m.Wait(t, func(d *bcp.Decision) bool {
		alert, ok := d.Alert()
		return ok && alert.Alert == bcp.AlertDiskCritical
	})
	s := m.Storage()
	failIf(t, s.Journal < limit/16*7 || s.JournalLimit != limit/2, "the journal has %d bytes of %d", s.Journal, limit)
	m.Stop(t)
	js, end = m.Streams(t)
	fill(js, func(_ status.Storage, full error) bool { return errors.Is(full, jetstream.ErrUncertain) })
	page = page[:0]
	fill(js, func(_ status.Storage, full error) bool { return errors.Is(full, jetstream.ErrUncertain) })
	end()
	fails(t, m.TryStart(t), jetstream.ErrFull, "on a full journal")
	m.Mesh = nil

	// A truncation makes room.
	archive(t, m, "full.tar.gz")
	m.Start(t)
	s = m.Storage()
	failIf(t, s.Journal > limit/4 || s.Begins == 0 || s.Alert() != "" && s.DiskFree > s.DiskSize/4, "truncated: %+v", s)
}
