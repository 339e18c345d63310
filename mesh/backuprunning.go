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
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// RunningJournal is the journal of a running mesh, as its operator reads it.
type RunningJournal struct {
	Records jetstream.Records
	From    jetstream.RecordsFrom
	Key     jetstream.KeyGiver
}

// BackupRunning writes the same as [Backup], while a mesh runs on the state folder: up
// to the newest decision when it begins. Restoring it gives the mesh of that moment,
// without later decisions.
func BackupRunning(ctx context.Context, state string, journal RunningJournal, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	m, err := backupRunning(ctx, state, journal, w, o)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	return m, nil
}

func backupRunning(ctx context.Context, state string, journal RunningJournal, w io.Writer, o BackupOptions) (m jetstream.Manifest, err error) {
	out := jetstream.NewBackupWriter(w, o.Version, time.Now())
	if !o.WithoutKeys {
		if err := putKeys(out, state); err != nil {
			return m, err
		}
	}
	// The journal has everything that these files refer to, since it is read after
	// them.
	followed := fileContents{}
	hashes := path.Join(treeFolder, jetstream.TreeHashes)
	names := []string{hashes}
	if !o.WithoutKeys {
		names = append(names, path.Join(accounts.KeyFolder, accounts.CheckpointKeyFile),
			path.Join(treeFolder, jetstream.TreeCheckpoints), path.Join(treeFolder, jetstream.TreeCosignatures))
	}
	for _, name := range names {
		if err := followed.read(state, name); err != nil {
			return m, err
		}
	}
	known, err := followed.readSnapshot(state)
	if err != nil {
		return m, err
	}
	begin, err := out.Reading(ctx, journal.Records, journal.Key, o.Progress)
	if err != nil {
		return m, err
	}
	if out.Decisions() < known {
		return m, fmt.Errorf("%w: it ends at decision %d, and a snapshot was made of %d", jetstream.ErrLost, out.Decisions(), known)
	}
	if err := Tree(state).Check(ctx, jetstream.NewReading(journal.From, 0)); err != nil {
		return m, err
	}
	if begin.Truncated() {
		_, base, err := openBases(state).Read(ctx, begin)
		if err != nil {
			return m, err
		}
		if err := out.Put(base.Name, base.Content); err != nil {
			return m, err
		}
	} else {
		delete(followed, hashes) // derived from the journal
	}
	if err := followed.writeTo(out); err != nil {
		return m, err
	}
	return out.Close()
}

// readSnapshot reads the newest snapshot, and returns the decision at which it was made.
// Meanwhile the mesh removes old ones and makes new ones.
func (f fileContents) readSnapshot(state string) (decision uint64, err error) {
	snapshots, err := wholeSnapshots(state)
	if err != nil {
		return 0, err
	}
	for _, s := range snapshots {
		name := path.Join(snapshotFolder, s.name)
		content, err := os.ReadFile(filepath.Join(state, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		f[name] = content
		return s.decision, err
	}
	return 0, nil
}
