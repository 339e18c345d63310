package jetstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A journal is truncated at its front, in two records. The first announces it: the
// journal may begin with this record. Then a snapshot of what is in front of it is proven
// and backed up, while the journal grows, and the second names both. Everything in front
// of the first is cut off once the second is on disk. So a journal begins with its very
// first record, or with one that announces it, and has one that names its base: any other
// is damaged.

// ErrBase says that the base of a truncated journal is missing or is a
// different one.
var ErrBase = errors.New("the snapshot after which the journal begins is damaged")

// Beginning is where a journal begins. The zero value is for a whole journal.
type Beginning struct {
	Position
	Truncation bcp.Truncation
}

// Truncated reports whether something is cut off.
func (b Beginning) Truncated() bool { return b.Sequence > 0 }

// announced reports whether the record that names the base was not read yet.
func (b *Beginning) announced() bool { return b.Truncated() && b.Truncation.Base == bcp.Digest{} }

// name takes the base from the record that names it.
func (b *Beginning) name(d *bcp.Decision) {
	if t := d.Truncation; t != nil && b.announced() && t.Sequence == b.Sequence {
		b.Truncation = *t
	}
}

func errUnnamed(b Beginning) error {
	return fmt.Errorf("%w: it begins after record %d, and no record names the snapshot of what is cut off", ErrRecord, b.Sequence)
}

// Begin returns where the journal begins. The error is [ErrRecord] if something is cut
// off without the records of a truncation.
func Begin(ctx context.Context, js natsjs.JetStream) (Beginning, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return Beginning{}, fmt.Errorf("reading the journal: %w", err)
	}
	if stream.CachedInfo().State.FirstSeq <= 1 {
		return Beginning{}, nil
	}
	return JournalRecords(js, true).Begin(ctx)
}

// Announced returns where a journal begins whose first record this is, or will be when it is truncated.
func Announced(ctx context.Context, js natsjs.JetStream, first uint64) (Beginning, error) {
	if first <= 1 {
		return Beginning{}, nil
	}
	stream, err := js.Stream(ctx, CommitStream)
	var r *reader
	if err == nil {
		r, err = read(js, stream, first, true)
	}
	if err != nil {
		return Beginning{}, fmt.Errorf("reading the journal: %w", err)
	}
	defer r.end()
	r.messages = 1
	sequence, decisions, err := r.record(ctx)
	if err == nil && sequence != first {
		err = ErrMissing
	}
	if err != nil {
		return Beginning{}, err
	}
	return readBeginning(first, decisions)
}

// readBeginning returns the beginning of a journal with this first record, which may only
// announce it.
func readBeginning(sequence uint64, decisions [][]byte) (Beginning, error) {
	d, err := bcp.DecodeDecision(decisions[0])
	if err != nil {
		return Beginning{}, fmt.Errorf("%w: message %d: %w", ErrRecord, sequence, err)
	}
	begin, err := beginningWith(&d)
	if err == nil && begin.Sequence != sequence-1 && d.Seq > 1 {
		err = fmt.Errorf("%w: it begins with record %d, but was truncated after record %d", ErrRecord, sequence, begin.Sequence)
	}
	return begin, err
}

// Begin is [Begin] of this journal.
func (j *Journal) Begin(ctx context.Context) (Beginning, error) { return Begin(ctx, j.js) }

// beginningWith returns the beginning of a journal whose first decision is d.
func beginningWith(d *bcp.Decision) (Beginning, error) {
	if d.Seq == 1 {
		return Beginning{}, nil
	}
	if d.Truncation == nil || d.Truncation.Sequence == 0 || d.Seq < 2 {
		return Beginning{}, fmt.Errorf("%w: it begins with decision %d, and no record says that it was truncated there", ErrRecord, d.Seq)
	}
	return Beginning{Position{Sequence: d.Truncation.Sequence, Decision: d.Seq - 1, Head: d.Prev}, *d.Truncation}, nil
}

// TruncatedBytes is how much of a journal is best cut off at once: the server takes
// milliseconds for it.
const TruncatedBytes = 64 << 20

// ResumeTruncation ends a truncation that was killed between two parts: the journal begins
// with another record than the announced one, and has a record that names what is cut off.
// Nothing may be appended meanwhile.
func ResumeTruncation(ctx context.Context, js natsjs.JetStream) error {
	stream, err := js.Stream(ctx, CommitStream)
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the journal: %w", err)
	}
	first := stream.CachedInfo().State.FirstSeq
	if _, err := Announced(ctx, js, first); !errors.Is(err, ErrRecord) {
		return nil // whoever reads it says what else is wrong
	}
	place := uint64(0)
	_, _ = readRecords(ctx, js, 0, true, func(r Record) error {
		for _, record := range r.Decisions {
			if d, err := bcp.DecodeDecision(record); err != nil {
				return err
			} else if t := d.Truncation; t != nil && t.Base != (bcp.Digest{}) && t.Sequence >= first {
				place = t.Sequence
				return errEnough
			}
		}
		return nil
	})
	if place == 0 {
		return nil
	}
	begin, err := Announced(ctx, js, place+1)
	for all := false; err == nil && !all; {
		all, err = Truncate(ctx, js, begin.Position, TruncatedBytes, nil)
	}
	return err
}

// Truncate removes the oldest records up to a position, or some bytes of them, and reports
// whether that was all. The record after the position must announce it, and nothing may be
// appended before Truncate returns. The stream refuses delete and purge, to everybody, but
// its limits can cut off the front. limited, if set, is called while they are set, and an
// error of it leaves them so: then nothing may be appended before the next [Create]. A
// server that is killed or loses power in the middle cuts when it starts.
func Truncate(ctx context.Context, js natsjs.JetStream, p Position, bytes uint64, limited func() error) (all bool, err error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return false, fmt.Errorf("truncating the journal: %w", err)
	}
	info := stream.CachedInfo()
	first, last := info.State.FirstSeq, info.State.LastSeq
	if p.Sequence < first {
		begin, err := Announced(ctx, js, first)
		if err == nil && begin.Position != p {
			err = fmt.Errorf("%w: it begins after record %d, but should begin after record %d", ErrRecord, begin.Sequence, p.Sequence)
		}
		return true, err
	}
	if p.Sequence >= last {
		return false, fmt.Errorf("truncating the journal: there is nothing after record %d", p.Sequence)
	}
	some := max(1, bytes*info.State.Msgs/max(1, info.State.Bytes))
	config := info.Config
	config.Discard, config.MaxMsgs, config.MaxBytes = natsjs.DiscardOld, int64(last-min(p.Sequence, first-1+some)), -1
	if _, err = js.UpdateStream(ctx, config); err == nil && limited != nil {
		err = limited()
	}
	if err == nil {
		_, err = js.UpdateStream(ctx, info.Config)
	}
	if err != nil {
		return false, fmt.Errorf("truncating the journal: %w", err)
	}
	return false, nil
}

// BaseFolder is the folder of bases, in a state folder and in a backup.
const BaseFolder = "base"

// Bases is the folder of the bases of truncated journals. Unlike [Snapshots] they
// cannot be derived again. A nil one has none.
type Bases struct {
	files  Snapshots
	shared natsjs.JetStream // has them too, of a cluster
}

// NewBases returns the bases in a folder, which Write creates.
func NewBases(dir string) *Bases { return &Bases{files: Snapshots{dir: dir}} }

// Shared returns the bases of a cluster; the folder is a cache of them.
func (b *Bases) Shared(js natsjs.JetStream) *Bases { return &Bases{b.files, js} }

// BaseFile is the file of a base, named as in a state folder and in a backup.
type BaseFile struct {
	Name    string
	Content []byte
}

// BaseName returns the file name of a base made after a decision.
func BaseName(decision uint64) string { return path.Join(BaseFolder, snapshotName(decision)) }

// Write adds a base, whole or not at all, and returns its file as read back
// from disk.
func (b *Bases) Write(s Snapshot) (BaseFile, error) {
	if err := b.files.write(s); err != nil {
		return BaseFile{}, err
	}
	content, err := b.files.bytes(snapshotName(s.Decision))
	return BaseFile{BaseName(s.Decision), content}, err
}

// Read returns the base of a truncated journal and its file. If it is not the
// recorded one, the error wraps [ErrBase] and names the backup that has it. On a
// cluster a missing file is written to the folder.
func (b *Bases) Read(ctx context.Context, begin Beginning) (Snapshot, BaseFile, error) {
	s, file, err := b.read(begin)
	if b == nil || b.shared == nil || !errors.Is(err, ErrBase) {
		return s, file, err
	}
	if file, err = StoredBase(ctx, b.shared, begin); err != nil {
		return s, file, err
	}
	if s, err = file.open(begin); err != nil {
		return s, file, err
	}
	if err := b.files.write(s); err != nil {
		return s, file, err
	}
	return s, file, b.Keep(begin.Position)
}

func (b *Bases) read(begin Beginning) (Snapshot, BaseFile, error) {
	file := BaseFile{Name: BaseName(begin.Decision)}
	damaged := func(why string) error { return damagedBase(file.Name, why, begin) }
	if b == nil {
		return Snapshot{}, file, damaged("is missing")
	}
	var err error
	file.Content, err = b.files.bytes(path.Base(file.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Snapshot{}, file, damaged("is missing")
	case errors.Is(err, ErrSnapshot), err == nil && sha256.Sum256(file.Content) != begin.Truncation.Base:
		return Snapshot{}, file, damaged("is not what was written")
	case err != nil:
		return Snapshot{}, file, err
	}
	s, err := file.open(begin)
	return s, file, err
}

func damagedBase(name, why string, begin Beginning) error {
	return fmt.Errorf("%w: %s %s; the backup %s or a later one has it", ErrBase, name, why, begin.Truncation.File)
}

// Open returns the base in a file of a backup that was read before.
func (f *BaseFile) Open(begin Beginning) (Snapshot, error) {
	if f.Name != BaseName(begin.Decision) || sha256.Sum256(f.Content) != begin.Truncation.Base {
		return Snapshot{}, fmt.Errorf("%w: %s is not it", ErrBase, f.Name)
	}
	return f.open(begin)
}

// Snapshot returns the snapshot in a file that is known to be whole.
func (f *BaseFile) Snapshot() (Snapshot, error) { return decodeSnapshot(f.Name, f.Content) }

func (f *BaseFile) open(begin Beginning) (Snapshot, error) {
	s, err := f.Snapshot()
	if err == nil && s.Position != begin.Position {
		err = fmt.Errorf("%w: %s is of another place; the backup %s or a later one has it", ErrBase, f.Name, begin.Truncation.File)
	}
	return s, err
}

// Newest returns the number of the newest decision in a base, 0 if there is
// none. A journal that ends before it has lost its end.
func (b *Bases) Newest() (uint64, error) {
	if b == nil {
		return 0, nil
	}
	decision, _, err := b.files.Newest()
	return decision, err
}

// Keep removes all bases except that of the position after which the journal begins.
func (b *Bases) Keep(p Position) error {
	names, err := b.files.List()
	for _, name := range names {
		if name != snapshotName(p.Decision) {
			err = errors.Join(err, os.Remove(filepath.Join(b.files.dir, name)))
		}
	}
	return err
}
