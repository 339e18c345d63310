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

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/cluster"
)

// BackupCluster writes what a cluster has of a mesh to w, with the keys of a
// state folder. Gateways may serve meanwhile: it ends with the newest decision when it
// begins.
func BackupCluster(ctx context.Context, config cluster.Config, state string, w io.Writer, o BackupOptions) (jetstream.Manifest, error) {
	out := jetstream.NewBackupWriter(w, o.Version, time.Now())
	err := error(nil)
	if !o.WithoutKeys {
		err = putKeys(out, state)
	}
	// What was signed until now, the journal has when it is read.
	signed := fileContents{}
	if err == nil {
		signed, err = readSigned(state)
	}
	if err == nil {
		err = onCluster(ctx, config, func(js natsjs.JetStream) error {
			err := putCluster(ctx, out, js, state, o)
			if err == nil {
				err = checkSigned(ctx, js, state)
			}
			if o.Salvage && (errors.Is(err, jetstream.ErrLost) || errors.Is(err, jetstream.ErrRewritten)) {
				signed, err = nil, nil
			}
			return err
		})
	}
	// What was salvaged is another history, and gets another key.
	if err == nil && !o.WithoutKeys && !out.Salvaged() {
		err = signed.writeTo(out)
	}
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("back up: %w", err)
	}
	return out.Close()
}

// fileContents are files of a state folder, by their names in it.
type fileContents map[string][]byte

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

// readSigned returns the key of the checkpoints, and these.
func readSigned(state string) (fileContents, error) {
	files := fileContents{}
	for _, name := range []string{path.Join(treeFolder, jetstream.TreeCheckpoints), path.Join(accounts.KeyFolder, accounts.CheckpointKeyFile)} {
		if err := files.read(state, name); err != nil {
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

// checkSigned checks that a journal is that of the newest checkpoint.
func checkSigned(ctx context.Context, js natsjs.JetStream, state string) error {
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return err
	}
	return Tree(state).Check(ctx, journal)
}

// putCluster writes the contents of a cluster's streams, and, if the journal is
// truncated, the hashes of the records that were cut off.
func putCluster(ctx context.Context, out *jetstream.BackupWriter, js natsjs.JetStream, state string, o BackupOptions) error {
	var begin jetstream.Beginning
	err := jetstream.AwaitAnswer(ctx, func() (err error) {
		begin, err = jetstream.Begin(ctx, js)
		return err
	})
	if o.Salvage && errors.Is(err, jetstream.ErrRecord) {
		err = jetstream.NothingToSalvage(err)
	}
	if err != nil {
		return err
	}
	if begin.Truncated() {
		base, err := jetstream.StoredBase(ctx, js, begin)
		if err == nil {
			err = out.Put(base.Name, base.Content)
		}
		if err == nil {
			err = putFile(out, state, path.Join(treeFolder, jetstream.TreeHashes))
		}
		if err != nil {
			return err
		}
	}
	// The keys come last, since those of the newest records may be new.
	return errors.Join(out.Journal(ctx, js, nil, 0, o.Salvage, o.Progress), out.Keys(ctx, js))
}

// RestoreCluster fills the streams of a mesh from backups of it, and continues where
// an earlier attempt ended. If the streams have anything else, the error is
// [ErrNotEmpty]. It ignores the backups' keys of accounts. def are its
// definitions, with the number of replicas.
func RestoreCluster(ctx context.Context, from []io.ReadSeeker, config cluster.Config, def *bcp.Mesh, o BackupOptions) (jetstream.Manifest, error) {
	bases := map[string][]byte{}
	all, err := readBackups(from, jetstream.Restoring{File: func(name string, content io.Reader) (err error) {
		if path.Dir(name) == jetstream.BaseFolder {
			bases[name], err = io.ReadAll(content)
		}
		return err
	}})
	base := jetstream.BaseFile{Name: jetstream.BaseName(all.Begins.Decision)}
	if base.Content = bases[base.Name]; err == nil && all.Begins.Sequence > 0 {
		_, err = restoredBase(base, newStateConfig(def, o.Version)) // else no gateway would serve
	}
	if err == nil {
		err = onCluster(ctx, config, func(js natsjs.JetStream) error {
			var journal *jetstream.Journal
			var there jetstream.Position
			if err := jetstream.AwaitAnswer(ctx, func() (err error) {
				journal, there, err = restoreStreams(ctx, js, base, all, def)
				return err
			}); err != nil {
				return err
			}
			return restoreRecords(ctx, js, journal, from, all, there, o)
		})
	}
	if err != nil {
		return jetstream.Manifest{}, fmt.Errorf("restore: %w", err)
	}
	return all, nil
}

// restoreStreams creates the streams of a restore, and returns the progress of an
// earlier attempt.
func restoreStreams(ctx context.Context, js natsjs.JetStream, base jetstream.BaseFile, all jetstream.Manifest, def *bcp.Mesh) (*jetstream.Journal, jetstream.Position, error) {
	if err := restoreBase(ctx, js, base, all.Begins, def); err != nil {
		return nil, jetstream.Position{}, err
	}
	topology := newTopology(def)
	topology.Begins = all.Begins.Sequence
	if err := jetstream.Create(ctx, js, topology); err != nil {
		return nil, jetstream.Position{}, err
	}
	journal, err := jetstream.OpenJournal(ctx, js)
	if err != nil {
		return nil, jetstream.Position{}, err
	}
	there, err := restoredBefore(ctx, js, journal, all)
	return journal, there, err
}

// restoreBase stores the base of a truncated journal, unless there is another one.
func restoreBase(ctx context.Context, js natsjs.JetStream, base jetstream.BaseFile, begins jetstream.Position, def *bcp.Mesh) error {
	if begins.Sequence == 0 {
		return nil
	}
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	switch {
	case err == nil && stream.CachedInfo().Config.FirstSeq != begins.Sequence+1:
		return ErrNotEmpty
	case err != nil && !errors.Is(err, natsjs.ErrStreamNotFound):
		return err
	}
	return jetstream.StoreBase(ctx, js, def.Replicas, begins.Sequence, base.Content)
}

// restoredBefore returns the progress of an earlier attempt.
func restoredBefore(ctx context.Context, js natsjs.JetStream, journal *jetstream.Journal, all jetstream.Manifest) (there jetstream.Position, err error) {
	stream, err := js.Stream(ctx, jetstream.CommitStream)
	if err != nil {
		return there, err
	}
	if stream.CachedInfo().State.Msgs == 0 {
		return all.Begins, journal.ReplayBehind(ctx, all.Begins, nil)
	}
	var chain jetstream.Chain
	if err := journal.Replay(ctx, func(decision []byte) error { return chain.Add([][]byte{decision}) }); err != nil {
		return there, err
	}
	there = jetstream.Position{Sequence: journal.Last(), Decision: chain.Decisions, Head: chain.Head}
	if there.Sequence > all.Records || chain.Begin.Position != all.Begins {
		err = ErrNotEmpty
	}
	return there, err
}

// onCluster calls f with the streams of the gateway's account.
func onCluster(ctx context.Context, config cluster.Config, f func(natsjs.JetStream) error) error {
	c, err := cluster.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	conn, err := c.Gateway()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := natsjs.New(conn, natsjs.WithPublishAsyncMaxPending(restoreWindow))
	if err != nil {
		return err
	}
	if err := awaitStreams(ctx, js); err != nil {
		return err
	}
	return f(js)
}

const (
	// streamsPatience is how long a cluster may take to report that an account has
	// streams: it may have to elect its meta leader first.
	streamsPatience = 15 * time.Second
	// streamsAttempt is the timeout of one such request: one that is sent too early
	// never gets a reply.
	streamsAttempt = 2 * time.Second
)

// awaitStreams waits until the server knows that the account has streams; a server
// that has just learnt of the account does not.
func awaitStreams(ctx context.Context, js natsjs.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, streamsPatience)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, streamsAttempt)
		_, err := js.AccountInfo(try)
		end()
		if err == nil || !sleep(ctx, leaseKept/4) {
			return err
		}
	}
}
