package archive

import (
	"context"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
)

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

// truncateBackup makes a backup of another one, with a journal that begins after that.
func truncateBackup(ctx context.Context, p *cli.Program, where *meshdir.StateFlags, file, whole string, o mesh.BackupOptions) error {
	if file == "" {
		return cli.Usagef("backup: expected a file, got an empty name")
	}
	folder, err := where.Folder()
	if err != nil {
		return err
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	var of backupResult
	from, closeAll, err := of.open([]string{whole})
	defer closeAll()
	if err != nil {
		return err
	}
	out, err := cli.CreateFile(file)
	if err != nil {
		return err
	}
	defer out.Discard()
	o.Version, o.Keys = cli.ProgramVersion(), []accounts.OpenOption{meshdir.Unlock()}
	var finish func()
	o.Progress, finish = client.RecordProgress(p, "truncating")
	source, err := mesh.Read(from[0])
	var m jetstream.Manifest
	if err == nil {
		m, err = source.TruncateBackup(ctx, whole, folder.State, def, out, o)
	}
	finish()
	r := backupResult{File: file}
	if err == nil {
		r.Bytes, r.SHA256, err = out.Keep()
	}
	switch {
	case errors.Is(err, jetstream.ErrBackup):
		return of.failure(err, 1, folder.State)
	case err != nil:
		return client.JournalFailure(err, folder.State)
	}
	if err := showBackup(p, "truncated", r, m); err != nil {
		return err
	}
	if !p.Out.JSON {
		p.Out.Talkf("keep %s: it has the removed decisions", cli.Plain(whole))
	}
	return nil
}

func restoreCluster(ctx context.Context, p *cli.Program, files []string, of client.ClusterFlags) error {
	folder, err := meshdir.Find(".")
	if err != nil {
		return err
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	access, err := of.Config("restore", "restore")
	if err != nil {
		return err
	}
	r := backupResult{Cluster: of.URL}
	from, closeAll, err := r.open(files)
	defer closeAll()
	if err != nil {
		return err
	}
	progress, finish := client.RecordProgress(p, "restoring")
	m, err := mesh.RestoreCluster(ctx, from, access, def, mesh.BackupOptions{Version: cli.ProgramVersion(), Progress: progress})
	finish()
	switch {
	case errors.Is(err, mesh.ErrNotEmpty):
		return cli.Failf("the cluster has another journal").WithHint("a backup goes into a cluster that has none")
	case errors.Is(err, state.ErrDefinitions):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("nothing was written")
	case errors.Is(err, jetstream.ErrBackup):
		return r.failure(err, len(files), "")
	case err != nil:
		return clusterBackupFailure(&of, err)
	}
	return showBackup(p, "restored", r, m)
}

// clusterBackupFailure says what a cluster, or the journal on it, has.
func clusterBackupFailure(f *client.ClusterFlags, err error) error {
	if slices.ContainsFunc([]error{jetstream.ErrRecord, jetstream.ErrLost, jetstream.ErrRewritten, jetstream.ErrTree, context.Canceled}, func(e error) bool { return errors.Is(err, e) }) {
		return client.JournalFailure(err, "")
	}
	return f.Failure("the backup", err)
}
