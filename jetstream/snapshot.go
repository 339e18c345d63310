package jetstream

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Position is a place in the journal, after one of its records.
type Position struct {
	Sequence uint64     `json:"sequence"` // of the record in the stream
	Decision uint64     `json:"decision"` // the number of its last decision
	Head     bcp.Digest `json:"head"`     // of that decision
}

// Snapshot is a checkpoint of the state at a position of the journal.
type Snapshot struct {
	Position
	Checkpoint []byte
}

// Snapshots is a folder of snapshots. It is a cache: deleting it only makes the
// next start longer.
type Snapshots struct{ dir string }

// NewSnapshots returns the snapshots in a folder, which Write creates.
func NewSnapshots(dir string) *Snapshots { return &Snapshots{dir: dir} }

// ErrSnapshot says that a snapshot is damaged.
var ErrSnapshot = errors.New("a snapshot is damaged")

const (
	// keptSnapshots is how many are kept: one may be damaged, or made under
	// outdated definitions.
	keptSnapshots = 3
	// snapshotMagic begins a snapshot, and its SHA-256 ends it.
	snapshotMagic  = "bcpmesh snapshot 1\n"
	snapshotHeader = len(snapshotMagic) + 8 + 8 + sha256.Size
	snapshotSuffix = ".snapshot"
	// maxSnapshot bounds what is read into memory.
	maxSnapshot = 4 << 30
)

// Write stores a snapshot, whole or not at all, and removes those that are now
// too old.
func (s *Snapshots) Write(snapshot Snapshot) error {
	if err := s.write(snapshot); err != nil {
		return err
	}
	return s.prune(snapshotName(snapshot.Decision))
}

// snapshotName sorts by decision.
func snapshotName(decision uint64) string {
	return fmt.Sprintf("%020d%s", decision, snapshotSuffix)
}

// IsSnapshotName reports whether a file has the name of a snapshot or a base.
func IsSnapshotName(name string) bool {
	decision, err := strconv.ParseUint(strings.TrimSuffix(name, snapshotSuffix), 10, 64)
	return err == nil && name == snapshotName(decision)
}

func (s *Snapshots) write(snapshot Snapshot) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing a snapshot: %w", err)
		}
	}()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	draft, err := disk.NewDraft(filepath.Join(s.dir, snapshotName(snapshot.Decision)), 0o600)
	if err != nil {
		return err
	}
	defer draft.Discard()
	sum := sha256.New()
	header, err := binary.Append([]byte(snapshotMagic), binary.BigEndian, snapshot.Position)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{header, snapshot.Checkpoint} {
		sum.Write(part)
		if _, err := draft.Write(part); err != nil {
			return err
		}
	}
	if _, err := draft.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return draft.Replace()
}

// RemoveBefore removes the snapshots made before a decision.
func (s *Snapshots) RemoveBefore(decision uint64) error {
	names, err := s.List()
	for _, name := range names {
		if name < fmt.Sprintf("%020d", decision) {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, name)))
		}
	}
	return errors.Join(err, disk.SyncFolder(s.dir))
}

// prune keeps the newest, but none that claims to be newer than the one just
// made: the journal has lost its records.
func (s *Snapshots) prune(newest string) error {
	names, err := s.List()
	kept := 0
	for _, name := range names {
		if name <= newest && kept < keptSnapshots {
			kept++
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(s.dir, name)))
	}
	drafts, _ := filepath.Glob(filepath.Join(s.dir, disk.DraftPrefix+"*")) // of a crash; there is one writer
	for _, draft := range drafts {
		err = errors.Join(err, os.Remove(draft))
	}
	return err
}

// List returns the names of the snapshots, newest first.
func (s *Snapshots) List() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), snapshotSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	return names, nil
}

// Newest returns the number of the newest snapshot's last decision, 0 if there
// is none, and when it was made.
func (s *Snapshots) Newest() (decision uint64, made time.Time, err error) {
	names, err := s.List()
	if err != nil || len(names) == 0 {
		return 0, time.Time{}, err
	}
	info, err := os.Stat(filepath.Join(s.dir, names[0]))
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("reading the snapshots: %w", err)
	}
	decision, err = strconv.ParseUint(strings.TrimSuffix(names[0], snapshotSuffix), 10, 64)
	return decision, info.ModTime(), err
}

// Read returns a snapshot of List. If it is incomplete or changed, the error is
// [ErrSnapshot].
func (s *Snapshots) Read(name string) (Snapshot, error) {
	b, err := s.bytes(name)
	if err != nil {
		return Snapshot{}, err
	}
	return decodeSnapshot(name, b)
}

func (s *Snapshots) bytes(name string) ([]byte, error) {
	file := filepath.Join(s.dir, filepath.Base(name))
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxSnapshot {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrSnapshot, name, info.Size())
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a snapshot: %w", err)
	}
	return b, nil
}

func decodeSnapshot(name string, b []byte) (Snapshot, error) {
	if len(b) < snapshotHeader+sha256.Size {
		return Snapshot{}, fmt.Errorf("%w: %s has %d bytes", ErrSnapshot, name, len(b))
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) || !bytes.HasPrefix(body, []byte(snapshotMagic)) {
		return Snapshot{}, fmt.Errorf("%w: %s is not what was written", ErrSnapshot, name)
	}
	s := Snapshot{Checkpoint: body[snapshotHeader:]}
	_, err := binary.Decode(body[len(snapshotMagic):], binary.BigEndian, &s.Position)
	return s, err
}
