package audit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// verifyResult is what audit verify says of one file.
type verifyResult struct {
	File     string            `json:"file"`
	Verified bool              `json:"verified"`
	Fault    *verify.Fault     `json:"fault,omitempty"`
	First    uint64            `json:"first,omitzero"`
	Last     uint64            `json:"last,omitzero"`
	From     time.Time         `json:"from,omitzero"`
	To       time.Time         `json:"to,omitzero"`
	Kinds    map[string]uint64 `json:"kinds,omitempty"`
	Channels []verify.Channel  `json:"channels,omitempty"`
	// Checkpoint is what was signed.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Witnesses have cosigned it, of those that were asked for.
	Witnesses []verify.Cosignature `json:"witnesses,omitempty"`
}

// verification verifies files.
type verification struct {
	Key, Since []string
	Decision   uint64
	quorum
}

func (f *verification) Run(ctx context.Context, p *cli.Program, files []string) error {
	switch {
	case len(files) == 0:
		return cli.Usagef("audit verify: expected FILE").WithHint("bcpmesh audit verify --help shows an example")
	case f.Decision > 0 && (len(f.Since) > 0 || len(files) > 1):
		return cli.Usagef("audit verify: --decision takes one FILE, and no --since")
	case len(f.Key) == 0:
		return cli.Usagef("audit verify: --key is needed").WithHint(logKeyHint)
	}
	var o verify.Options
	var err error
	if o.Keys, err = keysOrFiles("--key", f.Key, verify.CheckKey, logKeyHint); err != nil {
		return err
	}
	if err := f.quorum.read(); err != nil {
		return err
	}
	if f.Decision > 0 {
		return verifyProof(p, files[0], f.Decision, o.Keys, f.quorum)
	}
	for _, name := range f.Since {
		content, err := cli.ReadFile(name, cli.MaxSmallFile)
		if err != nil {
			return err
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
		cosigned, err := f.quorum.check(name, s.Signed, o.Keys)
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

func verifyFile(p *cli.Program, ctx context.Context, name string, o verify.Options) (verify.Summary, error) {
	f, err := disk.OpenFile(name)
	if err != nil {
		return verify.Summary{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return verify.Summary{}, err
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
		shown := *fault
		shown.Within = max(fault.Within, 0)
		if err := p.Out.Value(verifyResult{File: name, Fault: &shown}); err != nil {
			return err
		}
	}
	failure := cli.Failf("%s is not what was signed: %s", cli.Quoted(name), fault)
	if fault.Decision > 0 {
		return failure.WithHint("nothing from decision %d to the end of the file is proven: export it again, or from a backup", fault.Decision)
	}
	return failure
}

func showVerified(p *cli.Program, name string, s verify.Summary, cosigned []verify.Cosignature) error {
	r := verifyResult{File: name, Verified: true, First: s.First, Last: s.Last, From: s.From, To: s.To,
		Kinds: make(map[string]uint64), Channels: s.Channels, Checkpoint: string(s.Signed), Witnesses: cosigned}
	for kind, n := range s.Kinds {
		r.Kinds[bcp.DecisionKind(kind).String()] += n
	}
	return p.Out.Show(r, func() {
		p.Out.Printf("verified %s: decisions %d to %d, %s to %s\n", cli.Plain(name), r.First, r.Last, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
		if r.First > 1 {
			p.Out.Printf("It is partial: of the decisions before %d it has only hashes.\n", r.First)
		}
		p.Out.Printf("checkpoint of %s over %d decisions, root %s\n", cli.Plain(s.Checkpoint.Origin), s.Checkpoint.Size, base64.StdEncoding.EncodeToString(s.Checkpoint.Root[:]))
		showCosigned(p.Out, cosigned)
	})
}

func showCosigned(o *cli.Output, cosigned []verify.Cosignature) {
	for _, w := range cosigned {
		o.Printf("cosigned by %s at %s\n", cli.Plain(w.Witness), w.Time.Format(time.RFC3339))
	}
}

// exportProof writes a proof that a decision was made.
func exportProof(ctx context.Context, p *cli.Program, where meshdir.StateFlags, number uint64) error {
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return err
	}
	defer j.Close()
	tree := mesh.Tree(j.Folder.State)
	if _, err := tree.Newest(); err != nil {
		return failure(err, j.Folder.State)
	}
	var decision []byte
	var next uint64 // number of the decision that is due
	err = j.Records(ctx, 0, 0, func(r jetstream.Record) error {
		if next == 0 { // a journal may begin later
			first, err := bcp.DecodeDecision(r.Decisions[0])
			if err != nil {
				return err
			}
			if next = first.Seq; number < next {
				return cli.Failf("decision %d was cut off the journal, which begins with decision %d", number, next).WithHint("bcpmesh restore rebuilds the whole journal from backups: prove it there")
			}
		}
		if number-next < uint64(len(r.Decisions)) {
			decision = r.Decisions[number-next]
			return errTold
		}
		next += uint64(len(r.Decisions))
		return nil
	})
	if err != nil && !errors.Is(err, errTold) {
		return failure(err, j.Folder.State)
	}
	proof, err := tree.Prove(number, decision)
	if err != nil {
		return failure(err, j.Folder.State)
	}
	return p.Out.Show(map[string]string{"proof": string(proof)}, func() { p.Out.Printf("%s", proof) })
}

// provenResult is what audit verify --decision says of one file.
type provenResult struct {
	File       string    `json:"file"`
	Verified   bool      `json:"verified"`
	Decision   uint64    `json:"decision"`
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	Controller string    `json:"controller,omitempty"`
	Reader     string    `json:"reader,omitempty"`
	Digest     string    `json:"digest"` // by which the next decision names it
	Of         uint64    `json:"of"`     // decisions of the checkpoint
	// Witnesses have cosigned that, of those that were asked for.
	Witnesses []verify.Cosignature `json:"witnesses,omitempty"`
}

func verifyProof(p *cli.Program, name string, decision uint64, keys []string, quorum quorum) error {
	content, err := cli.ReadFile(name, 2*verify.MaxBlock) // the longest holds a decision of a full message in base64
	if err != nil {
		return err
	}
	proven, err := verify.Proof(content, keys)
	if err != nil {
		return cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
	}
	if proven.Decision != decision {
		return cli.Failf("%s proves decision %d, and not %d", cli.Quoted(name), proven.Decision, decision)
	}
	_, signed, _ := strings.Cut(string(content), "\n\n")
	cosigned, err := quorum.check(name, []byte(signed), keys)
	if err != nil {
		return err
	}
	r := provenResult{name, true, proven.Decision, proven.Time, bcp.DecisionKind(proven.Kind).String(), proven.Controller, proven.Reader,
		fmt.Sprintf("%x", bcp.RecordDigest(proven.Bytes)), proven.Checkpoint.Size, cosigned}
	return p.Out.Show(r, func() {
		p.Out.Printf("verified %s: decision %d of %d, %s at %s", cli.Plain(name), r.Decision, r.Of, r.Kind, r.Time.Format(time.RFC3339))
		if r.Controller != "" && r.Reader != "" {
			p.Out.Printf(", %s ← %s", cli.Plain(r.Controller), cli.Plain(r.Reader))
		}
		p.Out.Printf("\ndigest %s\n", r.Digest)
		showCosigned(p.Out, cosigned)
	})
}

// keysOrFiles replaces names of files by what is in them. Where a text is neither a key
// that check lets pass nor the name of a file, hint says where to get one.
func keysOrFiles(flag string, list []string, check func(key string) error, hint string) ([]string, error) {
	var keys []string
	for _, key := range list {
		content := []byte(key)
		if check(strings.TrimSpace(key)) != nil {
			var err error
			content, err = cli.ReadSmall(key)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil, cli.Failf("%s %s: it is no key, and there is no file of this name", flag, cli.Quoted(key)).WithHint("%s", hint)
			case err != nil:
				return nil, cli.Failf("%s cannot be read: %s", cli.Quoted(key), cli.FileReason(err))
			}
		}
		keys = append(keys, strings.TrimSpace(string(content)))
	}
	return keys, nil
}

const (
	logKeyHint     = "bcpmesh audit key shows it, on the machine of the mesh"
	witnessKeyHint = "whoever runs the witness publishes it"
)

func checkWitnessKey(key string) error {
	_, err := verify.NewWitness(key)
	return err
}

// WitnessFlags are the witnesses that a mesh asks.
type WitnessFlags struct{ Witness []string }

func (f *WitnessFlags) Peers(command string) ([]*mesh.Witness, error) {
	var peers []*mesh.Witness
	names := make(map[string]bool)
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, s := range f.Witness {
		peer, err := mesh.ParseWitness(s, client)
		if err != nil {
			return nil, cli.Usagef("%s: --witness: %s, got %s", command, cli.Plain(err.Error()), cli.Quoted(s)).
				WithHint("whoever runs the witness publishes its key; as in --witness \"$(cat key.pub)=http://witness.example.org:8053\"")
		}
		if names[peer.Name] {
			return nil, cli.Usagef("%s: --witness: %s is there twice", command, cli.Quoted(peer.Name))
		}
		names[peer.Name] = true
		peers = append(peers, peer)
	}
	return peers, nil
}

// cosignFailure says what witnesses said of a checkpoint.
func cosignFailure(err error) error {
	f := cli.Failf("not cosigned: %s", cli.Plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	if errors.Is(err, mesh.ErrRolledBack) || errors.Is(err, mesh.ErrForked) {
		return f.WithHint("this journal is not the one that the witness has seen: it was rolled back or rewritten")
	}
	return f
}

// quorum is how many witnesses must have cosigned what is verified.
type quorum struct {
	Witness []string // their keys
	Quorum  int
}

// read reads the files of the keys, and sets the default.
func (q *quorum) read() (err error) {
	if q.Quorum < 0 || q.Quorum > len(q.Witness) {
		return cli.Usagef("audit verify: --quorum is %d, and the keys given are %d", q.Quorum, len(q.Witness)).WithHint("name each witness with --witness")
	}
	if q.Quorum == 0 {
		q.Quorum = len(q.Witness)
	}
	q.Witness, err = keysOrFiles("--witness", q.Witness, checkWitnessKey, witnessKeyHint)
	return err
}

// check returns who has cosigned a checkpoint, where enough have.
func (q *quorum) check(name string, signed []byte, keys []string) (cosigned []verify.Cosignature, err error) {
	if q.Quorum == 0 {
		return nil, nil
	}
	c, cosigned, err := verify.Cosigned(signed, keys, q.Witness)
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
	}
	if len(cosigned) < q.Quorum {
		return nil, cli.Failf("%s: its checkpoint over %d decisions was cosigned by %d of the witnesses, and must be by %d", cli.Quoted(name), c.Size, len(cosigned), q.Quorum).
			WithHint("bcpmesh audit export --witnessed ends with a checkpoint that a witness has cosigned")
	}
	return cosigned, nil
}
