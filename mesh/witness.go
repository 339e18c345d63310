package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
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

// Witness is a witness of logs to ask for cosignatures (C2SP tlog-witness,
// https://c2sp.org/tlog-witness). Somebody else runs it. It cosigns a checkpoint only with a
// proof that it continues the newest one that it has cosigned of that log, so nobody who
// trusts it can be shown two histories of one log, or a rolled-back one. It sees sizes and
// hashes, never a decision. It is immutable.
type Witness struct {
	Name string // of its key
	Key  string // its verifier key
	url  string

	verifier note.Verifier
	client   *http.Client
}

// ParseWitness reads VKEY=URL: the key of a witness, and the URL prefix of its
// add-checkpoint. A nil client is http.DefaultClient's transport without redirects.
func ParseWitness(s string, client *http.Client) (*Witness, error) {
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
	return &Witness{Name: v.Name(), Key: key, url: strings.TrimSuffix(address, "/") + "/add-checkpoint", verifier: v, client: client}, nil
}

// maxTries is how often a witness is asked for one checkpoint: meanwhile another process
// of the log may ask it.
const maxTries = 4

// Cosign asks for the cosignature of a signed checkpoint of so many leaves. old is the size of the last one
// that the witness is known to have cosigned, and prove proves that the checkpoint's tree
// continues that of old leaves. It returns the verified signature line. The
// error wraps ErrRolledBack, ErrForked or ErrUnknownLog, or says why the witness could
// not be asked. seen is the size of the newest tree that the witness says it has
// cosigned, 0 if it did not say.
func (w *Witness) Cosign(ctx context.Context, signed []byte, size, old int64, prove func(old int64) (tlog.TreeProof, error)) (line []byte, seen int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("witness %s: %w", w.Name, err)
		}
	}()
	old = min(max(0, old), size)
	for range maxTries {
		var proof tlog.TreeProof
		if old > 0 && old < size {
			if proof, err = prove(old); err != nil {
				return nil, seen, err
			}
		}
		status, reply, err := w.post(ctx, request(old, proof, signed))
		if err != nil {
			return nil, seen, err
		}
		switch status {
		case http.StatusOK:
			line, err := w.own(signed, reply)
			return line, size, err
		case http.StatusConflict:
			newest, err := parseSize(strings.TrimSuffix(string(reply), "\n"))
			switch {
			case err != nil && old == size, err == nil && newest == old:
				return nil, old, ErrForked
			case err != nil:
				return nil, seen, errors.New("its answer cannot be read")
			case newest > size:
				return nil, newest, fmt.Errorf("%w: %d decisions, and here are %d", ErrRolledBack, newest, size)
			}
			old, seen = newest, newest
		case http.StatusUnprocessableEntity:
			return nil, old, ErrForked
		case http.StatusNotFound, http.StatusForbidden:
			return nil, seen, ErrUnknownLog
		default:
			return nil, seen, fmt.Errorf("it answers with status %d", status)
		}
	}
	return nil, seen, errors.New("others query it at the same time")
}

// maxBody bounds what is read of an answer.
const maxBody = 16 << 10

func (w *Witness) post(ctx context.Context, body []byte) (status int, reply []byte, err error) {
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	out, err := w.client.Do(in)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = out.Body.Close() }() // it was read
	reply, err = io.ReadAll(io.LimitReader(out.Body, maxBody))
	return out.StatusCode, reply, err
}

// own returns the line of an answer with this witness's cosignature.
func (w *Witness) own(signed, lines []byte) ([]byte, error) {
	n, err := note.Open(append(bytes.Clone(signed), lines...), note.VerifierList(w.verifier))
	if err != nil || len(n.Sigs) == 0 {
		return nil, errors.New("its answer is not its cosignature")
	}
	return fmt.Appendf(nil, "— %s %s\n", n.Sigs[0].Name, n.Sigs[0].Base64), nil
}

// request is the body of add-checkpoint.
func request(old int64, proof tlog.TreeProof, signed []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", old)
	for _, h := range proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	b.WriteByte('\n')
	b.Write(signed)
	return b.Bytes()
}

// parseSize takes the one spelling of a size.
func parseSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > math.MaxInt64 || strconv.FormatUint(n, 10) != s {
		return 0, errors.New("malformed")
	}
	return int64(n), nil
}
