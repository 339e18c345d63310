package run

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	agentsfolder "github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// backupResult is what both commands say.
type backupResult struct {
	File      string     `json:"file"`
	State     string     `json:"state,omitempty"`
	Cluster   string     `json:"cluster,omitempty"` // URLs of its servers
	Bytes     int64      `json:"bytes"`
	SHA256    bcp.Digest `json:"sha256"` // of File
	Records   uint64     `json:"records"`
	Decisions uint64     `json:"decisions"`
	Last      time.Time  `json:"last_decision"`
	Head      bcp.Digest `json:"head"`
	Lost      string     `json:"lost,omitempty"`
	// Begins is the decision that the journal in File begins after, and Truncated
	// the one that the journal in State begins after since.
	Begins    uint64 `json:"begins_behind,omitzero"`
	Truncated uint64 `json:"truncated_behind,omitzero"`
}

// Backup backs the mesh up.
type Backup struct {
	meshdir.StateFlags
	client.ClusterFlags
	WithoutKeys, Salvage, Truncate bool
}

func (f *Backup) Run(ctx context.Context, p *cli.Program, args []string) error {
	file, of := args[0], f.ClusterFlags
	switch {
	case f.Truncate && f.Salvage:
		return cli.Usagef("backup: --truncate and --salvage cannot be combined: a damaged journal is not truncated")
	case of != (client.ClusterFlags{}) && f.Truncate:
		return cli.Usagef("backup: a cluster's journal is not truncated in place").
			WithHint("back it up while no gateway serves, restore that into a folder, and truncate the journal there (docs/production.md)")
	case file == "":
		return cli.Usagef("backup: expected a file, got an empty name")
	}
	o := mesh.BackupOptions{WithoutKeys: f.WithoutKeys, Salvage: f.Salvage, Version: cli.ProgramVersion(), Keys: []accounts.OpenOption{meshdir.Unlock()}}
	folder, err := f.Folder()
	if err != nil {
		return err
	}
	r := backupResult{File: file, State: folder.State}
	var source *client.Source
	if of == (client.ClusterFlags{}) {
		if _, err := os.Stat(server.StreamsOf(folder.State)); err != nil {
			return cli.Failf("there is no state to back up in %s", cli.Quoted(folder.State)).WithHint("no mesh has run there; --state names another folder")
		}
		if f.Truncate { // the state is proven under the definitions
			if _, err := folder.Load(); err != nil {
				return err
			}
		}
		source, err = client.OpenSource(ctx, f.StateFlags)
	} else {
		r.State, r.Cluster = "", of.URL
		source, err = openCluster(ctx, folder, of, o)
	}
	if err != nil {
		return err
	}
	defer source.Close()
	out, err := cli.CreateFile(file)
	if err != nil {
		return err
	}
	defer out.Discard()
	keep := func() (_ string, err error) {
		r.Bytes, r.SHA256, err = out.Keep()
		return file, err
	}
	var finish func()
	o.Progress, finish = client.RecordProgress(p, "backing up")
	var m jetstream.Manifest
	if f.Truncate {
		m, err = source.Truncate(ctx, out, mesh.TruncateOptions{BackupOptions: o, Keep: keep})
		r.Truncated = m.Decisions
	} else if m, err = source.Backup(ctx, out, o); err == nil {
		_, err = keep()
	}
	finish()
	switch {
	case err != nil && r.Cluster != "":
		return clusterBackupFailure(&of, err)
	case err != nil:
		return client.JournalFailure(err, folder.State)
	}
	if err := showBackup(p, "backed up", r, m); err != nil {
		return err
	}
	if source.Running && !p.Out.JSON {
		p.Out.Talkf("the mesh keeps running: later decisions are not in the file")
	}
	return nil
}

// Restore restores backups into a new folder, or into a cluster.
type Restore struct{ client.ClusterFlags }

// Adjust checks the arguments.
func (f *Restore) Adjust(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("url") || cmd.Flags().Changed("creds") { // their values come later
			return cli.Arguments(1, "FILE")(cmd, args[:min(len(args), 1)])
		}
		return cli.Arguments(2, "FILE", "DIR")(cmd, args[:min(len(args), 2)])
	}
}

// Run restores them.
func (f *Restore) Run(ctx context.Context, p *cli.Program, args []string) error {
	of, files, dir := f.ClusterFlags, args, ""
	cluster := of != (client.ClusterFlags{})
	if !cluster {
		files, dir = args[:len(args)-1], args[len(args)-1]
	}
	if !cluster && (dir == "" || len(files) == 0) || slices.Contains(files, "") { // no file is there where --url is given, and empty
		return cli.Usagef("restore: expected a file and a folder, got an empty name")
	}
	r := backupResult{Cluster: of.URL}
	into := func(from []io.ReadSeeker, o mesh.BackupOptions) (jetstream.Manifest, error) {
		return mesh.Restore(ctx, from, r.State, o)
	}
	if cluster {
		_, def, err := new(meshdir.StateFlags).Load()
		if err != nil {
			return err
		}
		access, err := of.Config("restore", "restore")
		if err != nil {
			return err
		}
		into = func(from []io.ReadSeeker, o mesh.BackupOptions) (jetstream.Manifest, error) {
			return mesh.RestoreCluster(ctx, from, access, def, o)
		}
	} else {
		r.State = cli.Absolute(dir)
	}
	from, closeAll, err := r.open(files)
	defer closeAll()
	if err != nil {
		return err
	}
	progress, finish := client.RecordProgress(p, "restoring")
	m, err := into(from, mesh.BackupOptions{Version: cli.ProgramVersion(), Progress: progress, Keys: []accounts.OpenOption{meshdir.Unlock()}})
	finish()
	switch {
	case errors.Is(err, mesh.ErrNotEmpty) && cluster:
		return cli.Failf("the cluster has another journal").WithHint("a backup goes into a cluster that has none")
	case errors.Is(err, mesh.ErrNotEmpty):
		return cli.Failf("%s exists and is not empty", cli.Quoted(dir)).WithHint("name a new folder; nothing is replaced")
	case errors.Is(err, jetstream.ErrBackup) && len(files) > 1:
		return cli.Failf("the backups do not fit together: %s", client.After(err, jetstream.ErrBackup)).WithHint("nothing was written; name them oldest first, each beginning where the previous one ends")
	case errors.Is(err, jetstream.ErrBackup):
		return cli.Failf("%s is not a complete backup: %s", cli.Quoted(r.File), client.After(err, jetstream.ErrBackup)).WithHint("nothing was written; take another backup")
	case err != nil && cluster:
		return clusterBackupFailure(&of, err)
	case err != nil:
		return client.JournalFailure(err, dir)
	}
	if size, err := mesh.Tree(r.State).Witnessed(); !cluster && err == nil && size > 0 {
		p.Out.Talkf("witnesses have cosigned this journal: if they have seen more than %s, they will refuse it from now on, and \"bcpmesh up --witness\" says so", cli.Count(int(m.Decisions), "decision"))
	} else if !cluster {
		p.Out.Talkf("if a witness has cosigned more of this journal than the backup has, it will refuse it from now on")
	}
	return showBackup(p, "restored", r, m)
}

// open opens backups, and takes the figures of the last.
func (r *backupResult) open(files []string) (from []io.ReadSeeker, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, f := range opened {
			_ = f.Close() // it was only read
		}
	}
	for _, name := range files {
		f, err := agentsfolder.OpenFile(name)
		if err != nil {
			return nil, closeAll, cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		opened = append(opened, f)
		sum := sha256.New()
		size, err := io.Copy(sum, f)
		if err != nil {
			return nil, closeAll, cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		from = append(from, f)
		r.File, r.Bytes, r.SHA256 = name, size, bcp.Digest(sum.Sum(nil))
	}
	return from, closeAll, nil
}

func showBackup(p *cli.Program, verb string, r backupResult, m jetstream.Manifest) error {
	r.Records, r.Decisions, r.Last, r.Head, r.Lost, r.Begins = m.Records, m.Decisions, m.Last, m.Head, m.Lost, m.Begins.Decision
	return p.Out.Show(r, func() {
		head, _ := r.Head.MarshalText()
		sum, _ := r.SHA256.MarshalText()
		p.Out.Printf("%s %s, the last of %s\n", verb, cli.Count(int(r.Decisions), "decision"), r.Last.Format(time.RFC3339))
		p.Out.Printf("head   %s\n", head)
		p.Out.Printf("sha256 %s  %s\n", sum, cli.Plain(r.File))
		if r.State != "" {
			p.Out.Printf("state  %s\n", cli.Plain(r.State))
		}
		if r.Begins > 0 {
			p.Out.Printf("begins after decision %d\n", r.Begins)
		}
		if r.Truncated > 0 {
			p.Out.Talkf("the journal now begins after decision %d: keep the file", r.Truncated)
		}
		if verb == "restored" {
			p.Out.Talkf("the definitions are not in a backup: mesh.yaml, agents/, tools/ and what they name have to be there before bcpmesh up")
		} else {
			p.Out.Talkf("the definitions are not in it: keep mesh.yaml, agents/, tools/ and what they name beside it")
		}
		if r.Lost != "" {
			p.Out.Talkf("the journal ends there: %s", cli.Plain(r.Lost))
		}
	})
}

// openCluster opens the journal of a cluster, with the keys of a state folder.
func openCluster(ctx context.Context, folder meshdir.Folder, of client.ClusterFlags, o mesh.BackupOptions) (*client.Source, error) {
	access, err := of.Config("backup", "backup")
	if err != nil {
		return nil, err
	}
	if _, err := accounts.Open(folder.State); err != nil && !o.WithoutKeys {
		return nil, cli.Failf("the keys of the mesh: %s", err).WithHint("the state folder is %s; --state names another, --without-keys leaves them out", folder.State)
	}
	source, err := mesh.DialCluster(ctx, access, folder.State)
	if err != nil {
		return nil, of.Failure("the backup", err)
	}
	return &client.Source{Source: source, Folder: folder}, nil
}

// clusterBackupFailure says what a cluster, or the journal on it, has.
func clusterBackupFailure(f *client.ClusterFlags, err error) error {
	if slices.ContainsFunc([]error{jetstream.ErrRecord, jetstream.ErrLost, jetstream.ErrRewritten, jetstream.ErrTree, context.Canceled}, func(e error) bool { return errors.Is(err, e) }) {
		return client.JournalFailure(err, "")
	}
	return f.Failure("the backup", err)
}
