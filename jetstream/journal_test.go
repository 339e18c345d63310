package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Ten thousand decisions come back as they were written, and a checker that
// knows nothing of the writer agrees.
//
// covers P4.5, P11.1, BCP-145
func TestReplay(t *testing.T) {
	t.Parallel()
	js := streams(t)
	j, old := open(t, js)
	stopIf(t, len(old) > 0, "%d decisions in a new journal", len(old))
	m := newMaker(t)
	var written [][]byte
	for len(written) < 10_000 {
		batch := m.some(1 + len(written)%300)
		noError(t, j.Append(within(t), batch))
		written = append(written, batch...)
	}
	_, read := open(t, js)
	stopIf(t, len(read) != len(written), "%d decisions of %d", len(read), len(written))
	again := newMaker(t)
	for i, b := range read {
		stopIf(t, !bytes.Equal(b, written[i]), "decision %d is another one", i+1)
		d, err := bcp.DecodeDecision(b)
		if err == nil {
			err = d.Open(makerKey(t))
		}
		noError(t, err)
		noError(t, again.state.Apply(&d, bcp.RecordDigest(b)))
	}
	found := must(meshtest.CheckStream(t, js, map[string]int64{"main mailer": int64(100000 * bcp.Bit)}))(t)
	epoch, balance, _ := again.state.Balance(bcp.ChannelKey{Controller: "main", Reader: "mailer"})
	sum := found.Balances["main mailer 1"]
	failIf(t, found.Decisions != len(written) || epoch != 1 || sum.Settled != balance.Settled || sum.Reserved != balance.Reserved || sum.Settled == 0 || sum.Reserved == 0,
		"%d decisions, balance %+v, the state's %+v", found.Decisions, sum, balance)
	for id, n := range found.Pushes {
		failIf(t, n != 1, "%s is there %d times", id, n)
	}
}

// A replay that ends half way, as one of a reload may, takes nothing from the writer,
// and none leaves anything at the server that would look at every record to come.
//
// covers P1.5, P4.5, BCP-145
func TestFailedReplay(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	for range 3 {
		noError(t, j.Append(within(t), m.some(3)))
	}
	wrong, n := errors.New("a decision that is not liked"), 0
	if err := j.Replay(within(t), func([]byte) error {
		if n++; n == 5 {
			return wrong
		}
		return nil
	}); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	all := func([]byte) error { return nil }
	fails(t, j.Replay(ended, all), nil, "replayed without time")
	noError(t, j.Replay(within(t), all))
	n = must(js.Stream(within(t), jetstream.CommitStream))(t).CachedInfo().State.Consumers
	failIf(t, n != 0, "%d readers are left", n)
	noError(t, j.Append(within(t), m.some(3)))
}

// covers P4.5, P9.5
func TestSecondWriterIsFenced(t *testing.T) {
	t.Parallel()
	js := streams(t)
	first, _ := open(t, js)
	m := newMaker(t)
	noError(t, first.Append(within(t), m.some(3)))
	second, _ := open(t, js)
	batch := m.some(3)
	noError(t, second.Append(within(t), batch))
	for range 2 {
		fails(t, first.Append(within(t), batch), jetstream.ErrFenced, "the first appends")
	}
	must(meshtest.CheckStream(t, js, nil))(t)
}

// covers P11.1
func TestUncertainWrite(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	noError(t, j.Append(within(t), m.some(1)))
	stream := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
	config := stream.CachedInfo().Config
	config.MaxMsgs = 1
	must(js.UpdateStream(t.Context(), config))(t)
	batch := m.some(1)
	err := j.Append(within(t), batch)
	failIf(t, !errors.Is(err, jetstream.ErrUncertain) || errors.Is(err, jetstream.ErrFenced), "got %v", err)
	config.MaxMsgs = -1
	must(js.UpdateStream(t.Context(), config))(t)
	noError(t, j.Append(within(t), batch))
}

// covers A-CHAIN, P11.1
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	record := func(version int, decisions ...[]byte) []byte {
		b := must(msgpack.Marshal(struct {
			Version   int      `msgpack:"v"`
			Decisions [][]byte `msgpack:"d"`
		}{version, decisions}))(t)
		return b
	}
	good := newMaker(t).some(1)[0]
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "damaged"},
		{"no MessagePack", []byte("{}"), "damaged"},
		{"a length that is not there", []byte("\x82\xa1v\x02\xa1d\xdd\xff\xff\xff\xff"), "damaged"},
		{"cut short", record(2, good)[:40], "damaged"},
		{"bytes behind it", append(record(2, good), 0xc0), "damaged"},
		{"no version", record(0, good), "unknown record format 0: this version"},
		{"an earlier version", record(1, good), "unknown record format 1: this version"},
		{"a later version", record(3, good), "unknown record format 3: this version"},
		{"no decisions", record(2), "damaged"},
		{"decisions before the version", []byte("\x82\xa1d\x91\xc4\x01x\xa1v\x02"), "damaged"},
		{"a decision longer than the record", []byte("\x82\xa1v\x02\xa1d\x91\xc6\xff\xff\xff\xff"), "damaged"},
		{"another spelling", []byte("\x82\xa1v\x02\xa1d\x91\xc5\x00\x01x"), "damaged"},
		{"one decision too many", record(2, slices.Repeat([][]byte{good}, jetstream.MaxRecordDecisions+1)...), "damaged"},
		{"an unknown member", []byte("\x83\xa1v\x02\xa1d\x90\xa1x\x01"), "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			js := streams(t)
			for _, b := range [][]byte{record(2, good), c.data} {
				must(js.Publish(t.Context(), subjects.Commit(), b))(t)
			}
			j, err := jetstream.OpenJournal(t.Context(), js)
			noError(t, err)
			n := 0
			err = j.Replay(within(t), func([]byte) error { n++; return nil })
			failIf(t, !errors.Is(err, jetstream.ErrRecord) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "message 2"),
				"got %v", err)
			failIf(t, n != 1, "%d decisions before it", n)
		})
	}
}

// A journal without all of its records is refused, wherever they are missing.
//
// covers P11.2
func TestMissingRecords(t *testing.T) {
	t.Parallel()
	for name, missing := range map[string]uint64{"the first": 1, "one between": 2, "the last": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js := streams(t)
			// The mesh's own stream refuses what this test does.
			noError(t, js.DeleteStream(within(t), jetstream.CommitStream))
			stream, err := js.CreateStream(within(t), natsjs.StreamConfig{Name: jetstream.CommitStream, Subjects: []string{subjects.All(subjects.KindCommit)}, AllowDirect: true})
			noError(t, err)
			journal, _ := open(t, js)
			for _, d := range newMaker(t).some(3) {
				noError(t, journal.Append(within(t), [][]byte{d}))
			}
			noError(t, stream.DeleteMsg(within(t), missing))
			journal = must(jetstream.OpenJournal(within(t), js))(t)
			fails(t, journal.Replay(within(t), func([]byte) error { return nil }), jetstream.ErrRecord, "replayed")
		})
	}
}

// covers P4.5
func TestRecordLimits(t *testing.T) {
	t.Parallel()
	sized := func(n, size int) [][]byte {
		list := make([][]byte, n)
		for i := range list {
			list[i] = bytes.Repeat([]byte{byte(i)}, size)
		}
		return list
	}
	for _, c := range []struct {
		name    string
		batch   [][]byte
		records int
	}{
		{"nothing", nil, 0},
		{"as many as fit", sized(jetstream.MaxRecordDecisions, 10), 1},
		{"one more", sized(jetstream.MaxRecordDecisions+1, 10), 2},
		{"as large as fits", sized(3, jetstream.MaxRecordBytes/3), 1},
		{"one byte more", append(sized(3, jetstream.MaxRecordBytes/3), []byte{1}), 2},
		{"one alone beyond it", sized(1, jetstream.MaxRecordBytes+1), 1},
		{"three such", sized(3, jetstream.MaxRecordBytes+1), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			js := streams(t)
			j, _ := open(t, js)
			noError(t, j.Append(within(t), c.batch))
			_, read := open(t, js)
			failIf(t, !slices.EqualFunc(read, c.batch, bytes.Equal), "%d decisions came back", len(read))
			n := len(meshtest.ReadStream(t, js, jetstream.CommitStream))
			failIf(t, n != c.records, "%d records, not %d", n, c.records)
		})
	}
}

// covers P11.1, P11.4
func TestTopology(t *testing.T) {
	t.Parallel()
	js := streams(t)
	create(t, js) // again
	commit := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
	must(js.Publish(t.Context(), subjects.Commit(), []byte("x")))(t)
	// Not even a connection that may do anything deletes from the journal.
	fails(t, commit.DeleteMsg(t.Context(), 1), nil, "a message of the journal was deleted")
	fails(t, commit.Purge(t.Context()), nil, "the journal was purged")
	for name, check := range map[string]func(natsjs.StreamConfig) bool{
		jetstream.CommitStream: func(c natsjs.StreamConfig) bool {
			return c.DenyDelete && c.DenyPurge && c.MaxAge == 0 && c.Discard == natsjs.DiscardNew && c.PersistMode == natsjs.DefaultPersistMode
		},
		jetstream.KeyStream: func(c natsjs.StreamConfig) bool {
			return c.MaxAge == 0 && !c.AllowDirect && !c.DenyDelete && c.Discard == natsjs.DiscardNew && c.PersistMode == natsjs.DefaultPersistMode
		},
		jetstream.AuditStream: func(c natsjs.StreamConfig) bool {
			return c.MaxAge == 0 && c.Discard == natsjs.DiscardOld && c.AllowDirect
		},
	} {
		stream := must(js.Stream(t.Context(), name))(t)
		if c := stream.CachedInfo().Config; !check(c) || c.Storage != natsjs.FileStorage || c.RePublish != nil || c.Duplicates > time.Second {
			t.Errorf("%s: %+v", name, c)
		}
	}
	empty := must(natsjs.New(js.Conn()))(t)
	noError(t, js.DeleteStream(t.Context(), jetstream.KeyStream))
	noError(t, js.DeleteStream(t.Context(), jetstream.CommitStream))
	fails(t, errorOf(jetstream.OpenJournal(t.Context(), empty)), natsjs.ErrStreamNotFound, "a journal that is not there")
}

// A journal of full records is read over one connection: the server disconnects
// who has more waiting than it allows.
func TestReplayOfFullRecords(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	js := connect(t, "", nats.InProcessServer(s))
	create(t, js)
	j, _ := open(t, js)
	decision := bytes.Repeat([]byte("d"), jetstream.MaxRecordBytes/jetstream.MaxRecordDecisions)
	full := slices.Repeat([][]byte{decision}, jetstream.MaxRecordDecisions)
	const records = 100
	for range records {
		noError(t, j.Append(within(t), full))
	}
	_, read := open(t, js)
	failIf(t, len(read) != records*len(full), "%d decisions of %d", len(read), records*len(full))
	n := js.Conn().Stats().Reconnects
	failIf(t, n > 0, "%d reconnects", n)
}
