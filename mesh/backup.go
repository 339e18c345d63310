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
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// keyFolder is that of package accounts in the state folder.
const keyFolder = "keys"

// BackupOptions say how to make a backup, or to restore one.
type BackupOptions struct {
	Version string // names the program
	// WithoutKeys leaves the keys out: who restores it makes new ones, and issues
	// every creds file again.
	WithoutKeys bool
	// Salvage takes a damaged journal up to its last good record.
	Salvage bool
	// Progress, if set, is called with the records that are done, and all of
	// them.
	Progress func(done, all uint64)
}

// Backup writes everything that a state folder knows, but for the raw answers
// and what follows from the rest, to w. No mesh may run on it: the error wraps
// [server.ErrInUse] then. def may be nil.
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
	err := withStreams(ctx, state, def, func(js natsjs.JetStream) error {
		return out.Journal(ctx, js, o.Salvage, o.Progress)
	})
	if err == nil {
		err = putSnapshot(out, state)
	}
	var m jetstream.Manifest
	if err == nil {
		m, err = out.Close()
	}
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	return m, nil
}

func putKeys(out *jetstream.BackupWriter, state string) error {
	entries, err := os.ReadDir(filepath.Join(state, keyFolder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(state, keyFolder, e.Name()))
		if err == nil {
			err = out.Put(path.Join(keyFolder, e.Name()), content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putSnapshot takes the newest snapshot that is whole. A start decides whether it
// stands up to the journal.
func putSnapshot(out *jetstream.BackupWriter, state string) error {
	snapshots := jetstream.NewSnapshots(filepath.Join(state, snapshotFolder))
	names, err := snapshots.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := snapshots.Read(name); err != nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(state, snapshotFolder, name))
		if err != nil {
			return err
		}
		return out.Put(path.Join(snapshotFolder, name), content)
	}
	return nil
}

// withStreams runs a server on a state folder where no mesh runs, as long as f
// does.
func withStreams(ctx context.Context, state string, def *bcp.Mesh, f func(natsjs.JetStream) error) (err error) {
	if def == nil {
		def = &bcp.Mesh{} // agents have no business here
	}
	_, bundle, err := Keys(state, def)
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

// ErrNotEmpty says that there is something where a backup should be restored.
var ErrNotEmpty = errors.New("the folder is there, and is not empty")

// Restore makes a new state folder of a backup. Everything in it is checked
// before the first byte is written, and the folder appears whole or not at all.
func Restore(ctx context.Context, from io.ReadSeeker, state string, o BackupOptions) (jetstream.Manifest, error) {
	m, err := restore(ctx, from, state, o)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("restore: %w", err)
	}
	return m, nil
}

func restore(ctx context.Context, from io.ReadSeeker, state string, o BackupOptions) (m jetstream.Manifest, err error) {
	if entries, err := os.ReadDir(state); err == nil && len(entries) > 0 {
		return m, ErrNotEmpty
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, err = jetstream.ReadBackup(from, jetstream.Restoring{}); err != nil {
		return m, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return m, err
	}
	if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
		return m, err
	}
	draft, err := os.MkdirTemp(filepath.Dir(state), ".restoring-*")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	again, err := restoreInto(ctx, from, draft, m.Records, o)
	if err == nil && again.Head != m.Head {
		err = fmt.Errorf("%w: it changed while it was read", jetstream.ErrBackup)
	}
	if err == nil {
		err = syncAll(draft)
	}
	if err == nil {
		err = os.Rename(draft, state) // onto nothing, or an empty folder
	}
	return m, err
}

func restoreInto(ctx context.Context, from io.ReadSeeker, draft string, all uint64, o BackupOptions) (jetstream.Manifest, error) {
	keys := make(map[string][]byte)
	hasKeys := false
	putFiles := func(name string, content []byte) error {
		if strings.HasPrefix(name, keyFolder+"/") {
			keys[name], hasKeys = content, true
		}
		return writeFile(draft, name, content)
	}
	// The keys stand in front of the journal, whose account they make.
	if _, err := jetstream.ReadBackup(from, jetstream.Restoring{File: putFiles}); err != nil {
		return jetstream.Manifest{}, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return jetstream.Manifest{}, err
	}
	var m jetstream.Manifest
	err := func() error {
		if !hasKeys {
			if _, err := accounts.Create(draft); err != nil {
				return err
			}
		}
		return withStreams(ctx, draft, nil, func(js natsjs.JetStream) (err error) {
			m, err = restoreJournal(ctx, js, from, all, o)
			return err
		})
	}()
	if err != nil {
		return jetstream.Manifest{}, err
	}
	for name, content := range keys { // as they were, without what this server needed
		if err := writeFile(draft, name, content); err != nil {
			return jetstream.Manifest{}, err
		}
	}
	return m, nil
}

// restoreWindow is how many records are on their way at a time.
const restoreWindow = 512

func restoreJournal(ctx context.Context, js natsjs.JetStream, from io.Reader, all uint64, o BackupOptions) (jetstream.Manifest, error) {
	if err := jetstream.Create(ctx, js, jetstream.Topology{Replicas: 1}); err != nil {
		return jetstream.Manifest{}, err
	}
	journal, err := jetstream.OpenJournal(ctx, js, 0)
	if err != nil {
		return jetstream.Manifest{}, err
	}
	var acks []natsjs.PubAckFuture
	done := uint64(0)
	m, err := jetstream.ReadBackup(from, jetstream.Restoring{Record: func(decisions [][]byte) error {
		ack, err := journal.RestoreRecord(decisions)
		if err != nil {
			return err
		}
		if acks = append(acks, ack); len(acks) >= restoreWindow {
			err = jetstream.AwaitRaw(ctx, acks)
			acks = acks[:0]
		}
		if done++; o.Progress != nil {
			o.Progress(done, all)
		}
		return err
	}})
	if err == nil {
		err = jetstream.AwaitRaw(ctx, acks)
	}
	if err != nil {
		return jetstream.Manifest{}, err
	}
	// What was written is read again: the disk has the last word.
	var chain jetstream.Chain
	if err := journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) }); err != nil {
		return jetstream.Manifest{}, err
	}
	if chain.Head != m.Head || chain.Decisions != m.Decisions {
		return jetstream.Manifest{}, fmt.Errorf("%w: %d of %d decisions were stored", jetstream.ErrRecord, chain.Decisions, m.Decisions)
	}
	return m, nil
}

// writeFile writes a file of a backup. Its name was checked when it was read.
func writeFile(dir, name string, content []byte) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		return err
	}
	return os.WriteFile(full, content, 0o600)
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
