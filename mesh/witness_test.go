package mesh_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// testLog is a log in memory. Its leaves are numbers.
type testLog struct {
	signer note.Signer
	key    string
	hashes []tlog.Hash
}

func newLog(t testing.TB, name string) *testLog {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	noError(t, err)
	signer := must(note.NewSigner(private))
	return &testLog{signer: signer, key: public}
}

// ReadHashes is that of a tlog.HashReader.
func (l *testLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var list []tlog.Hash
	for _, i := range indexes {
		list = append(list, l.hashes[i])
	}
	return list, nil
}

func (l *testLog) grow(t testing.TB, to int64, seed string) {
	t.Helper()
	for n := l.size(); n < to; n++ {
		stored := must(tlog.StoredHashes(n, fmt.Appendf(nil, "%s %d", seed, n), l))
		l.hashes = append(l.hashes, stored...)
	}
}

func (l *testLog) size() int64 {
	var n int64
	for tlog.StoredHashCount(n) < int64(len(l.hashes)) {
		n++
	}
	return n
}

// fork is a log with the same key, that has the first n leaves.
func (l *testLog) fork(n int64) *testLog {
	return &testLog{signer: l.signer, key: l.key, hashes: slices.Clone(l.hashes[:tlog.StoredHashCount(n)])}
}

func (l *testLog) checkpoint(t testing.TB, n int64) []byte {
	t.Helper()
	root := must(tlog.TreeHash(n, l))
	return must(note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", l.signer.Name(), n, root)}, l.signer))
}

func (l *testLog) prove(old, n int64) tlog.TreeProof {
	if old <= 0 || old >= n {
		return nil
	}
	proof, err := tlog.ProveTree(n, old, l)
	if err != nil {
		panic(err)
	}
	return proof
}

// serveWitness starts a witness of the log, and returns a peer that asks it.
func serveWitness(t *testing.T, name string, l *testLog) (*meshtest.Witness, *mesh.Witness) {
	t.Helper()
	w := must(meshtest.NewWitness(name, l.key))
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	peer := must(mesh.ParseWitness(w.Key+"="+server.URL+"/prefix/", server.Client()))
	return w, peer
}

// A cosignature is verified with the witness's key, and counts once, whatever name it is
// given.
//
// covers P11.6
func TestCosignature(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 3, "leaf")
	w, peer := serveWitness(t, "witness.example/one", log)
	line, _, err := peer.Cosign(t.Context(), log.checkpoint(t, 3), 3, 0, nil)
	noError(t, err)
	cosigned := append(log.checkpoint(t, 3), line...)
	c, by, err := verify.Cosigned(cosigned, []string{log.key}, []string{w.Key})
	failIf(t, err != nil || c.Size != 3 || len(by) != 1 || by[0].Time.IsZero(), "%+v, %+v, %v", c, by, err)
	_, by, err = verify.Cosigned(append(cosigned, line...), []string{log.key}, []string{w.Key})
	failIf(t, err != nil || len(by) != 1, "twice: %+v, %v", by, err)
	_, _, err = verify.Cosigned(cosigned, []string{log.key}, []string{w.Key, w.Key})
	failIf(t, err == nil, "one key was taken for two witnesses")
	stranger, _, _ := ed25519.GenerateKey(rand.Reader)
	_, by, err = verify.Cosigned(cosigned, []string{log.key}, []string{verify.CosignerKey("other", stranger)})
	failIf(t, err != nil || len(by) != 0, "a stranger's: %+v, %v", by, err)
	name, _, _ := strings.Cut(w.Key, "+")
	_, by, err = verify.Cosigned(cosigned, []string{log.key}, []string{verify.CosignerKey(name, stranger)})
	failIf(t, err != nil || len(by) != 0, "a stranger's of that name: %+v, %v", by, err)
	changed := bytes.Replace(cosigned, []byte("— "+name+" "), []byte("— "+name+"x "), 1)
	_, by, err = verify.Cosigned(changed, []string{log.key}, []string{w.Key})
	failIf(t, err != nil || len(by) != 0, "another name: %+v, %v", by, err)
	for i := len(cosigned) - 60; i < len(cosigned)-6; i++ { // in the signature
		flipped := bytes.Clone(cosigned)
		if flipped[i] = 'A'; bytes.Equal(flipped, cosigned) {
			continue
		}
		_, by, err := verify.Cosigned(flipped, []string{log.key}, []string{w.Key})
		failIf(t, err == nil && len(by) > 0, "a cosignature with another byte %d verifies", i)
	}
}

// A log and a witness over HTTP: the first time, when another process of the log asked
// meanwhile, after the log was set back, and when it forked.
//
// covers P11.6, A-ROLLBACK
func TestWitness(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 30, "leaf")
	w, peer := serveWitness(t, "witness.example/one", log)
	ask := func(l *testLog, n, old int64) error {
		line, seen, err := peer.Cosign(t.Context(), l.checkpoint(t, n), n, old, func(old int64) (tlog.TreeProof, error) { return l.prove(old, n), nil })
		if err == nil {
			_, by, err := verify.Cosigned(append(l.checkpoint(t, n), line...), []string{l.key}, []string{w.Key})
			failIf(t, err != nil || len(by) != 1 || seen != n, "size %d: %v, %v, seen %d", n, by, err, seen)
		}
		return err
	}
	for _, c := range []struct{ n, old int64 }{{5, 0}, {5, 5}, {9, 5}, {20, 0}, {21, 7}, {22, 22}} {
		expect(t, ask(log, c.n, c.old), nil, "%+v", c)
	}
	fails(t, ask(log, 21, 21), mesh.ErrRolledBack, "set back")
	fails(t, ask(log, 3, 0), mesh.ErrRolledBack, "set back")
	other := log.fork(10)
	other.grow(t, 30, "other")
	for _, n := range []int64{22, 30} {
		fails(t, ask(other, n, 0), mesh.ErrForked, "forked at %d", n)
	}
	fails(t, ask(newLog(t, "log.example/b"), 0, 0), mesh.ErrUnknownLog, "unknown")
}

// A server that is no witness, or another one, is not believed.
//
// covers P11.6
func TestWitnessIsNotBelieved(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 30, "leaf")
	w, _ := serveWitness(t, "witness.example/one", log)
	other, _ := serveWitness(t, "witness.example/one", log)
	for name, answer := range map[string]http.HandlerFunc{
		"another witness": other.ServeHTTP,
		"nothing":         func(http.ResponseWriter, *http.Request) {},
		"a page":          func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write([]byte("<html>")) },
		"elsewhere":       func(out http.ResponseWriter, in *http.Request) { http.Redirect(out, in, "/x", http.StatusFound) },
		"a wrong size": func(out http.ResponseWriter, _ *http.Request) {
			out.WriteHeader(http.StatusConflict)
			_, _ = out.Write([]byte("many\n"))
		},
		"sizes for ever": func() http.HandlerFunc {
			var n atomic.Int64
			return func(out http.ResponseWriter, _ *http.Request) {
				out.WriteHeader(http.StatusConflict)
				_, _ = fmt.Fprintf(out, "%d\n", 1+n.Add(1)%20)
			}
		}(),
	} {
		server := httptest.NewServer(answer)
		peer := must(mesh.ParseWitness(w.Key+"="+server.URL, nil))
		line, _, err := peer.Cosign(t.Context(), log.checkpoint(t, 30), 30, 0, func(old int64) (tlog.TreeProof, error) { return log.prove(old, 30), nil })
		failIf(t, err == nil || line != nil, "%s: cosigned", name)
		server.Close()
	}
	for _, s := range []string{"", "x", w.Key, w.Key + "=", w.Key + "=ftp://x", w.Key + "=http://", "x+y=http://h", w.Key + "=http://a:b@h", w.Key + "=http://h/?q", log.key + "=http://h"} {
		fails(t, errorOf(mesh.ParseWitness(s, nil)), nil, "%q is taken for a witness", s)
	}
}
