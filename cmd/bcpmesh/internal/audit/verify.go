package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	agentsfolder "github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// verifyResult is what audit verify says of one file.
type verifyResult struct {
	File     string            `json:"file"`
	Verified bool              `json:"verified"`
	Fault    *verifyFault      `json:"fault,omitempty"`
	First    uint64            `json:"first,omitzero"`
	Last     uint64            `json:"last,omitzero"`
	From     time.Time         `json:"from,omitzero"`
	To       time.Time         `json:"to,omitzero"`
	Kinds    map[string]uint64 `json:"kinds,omitempty"`
	Channels []verifyChannel   `json:"channels,omitempty"`
	// Checkpoint is what was signed.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Witnesses have cosigned it, of those that were asked for.
	Witnesses []verifyWitness `json:"witnesses,omitempty"`
}

type verifyWitness struct {
	Name string    `json:"name"`
	Time time.Time `json:"time"` // that the witness says
}

type verifyFault struct {
	Decision uint64 `json:"decision,omitzero"` // the first bad one
	Offset   int64  `json:"offset"`            // of its frame in the file, in bytes
	Within   int    `json:"within,omitzero"`   // of it in the unpacked frame
	Reason   string `json:"reason"`
}

type verifyChannel struct {
	Controller string `json:"controller"`
	Reader     string `json:"reader"`
	Decisions  uint64 `json:"decisions"`
}

func auditVerifyCommand(p *cli.Program) *cobra.Command {
	var keys, since []string
	var proofs bool
	var quorum quorum
	cmd := &cobra.Command{
		Use:  "verify FILE...",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Arguments(1, "FILE")(cmd, args)
			}
			return auditVerify(cmd.Context(), p, args, keys, since, proofs, quorum)
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "public `KEY` of the mesh, or a file with it; any of several may have signed")
	cmd.Flags().BoolVar(&proofs, "proof", false, "the files are proofs of \"bcpmesh audit export --decision\"")
	quorum.addTo(cmd)
	cmd.Flags().StringArrayVar(&since, "since", nil, "`FILE` with an earlier checkpoint that the exports must continue")
	return cmd
}

func auditVerify(ctx context.Context, p *cli.Program, files, keys, since []string, proofs bool, quorum quorum) error {
	if proofs && len(since) > 0 {
		return cli.Usagef("audit verify: --since is for exports, not for proofs")
	}
	if len(keys) == 0 {
		return cli.Usagef("audit verify: --key is needed").WithHint(logKeyHint)
	}
	o := verify.Options{Run: runParallel}
	var err error
	if o.Keys, err = keysOrFiles("--key", keys, verify.CheckKey, logKeyHint); err != nil {
		return err
	}
	if err := quorum.read(); err != nil {
		return err
	}
	if proofs {
		for _, name := range files {
			if err := verifyProof(p, name, o.Keys, quorum); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range since {
		content, err := cli.ReadSmall(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		c, err := verify.OpenCheckpoint(content, o.Keys)
		if err != nil {
			return cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
		}
		o.Since = append(o.Since, c)
	}
	for _, name := range files {
		s, err := verifyFile(p, ctx, name, o)
		if err != nil {
			return notVerified(p, name, err)
		}
		cosigned, err := quorum.check(name, s.Signed, o.Keys)
		if err != nil {
			return err
		}
		if err := showVerified(p, name, s, cosigned); err != nil {
			return err
		}
		o.Since = append(o.Since, s.Checkpoint)
	}
	return nil
}

// runParallel runs tasks at the same time.
func runParallel(n int, task func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { task(i) })
	}
	all.Wait()
}

func verifyFile(p *cli.Program, ctx context.Context, name string, o verify.Options) (verify.Summary, error) {
	f, err := agentsfolder.OpenFile(name)
	if err != nil {
		return verify.Summary{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return verify.Summary{}, err
	}
	if !info.Mode().IsRegular() {
		return verify.Summary{}, errors.New("it is not a file")
	}
	var r io.Reader = untilDone{ctx, f}
	if p.Out.TalkTerminal {
		bar := progressbar.NewOptions64(info.Size(), progressbar.OptionSetWriter(p.Out.Stderr), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("verifying"))
		defer func() { _ = bar.Finish() }() // it is talk
		r = io.TeeReader(r, bar)
	}
	return verify.File(r, o)
}

// untilDone reads until ctx ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

func notVerified(p *cli.Program, name string, err error) error {
	var fault *verify.Fault
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &fault):
		return cli.Failf("%s cannot be verified: %s", cli.Quoted(name), cli.FileReason(err))
	case p.Out.JSON:
		if err := p.Out.Line(verifyResult{File: name, Fault: &verifyFault{fault.Decision, fault.Offset, max(fault.Within, 0), fault.Reason}}); err != nil {
			return err
		}
	}
	failure := cli.Failf("%s is not what was signed: %s", cli.Quoted(name), fault)
	if fault.Decision > 0 {
		return failure.WithHint("nothing from decision %d to the end of the file is proven: export it again, or from a backup", fault.Decision)
	}
	return failure
}

func showVerified(p *cli.Program, name string, s verify.Summary, cosigned []verifyWitness) error {
	r := verifyResult{File: name, Verified: true, First: s.First, Last: s.Last, From: s.From, To: s.To,
		Kinds: make(map[string]uint64), Channels: []verifyChannel{}, Checkpoint: string(s.Signed), Witnesses: cosigned}
	for kind, n := range s.Kinds {
		r.Kinds[bcp.DecisionKind(kind).String()] += n
	}
	for _, c := range s.Channels {
		r.Channels = append(r.Channels, verifyChannel{c.Controller, c.Reader, c.Decisions})
	}
	if p.Out.JSON {
		return p.Out.Line(r)
	}
	p.Out.Printf("verified %s: decisions %d to %d, %s to %s\n", cli.Plain(name), r.First, r.Last, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	if r.First > 1 {
		p.Out.Printf("It is partial: of the decisions before %d it has only hashes.\n", r.First)
	}
	p.Out.Printf("\n")
	var rows [][]string
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		rows = append(rows, []string{kind, strconv.FormatUint(r.Kinds[kind], 10)})
	}
	p.Out.Table([]string{"kind", "decisions"}, rows)
	if len(r.Channels) > 0 {
		rows = nil
		for _, c := range r.Channels {
			rows = append(rows, []string{c.Controller + " ← " + c.Reader, strconv.FormatUint(c.Decisions, 10)})
		}
		p.Out.Printf("\n")
		p.Out.Table([]string{"channel", "decisions"}, rows)
	}
	p.Out.Printf("\ncheckpoint of %s over %d decisions, root %s\n", cli.Plain(s.Checkpoint.Origin), s.Checkpoint.Size, base64.StdEncoding.EncodeToString(s.Checkpoint.Root[:]))
	for _, w := range cosigned {
		p.Out.Printf("cosigned by %s at %s\n", cli.Plain(w.Name), w.Time.Format(time.RFC3339))
	}
	return nil
}
