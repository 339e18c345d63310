package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
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

// ErrSalvage says that somebody else writes to a journal that is to be salvaged.
var ErrSalvage = errors.New("only a journal that nothing writes to is salvaged, or one on a cluster")

// Backup writes everything of a mesh that cannot be derived from the rest to w. What runs
// goes on: the backup ends with the newest decision when it begins, and restoring it gives
// the mesh of that moment.
func (s *Source) Backup(ctx context.Context, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	m, err := s.backup(ctx, w, o, nil)
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	return m, nil
}

// upTo are the end and the base of a backup that is part of a truncation.
type upTo struct {
	sequence uint64
	base     jetstream.BaseFile
	files    fileContents // as they were before it was announced
}

func (s *Source) backup(ctx context.Context, w io.Writer, o BackupOptions, end *upTo) (m jetstream.Manifest, err error) {
	if o.Salvage && s.js == nil {
		return m, ErrSalvage
	}
	out := jetstream.NewBackupWriter(w, o.Version, time.Now())
	put := func(names ...string) error {
		files, err := readFiles(s.state, names...)
		if err == nil {
			err = files.writeTo(out)
		}
		return err
	}
	if !o.WithoutKeys {
		names, err := keyFiles(s.state)
		if err == nil {
			err = put(names...)
		}
		if err != nil {
			return m, err
		}
	}
	if end == nil {
		end = &upTo{}
		if end.files, err = s.readFiles(o); err != nil {
			return m, err
		}
	} else if err := out.Put(end.base.Name, end.base.Content); err != nil {
		return m, err
	}
	known, err := s.known()
	if err == nil && s.create != nil {
		err = s.create(ctx)
	}
	if err != nil {
		return m, err
	}
	records := s.Records
	if o.Salvage {
		records = jetstream.JournalRecords(s.js, true)
	}
	begin, damage := s.begin(ctx)
	var chain jetstream.Chain
	if damage == nil {
		chain, damage = out.Journal(ctx, records, end.sequence, o.Progress)
	}
	if damage == nil && end.sequence == 0 {
		damage = s.check(ctx, begin, chain.Decisions, known)
	}
	if damage != nil && o.Salvage && ctx.Err() == nil {
		damage = out.Salvage(damage)
	}
	if damage != nil {
		return m, damage
	}
	// The keys come last, since those of the newest records may be new.
	if s.js != nil {
		err = out.Keys(ctx, s.js)
	} else {
		err = out.GivenKeys(ctx, s.operator.Key)
	}
	if err == nil && begin.Truncated() {
		var base jetstream.BaseFile
		if _, base, err = s.base(ctx, begin); err == nil {
			err = out.Put(base.Name, base.Content)
		}
	}
	if err == nil && (begin.Truncated() || end.sequence > 0) {
		err = put(path.Join(treeFolder, jetstream.TreeHashes))
	}
	if err == nil && !out.Salvaged() { // else they are of the lost end
		err = end.files.writeTo(out)
	}
	if err != nil {
		return m, err
	}
	return out.Close()
}

// known returns the number of a decision that the journal must have.
func (s *Source) known() (uint64, error) {
	if s.state == "" {
		return 0, nil
	}
	known, err := openBases(s.state).Newest()
	if err != nil {
		return 0, err
	}
	_, snapshot, err := newestSnapshot(s.state)
	return max(known, snapshot), err
}

// check looks for losses in a journal that could be read to its end. A backup accepts a
// journal whose projections cannot be read.
func (s *Source) check(ctx context.Context, begin jetstream.Beginning, last, known uint64) error {
	if last < known {
		return fmt.Errorf("%w: it ends at decision %d, and a snapshot was made of %d", jetstream.ErrLost, last, known)
	}
	if s.folder() {
		if err := jetstream.CheckEnd(ctx, s.js, last); errors.Is(err, jetstream.ErrLost) {
			return err
		}
	}
	if s.state == "" {
		return nil
	}
	if err := Tree(s.state).Check(ctx, s.Records); err != nil || !s.folder() {
		return err
	}
	return Tree(s.state).CheckHashes(begin)
}

// fileContents are files of a state folder, by their names in it.
type fileContents map[string][]byte

// readFiles reads the files that refer to the journal, before that is read: then it has
// everything in them.
func (s *Source) readFiles(o BackupOptions) (fileContents, error) {
	if s.state == "" {
		return nil, nil
	}
	var names []string
	if !o.WithoutKeys {
		names = append(names, signedFiles...)
	}
	snapshot, _, err := newestSnapshot(s.state)
	if err != nil {
		return nil, err
	}
	if snapshot != "" {
		names = append(names, path.Join(snapshotFolder, snapshot))
	}
	return readFiles(s.state, names...)
}

// signedFiles are the key of the checkpoints, and these. A journal that continues from an
// earlier place than what was signed is a different history: it gets a new key, and so a
// new name.
var signedFiles = []string{path.Join(accounts.KeyFolder, accounts.CheckpointKeyFile),
	path.Join(treeFolder, jetstream.TreeCheckpoints), path.Join(treeFolder, jetstream.TreeCosignatures)}

// readFiles reads files of a state folder, those that are there.
func readFiles(state string, names ...string) (fileContents, error) {
	files := fileContents{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(state, filepath.FromSlash(name)))
		switch {
		case err == nil:
			files[name] = content
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return files, nil
}

func (f fileContents) writeTo(out *jetstream.BackupWriter) error {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := out.Put(name, f[name]); err != nil {
			return err
		}
	}
	return nil
}

func openBases(state string) *jetstream.Bases {
	return jetstream.NewBases(filepath.Join(state, jetstream.BaseFolder))
}

func openSnapshots(state string) *jetstream.Snapshots {
	return jetstream.NewSnapshots(filepath.Join(state, snapshotFolder))
}

// keyFiles are the files of keys in a state folder, but for that of the checkpoints. By its authority agents know the mesh.
func keyFiles(state string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(state, accounts.KeyFolder))
	names := accounts.AuthorityFiles()
	for _, e := range entries {
		if e.Type().IsRegular() && accounts.IsStoreFile(e.Name()) && e.Name() != accounts.CheckpointKeyFile {
			names = append(names, path.Join(accounts.KeyFolder, e.Name()))
		}
	}
	return names, err
}

// newestSnapshot returns the name of the newest readable snapshot and its decision, or no name. A running mesh removes old
// ones meanwhile, and makes new ones.
func newestSnapshot(state string) (name string, decision uint64, err error) {
	snapshots := openSnapshots(state)
	names, err := snapshots.List()
	for _, name := range names {
		if s, err := snapshots.Read(name); err == nil {
			return name, s.Decision, nil
		}
	}
	return "", 0, err
}
