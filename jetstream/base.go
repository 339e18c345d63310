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

// A journal is truncated at its front, up to a record of the truncation: that
// record then comes first, and names the backup of what was cut off and the base
// that replaces it. A journal that begins with any other record, except its very
// first, is damaged.

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

// Begin returns where the journal begins: with the record after the position in
// the truncation in that record. The error is [ErrRecord] if something is cut
// off without such a record.
func Begin(ctx context.Context, js natsjs.JetStream) (Beginning, error) {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return Beginning{}, fmt.Errorf("reading the journal: %w", err)
	}
	first := stream.CachedInfo().State.FirstSeq
	if first <= 1 {
		return Beginning{}, nil
	}
	r, err := read(js, stream, first, true)
	if err != nil {
		return Beginning{}, fmt.Errorf("reading the journal: %w", err)
	}
	defer r.end()
	r.messages = 1
	seq, decisions, err := r.record(ctx)
	if err != nil {
		return Beginning{}, err
	}
	if seq != first {
		return Beginning{}, ErrMissing
	}
	return readBeginning(first, decisions)
}

// readBeginning returns the beginning of a journal with this first record.
func readBeginning(sequence uint64, decisions [][]byte) (Beginning, error) {
	d, err := bcp.DecodeDecision(decisions[0])
	if err != nil {
		return Beginning{}, fmt.Errorf("%w: message %d: %w", ErrRecord, sequence, err)
	}
	begin, err := BeginningWith(&d)
	if err == nil && begin.Sequence != sequence-1 {
		err = fmt.Errorf("%w: it begins with record %d, but was truncated after record %d", ErrRecord, sequence, begin.Sequence)
	}
	return begin, err
}

// Begin is [Begin] of this journal.
func (j *Journal) Begin(ctx context.Context) (Beginning, error) { return Begin(ctx, j.js) }

// BeginningWith returns the beginning of a journal whose first decision is d.
func BeginningWith(d *bcp.Decision) (Beginning, error) {
	if d.Seq == 1 {
		return Beginning{}, nil
	}
	return beginningWith(d)
}

// beginningWith returns the beginning of a journal whose first decision is d.
func beginningWith(d *bcp.Decision) (Beginning, error) {
	if d.Truncation == nil || d.Truncation.Sequence == 0 || d.Seq < 2 {
		return Beginning{}, fmt.Errorf("%w: it begins with decision %d, and no record says that it was truncated there", ErrRecord, d.Seq)
	}
	return Beginning{Position{Sequence: d.Truncation.Sequence, Decision: d.Seq - 1, Head: d.Prev}, *d.Truncation}, nil
}

// Truncate removes the records up to and including a position; the next record
// must be that of the truncation. The stream refuses delete and purge, to
// everybody, but its limits can cut off the front. They stay until the next
// [Create]: a server that is killed or loses power in the middle finishes when it
// starts, if nothing was appended.
func Truncate(ctx context.Context, js natsjs.JetStream, p Position) error {
	stream, err := js.Stream(ctx, CommitStream)
	if err != nil {
		return fmt.Errorf("truncating the journal: %w", err)
	}
	info := stream.CachedInfo()
	if p.Sequence == 0 || p.Sequence >= info.State.LastSeq {
		return fmt.Errorf("truncating the journal: there is nothing after record %d", p.Sequence)
	}
	config := info.Config
	config.Discard, config.MaxMsgs, config.MaxBytes = natsjs.DiscardOld, int64(info.State.LastSeq-p.Sequence), -1
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("truncating the journal: %w", err)
	}
	begin, err := Begin(ctx, js)
	if err == nil && begin.Position != p {
		err = fmt.Errorf("%w: it begins after record %d, but should begin after record %d", ErrRecord, begin.Sequence, p.Sequence)
	}
	return err
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
	if f.Name != BaseName(begin.Decision) || len(f.Content) < sha256.Size || sha256.Sum256(f.Content) != begin.Truncation.Base {
		return Snapshot{}, fmt.Errorf("%w: %s is not it", ErrBase, f.Name)
	}
	return f.open(begin)
}

// NewBaseFile returns the file of a base.
func NewBaseFile(s Snapshot) BaseFile { return BaseFile{BaseName(s.Decision), s.encode()} }

// Snapshot returns the snapshot in a file that is known to be whole.
func (f *BaseFile) Snapshot() (Snapshot, error) {
	if len(f.Content) < snapshotHeader+sha256.Size {
		return Snapshot{}, fmt.Errorf("%w: %s", ErrBase, f.Name)
	}
	return decodeSnapshot(f.Name, f.Content)
}

func (f *BaseFile) open(begin Beginning) (Snapshot, error) {
	s, err := decodeSnapshot(f.Name, f.Content)
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
