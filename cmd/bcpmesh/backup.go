package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// backupResult is what both commands say.
type backupResult struct {
	File      string     `json:"file"`
	State     string     `json:"state"`
	Bytes     int64      `json:"bytes"`
	SHA256    bcp.Digest `json:"sha256"` // of File
	Records   uint64     `json:"records"`
	Decisions uint64     `json:"decisions"`
	Last      time.Time  `json:"last_decision"`
	Head      bcp.Digest `json:"head"`
	Lost      string     `json:"lost,omitempty"`
}

func backupCommand(p *program) *cobra.Command {
	var where stateFlags
	var o mesh.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the state of a mesh that rests to one file",
		Long: `Write the state of a mesh that rests to one file: its keys, every decision of its
journal, and the newest snapshot, with the SHA-256 of each. The file is a gzipped
tar that ends with a manifest. The chain of decisions is checked on the way.

Raw answers are not in it, nor is what the mesh makes of the journal again. The
definitions are yours to keep. Whoever has the file can be anybody in the mesh;
--without-keys leaves the keys out, and every creds file has to be issued again
after a restore.

A damaged journal is refused. With --salvage, what stands in front of the damage
is backed up, and what is lost is said: restore that to go on from there. Budgets
that were spent behind it count as unspent then.`,
		Example: `  bcpmesh backup office.tar.gz
  bcpmesh backup --salvage office.tar.gz && bcpmesh restore office.tar.gz .bcpmesh.new`,
		Args: arguments(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return backup(cmd.Context(), p, &where, args[0], o)
		},
	}
	where.addTo(cmd)
	cmd.Flags().BoolVar(&o.WithoutKeys, "without-keys", false, "leave the keys out")
	cmd.Flags().BoolVar(&o.Salvage, "salvage", false, "back up a damaged journal up to its last good record")
	return cmd
}

func backup(ctx context.Context, p *program, where *stateFlags, file string, o mesh.BackupOptions) (err error) {
	if file == "" {
		return usagef("backup: expected a file, got an empty name")
	}
	folder, err := where.folder()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder.state, "jetstream")); err != nil {
		return failf("there is no state to back up in %s", quoted(folder.state)).withHint("the mesh never ran there; --state names another folder")
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return failf("%s is there already", quoted(file)).withHint("name a new file, or remove it first")
	}
	var def *bcp.Mesh // where the definitions are wrong, the state is backed up all the same
	if folder.dir != "" {
		def, _ = folder.load()
	}
	draft, err := os.CreateTemp(filepath.Dir(file), ".backup-*")
	if err != nil {
		return failf("%s cannot be written: %s", quoted(file), reasonOf(err))
	}
	defer func() {
		_ = draft.Close()           // closed before, where all went well
		_ = os.Remove(draft.Name()) // renamed then
	}()
	sum := sha256.New()
	o.Version = programVersion()
	var finish func()
	o.Progress, finish = p.recordProgress("backing up")
	m, err := mesh.Backup(ctx, folder.state, def, io.MultiWriter(draft, sum), o)
	finish()
	if err != nil {
		return backupFailure(err, folder.state)
	}
	info, err := draft.Stat()
	if err == nil {
		err = errors.Join(draft.Sync(), draft.Close())
	}
	if err == nil {
		err = os.Link(draft.Name(), file) // unlike a rename, it replaces nothing
	}
	if err != nil {
		return failf("%s cannot be written: %s", quoted(file), reasonOf(err))
	}
	return p.showBackup("backed up", backupResult{File: file, State: folder.state, Bytes: info.Size(), SHA256: bcp.Digest(sum.Sum(nil))}, m)
}

func restoreCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE DIR",
		Short: "Make a new state folder of a backup",
		Long: `Make a new state folder of a backup. Everything in the file is checked before
anything is written: the SHA-256 of each part, and the chain of decisions from the
first to the last. The folder appears whole or not at all, and one that holds
something is left alone.

Start the mesh there with "bcpmesh up --state DIR", or move the old .bcpmesh away
and put DIR in its place.`,
		Example: `  bcpmesh restore office.tar.gz ./office/.bcpmesh
  bcpmesh restore office.tar.gz /tmp/look && bcpmesh up --state /tmp/look`,
		Args: arguments(2, "FILE", "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return restoreBackup(cmd.Context(), p, args[0], args[1])
		},
	}
}

func restoreBackup(ctx context.Context, p *program, file, dir string) error {
	if file == "" || dir == "" {
		return usagef("restore: expected a file and a folder, got an empty name")
	}
	f, err := os.Open(file)
	if err != nil {
		return failf("%s cannot be read: %s", quoted(file), reasonOf(err))
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return failf("%s is not a file", quoted(file))
	}
	state, err := filepath.Abs(dir)
	if err != nil {
		return failf("the folder %s: %s", quoted(dir), reasonOf(err))
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return failf("%s cannot be read: %s", quoted(file), reasonOf(err))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return failf("%s cannot be read: %s", quoted(file), reasonOf(err))
	}
	progress, finish := p.recordProgress("restoring")
	m, err := mesh.Restore(ctx, f, state, mesh.BackupOptions{Version: programVersion(), Progress: progress})
	finish()
	switch {
	case errors.Is(err, mesh.ErrNotEmpty):
		return failf("%s is there, and is not empty", quoted(dir)).withHint("name a new folder; nothing is replaced")
	case errors.Is(err, jetstream.ErrBackup):
		return failf("%s is no whole backup: %s", quoted(file), after(err, jetstream.ErrBackup)).withHint("nothing was written; take another backup")
	case err != nil:
		return backupFailure(err, dir)
	}
	return p.showBackup("restored", backupResult{File: file, State: state, Bytes: info.Size(), SHA256: bcp.Digest(sum.Sum(nil))}, m)
}

// after is what an error says behind the one that it wraps.
func after(err, wrapped error) string {
	_, rest, found := strings.Cut(err.Error(), wrapped.Error()+": ")
	if !found {
		return plain(err.Error())
	}
	return plain(rest)
}

func backupFailure(err error, state string) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, server.ErrInUse):
		return failf("a mesh runs on %s", quoted(state)).withHint("stop it first")
	case errors.Is(err, jetstream.ErrRecord):
		return failf("the journal is damaged: %s", plain(err.Error())).withHint("bcpmesh backup --salvage takes what stands in front of the damage")
	case errors.Is(err, accounts.ErrBusy):
		return failf("%s", plain(err.Error())).withHint("another command works on %s: try again", plain(state))
	}
	return failf("%s", plain(err.Error()))
}

func (p *program) showBackup(verb string, r backupResult, m jetstream.Manifest) error {
	r.Records, r.Decisions, r.Last, r.Head, r.Lost = m.Records, m.Decisions, m.Last, m.Head, m.Lost
	if p.out.json {
		return p.out.value(r)
	}
	head, _ := r.Head.MarshalText()
	sum, _ := r.SHA256.MarshalText()
	p.out.printf("%s %s, the last of %s\n", verb, count(int(r.Decisions), "decision"), r.Last.Format(time.RFC3339))
	p.out.printf("head   %s\n", head)
	p.out.printf("sha256 %s  %s\n", sum, plain(r.File))
	p.out.printf("state  %s\n", plain(r.State))
	if r.Lost != "" {
		p.out.talkf("the journal ends there: %s", plain(r.Lost))
	}
	return nil
}

// recordProgress draws a bar on a terminal. finish removes it.
func (p *program) recordProgress(what string) (progress func(done, all uint64), finish func()) {
	if !p.out.talkTerminal {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(done, all uint64) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(all), progressbar.OptionSetWriter(p.out.stderr), progressbar.OptionShowCount(),
					progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(what))
			}
			_ = bar.Set64(int64(done)) // it is talk
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
