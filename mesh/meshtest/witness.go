package meshtest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// Witness is a small stand-in for the stock witnesses of C2SP tlog-witness, of one log and
// in memory. It cosigns the checkpoints of its log, each only with a proof that it continues the
// one before. It is an HTTP handler of add-checkpoint below any prefix, safe for concurrent
// use.
type Witness struct {
	Key string // the verifier key of its cosignatures

	name    string
	private ed25519.PrivateKey
	log     note.Verifier

	mu     sync.Mutex
	newest tlog.Tree
}

// NewWitness returns a witness of the log with this verifier key.
func NewWitness(name, log string) (*Witness, error) {
	known, err := note.NewVerifier(log)
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return &Witness{Key: verify.CosignerKey(name, public), name: name, private: private, log: known}, nil
}

// ServeHTTP implements http.Handler.
func (w *Witness) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(io.LimitReader(in.Body, 16<<10))
	if err != nil || in.Method != http.MethodPost || !strings.HasSuffix(in.URL.Path, "/add-checkpoint") {
		http.Error(out, "not add-checkpoint", http.StatusNotFound)
		return
	}
	status, reply := w.add(body)
	out.WriteHeader(status)
	_, _ = out.Write(reply) // the client may be gone
}

func (w *Witness) add(body []byte) (status int, reply []byte) {
	head, signed, _ := bytes.Cut(body, []byte("\n\n"))
	var old, size int64
	var origin, root string
	if _, err := fmt.Sscanf(string(head), "old %d", &old); err != nil {
		return http.StatusBadRequest, nil
	}
	if _, err := fmt.Sscanf(string(signed), "%s\n%d\n%s\n", &origin, &size, &root); err != nil {
		return http.StatusBadRequest, nil
	}
	if origin != w.log.Name() {
		return http.StatusNotFound, nil
	}
	n, err := note.Open(signed, note.VerifierList(w.log))
	if err != nil {
		return http.StatusForbidden, nil
	}
	hash, err := tlog.ParseHash(root)
	if err != nil {
		return http.StatusBadRequest, nil
	}
	var proof tlog.TreeProof
	for _, line := range strings.Split(string(head), "\n")[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, nil
		}
		proof = append(proof, h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case old != w.newest.N, size == old && old > 0 && hash != w.newest.Hash:
		return http.StatusConflict, fmt.Appendf(nil, "%d\n", w.newest.N)
	case old > 0 && old != size && tlog.CheckTree(proof, size, hash, old, w.newest.Hash) != nil:
		return http.StatusUnprocessableEntity, nil
	}
	w.newest = tlog.Tree{N: size, Hash: hash}
	seconds := uint64(time.Now().Unix())
	line := binary.BigEndian.AppendUint32(nil, verify.CosignerHash(w.name, w.private.Public().(ed25519.PublicKey)))
	line = binary.BigEndian.AppendUint64(line, seconds)
	line = append(line, ed25519.Sign(w.private, verify.CosignedMessage([]byte(n.Text), seconds))...)
	return http.StatusOK, fmt.Appendf(nil, "— %s %s\n", w.name, base64.StdEncoding.EncodeToString(line))
}
