package witness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
)

// Folders of a store: a file for each log with the newest cosigned checkpoint, and the
// evidence of forks.
const (
	logsFolder  = "logs"
	forksFolder = "forks"
	lockFile    = "lock"
)

// maxForks is how many requests that prove a fork are kept, for all logs.
const maxForks = 1000

// Errors of Open.
var (
	// ErrInUse says that another witness runs on the store.
	ErrInUse = errors.New("a witness runs on this store already")
	// ErrStore says that the cosigned checkpoints cannot be read. The witness stops,
	// since it could cosign a second history.
	ErrStore = errors.New("the store of the witness is damaged")
)

// Options say how a witness runs.
type Options struct {
	// Logs are the public keys of the logs to witness, each in the form of a note's
	// verifier key whose name is the log's origin. At least one is required; several
	// with one name are keys of the same log.
	Logs []string
	// Name is the name of a new key; the default is random. It is an error if the
	// store has a key with another name.
	Name string
	// Now is the clock of cosignatures; nil is the machine's.
	Now func() time.Time
	// Log gets refusals that need a person; nil discards.
	Log hclog.Logger
}

// Witness cosigns checkpoints. Its methods may be used concurrently.
type Witness struct {
	dir  string
	key  *cosigner
	lock *flock.Flock
	logs map[string]*followed
	log  hclog.Logger
}

// followed is a log.
type followed struct {
	keys note.Verifiers

	mu     sync.Mutex // from the look at newest until the next is on disk
	newest tlog.Tree  // newest cosigned tree; N is 0 if there is none
}

// Open opens or creates a store, with its key. One process uses it at a time, until
// Close.
func Open(dir string, o Options) (_ *Witness, err error) {
	if len(o.Logs) == 0 {
		return nil, errors.New("open the witness: it needs the key of a log")
	}
	keys := make(map[string][]note.Verifier)
	for _, key := range o.Logs {
		v, err := note.NewVerifier(key)
		if err != nil {
			return nil, fmt.Errorf("open the witness: the key of a log: %w", err)
		}
		keys[v.Name()] = append(keys[v.Name()], v)
	}
	w := &Witness{dir: dir, logs: make(map[string]*followed), log: o.Log}
	if w.log == nil {
		w.log = hclog.NewNullLogger()
	}
	for _, folder := range []string{dir, filepath.Join(dir, logsFolder), filepath.Join(dir, forksFolder)} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("open the witness: %w", err)
		}
	}
	w.lock = flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	if ok, err := w.lock.TryLock(); !ok {
		return nil, fmt.Errorf("open the witness: %w", errors.Join(ErrInUse, err))
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the witness: %w", errors.Join(err, w.Close()))
		}
	}()
	if w.key, err = openKey(dir, o.Name); err != nil {
		return nil, err
	}
	if w.key.now = o.Now; w.key.now == nil {
		w.key.now = time.Now
	}
	for origin, list := range keys {
		newest, err := w.read(origin)
		if err != nil {
			return nil, err
		}
		w.logs[origin] = &followed{keys: note.VerifierList(list...), newest: newest}
	}
	return w, durable.SyncFolder(dir)
}

// Close lets go of the store. No call of Add may run.
func (w *Witness) Close() error { return w.lock.Close() }

// Key returns the public key that verifies the cosignatures, in the form of a note's
// verifier key.
func (w *Witness) Key() string { return w.key.public() }

// Origins are the names of the logs, sorted.
func (w *Witness) Origins() []string {
	var names []string
	for name := range w.logs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *Witness) file(origin string) string {
	return filepath.Join(w.dir, logsFolder, fmt.Sprintf("%x", sha256.Sum256([]byte(origin))))
}

// read returns the newest tree of a log in the store. The checkpoint was verified when it
// was written, perhaps with a key that is no longer known.
func (w *Witness) read(origin string) (tlog.Tree, error) {
	content, err := os.ReadFile(w.file(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return tlog.Tree{}, nil
	}
	if err != nil {
		return tlog.Tree{}, err
	}
	c, err := parseCheckpoint(content)
	if err != nil || c.origin != origin {
		return tlog.Tree{}, fmt.Errorf("%w: %s", ErrStore, w.file(origin))
	}
	return c.tree, nil
}

// Reply is the response of add-checkpoint.
type Reply struct {
	Status      int // of HTTP
	ContentType string
	Body        []byte // signature lines if Status is 200
}

const sizeType = "text/x.tlog.size"

func refusal(status int, reason string) Reply {
	return Reply{status, "text/plain; charset=utf-8", []byte(reason + "\n")}
}

func conflict(size int64) Reply {
	return Reply{http.StatusConflict, sizeType, fmt.Appendf(nil, "%d\n", size)}
}

// Add decides about the body of one request. What it cosigns is on disk when it returns.
func (w *Witness) Add(body []byte) Reply {
	r, err := parseRequest(body)
	if err != nil {
		return refusal(http.StatusBadRequest, err.Error())
	}
	log, ok := w.logs[r.origin]
	if !ok {
		return refusal(http.StatusNotFound, "this log is not witnessed here")
	}
	signed, err := note.Open(r.note, log.keys)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified), errors.As(err, &invalid):
		return refusal(http.StatusForbidden, "no known key of the log has signed the checkpoint")
	case err != nil:
		return refusal(http.StatusBadRequest, "the checkpoint is no signed note")
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if refused := judge(&r, log.newest); refused != nil {
		if r.forks(log.newest) {
			w.keepFork(r.origin, body)
		}
		return *refused
	}
	line := w.key.line([]byte(signed.Text))
	cosigned := slices.Concat(r.note, line)
	if err := durable.Replace(w.file(r.origin), cosigned, 0o600); err != nil {
		w.log.Error("a checkpoint could not be stored, and was not cosigned", "log", r.origin, "error", err)
		// The new file may exist all the same; if so it counts.
		if stored, err := w.read(r.origin); err == nil && stored.N > log.newest.N {
			log.newest = stored
		}
		return refusal(http.StatusInternalServerError, "the checkpoint could not be stored")
	}
	log.newest = r.tree
	return Reply{http.StatusOK, "text/plain; charset=utf-8", line}
}

// emptyRoot is the root of a tree without leaves (RFC 6962).
var emptyRoot = tlog.Hash(sha256.Sum256(nil))

// judge says why a request signed by the log is refused, nil if it is not: it must
// continue the newest cosigned tree.
func judge(r *request, newest tlog.Tree) *Reply {
	refused := func(reply Reply) *Reply { return &reply }
	noProof := refusal(http.StatusUnprocessableEntity, "the proof does not show that the checkpoint continues the newest one")
	switch {
	case r.old > r.tree.N:
		return refused(refusal(http.StatusBadRequest, "the old size is larger than that of the checkpoint"))
	case r.old != newest.N:
		return refused(conflict(newest.N))
	case r.tree.N == 0 && r.tree.Hash != emptyRoot:
		return refused(noProof)
	case r.tree.N == newest.N && r.tree.N > 0 && r.tree.Hash != newest.Hash:
		return refused(conflict(newest.N))
	case r.old == 0 || r.old == r.tree.N:
		if len(r.proof) > 0 {
			return refused(noProof)
		}
	case tlog.CheckTree(r.proof, r.tree.N, r.tree.Hash, newest.N, newest.Hash) != nil:
		return refused(noProof)
	}
	return nil
}

// forks reports whether the log has signed two trees of one size.
func (r *request) forks(newest tlog.Tree) bool {
	return newest.N > 0 && r.tree.N == newest.N && r.tree.Hash != newest.Hash
}

// keepFork stores a request that proves, together with the newest checkpoint, that a log
// has forked: making one needs the log's key.
func (w *Witness) keepFork(origin string, body []byte) {
	w.log.Error("the log has signed two histories", "log", origin, "kept in", filepath.Join(w.dir, forksFolder))
	kept, err := os.ReadDir(filepath.Join(w.dir, forksFolder))
	if err != nil || len(kept) >= 2*maxForks {
		return
	}
	first, err := os.ReadFile(w.file(origin))
	if err != nil {
		return
	}
	name := filepath.Join(w.dir, forksFolder, fmt.Sprintf("%x", sha256.Sum256(body)))
	for suffix, content := range map[string][]byte{".cosigned": first, ".refused": body} {
		if err := durable.Create(name+suffix, content, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			w.log.Error("what shows the fork could not be kept", "log", origin, "error", err)
		}
	}
}

// maxBody is how long a request may be.
const maxBody = 16 << 10

// ServeHTTP serves add-checkpoint below any prefix.
func (w *Witness) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	reply := Reply{Status: http.StatusNotFound}
	switch {
	case !strings.HasSuffix(in.URL.Path, "/add-checkpoint"):
	case in.Method != http.MethodPost:
		out.Header().Set("Allow", http.MethodPost)
		reply.Status = http.StatusMethodNotAllowed
	default:
		body, err := io.ReadAll(http.MaxBytesReader(out, in.Body, maxBody))
		if err != nil {
			reply = refusal(http.StatusBadRequest, "the request could not be read, or is longer than 16 KiB")
		} else {
			reply = w.Add(body)
		}
	}
	if reply.ContentType != "" {
		out.Header().Set("Content-Type", reply.ContentType)
	}
	out.WriteHeader(reply.Status)
	_, _ = out.Write(reply.Body) // the client may be gone
}

// Timeouts of a connection: slower clients must retry.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
)

// Server returns the HTTP server of the witness. The caller starts and stops it.
func (w *Witness) Server() *http.Server {
	return &http.Server{Handler: w, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxBody, ErrorLog: w.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})}
}

// Stop stops a server of [Witness.Server] once its requests are answered, or ctx ends.
func Stop(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}
