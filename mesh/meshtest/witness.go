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

	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

// Witness is a small stand-in for the stock witnesses of C2SP tlog-witness, of one log and
// in memory. It cosigns the checkpoints of its log, each only with a proof that it continues the
// one before. It is an HTTP handler of add-checkpoint below any prefix, safe for concurrent
// use.
type Witness struct {
	Key string // the verifier key of its cosignatures

	name, log string // log is the verifier key of its log
	private   ed25519.PrivateKey

	mu     sync.Mutex
	newest verify.Checkpoint
}

// NewWitness returns a witness of the log with this verifier key.
func NewWitness(name, log string) (*Witness, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return &Witness{Key: verify.CosignerKey(name, public), name: name, private: private, log: log}, verify.CheckKey(log)
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
	lines := strings.Split(string(head), "\n")
	var old uint64
	if _, err := fmt.Sscanf(lines[0], "old %d", &old); err != nil {
		return http.StatusBadRequest, nil
	}
	c, err := verify.OpenCheckpoint(signed, []string{w.log})
	if err != nil { // of another log, perhaps
		return http.StatusForbidden, nil
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, nil
		}
		proof = append(proof, h)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case old != w.newest.Size, c.Size == old && old > 0 && c.Root != w.newest.Root:
		return http.StatusConflict, fmt.Appendf(nil, "%d\n", w.newest.Size)
	case old > 0 && old != c.Size && tlog.CheckTree(proof, int64(c.Size), tlog.Hash(c.Root), int64(old), tlog.Hash(w.newest.Root)) != nil:
		return http.StatusUnprocessableEntity, nil
	}
	w.newest = c
	text, _, _ := bytes.Cut(signed, []byte("\n\n"))
	seconds := uint64(time.Now().Unix())
	line := binary.BigEndian.AppendUint32(nil, verify.CosignerHash(w.name, w.private.Public().(ed25519.PublicKey)))
	line = binary.BigEndian.AppendUint64(line, seconds)
	line = append(line, ed25519.Sign(w.private, verify.CosignedMessage(append(text, '\n'), seconds))...)
	return http.StatusOK, fmt.Appendf(nil, "— %s %s\n", w.name, base64.StdEncoding.EncodeToString(line))
}
