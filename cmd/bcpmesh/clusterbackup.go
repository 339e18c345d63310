package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
)

// shardConfig is the way to one shard: the one that is named, or the only one. Def, where
// it is at hand, and the gateway's files say how many there are.
func (f *clusterFlags) shardConfig(command string, shard shardFlag, def *bcp.Mesh) (cluster.Config, error) {
	access, err := f.config(command, command)
	if err != nil {
		return access, err
	}
	n := 1
	if def != nil {
		n = def.Shards()
	}
	there := func(shard int) error {
		_, err := os.Stat(filepath.Join(f.creds, cluster.CoreCreds(shard)))
		return err
	}
	for n <= bcp.MaxShard && there(n) == nil {
		n++
	}
	shards, err := shard.among(n)
	if err != nil {
		return access, err
	}
	if len(shards) > 1 {
		return access, usagef("%s: the mesh has %d shards, each with a journal of its own", command, n).withHint("one after the other, each with a file of its own: --shard 0, --shard 1 and so on")
	}
	access.Shard = shards[0]
	if err := there(access.Shard); err != nil {
		return access, failf("%s cannot be read: %s", quoted(filepath.Join(f.creds, cluster.CoreCreds(access.Shard))), reasonOf(err)).
			withHint("bcpmesh accounts export --force --gateway NAME writes creds for all shards")
	}
	return access, nil
}

func backupCluster(ctx context.Context, p *program, where *stateFlags, file string, o mesh.BackupOptions, of clusterFlags, shard shardFlag) error {
	if file == "" {
		return usagef("backup: expected a file, got an empty name")
	}
	folder, err := where.folder()
	if err != nil {
		return err
	}
	access, err := of.shardConfig("backup", shard, folder.definition())
	if err != nil {
		return err
	}
	if _, err := accounts.Open(folder.state); err != nil && !o.WithoutKeys {
		return failf("the keys of the mesh: %s", err).withHint("the state folder is %s; --state names another, --without-keys leaves them out", folder.state)
	}
	out, err := createFile(file)
	if err != nil {
		return err
	}
	defer out.discard()
	o.Version = programVersion()
	var finish func()
	o.Progress, finish = p.recordProgress("backing up")
	m, err := mesh.BackupCluster(ctx, access, folder.state, out, o)
	finish()
	r := backupResult{File: file, Cluster: of.url}
	if err == nil {
		r.Bytes, r.SHA256, err = out.keep()
	}
	if err != nil {
		return of.backupFailure(err)
	}
	return p.showBackup("backed up", r, m)
}

// truncateBackup makes a backup of another one, with a journal that begins behind that.
func truncateBackup(ctx context.Context, p *program, where *stateFlags, file, whole string, o mesh.BackupOptions) error {
	if file == "" {
		return usagef("backup: expected a file, got an empty name")
	}
	folder, err := where.folder()
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	var of backupResult
	from, closeAll, err := of.open([]string{whole})
	defer closeAll()
	if err != nil {
		return err
	}
	out, err := createFile(file)
	if err != nil {
		return err
	}
	defer out.discard()
	o.Version, o.Keys = programVersion(), []accounts.OpenOption{unlock()}
	var finish func()
	o.Progress, finish = p.recordProgress("truncating")
	m, err := mesh.TruncateBackup(ctx, whole, from[0], folder.state, def, out, o)
	finish()
	r := backupResult{File: file}
	if err == nil {
		r.Bytes, r.SHA256, err = out.keep()
	}
	switch {
	case errors.Is(err, jetstream.ErrBackup):
		return of.failure(err, 1, folder.state)
	case errors.Is(err, mesh.ErrOtherShard):
		return failf("%s: %s", quoted(whole), after(err, mesh.ErrOtherShard)).withHint("--dir names the folder of the mesh that it is of")
	case err != nil:
		return backupFailure(err, folder.state)
	}
	if err := p.showBackup("truncated", r, m); err != nil {
		return err
	}
	if !p.out.json {
		p.out.talkf("keep %s: it has what is cut off", plain(whole))
	}
	return nil
}

func restoreCluster(ctx context.Context, p *program, files []string, of clusterFlags, shard shardFlag) error {
	if _, err := of.config("restore", "restore"); err != nil {
		return err
	}
	folder, err := findMesh(".")
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	access, err := of.shardConfig("restore", shard, def)
	if err != nil {
		return err
	}
	r := backupResult{Cluster: of.url}
	from, closeAll, err := r.open(files)
	defer closeAll()
	if err != nil {
		return err
	}
	progress, finish := p.recordProgress("restoring")
	m, err := mesh.RestoreCluster(ctx, from, access, def.OfShard(access.Shard), mesh.BackupOptions{Version: programVersion(), Progress: progress})
	finish()
	switch {
	case errors.Is(err, mesh.ErrNotEmpty):
		return failf("the cluster has another journal").withHint("a backup goes into a cluster that has none")
	case errors.Is(err, bcp.ErrDefinitions):
		return failf("%s", plain(err.Error())).withHint("nothing was written")
	case errors.Is(err, bcp.ErrMoved):
		return failf("%s", err).withHint("nothing was written")
	case errors.Is(err, mesh.ErrOtherShard):
		return failf("%s: %s", quoted(r.File), after(err, mesh.ErrOtherShard)).withHint("--shard says to which shard it goes: the one that it is of")
	case errors.Is(err, jetstream.ErrBackup):
		return r.failure(err, len(files), "")
	case err != nil:
		return of.backupFailure(err)
	}
	return p.showBackup("restored", r, m)
}

// backupFailure says what a cluster, or the journal on it, has.
func (f *clusterFlags) backupFailure(err error) error {
	if slices.ContainsFunc([]error{jetstream.ErrRecord, jetstream.ErrLost, jetstream.ErrRewritten, jetstream.ErrTree, context.Canceled}, func(e error) bool { return errors.Is(err, e) }) {
		return backupFailure(err, "")
	}
	return f.failure("the backup", err)
}
