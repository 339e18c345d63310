package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/jetstream/witness"
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
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
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
		stored, err := tlog.StoredHashes(n, fmt.Appendf(nil, "%s %d", seed, n), l)
		if err != nil {
			t.Fatal(err)
		}
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
	root, err := tlog.TreeHash(n, l)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", l.signer.Name(), n, root)}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
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

func (l *testLog) request(t testing.TB, old, n int64) []byte {
	t.Helper()
	return body(fmt.Sprint(old), l.prove(old, n), l.checkpoint(t, n))
}

func body(old string, proof tlog.TreeProof, signed []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %s\n", old)
	for _, h := range proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	b.WriteString("\n")
	b.Write(signed)
	return b.Bytes()
}

func open(t testing.TB, dir string, logs ...*testLog) *witness.Witness {
	t.Helper()
	var keys []string
	for _, l := range logs {
		keys = append(keys, l.key)
	}
	w, err := witness.Open(dir, witness.Options{Logs: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Each status of add-checkpoint, and what goes with it.
//
// covers P11.6
func TestStatuses(t *testing.T) {
	t.Parallel()
	log, stranger := newLog(t, "log.example/a"), newLog(t, "log.example/b")
	log.grow(t, 20, "leaf")
	stranger.grow(t, 20, "leaf")
	posing := &testLog{signer: newLog(t, "log.example/a").signer, hashes: log.hashes} // another key of the same name
	other := log.fork(7)
	other.grow(t, 20, "other")
	wrongProof := log.prove(7, 20)
	wrongProof[0][0] ^= 1
	emptied := body("0", nil, sign(t, log, 0, tlog.Hash{1}))
	w := open(t, t.TempDir(), log)
	for _, c := range []struct {
		name   string
		body   []byte
		status int
	}{
		{"nothing", nil, 400},
		{"no old line", log.checkpoint(t, 7), 400},
		{"a leading zero", body("00", nil, log.checkpoint(t, 7)), 400},
		{"a sign", body("+0", nil, log.checkpoint(t, 7)), 400},
		{"more behind the size", body("0 ", nil, log.checkpoint(t, 7)), 400},
		{"a size beyond int64", body("9223372036854775808", nil, log.checkpoint(t, 7)), 400},
		{"no empty line", append([]byte("old 0\n"), log.checkpoint(t, 7)...), 400},
		{"64 hashes", body("0", make(tlog.TreeProof, 64), log.checkpoint(t, 7)), 400},
		{"no checkpoint", []byte("old 0\n\n"), 400},
		{"no signature", []byte("old 0\n\n" + strings.SplitAfter(string(log.checkpoint(t, 7)), "\n\n")[0]), 400},
		{"a short hash", []byte("old 0\nAAAA\n\n" + string(log.checkpoint(t, 7))), 400},
		{"an unknown log", stranger.request(t, 0, 7), 404},
		{"an unknown key", posing.request(t, 0, 7), 403},
		{"a changed size", bytes.Replace(log.request(t, 0, 7), []byte("\n7\n"), []byte("\n8\n"), 1), 403},
		{"an old size that never was", log.request(t, 3, 7), 409},
		{"a proof from nothing", body("0", make(tlog.TreeProof, 1), log.checkpoint(t, 7)), 422},
		{"63 hashes", body("0", make(tlog.TreeProof, 63), log.checkpoint(t, 7)), 422},
		{"a root of nothing", emptied, 422},
		{"the first", log.request(t, 0, 7), 200},
		{"the same", log.request(t, 7, 7), 200},
		{"the first again", log.request(t, 0, 7), 409},
		{"a smaller one", log.request(t, 0, 5), 409},
		{"smaller than old", log.request(t, 7, 5), 400},
		{"a fork of the same size", sameSize(t, log, 7), 409},
		{"a proof for the same", body("7", make(tlog.TreeProof, 1), log.checkpoint(t, 7)), 422},
		{"no proof", body("7", nil, log.checkpoint(t, 20)), 422},
		{"a wrong proof", body("7", wrongProof, log.checkpoint(t, 20)), 422},
		{"a proof of another size", body("7", log.prove(8, 20), log.checkpoint(t, 20)), 422},
		{"the next", log.request(t, 7, 20), 200},
		{"a fork", body("20", nil, other.checkpoint(t, 20)), 409},
	} {
		reply := w.Add(c.body)
		if reply.Status != c.status {
			t.Errorf("%s: status %d %s, expected %d", c.name, reply.Status, reply.Body, c.status)
		}
		if reply.Status == http.StatusConflict && (reply.ContentType != "text/x.tlog.size" || len(reply.Body) < 2) {
			t.Errorf("%s: conflict with %q %q", c.name, reply.ContentType, reply.Body)
		}
	}
}

func sign(t testing.TB, l *testLog, n int64, root tlog.Hash) []byte {
	t.Helper()
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", l.signer.Name(), n, root)}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func sameSize(t testing.TB, l *testLog, n int64) []byte {
	return body(fmt.Sprint(n), nil, sign(t, l, n, tlog.Hash{1}))
}

// What a witness answers is its cosignature, which the key in its store verifies; it
// counts once, whatever name it is given.
//
// covers P11.6
func TestCosignature(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 3, "leaf")
	dir := t.TempDir()
	w := open(t, dir, log)
	public, err := os.ReadFile(filepath.Join(dir, witness.PublicFile))
	if err != nil || string(public) != w.Key()+"\n" {
		t.Fatalf("%q, %v", public, err)
	}
	reply := w.Add(log.request(t, 0, 3))
	cosigned := append(log.checkpoint(t, 3), reply.Body...)
	c, by, err := verify.Cosigned(cosigned, []string{log.key}, []string{w.Key()})
	if err != nil || c.Size != 3 || len(by) != 1 || by[0].Time.IsZero() {
		t.Errorf("%+v, %+v, %v", c, by, err)
	}
	if _, by, err := verify.Cosigned(append(cosigned, reply.Body...), []string{log.key}, []string{w.Key()}); err != nil || len(by) != 1 {
		t.Errorf("twice: %+v, %v", by, err)
	}
	if _, _, err := verify.Cosigned(cosigned, []string{log.key}, []string{w.Key(), w.Key()}); err == nil {
		t.Error("one key was taken for two witnesses")
	}
	stranger, _, _ := ed25519.GenerateKey(rand.Reader)
	if _, by, err := verify.Cosigned(cosigned, []string{log.key}, []string{verify.CosignerKey("other", stranger)}); err != nil || len(by) != 0 {
		t.Errorf("a stranger's: %+v, %v", by, err)
	}
	name, _, _ := strings.Cut(w.Key(), "+")
	if _, by, err := verify.Cosigned(cosigned, []string{log.key}, []string{verify.CosignerKey(name, stranger)}); err != nil || len(by) != 0 {
		t.Errorf("a stranger's of that name: %+v, %v", by, err)
	}
	changed := bytes.Replace(cosigned, []byte("— "+name+" "), []byte("— "+name+"x "), 1)
	if _, by, err := verify.Cosigned(changed, []string{log.key}, []string{w.Key()}); err != nil || len(by) != 0 {
		t.Errorf("another name: %+v, %v", by, err)
	}
	for i := len(cosigned) - 60; i < len(cosigned)-6; i++ { // in the signature
		flipped := bytes.Clone(cosigned)
		if flipped[i] = 'A'; bytes.Equal(flipped, cosigned) {
			continue
		}
		if _, by, err := verify.Cosigned(flipped, []string{log.key}, []string{w.Key()}); err == nil && len(by) > 0 {
			t.Errorf("a cosignature with another byte %d verifies", i)
		}
	}
}

// A witness that starts again goes on from what it cosigned, one store has one witness,
// and a damaged store is refused: it could cosign a second history.
//
// covers P11.6
func TestStore(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 9, "leaf")
	dir := t.TempDir()
	w := open(t, dir, log)
	key := w.Key()
	if _, err := witness.Open(dir, witness.Options{Logs: []string{log.key}}); !errors.Is(err, witness.ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	if reply := w.Add(log.request(t, 0, 5)); reply.Status != 200 {
		t.Fatal(reply.Status)
	}
	if reply := w.Add(sameSize(t, log, 5)); reply.Status != 409 {
		t.Fatal(reply.Status)
	}
	if forks, err := os.ReadDir(filepath.Join(dir, "forks")); err != nil || len(forks) != 2 {
		t.Errorf("what shows the fork: %v, %v", forks, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.Open(dir, witness.Options{Logs: []string{log.key}, Name: "another"}); !errors.Is(err, witness.ErrKey) {
		t.Errorf("another name: %v", err)
	}
	w = open(t, dir, log)
	if w.Key() != key {
		t.Error("it has another key")
	}
	if reply := w.Add(log.request(t, 0, 9)); reply.Status != 409 || string(reply.Body) != "5\n" {
		t.Errorf("after a start: %d %q", reply.Status, reply.Body)
	}
	if reply := w.Add(log.request(t, 5, 9)); reply.Status != 200 {
		t.Errorf("after a start: %d %q", reply.Status, reply.Body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "logs", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("log.example/a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := witness.Open(dir, witness.Options{Logs: []string{log.key}}); !errors.Is(err, witness.ErrStore) {
		t.Errorf("a damaged store: %v", err)
	}
}

// What cannot be stored is not cosigned.
//
// covers P11.6
func TestNothingIsCosignedUnstored(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 9, "leaf")
	dir := t.TempDir()
	w := open(t, dir, log)
	if err := os.RemoveAll(filepath.Join(dir, "logs")); err != nil {
		t.Fatal(err)
	}
	if reply := w.Add(log.request(t, 0, 5)); reply.Status != 500 || bytes.Contains(reply.Body, []byte("—")) {
		t.Errorf("%d %q", reply.Status, reply.Body)
	}
}

// Whatever is asked, in whatever order and with starts in between, what was cosigned of a
// log is one history.
//
// covers P11.6
func TestOneHistory(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 40, "leaf")
	branches := []*testLog{log}
	for _, at := range []int64{0, 1, 8, 21} {
		b := log.fork(at)
		b.grow(t, 40, "fork")
		branches = append(branches, b)
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "witness")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		var signed []tlog.Tree
		for range rapid.IntRange(1, 3).Draw(t, "starts") {
			w, err := witness.Open(dir, witness.Options{Logs: []string{log.key}})
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 12).Draw(t, "requests") {
				b := branches[rapid.IntRange(0, len(branches)-1).Draw(t, "branch")]
				n := rapid.Int64Range(1, 40).Draw(t, "size")
				old := rapid.Int64Range(0, 41).Draw(t, "old")
				if len(signed) > 0 && rapid.Bool().Draw(t, "known") {
					old = signed[len(signed)-1].N
				}
				root, err := tlog.TreeHash(n, b)
				if err != nil {
					t.Fatal(err)
				}
				checkpoint, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", b.signer.Name(), n, root)}, b.signer)
				if err != nil {
					t.Fatal(err)
				}
				if reply := w.Add(body(fmt.Sprint(old), b.prove(old, n), checkpoint)); reply.Status == 200 {
					signed = append(signed, tlog.Tree{N: n, Hash: root})
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range signed {
			if i > 0 && s.N < signed[i-1].N {
				t.Fatalf("it cosigned %d after %d", s.N, signed[i-1].N)
			}
		}
		for _, b := range branches { // one of them has all
			all := true
			for _, s := range signed {
				root, err := tlog.TreeHash(s.N, b)
				all = all && err == nil && root == s.Hash
			}
			if all {
				return
			}
		}
		t.Fatal("it cosigned two histories")
	})
}

// Of requests at the same time that begin at the same size, one is cosigned for each size
// that the witness had.
//
// covers P11.6
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 64, "leaf")
	other := log.fork(4)
	other.grow(t, 64, "other")
	w := open(t, t.TempDir(), log)
	if reply := w.Add(log.request(t, 0, 8)); reply.Status != 200 {
		t.Fatal(reply.Status)
	}
	var all sync.WaitGroup
	var accepted atomic.Int64
	for i := range int64(16) {
		request := log.request(t, 8, 16+i)
		if i%2 > 0 {
			request = other.request(t, 8, 16+i)
		}
		all.Go(func() {
			if w.Add(request).Status == 200 {
				accepted.Add(1)
			}
		})
	}
	all.Wait()
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d of 16 requests from the same size were cosigned", n)
	}
}

// A log and a witness over HTTP: the first time, when another process of the log asked
// meanwhile, after the log was set back, and when it forked.
//
// covers P11.6, A-ROLLBACK
func TestPeer(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 30, "leaf")
	w := open(t, t.TempDir(), log)
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	peer, err := witness.ParsePeer(w.Key()+"="+server.URL+"/prefix/", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(l *testLog, n, old int64) error {
		line, seen, err := peer.Cosign(context.Background(), l.checkpoint(t, n), old, func(old int64) (tlog.TreeProof, error) { return l.prove(old, n), nil })
		if err == nil {
			if _, by, err := verify.Cosigned(append(l.checkpoint(t, n), line...), []string{l.key}, []string{w.Key()}); err != nil || len(by) != 1 || seen != n {
				t.Errorf("size %d: %v, %v, seen %d", n, by, err, seen)
			}
		}
		return err
	}
	for _, c := range []struct{ n, old int64 }{{5, 0}, {5, 5}, {9, 5}, {20, 0}, {21, 7}, {22, 22}} {
		if err := ask(log, c.n, c.old); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := ask(log, 21, 21); !errors.Is(err, witness.ErrRolledBack) {
		t.Errorf("set back: %v", err)
	}
	if err := ask(log, 3, 0); !errors.Is(err, witness.ErrRolledBack) {
		t.Errorf("set back: %v", err)
	}
	other := log.fork(10)
	other.grow(t, 30, "other")
	for _, n := range []int64{22, 30} {
		if err := ask(other, n, 0); !errors.Is(err, witness.ErrForked) {
			t.Errorf("forked at %d: %v", n, err)
		}
	}
	if err := ask(newLog(t, "log.example/b"), 0, 0); !errors.Is(err, witness.ErrUnknownLog) {
		t.Errorf("unknown: %v", err)
	}
}

// A server that is no witness, or another one, is not believed.
//
// covers P11.6
func TestPeerIsNotBelieved(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 30, "leaf")
	w, other := open(t, t.TempDir(), log), open(t, t.TempDir(), log)
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
		peer, err := witness.ParsePeer(w.Key()+"="+server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		line, _, err := peer.Cosign(context.Background(), log.checkpoint(t, 30), 0, func(old int64) (tlog.TreeProof, error) { return log.prove(old, 30), nil })
		if err == nil || line != nil {
			t.Errorf("%s: cosigned", name)
		}
		server.Close()
	}
	for _, s := range []string{"", "x", w.Key(), w.Key() + "=", w.Key() + "=ftp://x", w.Key() + "=http://", "x+y=http://h", w.Key() + "=http://a:b@h", w.Key() + "=http://h/?q", log.key + "=http://h"} {
		if _, err := witness.ParsePeer(s, nil); err == nil {
			t.Errorf("%q is taken for a witness", s)
		}
	}
}

// covers P11.6
func TestHTTP(t *testing.T) {
	t.Parallel()
	log := newLog(t, "log.example/a")
	log.grow(t, 3, "leaf")
	w := open(t, t.TempDir(), log)
	for _, c := range []struct {
		method, path string
		body         []byte
		status       int
	}{
		{"GET", "/add-checkpoint", nil, 405},
		{"POST", "/", nil, 404},
		{"POST", "/add-checkpoints", nil, 404},
		{"POST", "/add-checkpoint", bytes.Repeat([]byte("x"), 16<<10+1), 400},
		{"POST", "/any/prefix/add-checkpoint", log.request(t, 0, 3), 200},
	} {
		out := httptest.NewRecorder()
		w.ServeHTTP(out, httptest.NewRequest(c.method, c.path, bytes.NewReader(c.body)))
		if out.Code != c.status {
			t.Errorf("%s %s: %d, expected %d", c.method, c.path, out.Code, c.status)
		}
	}
}

// Whatever is sent, nothing is cosigned that the log has not signed, and the witness goes
// on.
//
// covers P11.6
func FuzzAdd(f *testing.F) {
	log := newLog(f, "log.example/a")
	log.grow(f, 9, "leaf")
	w := open(f, f.TempDir(), log)
	f.Add(log.request(f, 0, 9))
	f.Add(log.request(f, 3, 9))
	f.Add([]byte("old 0\n\nlog.example/a\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n\n— log.example/a AAAA\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if reply := w.Add(b); reply.Status == 200 {
			_, signed, _ := bytes.Cut(b, []byte("\n\n"))
			if _, err := verify.OpenCheckpoint(signed, []string{log.key}); err != nil {
				t.Errorf("cosigned: %q", b)
			}
		}
	})
}
