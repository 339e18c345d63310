package audit

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	tlogwitness "github.com/bcpmesh/bcpmesh/jetstream/witness"
)

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
