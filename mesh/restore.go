package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// ErrNotEmpty says that the target of a restore already contains something.
var ErrNotEmpty = errors.New("the folder is there, and is not empty")

// Restore makes a new state folder from one backup, or from several consecutive
// ones, oldest first: what a truncation cut off is restored before the rest.
// Everything in them is checked before the first byte is written, and the folder
// appears whole or not at all. The manifest is that of the last, with the
// beginning of the first.
func Restore(ctx context.Context, from []io.ReadSeeker, state string, o BackupOptions) (jetstream.Manifest, error) {
	m, err := restore(ctx, from, state, o)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("restore: %w", err)
	}
	return m, nil
}

func restore(ctx context.Context, from []io.ReadSeeker, state string, o BackupOptions) (all jetstream.Manifest, err error) {
	if entries, err := os.ReadDir(state); err == nil && len(entries) > 0 {
		return all, ErrNotEmpty
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, err
	}
	if all, err = readBackups(from, jetstream.Restoring{}); err != nil {
		return all, err
	}
	parents, err := makeParents(state)
	defer func() {
		if err != nil {
			for _, dir := range parents {
				_ = os.Remove(dir) // unless somebody put something there
			}
		}
	}()
	if err != nil {
		return all, err
	}
	draft, err := os.MkdirTemp(filepath.Dir(state), ".restoring-*")
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	if err := restoreInto(ctx, from, draft, all, o); err != nil {
		return all, err
	}
	if err = syncAll(draft); err == nil {
		err = disk.Move(draft, state) // onto nothing, or an empty folder
	}
	return all, err
}

// makeParents makes the folders above a folder, and returns the new ones, the innermost
// first.
func makeParents(folder string) (made []string, err error) {
	for dir := filepath.Dir(folder); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		made = append(made, dir)
	}
	return made, os.MkdirAll(filepath.Dir(folder), 0o700)
}

// readBackups checks that backups are whole and consecutive, and passes their contents to
// into.
func readBackups(from []io.ReadSeeker, into jetstream.Restoring) (all jetstream.Manifest, err error) {
	for i, f := range from {
		m, err := readBackup(f, into)
		if err != nil {
			return all, err
		}
		if end := (jetstream.Position{Sequence: all.Records, Decision: all.Decisions, Head: all.Head}); i > 0 && m.Begins != end {
			return all, fmt.Errorf("%w: it begins after decision %d, but the one before ends with decision %d", jetstream.ErrBackup, m.Begins.Decision, end.Decision)
		}
		if i > 0 {
			m.Begins = all.Begins
		}
		all = m
	}
	return all, nil
}

// readBackup reads one from its beginning. It refuses files that no backup has, whatever
// its manifest says: a restore writes files into a state folder.
func readBackup(f io.ReadSeeker, into jetstream.Restoring) (jetstream.Manifest, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return jetstream.Manifest{}, err
	}
	file := into.File
	into.File = func(name string, content io.Reader) error {
		if !isBackedUp(name) {
			return fmt.Errorf("%w: no backup has a file %q", jetstream.ErrBackup, name)
		}
		if file == nil {
			return nil
		}
		return file(name, content)
	}
	return jetstream.ReadBackup(f, into)
}

// isBackedUp reports whether a file of a state folder is in backups.
func isBackedUp(name string) bool {
	folder, file := path.Split(name)
	switch folder = strings.TrimSuffix(folder, "/"); {
	case isKey(name):
		return true
	case folder == treeFolder:
		return slices.Contains([]string{jetstream.TreeHashes, jetstream.TreeCheckpoints, jetstream.TreeCosignatures}, file)
	}
	return (folder == jetstream.BaseFolder || folder == snapshotFolder) && jetstream.IsSnapshotName(file)
}

// isKey reports whether a file is of the keys of a mesh.
func isKey(name string) bool {
	folder, file := path.Split(name)
	return folder == accounts.KeyFolder+"/" && accounts.IsStoreFile(file) || slices.Contains(accounts.AuthorityFiles(), name)
}

func restoreInto(ctx context.Context, from []io.ReadSeeker, draft string, all jetstream.Manifest, o BackupOptions) error {
	for i, f := range from {
		if _, err := readBackup(f, jetstream.Restoring{File: func(name string, content io.Reader) error {
			if isKey(name) || path.Dir(name) == treeFolder && i < len(from)-1 {
				return nil // the newest has what its key signed
			}
			return writeFile(draft, name, content)
		}}); err != nil {
			return err
		}
	}
	there := false
	writeKeys := func() error { // of the newest
		_, err := readBackup(from[len(from)-1], jetstream.Restoring{File: func(name string, content io.Reader) error {
			if !isKey(name) {
				return nil
			}
			there = true
			return writeFile(draft, name, content)
		}})
		return err
	}
	// The keys come before the journal, since they make its account.
	err := writeKeys()
	if err == nil && !there {
		_, err = accounts.Create(draft)
	}
	if err == nil {
		err = Use(ctx, draft, nil, func(s *Source) error {
			return fill(ctx, s.js, from, jetstream.BaseFile{}, all, jetstream.Topology{Replicas: 1}, o)
		}, o.Keys...)
	}
	if err != nil {
		return err
	}
	return writeKeys() // unchanged, without what this server needed
}

// restoreWindow is how many records are on their way at a time.
const restoreWindow = 512

// restoreRecords fills existing streams, whose journal already has the backups'
// records up to a position.
func restoreRecords(ctx context.Context, js natsjs.JetStream, journal *jetstream.Journal, from []io.ReadSeeker, all jetstream.Manifest, there jetstream.Position, o BackupOptions) error {
	if err := journal.AwaitInterest(ctx); err != nil {
		return err
	}
	var acks []natsjs.PubAckFuture
	done := all.Begins.Sequence
	for i, f := range from {
		if _, err := readBackup(f, jetstream.Restoring{Keys: func(keys []jetstream.StoredKey) error {
			if i < len(from)-1 {
				return nil // the newest has them all, and what was destroyed later
			}
			return jetstream.RestoreKeys(ctx, js, keys)
		}, Record: func(decisions [][]byte) error {
			if done++; done <= there.Sequence {
				if done == there.Sequence && bcp.RecordDigest(decisions[len(decisions)-1]) != there.Head {
					return fmt.Errorf("%w: it has the records of another journal", ErrNotEmpty)
				}
				return nil
			}
			ack, err := journal.RestoreRecord(decisions)
			if err != nil {
				return err
			}
			if acks = append(acks, ack); len(acks) >= restoreWindow {
				err = jetstream.Await(ctx, acks)
				acks = acks[:0]
			}
			if o.Progress != nil {
				o.Progress(done, all.Records)
			}
			return err
		}}); err != nil {
			return err
		}
	}
	if err := jetstream.Await(ctx, acks); err != nil {
		return err
	}
	// Read everything again: what is on disk counts.
	var chain jetstream.Chain
	if err := journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) }); err != nil {
		return err
	}
	if chain.Head != all.Head || chain.Decisions != all.Decisions || chain.Begin.Position != all.Begins {
		return fmt.Errorf("%w: %d of %d decisions were stored", jetstream.ErrRecord, chain.Decisions, all.Decisions)
	}
	return nil
}

// writeFile writes a file of a backup. Its name was checked when it was read.
func writeFile(dir, name string, content io.Reader) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// syncAll has the disk take all files and folders.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// RestoreCluster fills the streams of a mesh from backups of it, and continues where
// an earlier attempt ended. If the streams have anything else, the error is
// [ErrNotEmpty]. It ignores the backups' keys of accounts. def are its
// definitions, with the number of replicas.
func RestoreCluster(ctx context.Context, from []io.ReadSeeker, config server.ClusterConfig, def *bcp.Mesh, o BackupOptions) (jetstream.Manifest, error) {
	bases := map[string][]byte{}
	all, err := readBackups(from, jetstream.Restoring{File: func(name string, content io.Reader) (err error) {
		if path.Dir(name) == jetstream.BaseFolder {
			bases[name], err = io.ReadAll(content)
		}
		return err
	}})
	base := jetstream.BaseFile{Name: jetstream.BaseName(all.Begins.Decision)}
	if base.Content = bases[base.Name]; err == nil && all.Begins.Sequence > 0 {
		var s jetstream.Snapshot
		if s, err = base.Snapshot(); err == nil {
			_, err = state.RestoreBare(newStateConfig(def, o.Version), s.Checkpoint) // else no gateway would serve
		}
	}
	var s *Source
	if err == nil {
		s, err = DialCluster(ctx, config, "")
	}
	if err == nil {
		err = errors.Join(fill(ctx, s.js, from, base, all, newTopology(def), o), s.Close())
	}
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("restore: %w", err)
	}
	return all, nil
}

// fill makes the streams of a restore and fills them, from where an earlier attempt ended.
func fill(ctx context.Context, js natsjs.JetStream, from []io.ReadSeeker, base jetstream.BaseFile, all jetstream.Manifest, topology jetstream.Topology, o BackupOptions) error {
	topology.Begins = all.Begins.Sequence
	var journal *jetstream.Journal
	var there jetstream.Position
	if err := jetstream.AwaitAnswer(ctx, func() (err error) {
		if err = restoreBase(ctx, js, base, all.Begins, topology.Replicas); err == nil {
			err = jetstream.Create(ctx, js, topology)
		}
		if err == nil {
			journal, err = jetstream.OpenJournal(ctx, js)
		}
		if err == nil {
			there, err = restoredBefore(ctx, js, journal, all)
		}
		return err
	}); err != nil {
		return err
	}
	return restoreRecords(ctx, js, journal, from, all, there, o)
}

// restoreBase stores the base of a truncated journal on a cluster, unless there is another one.
func restoreBase(ctx context.Context, js natsjs.JetStream, base jetstream.BaseFile, begins jetstream.Position, replicas int) error {
	if begins.Sequence == 0 || base.Content == nil { // a folder has a file of it
		return nil
	}
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	switch {
	case err == nil && stream.CachedInfo().Config.FirstSeq != begins.Sequence+1:
		return ErrNotEmpty
	case err != nil && !errors.Is(err, natsjs.ErrStreamNotFound):
		return err
	}
	return jetstream.StoreBase(ctx, js, replicas, begins.Sequence, base.Content)
}

// restoredBefore returns the progress of an earlier attempt.
func restoredBefore(ctx context.Context, js natsjs.JetStream, journal *jetstream.Journal, all jetstream.Manifest) (there jetstream.Position, err error) {
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	if err != nil {
		return there, err
	}
	if stream.CachedInfo().State.Msgs == 0 {
		return all.Begins, journal.ReplayBehind(ctx, all.Begins, nil)
	}
	var chain jetstream.Chain
	if err := journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) }); err != nil {
		return there, err
	}
	there = jetstream.Position{Sequence: journal.Last(), Decision: chain.Decisions, Head: chain.Head}
	if there.Sequence > all.Records || chain.Begin.Position != all.Begins {
		err = ErrNotEmpty
	}
	return there, err
}
