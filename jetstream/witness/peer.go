package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// Errors of Cosign when the witness has answered.
var (
	// ErrRolledBack says that the witness has cosigned a larger tree of this log: the log
	// was rolled back.
	ErrRolledBack = errors.New("the witness has seen more of this journal than there is")
	// ErrForked says that the witness has cosigned a tree that this one does not continue.
	ErrForked = errors.New("the witness has seen another history of this journal")
	// ErrUnknownLog says that the witness does not know the log, or its key.
	ErrUnknownLog = errors.New("the witness does not know this log: give it the key (bcpmesh audit key)")
)

// Peer is a witness to ask for cosignatures. It is immutable.
type Peer struct {
	Name string // of its key
	Key  string // its verifier key
	url  string

	verifier note.Verifier
	client   *http.Client
}

// ParsePeer reads VKEY=URL: the key of a witness, and the URL prefix of its
// add-checkpoint. A nil client is http.DefaultClient's transport without redirects.
func ParsePeer(s string, client *http.Client) (*Peer, error) {
	at := strings.Index(s, "=http")
	if at < 0 {
		return nil, errors.New("expected KEY=URL")
	}
	key, address := s[:at], s[at+1:]
	v, err := verify.NewWitness(key)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("expected the URL of a witness, such as https://witness.example.org")
	}
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &Peer{Name: v.Name(), Key: key, url: strings.TrimSuffix(address, "/") + "/add-checkpoint", verifier: v, client: client}, nil
}

// Proof proves that a tree of the log continues an earlier one of old leaves.
type Proof func(old int64) (tlog.TreeProof, error)

// maxTries is how often a witness is asked for one checkpoint: meanwhile another process
// of the log may ask it.
const maxTries = 4

// Cosign asks for the cosignature of a signed checkpoint. old is the size of the last one
// that the witness is known to have cosigned. It returns the verified signature line. The
// error wraps ErrRolledBack, ErrForked or ErrUnknownLog, or says why the witness could
// not be asked. seen is the size of the newest tree that the witness says it has
// cosigned, 0 if it did not say.
func (p *Peer) Cosign(ctx context.Context, signed []byte, old int64, prove Proof) (line []byte, seen int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("witness %s: %w", p.Name, err)
		}
	}()
	c, err := parseCheckpoint(signed)
	if err != nil {
		return nil, 0, err
	}
	old = min(max(0, old), c.tree.N)
	for range maxTries {
		r := request{old: old, note: signed}
		if old > 0 && old < c.tree.N {
			if r.proof, err = prove(old); err != nil {
				return nil, seen, err
			}
		}
		reply, err := p.post(ctx, r.encode())
		if err != nil {
			return nil, seen, err
		}
		switch reply.Status {
		case http.StatusOK:
			line, err := p.own(signed, reply.Body)
			return line, c.tree.N, err
		case http.StatusConflict:
			size, err := parseSize(strings.TrimSuffix(string(reply.Body), "\n"))
			switch {
			case err != nil && old == c.tree.N, err == nil && size == old:
				return nil, old, ErrForked
			case err != nil:
				return nil, seen, errors.New("its answer cannot be read")
			case size > c.tree.N:
				return nil, size, fmt.Errorf("%w: %d decisions, and here are %d", ErrRolledBack, size, c.tree.N)
			}
			old, seen = size, size
		case http.StatusUnprocessableEntity:
			return nil, old, ErrForked
		case http.StatusNotFound, http.StatusForbidden:
			return nil, seen, ErrUnknownLog
		default:
			return nil, seen, fmt.Errorf("it answers with status %d", reply.Status)
		}
	}
	return nil, seen, errors.New("others query it at the same time")
}

func (p *Peer) post(ctx context.Context, body []byte) (Reply, error) {
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	out, err := p.client.Do(in)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = out.Body.Close() }() // it was read
	content, err := io.ReadAll(io.LimitReader(out.Body, maxBody))
	return Reply{Status: out.StatusCode, Body: content}, err
}

// own returns the line of an answer with this witness's cosignature.
func (p *Peer) own(signed, lines []byte) ([]byte, error) {
	n, err := note.Open(append(bytes.Clone(signed), lines...), note.VerifierList(p.verifier))
	if err != nil || len(n.Sigs) == 0 {
		return nil, errors.New("its answer is not its cosignature")
	}
	return fmt.Appendf(nil, "— %s %s\n", n.Sigs[0].Name, n.Sigs[0].Base64), nil
}
