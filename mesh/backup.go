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
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// BackupOptions say how to make a backup, or to restore one.
type BackupOptions struct {
	Version string // names the program
	// WithoutKeys leaves out the keys of the accounts: after a restore new ones
	// are made, and every creds file must be issued again. The sealing keys of
	// the journal are always included.
	WithoutKeys bool
	// Salvage takes a damaged journal up to its last good record.
	Salvage bool
	// Progress, if set, is called with the number of records done and the
	// total.
	Progress func(done, all uint64)
	// Keys say how sealed keys are opened: those of the state folder or, of Restore,
	// of the backup.
	Keys []accounts.OpenOption
}

// Backup writes everything in a state folder that cannot be derived from the
// rest to w. No mesh may run on it: then the error wraps [server.ErrInUse]. def
// may be nil.
func Backup(ctx context.Context, state string, def *bcp.Mesh, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	if _, err := accounts.Open(state); err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	out := jetstream.NewBackupWriter(w, o.Version, time.Now())
	if !o.WithoutKeys {
		if err := putKeys(out, state); err != nil {
			return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
		}
	}
	var m jetstream.Manifest
	err := withStreams(ctx, state, def, o.Keys, func(js natsjs.JetStream) (err error) {
		m, err = putJournal(ctx, out, js, state, o, false)
		return err
	})
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	return m, nil
}

// putJournal writes everything after the keys, and the end. hashes says to
// include the hashes of the tree even if they can be derived from the journal.
func putJournal(ctx context.Context, out *jetstream.BackupWriter, js natsjs.JetStream, state string, o BackupOptions, hashes bool) (jetstream.Manifest, error) {
	// Streams with a damaged description are created again.
	if err := jetstream.Create(ctx, js, jetstream.Topology{Replicas: 1}); err != nil {
		return jetstream.Manifest{}, err
	}
	snapshots, err := wholeSnapshots(state)
	if err != nil {
		return jetstream.Manifest{}, err
	}
	known, err := openBases(state).Newest()
	if err != nil {
		return jetstream.Manifest{}, err
	}
	if len(snapshots) > 0 {
		known = max(known, snapshots[0].decision)
	}
	begin, err := jetstream.Begin(ctx, js)
	if o.Salvage && errors.Is(err, jetstream.ErrRecord) {
		err = jetstream.NothingToSalvage(err)
	}
	if err == nil && begin.Truncated() {
		var base jetstream.BaseFile
		if _, base, err = openBases(state).Read(ctx, begin); err == nil {
			err = out.Put(base.Name, base.Content)
		}
	}
	if err == nil {
		err = out.Keys(ctx, js)
	}
	if err == nil {
		err = out.Journal(ctx, js, Tree(state), known, o.Salvage, o.Progress)
	}
	if err == nil {
		err = putSnapshot(out, state, snapshots)
	}
	if err == nil && (hashes || begin.Truncated()) {
		err = putFile(out, state, path.Join(treeFolder, jetstream.TreeHashes))
	}
	// A journal that continues from an earlier place than what was signed is a
	// different history. It gets a new key, and so a new name.
	if err == nil && !o.WithoutKeys && !out.Salvaged() {
		err = errors.Join(putFile(out, state, path.Join(accounts.KeyFolder, accounts.CheckpointKeyFile)), putFile(out, state, path.Join(treeFolder, jetstream.TreeCheckpoints)),
			putFile(out, state, path.Join(treeFolder, jetstream.TreeCosignatures)))
	}
	if err != nil {
		return jetstream.Manifest{}, err
	}
	return out.Close()
}

func openBases(state string) *jetstream.Bases {
	return jetstream.NewBases(filepath.Join(state, jetstream.BaseFolder))
}

func openSnapshots(state string) *jetstream.Snapshots {
	return jetstream.NewSnapshots(filepath.Join(state, snapshotFolder))
}

func putKeys(out *jetstream.BackupWriter, state string) error {
	entries, err := os.ReadDir(filepath.Join(state, accounts.KeyFolder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !accounts.IsStoreFile(e.Name()) || e.Name() == accounts.CheckpointKeyFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(state, accounts.KeyFolder, e.Name()))
		if err == nil {
			err = out.Put(path.Join(accounts.KeyFolder, e.Name()), content)
		}
		if err != nil {
			return err
		}
	}
	// By its authority agents know the mesh.
	for _, name := range accounts.AuthorityFiles() {
		if err := putFile(out, state, name); err != nil {
			return err
		}
	}
	return nil
}

// putFile adds a file of the state folder, if it exists.
func putFile(out *jetstream.BackupWriter, state, name string) error {
	content, err := os.ReadFile(filepath.Join(state, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return out.Put(name, content)
}

// wholeSnapshot is a readable snapshot.
type wholeSnapshot struct {
	name     string
	decision uint64
}

// wholeSnapshots returns them, the newest first.
func wholeSnapshots(state string) ([]wholeSnapshot, error) {
	snapshots := openSnapshots(state)
	names, err := snapshots.List()
	if err != nil {
		return nil, err
	}
	var whole []wholeSnapshot
	for _, name := range names {
		if s, err := snapshots.Read(name); err == nil {
			whole = append(whole, wholeSnapshot{name, s.Decision})
		}
	}
	return whole, nil
}

// putSnapshot adds the newest snapshot that is not ahead of the journal, which
// may have lost its end. A start checks the snapshot against the journal.
func putSnapshot(out *jetstream.BackupWriter, state string, snapshots []wholeSnapshot) error {
	for _, s := range snapshots {
		if s.decision > out.Decisions() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(state, snapshotFolder, s.name))
		if err != nil {
			return err
		}
		return out.Put(path.Join(snapshotFolder, s.name), content)
	}
	return nil
}

// withStreams runs a server for f on a state folder without a running mesh. It
// may write even when a mesh would have no room left.
func withStreams(ctx context.Context, state string, def *bcp.Mesh, keys []accounts.OpenOption, f func(natsjs.JetStream) error) (err error) {
	if def == nil {
		def = &bcp.Mesh{} // agents have no business here
	}
	_, bundle, err := Keys(state, def, keys...)
	if err != nil {
		return err
	}
	s, err := server.Start(context.WithoutCancel(ctx), server.Config{StateDir: state, Bundle: bundle})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.Background())) }()
	conn, err := s.Gateway(nats.Timeout(10 * time.Second))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := natsjs.New(conn, natsjs.WithPublishAsyncMaxPending(1024))
	if err != nil {
		return err
	}
	return f(js)
}

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
		err = durable.Move(draft, state) // onto nothing, or an empty folder
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
		err = withStreams(ctx, draft, nil, o.Keys, func(js natsjs.JetStream) error { return restoreJournal(ctx, js, from, all, o) })
	}
	if err != nil {
		return err
	}
	return writeKeys() // unchanged, without what this server needed
}

// restoreWindow is how many records are on their way at a time.
const restoreWindow = 512

func restoreJournal(ctx context.Context, js natsjs.JetStream, from []io.ReadSeeker, all jetstream.Manifest, o BackupOptions) error {
	if err := jetstream.Create(ctx, js, jetstream.Topology{Replicas: 1, Begins: all.Begins.Sequence}); err != nil {
		return err
	}
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return err
	}
	// There is nothing, and it begins there.
	if err := journal.ReplayBehind(ctx, all.Begins, nil); err != nil {
		return err
	}
	return restoreRecords(ctx, js, journal, from, all, all.Begins, o)
}

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
