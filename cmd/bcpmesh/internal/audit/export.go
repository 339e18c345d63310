package audit

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// exportResult is what audit export says.
type exportResult struct {
	File       string     `json:"file"`
	Bytes      int64      `json:"bytes"`
	SHA256     bcp.Digest `json:"sha256"` // of File
	First      uint64     `json:"first"`
	Last       uint64     `json:"last"`
	From       time.Time  `json:"from"`
	To         time.Time  `json:"to"`
	Key        string     `json:"key"`
	Checkpoint string     `json:"checkpoint"`
}

// export exports the journal, a checkpoint or the proof of a decision.
type export struct {
	meshdir.StateFlags
	WitnessFlags
	Since, Until client.TimeFlag
	Witnessed    bool
	Decision     uint64           `not:"since until witnessed"`
	Checkpoint   bool             `not:"since until witnessed decision"`
	Wait         cli.DurationFlag `default:"10m"`
}

func (o *export) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch {
	case (len(args) > 0) == (o.Decision > 0 || o.Checkpoint):
		return cli.Usagef("audit export: expected FILE, --decision or --checkpoint").WithHint("bcpmesh audit export --help shows an example")
	case len(o.Witness) > 0 && !o.Checkpoint:
		return cli.Usagef("audit export: --witness is for --checkpoint")
	case o.Decision > 0:
		return exportProof(ctx, p, o.StateFlags, o.Decision)
	case o.Checkpoint:
		ctx, cancel := context.WithTimeout(ctx, o.Wait.Value)
		defer cancel()
		return exportCheckpoint(ctx, p, o.StateFlags, &o.WitnessFlags)
	}
	return auditExport(ctx, p, o.StateFlags, args[0], o.Witnessed, jetstream.ExportOptions{Since: o.Since.At, Until: o.Until.At})
}

func auditExport(ctx context.Context, p *cli.Program, where meshdir.StateFlags, file string, witnessed bool, o jetstream.ExportOptions) error {
	if file == "" {
		return cli.Usagef("audit export: expected a file, got an empty name")
	}
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return err
	}
	defer j.Close()
	out, err := cli.CreateFile(file)
	if err != nil {
		return err
	}
	defer out.Discard()
	if o.Key, err = mesh.CheckpointKey(j.Folder.State, meshdir.Unlock()); err != nil {
		return failure(err, j.Folder.State)
	}
	o.Tree = mesh.Tree(j.Folder.State)
	if witnessed {
		last, err := o.Tree.Witnessed()
		if err != nil {
			return failure(err, j.Folder.State)
		}
		if o.Last = uint64(last); last == 0 {
			return cli.Failf("no witness has cosigned anything yet").WithHint("bcpmesh up --witness KEY=URL has checkpoints cosigned")
		}
	}
	var finish func()
	o.Progress, finish = client.RecordProgress(p, "exporting")
	exported, err := j.Export(ctx, out, o)
	finish()
	if err != nil {
		return failure(err, j.Folder.State)
	}
	size, sum, err := out.Keep()
	if err != nil {
		return err
	}
	r := exportResult{File: file, Bytes: size, SHA256: sum, First: exported.First, Last: exported.Last,
		From: exported.From, To: exported.To, Key: o.Key.Public, Checkpoint: string(exported.Checkpoint)}
	return p.Out.Show(r, func() {
		digest, _ := r.SHA256.MarshalText()
		p.Out.Printf("exported decisions %d to %d, %s to %s\n", r.First, r.Last, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
		p.Out.Printf("key    %s\n", r.Key)
		p.Out.Printf("sha256 %s  %s\n", digest, cli.Plain(file))
	})
}

// faults are why decisions cannot be read, exported or signed.
var faults = slices.Concat(cli.Faults{
	{Of: jetstream.ErrNoDecisions, Says: "there are no decisions in this period"},
	{Of: jetstream.ErrRewritten, Hint: "nothing was signed; compare with an earlier export, and restore a backup"},
	{Of: jetstream.ErrLost, Hint: "nothing was signed; compare with an earlier export, and restore a backup"},
	{Of: jetstream.ErrNoCheckpoint, Hint: "the mesh signs one every ten minutes and when it stops, on a cluster \"bcpmesh audit export --checkpoint\" does; an export ends with one"},
	{Of: mesh.ErrSigning, Says: "another command is signing checkpoints of this journal", Hint: "try again"},
	{Of: jetstream.ErrKeyLost},
	{Of: state.ErrReplay},
}, client.JournalFaults, cli.Faults{
	{Of: fs.ErrNotExist, Says: "there are no keys in {it}", Hint: "no mesh has run there; --state names another folder"}, // of others, each is known by its name
	{Of: context.DeadlineExceeded, Says: "no reply in time", Hint: "give it more time with --wait"},
})

// failure says why, about a state folder; nil for none.
func failure(err error, about string) error {
	if err == nil {
		return nil
	}
	if said, ok := errors.AsType[*cli.Failure](err); ok {
		return said
	}
	if known := faults.Failure(err, about); known != nil {
		return known
	}
	return client.JournalFailure(err, about)
}

// key shows the public key of checkpoints.
type key struct{ meshdir.StateFlags }

func (o *key) Run(_ context.Context, p *cli.Program, _ []string) error {
	folder, err := o.Folder()
	if err != nil {
		return err
	}
	store, err := accounts.Open(folder.State)
	if err != nil {
		return failure(err, folder.State)
	}
	public, err := store.CheckpointPublic()
	if err != nil {
		return failure(err, folder.State)
	}
	return p.Out.Show(map[string]string{"key": public}, func() { p.Out.Printf("%s\n", public) })
}

// exportCheckpoint shows the newest, even if it is not cosigned.
func exportCheckpoint(ctx context.Context, p *cli.Program, where meshdir.StateFlags, witnesses *WitnessFlags) error {
	peers, err := witnesses.Peers("audit export")
	if err != nil {
		return err
	}
	signed, err := newestCheckpoint(ctx, where, peers)
	if signed == nil {
		return err
	}
	return errors.Join(err, p.Out.Show(map[string]string{"checkpoint": string(signed)}, func() { p.Out.Printf("%s", signed) }))
}

// newestCheckpoint is the newest: on a cluster, of what the journal has now. With an error it
// was signed, and not cosigned.
func newestCheckpoint(ctx context.Context, where meshdir.StateFlags, peers []*mesh.Witness) ([]byte, error) {
	folder, err := where.Folder()
	if err != nil {
		return nil, err
	}
	if about, err := folder.Running(); err != nil || !about.Cluster {
		if len(peers) > 0 {
			return nil, cli.Usagef("audit export: --witness is for a mesh on a cluster").WithHint("a mesh in one process does so by itself: bcpmesh up --witness KEY=URL")
		}
		newest, err := mesh.Tree(folder.State).Newest()
		if err != nil {
			return nil, failure(err, folder.State)
		}
		return newest, nil
	}
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	signed, err := mesh.SignCheckpoint(ctx, folder.State, j.Records, meshdir.Unlock())
	if err != nil {
		return nil, failure(err, folder.State)
	}
	if len(peers) == 0 {
		return signed, nil
	}
	if err := mesh.CosignNewest(ctx, folder.State, peers); err != nil {
		return signed, cosignFailure(err)
	}
	return mesh.Tree(folder.State).Newest()
}
