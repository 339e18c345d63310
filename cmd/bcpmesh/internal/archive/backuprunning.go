package archive

import (
	"context"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// backupRunning backs up a mesh that runs on the folder, over the mesh.
func backupRunning(ctx context.Context, p *cli.Program, where meshdir.StateFlags, folder meshdir.Folder, file string, o mesh.BackupOptions, truncate bool) error {
	if truncate || o.Salvage {
		return cli.Failf("a mesh runs on %s", cli.Quoted(folder.State)).WithHint("stop it first: the journal of a running mesh can be backed up, but neither truncated nor salvaged")
	}
	j, err := client.OpenJournal(ctx, where)
	if err != nil {
		return err
	}
	defer j.Close()
	out, err := cli.CreateFile(file)
	if err != nil {
		return err
	}
	defer out.Discard()
	o.Version = cli.ProgramVersion()
	var finish func()
	o.Progress, finish = RecordProgress(p, "backing up")
	operator := j.Client.Operator()
	m, err := mesh.BackupRunning(ctx, folder.State, mesh.RunningJournal{
		Records: client.OperatorRecords(operator, 0), From: client.OperatorRecordsFrom(operator), Key: operator.Key,
	}, out, o)
	finish()
	r := backupResult{File: file, State: folder.State}
	if err == nil {
		r.Bytes, r.SHA256, err = out.Keep()
	}
	if err != nil {
		return BackupFailure(err, folder.State)
	}
	if err := showBackup(p, "backed up", r, m); err != nil {
		return err
	}
	if !p.Out.JSON {
		p.Out.Talkf("the mesh keeps running: later decisions are not in the file")
	}
	return nil
}
