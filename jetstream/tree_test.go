package jetstream_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

func checkpointKey(t *testing.T) jetstream.CheckpointKey {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "bcpmesh/test")
	noError(t, err)
	signer := must(note.NewSigner(private))(t)
	return jetstream.CheckpointKey{Signer: signer, Public: public}
}

// recording is a journal with a tree over it.
type recording struct {
	journal *jetstream.Journal // that is written
	reads   jetstream.Records  // that the tree reads
	maker   *maker
	dir     string
	tree    *jetstream.Tree
	key     jetstream.CheckpointKey
	written [][]byte
	records [][][]byte // of written
	least   uint64     // that was asked for last, over the mesh
	cut     uint64     // records that nobody reads any more
}

// since reads the journal as somebody else than the gateway does.
func (r *recording) since(_ context.Context, from, least uint64, each func(jetstream.Record) error) error {
	r.least = least
	for i := max(from, r.cut+1); i <= uint64(len(r.records)); i++ {
		if err := each(jetstream.Record{Sequence: i, Decisions: r.records[i-1]}); err != nil {
			return err
		}
	}
	return nil
}

func startRecording(t *testing.T) *recording {
	t.Helper()
	js := streams(t)
	r := &recording{maker: newMaker(t), dir: filepath.Join(t.TempDir(), "tree"), key: checkpointKey(t)}
	r.tree = jetstream.NewTree(r.dir)
	r.journal, _ = open(t, js)
	r.reads = jetstream.JournalRecords(js, false)
	return r
}

// write appends decisions, a few a record.
func (r *recording) write(t *testing.T, n int) {
	t.Helper()
	for record := range slices.Chunk(r.maker.some(n), 7) {
		r.append(t, record)
	}
}

func (r *recording) append(t *testing.T, record [][]byte) {
	t.Helper()
	noError(t, r.journal.Append(within(t), record))
	r.written, r.records = append(r.written, record...), append(r.records, record)
}

func (r *recording) extend(t *testing.T) error {
	t.Helper()
	return r.extendBy(t, r.reads)
}

func (r *recording) extendBy(t *testing.T, records jetstream.Records) error {
	t.Helper()
	u, err := r.tree.Extend(within(t), records, jetstream.Position{})
	if err != nil {
		return err
	}
	return r.tree.Sign(u, r.key)
}

// newest is the newest checkpoint, which must verify.
func (r *recording) newest(t *testing.T) verify.Checkpoint {
	t.Helper()
	signed := must(r.tree.Newest())(t)
	return must(verify.OpenCheckpoint(signed, []string{r.key.Public}))(t)
}

// checkHashes compares the file of hashes with what the library computes.
func (r *recording) checkHashes(t *testing.T) {
	t.Helper()
	got := must(os.ReadFile(filepath.Join(r.dir, "hashes")))(t)
	var want []byte
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			copy(hashes[i][:], want[index*tlog.HashSize:])
		}
		return hashes, nil
	})
	for i, d := range r.written {
		hashes := must(tlog.StoredHashes(int64(i), d, reader))(t)
		for _, h := range hashes {
			want = append(want, h[:]...)
		}
	}
	failIf(t, !bytes.Equal(got, want), "%d bytes of hashes, want %d, or others", len(got), len(want))
	root := must(tlog.TreeHash(int64(len(r.written)), reader))(t)
	if c := r.newest(t); c.Size != uint64(len(r.written)) || c.Root != verify.Hash(root) {
		t.Errorf("the newest checkpoint is of %d decisions, want %d, or has another root", c.Size, len(r.written))
	}
}

// The tree grows with the journal, its hashes are those of the library, and
// each checkpoint continues the ones before, also after a crash at any place of
// a write.
//
// covers P11.2
func TestTreeGrows(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	noError(t, r.extend(t))
	fails(t, errorOf(r.tree.Newest()), jetstream.ErrNoCheckpoint, "a checkpoint of nothing")
	var since []verify.Checkpoint
	for _, n := range []int{1, 1, 1, 5, 8, 100, 300} {
		r.write(t, n)
		for range 2 { // the second finds nothing new
			noError(t, r.extend(t))
		}
		r.checkHashes(t)
		since = append(since, r.newest(t))
		r.write(t, n) // and what somebody else reads
		for range 2 {
			noError(t, r.extendBy(t, r.since))
		}
		r.checkHashes(t)
		err := errors.Join(r.tree.Check(within(t), r.since), r.tree.Check(within(t), r.reads))
		failIf(t, err != nil, "%v", err)
		if reaches, err := r.tree.Reaches(); err != nil || reaches != uint64(len(r.records)) || r.least != reaches {
			t.Errorf("the tree reaches record %d of %d, %v; record %d was waited for", reaches, len(r.records), err, r.least)
		}
		since = append(since, r.newest(t))
		// What a crash may leave behind: hashes without a checkpoint, half a line.
		appendTo(t, filepath.Join(r.dir, "hashes"), bytes.Repeat([]byte{7}, 3*n))
		appendTo(t, filepath.Join(r.dir, "checkpoints"), []byte(`{"sequence":1`))
		err = r.tree.Check(within(t), r.reads)
		failIf(t, err != nil, "%v", err)
	}
	lines, err := os.ReadFile(filepath.Join(r.dir, "checkpoints"))
	failIf(t, err != nil || bytes.Count(lines, []byte("\n")) != len(since),
		"%d checkpoints, want %d (%v)", bytes.Count(lines, []byte("\n")), len(since), err)
	var file bytes.Buffer
	must(jetstream.Export(within(t), &file, recordsOf(r.written), jetstream.ExportOptions{Key: r.key, Tree: r.tree}))(t)
	s, err := verify.File(&file, verify.Options{Keys: []string{r.key.Public}, Since: since})
	failIf(t, err != nil || s.Checkpoint != since[len(since)-1], "the export ends with %v: %v", s.Checkpoint, err)
}

func recordsOf(decisions [][]byte) jetstream.Records {
	return func(_ context.Context, _, _ uint64, each func(jetstream.Record) error) error {
		return each(jetstream.Record{Sequence: 1, Decisions: decisions})
	}
}

func appendTo(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(b)
	}
	err = errors.Join(err, f.Close())
	noError(t, err)
}

// Hashes that are damaged or gone are made again from the journal.
//
// covers P11.2
func TestTreeIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	r.write(t, 50)
	noError(t, r.extend(t))
	hashes := filepath.Join(r.dir, "hashes")
	for name, damage := range map[string]func(b []byte) []byte{
		"gone":  func([]byte) []byte { return nil },
		"short": func(b []byte) []byte { return b[:len(b)/2] },
		// The subtrees that the newest checkpoint is made of are read again.
		"changed": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		b, err := os.ReadFile(hashes)
		if err == nil {
			err = os.WriteFile(hashes, damage(b), 0o600)
		}
		noError(t, err)
		r.write(t, 3)
		err = r.extend(t)
		stopIf(t, err != nil, "%s: %v", name, err)
		r.checkHashes(t)
	}
}

// A journal that is another one than what was signed, or has lost its end, is
// neither signed nor exported, though its chain is whole.
//
// covers P11.2, A-CHAIN
func TestTreeRefusesAnotherHistory(t *testing.T) {
	t.Parallel()
	for name, withHashes := range map[string]bool{"with hashes": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signed, other := startRecording(t), startRecording(t)
			signed.write(t, 40)
			noError(t, signed.extend(t))
			other.maker.now = other.maker.now.Add(1) // a nanosecond later
			other.write(t, 33)
			if !withHashes {
				noError(t, os.Remove(filepath.Join(signed.dir, "hashes")))
			}
			expect := func(want ...error) {
				t.Helper()
				for what, err := range map[string]error{
					"check over the mesh":  signed.tree.Check(within(t), other.since),
					"extend over the mesh": signed.extendBy(t, other.since),

					"check":  signed.tree.Check(within(t), other.reads),
					"extend": signed.extendBy(t, other.reads),
					"export": exportTo(t, other.written, jetstream.ExportOptions{Key: signed.key, Tree: signed.tree}),
				} {
					failIf(t, !slices.ContainsFunc(want, func(e error) bool { return errors.Is(err, e) }),
						"%s with %d decisions: %v", what, len(other.written), err)
				}
				c := signed.newest(t)
				failIf(t, c.Size != 40, "the newest checkpoint is of %d decisions", c.Size)
			}
			expect(jetstream.ErrLost, jetstream.ErrRewritten)
			other.write(t, 33)
			expect(jetstream.ErrRewritten)
		})
	}
}

func exportTo(t *testing.T, decisions [][]byte, o jetstream.ExportOptions) error {
	t.Helper()
	_, err := jetstream.Export(within(t), new(bytes.Buffer), recordsOf(decisions), o)
	return err
}

// A journal of which somebody else reads other records than those that are due is
// damaged, and is not signed.
//
// covers P11.2, A-CHAIN
func TestTreeRefusesGaps(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	r.write(t, 20)
	noError(t, r.extendBy(t, r.since))
	r.write(t, 20)
	for what, from := range map[string]func(sequence uint64) uint64{
		"one is missing":   func(n uint64) uint64 { return n + n/5 },
		"the first is not": func(n uint64) uint64 { return n + 1 },
		"one comes twice":  func(n uint64) uint64 { return n - n/5 },
	} {
		read := func(ctx context.Context, first, least uint64, each func(jetstream.Record) error) error {
			return r.since(ctx, first, least, func(read jetstream.Record) error {
				return each(jetstream.Record{Sequence: from(read.Sequence), Decisions: read.Decisions})
			})
		}
		fails(t, r.extendBy(t, read), jetstream.ErrRecord, "%s", what)
	}
	c := r.newest(t)
	failIf(t, c.Size != 20, "the newest checkpoint is of %d decisions", c.Size)
}

// Of a truncated journal, what somebody else reads behind the cut goes on with what was
// signed in front of it; one that is cut off further than that, or where no record says
// so, is refused.
//
// covers P11.2, A-CHAIN
func TestTreeOfATruncatedJournalOverTheMesh(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	extend := func() error { return r.extendBy(t, r.since) }
	r.write(t, 40)
	noError(t, extend())
	signed := r.newest(t)
	behind := uint64(len(r.records))
	r.append(t, [][]byte{r.maker.truncation(behind)})
	r.write(t, 10)

	r.cut = behind + 1 // behind the record that says so
	fails(t, extend(), jetstream.ErrRecord, "cut off further than a record says")
	r.cut = behind + 2
	fails(t, extend(), jetstream.ErrRecord, "cut off much further")
	failIf(t, r.newest(t) != signed, "signed: %v", r.newest(t))
	other := startRecording(t)
	other.maker.now = other.maker.now.Add(1)
	other.write(t, 40)
	other.append(t, [][]byte{other.maker.truncation(behind)})
	other.cut = behind
	for call, err := range map[string]error{
		"check":  r.tree.Check(within(t), other.since),
		"extend": r.extendBy(t, other.since),
	} {
		failIf(t, !errors.Is(err, jetstream.ErrRewritten), "%s, cut off behind another history: %v", call, err)
	}
	r.cut = behind
	noError(t, extend())
	r.checkHashes(t)
	hashes := filepath.Join(r.dir, "hashes")
	r.write(t, 1)
	good, err := os.ReadFile(hashes)
	if err == nil {
		err = os.WriteFile(hashes, good[:len(good)-1], 0o600)
	}
	noError(t, err)
	if err := extend(); err != nil { // those behind the cut are made again
		t.Fatal(err)
	}
	r.checkHashes(t)
	r.write(t, 1)
	noError(t, os.Remove(hashes))
	fails(t, extend(), jetstream.ErrHashes, "without the hashes of what was cut off")
}

// Lines that are no checkpoints are not passed over.
//
// covers P11.2
func TestTreeRefusesDamage(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	for range 2 {
		r.write(t, 10)
		noError(t, r.extend(t))
	}
	name := filepath.Join(r.dir, "checkpoints")
	good := must(os.ReadFile(name))(t)
	lines := bytes.SplitAfter(good, []byte("\n"))
	for what, content := range map[string][]byte{
		"order":         slices.Concat(lines[1], lines[0]),
		"no checkpoint": slices.Concat([]byte("{}\n"), lines[1]),
		"no JSON":       slices.Concat(good, []byte("x\n")),
		"half a line":   slices.Concat(lines[0][:20], []byte("\n"), lines[1]),
	} {
		noError(t, os.WriteFile(name, content, 0o600))
		for call, err := range map[string]error{
			"extend": r.extend(t),
			"check":  r.tree.Check(within(t), r.reads),
			"export": exportTo(t, r.written, jetstream.ExportOptions{Key: r.key, Tree: r.tree}),
		} {
			failIf(t, !errors.Is(err, jetstream.ErrTree), "%s, %s: %v", what, call, err)
		}
	}
}

// Every decision in front of the newest checkpoint can be proven, and any change
// of the proof is found.
//
// covers P11.2, A-CHAIN
func TestProve(t *testing.T) {
	t.Parallel()
	r := startRecording(t)
	keys := []string{r.key.Public}
	fails(t, errorOf(r.tree.Prove(1, nil)), jetstream.ErrNoCheckpoint, "without a checkpoint")
	r.write(t, 37)
	noError(t, r.extend(t))
	r.write(t, 1)
	for i, d := range r.written[:37] {
		proof := must(r.tree.Prove(uint64(i+1), d))(t)
		p, err := verify.Proof(proof, keys)
		failIf(t, err != nil || p.Decision != uint64(i+1) || !bytes.Equal(p.Bytes, d) || p.Checkpoint != r.newest(t) || p.Time.IsZero(),
			"decision %d: %+v %v", i+1, p, err)
	}
	proof := must(r.tree.Prove(20, r.written[19]))(t)
	for i := range proof {
		changed := bytes.Clone(proof)
		changed[i] ^= 1
		p, err := verify.Proof(changed, keys)
		failIf(t, err == nil, "byte %d changed: %+v", i, p)
		fails(t, errorOf(verify.Proof(proof[:i], keys)), nil, "cut behind %d bytes, and it holds", i)
	}
	fails(t, errorOf(verify.Proof(proof, []string{checkpointKey(t).Public})), verify.ErrCheckpoint, "with another key")
	for number, decision := range map[uint64][]byte{0: r.written[0], 38: r.written[37], 5: r.written[5]} {
		fails(t, errorOf(r.tree.Prove(number, decision)), nil, "another decision is proven to be %d", number)
	}
}
