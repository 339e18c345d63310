package jetstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Tree is a folder with the Merkle tree over the journal, and every recorded
// checkpoint. The hashes can be derived from a journal that still begins with
// its first decision; the checkpoints cannot. One process extends it; others may
// read it meanwhile.
type Tree struct{ dir string }

// NewTree returns the tree in a folder, which Extend creates.
func NewTree(dir string) *Tree { return &Tree{dir: dir} }

// Files of the folder: hashes of 32 bytes in the order of tlog.StoredHashes, and
// a line of JSON for each checkpoint.
const (
	TreeHashes      = "hashes"
	TreeCheckpoints = "checkpoints"
)

var (
	// ErrTree says that the folder of the tree is damaged.
	ErrTree = errors.New("the record of checkpoints is damaged")
	// ErrHashes says that the tree of a truncated journal lacks the hashes of what
	// was cut off, or has wrong ones: they cannot be derived from the journal.
	ErrHashes = errors.New("the hashes of the truncated part of the journal are damaged")
	// ErrNoCheckpoint says that no checkpoint was recorded yet.
	ErrNoCheckpoint = errors.New("no checkpoint was recorded yet")
)

// recorded is one line of the checkpoints.
type recorded struct {
	Sequence   uint64     `json:"sequence"` // of the record of the journal that it stands behind
	Head       bcp.Digest `json:"head"`
	Checkpoint string     `json:"checkpoint"` // as it was signed

	tree tlog.Tree // tree of Checkpoint
}

func (r *recorded) position() Position {
	return Position{Sequence: r.Sequence, Decision: uint64(r.tree.N), Head: r.Head}
}

// entries reads all checkpoints, oldest first.
func (t *Tree) entries() (list []recorded, err error) {
	err = readLines(filepath.Join(t.dir, TreeCheckpoints), func(line []byte) error {
		var r recorded
		err := json.Unmarshal(line, &r)
		if err == nil {
			r.tree, err = parseTree(r.Checkpoint)
		}
		if err != nil || len(list) > 0 && r.tree.N < list[len(list)-1].tree.N {
			return fmt.Errorf("%w: line %d", ErrTree, len(list)+1)
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	return list, nil
}

// parseTree reads a checkpoint, which this program wrote.
func parseTree(checkpoint string) (t tlog.Tree, err error) {
	lines := strings.SplitN(checkpoint, "\n", 4)
	if len(lines) < 4 {
		return t, ErrTree
	}
	if _, err := fmt.Sscanf(lines[1], "%d", &t.N); err != nil || t.N < 0 {
		return t, ErrTree
	}
	t.Hash, err = tlog.ParseHash(lines[2])
	return t, err
}

// Newest returns the newest checkpoint as it was signed, with the cosignatures of
// witnesses, or [ErrNoCheckpoint].
func (t *Tree) Newest() ([]byte, error) {
	r, err := t.newest()
	if err != nil {
		return nil, err
	}
	lines, err := t.cosignatureLines(r.tree)
	return []byte(r.Checkpoint + lines), err
}

// SignedAt is when the newest checkpoint was written, by the clock of its file.
func (t *Tree) SignedAt() (time.Time, error) {
	info, err := os.Stat(filepath.Join(t.dir, TreeCheckpoints))
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the checkpoints: %w", err)
	}
	return info.ModTime(), nil
}

func (t *Tree) newest() (recorded, error) {
	list, err := t.entries()
	if err == nil && len(list) == 0 {
		err = ErrNoCheckpoint
	}
	if err != nil {
		return recorded{}, err
	}
	return list[len(list)-1], nil
}

// Reaches returns the sequence of the last record under the newest checkpoint, 0 if
// there is none: the journal has at least this record.
func (t *Tree) Reaches() (uint64, error) {
	newest, err := t.newest()
	if errors.Is(err, ErrNoCheckpoint) {
		err = nil
	}
	return newest.Sequence, err
}

// Check checks that a journal has what the newest checkpoint, if any, signed:
// it returns [ErrLost] if the journal ends earlier, and [ErrRewritten] if it is
// another one.
func (t *Tree) Check(ctx context.Context, journal Records) error {
	newest, err := t.newest()
	if errors.Is(err, ErrNoCheckpoint) {
		return nil
	}
	if err == nil {
		_, err = journal.behind(ctx, newest.position(), 0, func([]byte) error { return errEnough })
	}
	if err == nil || errors.Is(err, errEnough) {
		return nil
	}
	return newest.contradicted(err)
}

// CheckHashes checks the hashes of what was cut off a journal: nobody can make them again.
func (t *Tree) CheckHashes(begin Beginning) error {
	list, err := t.entries()
	if err == nil {
		_, _, err = t.treeBefore(begin, list)
	}
	return err
}

// contradicted returns the meaning of a journal that does not have the position
// of a checkpoint.
func (r *recorded) contradicted(err error) error {
	switch {
	case errors.Is(err, errEnds):
		return fmt.Errorf("%w: it ends before record %d, up to which a checkpoint of %d decisions was signed", ErrLost, r.Sequence, r.tree.N)
	case errors.Is(err, ErrPosition):
		return fmt.Errorf("%w: that of %d decisions", ErrRewritten, r.tree.N)
	}
	return err
}

// Unsigned is an extended tree. The zero value is none.
type Unsigned struct{ recorded }

// Extend reads the journal after the newest checkpoint, up to a position that it has or, for the zero
// value, to its end, writes the hashes to disk, and returns what must be signed: the zero value if
// nothing is new.
func (t *Tree) Extend(ctx context.Context, journal Records, upTo Position) (next Unsigned, err error) {
	defer func() {
		if err != nil {
			next, err = Unsigned{}, fmt.Errorf("extending the tree: %w", err)
		}
	}()
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return next, err
	}
	list, err := t.entries()
	if err != nil {
		return next, err
	}
	f, err := os.OpenFile(filepath.Join(t.dir, TreeHashes), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return next, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var newest recorded
	var tree frontier
	sound := false
	if len(list) > 0 {
		newest = list[len(list)-1]
		tree, err = readFrontier(newest.tree.N, t)
		sound = err == nil && tree.root() == newest.tree
	}
	least := newest.Sequence
	if sound {
		list = nil
	} else { // missing, damaged or removed: derived again from the journal
		begin, err := journal.Begin(ctx)
		if err == nil {
			tree, list, err = t.treeBefore(begin, list)
		}
		if err != nil {
			return next, err
		}
		newest = recorded{Sequence: begin.Sequence, Head: begin.Head, tree: tree.root()}
	}
	end := tlog.StoredHashCount(tree.size) * tlog.HashSize
	if err := f.Truncate(end); err != nil {
		return next, err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return next, err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	chain := Chain{Decisions: uint64(newest.tree.N), Head: newest.Head}
	if upTo.Decision > 0 && chain.Decisions >= upTo.Decision {
		return next, nil
	}
	last, err := journal.behind(ctx, newest.position(), least, func(decision []byte) error {
		if err := chain.Add([][]byte{decision}); err != nil {
			return err
		}
		tree.add(chain.Head, func(h tlog.Hash) { _, _ = out.Write(h[:]) }) // Flush returns the error
		for len(list) > 0 && list[0].tree.N == tree.size {
			if list[0].tree != tree.root() {
				return fmt.Errorf("%w: that of %d decisions", ErrRewritten, tree.size)
			}
			list = list[1:]
		}
		if chain.Decisions == upTo.Decision {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err, last = nil, upTo.Sequence
	}
	if err != nil {
		return next, newest.contradicted(err)
	}
	if len(list) > 0 && upTo != (Position{}) { // more is signed already
		return next, errors.Join(out.Flush(), f.Sync())
	}
	if len(list) > 0 {
		return next, fmt.Errorf("%w: it ends with decision %d, and a checkpoint of %d was signed", ErrLost, tree.size, list[len(list)-1].tree.N)
	}
	if err := errors.Join(out.Flush(), f.Sync()); err != nil || tree.size == newest.tree.N {
		return next, err
	}
	return Unsigned{recorded{Sequence: last, Head: chain.Head, tree: tree.root()}}, nil
}

// Sign signs and records the result of Extend. Call it when the journal has all
// of it on disk: what was signed must not be lost.
func (t *Tree) Sign(u Unsigned, key CheckpointKey) error {
	if u.tree.N == 0 {
		return nil
	}
	checkpoint, err := key.sign(u.tree)
	if u.Checkpoint = string(checkpoint); err == nil {
		err = appendLine(filepath.Join(t.dir, TreeCheckpoints), u.recorded)
	}
	if err != nil {
		return fmt.Errorf("signing the tree: %w", err)
	}
	return nil
}

// readLines calls each with the lines of a file, if it is there. An incomplete last line, of
// a crash, is ignored.
func readLines(name string, each func(line []byte) error) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(line)
		}
		if err != nil {
			return err
		}
	}
}

// appendLine appends a value as a line of JSON, in place of an incomplete last line. It is on
// the disk when it returns.
func appendLine(name string, value any) (err error) {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	end := int64(bytes.LastIndexByte(b, '\n') + 1)
	if err := f.Truncate(end); err != nil {
		return err
	}
	if _, err := f.WriteAt(append(line, '\n'), end); err != nil {
		return err
	}
	return errors.Join(f.Sync(), disk.SyncFolder(filepath.Dir(name)))
}

// treeBefore returns the tree of what was cut off the journal, which only the
// hashes have, and the checkpoints of list that cover more decisions. A nil
// tree has no hashes.
func (t *Tree) treeBefore(begin Beginning, list []recorded) (tree frontier, more []recorded, err error) {
	if !begin.Truncated() {
		return tree, list, nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w; the backup %s has them", ErrHashes, err, begin.Truncation.File)
		}
	}()
	if t == nil {
		return tree, nil, ErrNoCheckpoint
	}
	if tree, err = readFrontier(int64(begin.Decision), t); err != nil {
		return tree, nil, err
	}
	for len(list) > 0 && list[0].tree.N <= tree.size {
		if list[0].tree.N == tree.size && list[0].tree != tree.root() {
			return tree, nil, fmt.Errorf("not those of the checkpoint of %d decisions", tree.size)
		}
		list = list[1:]
	}
	return tree, list, nil
}

// ReadHashes implements tlog.HashReader, with the file of hashes.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	f, err := os.Open(filepath.Join(t.dir, TreeHashes))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if _, err := f.ReadAt(hashes[i][:], index*tlog.HashSize); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
