package audit

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	tlogwitness "github.com/bcpmesh/bcpmesh/jetstream/witness"
)

// witnessing is what a running witness tells about itself.
type witnessing struct {
	URL  string   `json:"url"`
	Key  string   `json:"key"`
	Logs []string `json:"logs"`
}

// WitnessCommand returns the command witness.
func WitnessCommand(p *cli.Program) *cobra.Command {
	var store, listen, name, readyFile string
	var logs []string
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the checkpoints of meshes",
		Long: `Run a witness, until interrupted: it cosigns the checkpoints of the logs that it is
given (C2SP tlog-witness, add-checkpoint), each only with a proof that it continues
the one before. So the owner of a log can neither show two histories of it nor roll
it back unnoticed. It sees sizes and hashes, never a decision.

Run it on a machine that the mesh's operator does not own. --log is the public key of
a mesh ("bcpmesh audit key"), or of any other log that signs C2SP checkpoints.

The store has the witness's key and the newest checkpoint of each log. Do not
restore it from a backup: a witness that has forgotten what it cosigned could cosign
another history. If a store is lost, begin with a new one, which has a new key.

No TLS is needed: requests and answers are signed and contain no decisions. Put a
proxy in front if sizes and times must not be seen.`,
		Example: `  bcpmesh witness --store ./witness --listen 0.0.0.0:8053 --log "$(cat office.key)"
  bcpmesh up --witness "$(cat key.pub)=http://witness.example.org:8053"`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWitness(cmd.Context(), p, store, listen, readyFile, tlogwitness.Options{Logs: logs, Name: name})
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "`DIR` with the key and what was cosigned, created if missing")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8053", "`HOST:PORT` to serve on; port 0 means any free one")
	cmd.Flags().StringArrayVar(&logs, "log", nil, "public `KEY` of a log, or a file with it; may be repeated")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of a new key, such as witness.example.org/1 (default a random one)")
	cmd.Flags().StringVar(&readyFile, "ready-file", "", "write {url, key, logs} to `FILE` once it serves")
	cli.Complete(cmd, "store", cli.CompleteFolders)
	return cmd
}

func runWitness(ctx context.Context, p *cli.Program, store, listen, readyFile string, o tlogwitness.Options) (err error) {
	switch {
	case store == "":
		return cli.Usagef("witness: --store is needed").WithHint("it keeps the witness's key and what was cosigned")
	case len(o.Logs) == 0:
		return cli.Usagef("witness: --log is needed").WithHint(logKeyHint)
	}
	if o.Logs, err = keysOrFiles("--log", o.Logs, verify.CheckKey, logKeyHint); err != nil {
		return err
	}
	if err := meshdir.PrepareReady(readyFile); err != nil {
		return err
	}
	o.Log = cli.NewLogger(hclog.Warn, p.Out.Stderr)
	w, err := tlogwitness.Open(store, o)
	if err != nil {
		return witnessFailure(err, store)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return cli.Failf("--listen %s: %s", cli.Quoted(listen), cli.FileReason(err))
	}
	server := w.Server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	about := witnessing{URL: "http://" + listener.Addr().String(), Key: w.Key(), Logs: w.Origins()}
	if err := meshdir.WriteReady(readyFile, about); err != nil {
		return errors.Join(cli.Failf("%s cannot be written: %s", cli.Quoted(readyFile), cli.FileReason(err)), tlogwitness.Stop(ctx, server))
	}
	if readyFile != "" {
		defer func() { _ = os.Remove(readyFile) }() // it is gone where somebody else removed it
	}
	if p.Out.JSON {
		err = p.Out.Line(about)
	} else {
		p.Out.Talkf("cosigns %s at %s", cli.Count(len(about.Logs), "log"), about.URL)
		p.Out.Talkf("its key is in %s: give it to those who verify, and to the mesh: bcpmesh up --witness %s=%s",
			filepath.Join(store, tlogwitness.PublicFile), about.Key, about.URL)
	}
	if err == nil {
		err = p.Out.Stdout.Flush()
	}
	select {
	case <-ctx.Done():
	case failed := <-served:
		err = errors.Join(err, failed)
	}
	stop, cancel := context.WithTimeout(context.Background(), cli.StopTimeout)
	defer cancel()
	return errors.Join(err, tlogwitness.Stop(stop, server))
}

func witnessFailure(err error, store string) error {
	f := cli.Failf("%s", cli.Plain(err.Error()))
	switch {
	case errors.Is(err, tlogwitness.ErrInUse):
		return cli.Failf("a witness runs on %s", cli.Quoted(store)).WithHint("stop it first, or name another folder with --store")
	case errors.Is(err, tlogwitness.ErrStore):
		return f.WithHint("begin with a new --store: its key is new, and the old one must no longer be trusted")
	case errors.Is(err, tlogwitness.ErrKey):
		return f.WithHint("leave --name out, or name another folder with --store")
	}
	return f
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
	witnessKeyHint = "it is in key.pub of the witness's store"
)

func checkWitnessKey(key string) error {
	_, err := verify.NewWitness(key)
	return err
}

// WitnessFlags are the witnesses that a mesh asks.
type WitnessFlags struct{ list []string }

func (f *WitnessFlags) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.list, "witness", nil, "`KEY=URL` of a witness that cosigns checkpoints; may be repeated")
}

func (f *WitnessFlags) Peers(command string) ([]*tlogwitness.Peer, error) {
	var peers []*tlogwitness.Peer
	names := make(map[string]bool)
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, s := range f.list {
		peer, err := tlogwitness.ParsePeer(s, client)
		if err != nil {
			return nil, cli.Usagef("%s: --witness: %s, got %s", command, cli.Plain(err.Error()), cli.Quoted(s)).
				WithHint("the key is in key.pub of the witness's store; as in --witness \"$(cat key.pub)=http://witness.example.org:8053\"")
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
	if errors.Is(err, tlogwitness.ErrRolledBack) || errors.Is(err, tlogwitness.ErrForked) {
		return f.WithHint("this journal is not the one that the witness has seen: it was rolled back or rewritten")
	}
	return f
}

// quorum is how many witnesses must have cosigned what is verified.
type quorum struct {
	keys []string
	need int
}

func (q *quorum) addTo(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&q.keys, "witness", nil, "public `KEY` of a witness, or a file with it; may be repeated")
	cmd.Flags().IntVar(&q.need, "quorum", 0, "how many of the witnesses must have cosigned (default all)")
}

// read reads the files of the keys, and sets the default.
func (q *quorum) read() (err error) {
	if q.need < 0 || q.need > len(q.keys) {
		return cli.Usagef("audit verify: --quorum is %d, and the keys given are %d", q.need, len(q.keys)).WithHint("name each witness with --witness")
	}
	if q.need == 0 {
		q.need = len(q.keys)
	}
	q.keys, err = keysOrFiles("--witness", q.keys, checkWitnessKey, witnessKeyHint)
	return err
}

// check returns who has cosigned a checkpoint, where enough have.
func (q *quorum) check(name string, signed []byte, keys []string) (cosigned []verifyWitness, err error) {
	if q.need == 0 {
		return nil, nil
	}
	c, list, err := verify.Cosigned(signed, keys, q.keys)
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
	}
	for _, w := range list {
		cosigned = append(cosigned, verifyWitness{w.Witness, w.Time})
	}
	if len(cosigned) < q.need {
		return nil, cli.Failf("%s: its checkpoint over %d decisions was cosigned by %d of the witnesses, and must be by %d", cli.Quoted(name), c.Size, len(cosigned), q.need).
			WithHint("bcpmesh audit export --witnessed ends with a checkpoint that a witness has cosigned")
	}
	return cosigned, nil
}
