package jetstream_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// truncation makes the record that lets a journal begin behind a sequence.
func (m *maker) truncation(sequence uint64) []byte {
	m.t.Helper()
	record := m.apply(m.state.DecideTruncate(m.moment(), bcp.Truncation{Sequence: sequence, Base: bcp.Digest{1}, Backup: bcp.Digest{2}, File: "a.tar.gz"}))
	m.n = (m.n + 3) / 4 * 4 // next begins its round again
	return record
}

// announcement is the record in front of which a journal may be cut off.
func (m *maker) announcement(sequence uint64) []byte {
	m.t.Helper()
	record := m.apply(m.state.DecideTruncate(m.moment(), bcp.Truncation{Sequence: sequence}))
	m.n = (m.n + 3) / 4 * 4
	return record
}

// cutOff truncates a journal to its end.
func cutOff(t *testing.T, js natsjs.JetStream, p jetstream.Position) error {
	t.Helper()
	for {
		if all, err := jetstream.Truncate(within(t), js, p, jetstream.TruncatedBytes, nil); all || err != nil {
			return err
		}
	}
}

// position is behind what was made.
func (m *maker) position(j *jetstream.Journal) jetstream.Position {
	return jetstream.Position{Sequence: j.Last(), Decision: m.state.Last(), Head: m.state.Head()}
}

func appendAll(t *testing.T, j *jetstream.Journal, decisions ...[]byte) {
	t.Helper()
	noError(t, j.Append(within(t), decisions))
}

// chainOf reads the journal and says whether its chain holds.
func chainOf(t *testing.T, js natsjs.JetStream) (chain jetstream.Chain, err error) {
	t.Helper()
	j := must(jetstream.OpenJournal(t.Context(), js))(t)
	err = j.Replay(t.Context(), func(decision []byte) error { return chain.Add([][]byte{decision}) })
	return chain, err
}

// The limits of a stream that nobody can purge cut off its front, over many
// blocks of its file; the journal begins where its first record says, goes on
// behind its sequence, and can be truncated again.
//
// covers P4.5, P11.1, P11.2
func TestTruncate(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	begin, err := jetstream.Begin(t.Context(), js)
	stopIf(t, err != nil || begin.Truncated(), "a new journal: %+v %v", begin, err)
	for n := range 2 {
		for range 200 { // 100 MB, which is cut off in two parts
			appendAll(t, j, m.apply(m.state.DecideEvent(m.moment(), bcp.Decision{Kind: bcp.KindProcess, Agent: "mailer", Event: bcp.ProcessStarted, Note: strings.Repeat("a", 1<<19)})))
		}
		behind := m.position(j)
		if n > 0 { // a truncation that does not wait for what is decided meanwhile
			appendAll(t, j, m.announcement(behind.Sequence))
			appendAll(t, j, m.some(10)...)
		}
		appendAll(t, j, m.truncation(behind.Sequence))
		appendAll(t, j, m.some(10)...)
		noError(t, cutOff(t, js, behind))
		if begin, err = jetstream.Begin(t.Context(), js); err != nil || begin.Position != behind || begin.Truncation.File != "a.tar.gz" {
			t.Fatalf("it begins at %+v, %v, and not at %+v", begin, err, behind)
		}
		create(t, js)
		stream := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
		if info := stream.CachedInfo(); info.State.FirstSeq != behind.Sequence+1 || info.State.NumDeleted != 0 || info.Config.MaxMsgs != -1 ||
			info.Config.Discard != natsjs.DiscardNew || !info.Config.DenyPurge || !info.Config.DenyDelete {
			t.Errorf("the stream is %+v", info)
		}
		fails(t, stream.Purge(t.Context()), nil, "the journal was purged")
		fails(t, stream.DeleteMsg(t.Context(), behind.Sequence+1), nil, "a record was deleted")
		j, _ = open(t, js)
		appendAll(t, j, m.some(10)...)
		chain, err := chainOf(t, js)
		failIf(t, err != nil || chain.Begin != begin || chain.Decisions != m.state.Last() || chain.Head != m.state.Head(),
			"its chain is %+v, %v", chain, err)
		err = j.ReplayBehind(t.Context(), behind, func([]byte) error { return nil })
		failIf(t, err != nil, "behind its beginning: %v", err)
		behind.Sequence--
		fails(t, j.ReplayBehind(t.Context(), behind, func([]byte) error { return nil }), jetstream.ErrPosition, "from in front of it")
	}
}

// never is the sequence of a truncation that was only announced.
const never = 99

// A truncation that ends between two parts is ended at the next start; what nobody has
// recorded stays as it is.
//
// covers P4.5, P11.2, A-CRASH
func TestResumeTruncation(t *testing.T) {
	t.Parallel()
	for name, recorded := range map[string]bool{"recorded": true, "announced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, j, m := journaled(t)
			for range 5 {
				appendAll(t, j, m.some(10)...)
			}
			place := m.position(j)
			appendAll(t, j, m.announcement(place.Sequence))
			appendAll(t, j, m.some(10)...)
			if recorded {
				appendAll(t, j, m.truncation(place.Sequence))
			}
			if all, err := jetstream.Truncate(within(t), js, place, 1, nil); err != nil || all {
				t.Fatal(all, err)
			}
			fails(t, errorOf(jetstream.Begin(t.Context(), js)), jetstream.ErrRecord, "between two parts")
			noError(t, jetstream.ResumeTruncation(within(t), js))
			begin, err := jetstream.Begin(t.Context(), js)
			failIf(t, recorded && (err != nil || begin.Position != place) || !recorded && !errors.Is(err, jetstream.ErrRecord),
				"it begins at %+v, %v", begin, err)
			err = jetstream.ResumeTruncation(within(t), js)
			failIf(t, err != nil, "again: %v", err)
		})
	}
}

// A journal whose front is cut off otherwise than its records say is damaged.
//
// covers P4.5, P11.2, A-CHAIN
func TestUnrecordedTruncation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorded  uint64 // as the truncation says
		kept      int64  // of five records: two, the truncation or what announces it, two
		announced uint64 // as the truncation says, which is then the fourth
		holds     bool
	}{
		"as recorded":                {2, 3, 0, true},
		"not carried out":            {2, 5, 0, true},
		"less than recorded":         {2, 4, 0, false},
		"more than recorded":         {2, 2, 0, false},
		"all but the last":           {2, 1, 0, false},
		"recorded as another":        {1, 3, 0, false},
		"recorded as nothing":        {0, 3, 0, false},
		"announced":                  {2, 3, 2, true},
		"announced, and not done":    {2, 5, 2, true},
		"announced, and no more":     {2, 3, never, false},
		"announced, another is done": {2, 3, 1, false},
		"what announced it is gone":  {2, 2, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, j, m := journaled(t)
			appendAll(t, j, m.some(10)...)
			appendAll(t, j, m.some(10)...)
			switch {
			case c.announced == 0:
				appendAll(t, j, m.truncation(c.recorded))
				appendAll(t, j, m.some(10)...)
			case c.announced == never:
				appendAll(t, j, m.announcement(c.recorded))
				appendAll(t, j, m.some(10)...)
			default:
				appendAll(t, j, m.announcement(c.recorded))
				appendAll(t, j, m.truncation(c.announced))
			}
			appendAll(t, j, m.some(10)...)
			stream := must(js.Stream(t.Context(), jetstream.CommitStream))(t)
			config := stream.CachedInfo().Config
			config.Discard, config.MaxMsgs = natsjs.DiscardOld, c.kept
			must(js.UpdateStream(t.Context(), config))(t)
			_, begins := jetstream.Begin(t.Context(), js)
			failIf(t, (begins == nil) != c.holds || begins != nil && !errors.Is(begins, jetstream.ErrRecord),
				"it begins: %v", begins)
			_, chained := chainOf(t, js)
			failIf(t, c.announced == 0 && c.recorded == 2 && (chained == nil) != c.holds || chained != nil && !errors.Is(chained, jetstream.ErrRecord),
				"its chain: %v", chained)
		})
	}
}

// Nothing is cut off that leaves no record, and what the limits would cut off of
// another position is an error.
//
// covers P4.5
func TestTruncateRefuses(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	appendAll(t, j, m.some(10)...)
	all := m.position(j)
	for _, sequence := range []uint64{0, all.Sequence, all.Sequence + 1} {
		failIf(t, cutOff(t, js, jetstream.Position{Sequence: sequence, Decision: all.Decision, Head: all.Head}) == nil,
			"truncated behind %d", sequence)
	}
	_, read := open(t, js)
	failIf(t, len(read) != 10, "%d decisions are left", len(read))
}

// A base is what was written, or refused with the name of the backup that has it.
//
// covers P4.5, P11.2
func TestBases(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "base")
	bases := jetstream.NewBases(dir)
	n, err := bases.Newest()
	failIf(t, n != 0 || err != nil, "none: %d %v", n, err)
	var begin jetstream.Beginning
	for n := range uint64(6) { // more than the snapshots that are kept
		at := jetstream.Position{Sequence: 10 * (n + 1), Decision: 100 * (n + 1), Head: bcp.Digest{byte(n)}}
		file := must(bases.Write(jetstream.Snapshot{Position: at, Checkpoint: []byte("checkpoint")}))(t)
		if n == 0 {
			begin = jetstream.Beginning{Position: at, Truncation: bcp.Truncation{Sequence: at.Sequence, Base: sha256.Sum256(file.Content), File: "a.tar.gz"}}
		}
	}
	s, _, err := bases.Read(t.Context(), begin)
	failIf(t, err != nil || string(s.Checkpoint) != "checkpoint", "the oldest is gone: %v", err)
	n, err = bases.Newest()
	failIf(t, n != 600 || err != nil, "the newest is %d %v", n, err)
	noError(t, bases.Keep(begin.Position))
	n, err = bases.Newest()
	failIf(t, n != 100 || err != nil, "the only one is %d %v", n, err)
	name := filepath.Join(dir, "00000000000000000100.snapshot")
	good := must(os.ReadFile(name))(t)
	for what, content := range map[string][]byte{"changed": append([]byte{1}, good[1:]...), "cut": good[:len(good)-1], "short": good[:3], "empty": nil} {
		noError(t, os.WriteFile(name, content, 0o600))
		_, _, err := bases.Read(t.Context(), begin)
		failIf(t, !errors.Is(err, jetstream.ErrBase), "%s: %v", what, err)
	}
	noError(t, os.Remove(name))
	_, _, err = bases.Read(t.Context(), begin)
	failIf(t, !errors.Is(err, jetstream.ErrBase), "missing: %v", err)
	noError(t, os.WriteFile(name, good, 0o600))
	begin.Sequence++
	_, _, err = bases.Read(t.Context(), begin)
	failIf(t, !errors.Is(err, jetstream.ErrBase), "of another place: %v", err)
}

// A backup of a truncated journal without its base, or with another, is none: it
// would restore to a journal that does not start.
//
// covers P11.2
func TestBackupWithoutItsBase(t *testing.T) {
	t.Parallel()
	js, j, m := journaled(t)
	appendAll(t, j, m.some(10)...)
	behind := m.position(j)
	base := []byte("base")
	appendAll(t, j, m.apply(m.state.DecideTruncate(m.moment(), bcp.Truncation{Sequence: behind.Sequence, Base: sha256.Sum256(base)})))
	noError(t, cutOff(t, js, behind))
	for content, whole := range map[string]bool{"base": true, "bass": false, "": false} {
		var file bytes.Buffer
		w := jetstream.NewBackupWriter(&file, "test", time.Now())
		if content != "" {
			noError(t, w.Put("base/00000000000000000010.snapshot", []byte(content)))
		}
		must(w.Journal(within(t), jetstream.JournalRecords(js, false), 0, nil))(t)
		made, err := w.Close()
		stopIf(t, err != nil || made.Begins != behind || made.Decisions != 11, "%+v %v", made, err)
		_, err = jetstream.ReadBackup(&file, jetstream.Restoring{})
		failIf(t, (err == nil) != whole || err != nil && !errors.Is(err, jetstream.ErrBackup), "with %q: %v", content, err)
	}
}
