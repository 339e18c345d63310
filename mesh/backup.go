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
	if !o.WithoutKeys {
		if err := putKeys(out, s.state); err != nil {
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
		err = out.GivenKeys(ctx, s.given)
	}
	if err == nil && begin.Truncated() {
		var base jetstream.BaseFile
		if _, base, err = s.base(ctx, begin); err == nil {
			err = out.Put(base.Name, base.Content)
		}
	}
	if err == nil && (begin.Truncated() || end.sequence > 0) {
		err = putFile(out, s.state, path.Join(treeFolder, jetstream.TreeHashes))
	}
	if err == nil {
		err = end.files.writeTo(out, out.Salvaged())
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
	snapshots, err := wholeSnapshots(s.state)
	if len(snapshots) > 0 {
		known = max(known, snapshots[0].decision)
	}
	return known, err
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
	files := fileContents{}
	if s.state == "" {
		return files, nil
	}
	if !o.WithoutKeys {
		for _, name := range signedFiles {
			if err := files.read(s.state, name); err != nil {
				return nil, err
			}
		}
	}
	return files, files.readSnapshot(s.state)
}

// signedFiles are the key of the checkpoints, and these. A journal that continues from an
// earlier place than what was signed is a different history: it gets a new key, and so a
// new name.
var signedFiles = []string{path.Join(accounts.KeyFolder, accounts.CheckpointKeyFile),
	path.Join(treeFolder, jetstream.TreeCheckpoints), path.Join(treeFolder, jetstream.TreeCosignatures)}

// read takes a file, if it is there.
func (f fileContents) read(state, name string) error {
	content, err := os.ReadFile(filepath.Join(state, filepath.FromSlash(name)))
	switch {
	case err == nil:
		f[name] = content
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// readSnapshot reads the newest snapshot. A running mesh removes old ones meanwhile, and
// makes new ones.
func (f fileContents) readSnapshot(state string) error {
	snapshots, err := wholeSnapshots(state)
	if err != nil {
		return err
	}
	for _, s := range snapshots {
		name := path.Join(snapshotFolder, s.name)
		if err := f.read(state, name); err != nil || f[name] != nil {
			return err
		}
	}
	return nil
}

// writeTo writes the files; of a salvaged journal none, since they are of its lost end.
func (f fileContents) writeTo(out *jetstream.BackupWriter, salvaged bool) error {
	if salvaged {
		return nil
	}
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

func putKeys(out *jetstream.BackupWriter, state string) error {
	entries, err := os.ReadDir(filepath.Join(state, accounts.KeyFolder))
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && accounts.IsStoreFile(e.Name()) && e.Name() != accounts.CheckpointKeyFile {
			names = append(names, path.Join(accounts.KeyFolder, e.Name()))
		}
	}
	// By its authority agents know the mesh.
	for _, name := range append(names, accounts.AuthorityFiles()...) {
		if err := putFile(out, state, name); err != nil {
			return err
		}
	}
	return nil
}

// putFile adds a file of the state folder, if it exists.
func putFile(out *jetstream.BackupWriter, state, name string) error {
	files := fileContents{}
	if err := files.read(state, name); err != nil {
		return err
	}
	return files.writeTo(out, false)
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
