// Witness compares "bcpmesh witness" with the witness of transparency-dev: both get the
// same requests, over HTTP, and have to take and refuse the same. What ours cosigns, their
// library verifies, and the other way round.
//
//	witness BCPMESH FOLDER
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	stock "github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: witness BCPMESH FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func run(program, folder string) error {
	log, other, stranger := newLog("log.example/a"), newLog("log.example/a"), newLog("log.example/b")
	for _, l := range []*memory{log, other, stranger} {
		l.grow(200, "leaf")
	}
	forked := log.fork(60)
	forked.grow(200, "other")

	theirs, theirKey, err := startStock(log)
	if err != nil {
		return err
	}
	defer theirs.Close()
	ours, ourKey, stop, err := startOurs(program, folder, log)
	if err != nil {
		return err
	}
	defer stop()

	var differ []string
	statuses := make(map[string]int) // of refusals that differ
	taken, refused, departures := 0, 0, 0
	for i, c := range cases(log, forked, other, stranger) {
		a, ab, err := post(theirs.URL+"/add-checkpoint", c.body)
		if err != nil {
			return err
		}
		b, bb, err := post(ours+"/add-checkpoint", c.body)
		if err != nil {
			return err
		}
		departs := c.departure != "" && a == c.stock && b == c.ours
		if (a == http.StatusOK) != (b == http.StatusOK) && !departs || c.departure != "" && !departs {
			differ = append(differ, fmt.Sprintf("%d %s: the stock witness says %d, ours %d", i+1, c.name, a, b))
		}
		if departs {
			departures++
			fmt.Printf("departs: %s: the stock witness says %d, ours %d: %s\n", c.name, a, b, c.departure)
		}
		if a != b && !departs {
			statuses[fmt.Sprintf("%d where ours says %d", a, b)]++
		}
		switch {
		case departs:
		case b == http.StatusOK:
			taken++
			for key, lines := range map[string][]byte{theirKey: ab, ourKey: bb} {
				v, err := f_note.NewVerifierForCosignatureV1(key)
				if err != nil {
					return err
				}
				_, signed, _ := bytes.Cut(c.body, []byte("\n\n"))
				if n, err := note.Open(append(bytes.Clone(signed), lines...), note.VerifierList(v)); err != nil || len(n.Sigs) != 1 {
					differ = append(differ, fmt.Sprintf("%d %s: a cosignature does not verify: %v", i+1, c.name, err))
				}
			}
		default:
			refused++
		}
		if a == http.StatusConflict && b == a && !bytes.Equal(ab, bb) {
			differ = append(differ, fmt.Sprintf("%d %s: the stock witness says size %q, ours %q", i+1, c.name, ab, bb))
		}
	}
	fmt.Printf("witness: %d requests, %d cosigned and %d refused by both; and %d known departures of the stock witness\n", taken+refused, taken, refused, departures)
	for status, n := range statuses {
		fmt.Printf("refusals of the stock witness with status %s: %d\n", status, n)
	}
	if len(differ) > 0 {
		return errors.New(strings.Join(differ, "\n"))
	}
	return nil
}

// request is one that both get. departure says in which words of the specification the
// stock witness departs, with the status of each.
type request struct {
	name      string
	body      []byte
	departure string
	stock     int
	ours      int
}

func cases(log, forked, other, stranger *memory) []request {
	at := func(old, n int64) []byte { return body(fmt.Sprint(old), log.prove(old, n), log.checkpoint(n)) }
	flipped := log.prove(7, 20)
	flipped[0][0] ^= 1
	swapped := log.prove(7, 20)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	signature := func(b []byte) []byte { b[bytes.LastIndexByte(b, '=')-6] ^= 1; return b }
	list := []request{
		{name: "nothing", body: nil},
		{name: "a newline", body: []byte("\n")},
		{name: "two newlines", body: []byte("\n\n")},
		{name: "no old line", body: log.checkpoint(7)},
		{name: "another word", body: bytes.Replace(at(0, 7), []byte("old"), []byte("new"), 1)},
		{name: "no size", body: bytes.Replace(at(0, 7), []byte("old 0"), []byte("old"), 1)},
		{name: "a negative size", body: body("-1", nil, log.checkpoint(7))},
		{name: "a word as size", body: body("x", nil, log.checkpoint(7))},
		{name: "a size beyond 64 bits", body: body("18446744073709551616", nil, log.checkpoint(7))},
		{name: "no empty line", body: append([]byte("old 0\n"), log.checkpoint(7)...)},
		{name: "no checkpoint", body: []byte("old 0\n\n")},
		{name: "half a checkpoint", body: at(0, 7)[:40]},
		{name: "no signature", body: []byte(strings.SplitAfter(string(at(0, 7)), "\n\n— ")[0])},
		{name: "no base64 in the proof", body: []byte("old 0\n?\n\n" + string(log.checkpoint(7)))},
		{name: "longer than 16 KiB", body: append(at(0, 7), bytes.Repeat([]byte("x"), 16<<10)...)},
		{name: "an unknown log", body: stranger.request(0, 7)},
		{name: "an unknown log, forged", body: signature(stranger.request(0, 7))},
		{name: "another key of that name", body: other.request(0, 7)},
		{name: "a changed signature", body: signature(at(0, 7))},
		{name: "a changed size", body: bytes.Replace(at(0, 7), []byte("\n7\n"), []byte("\n8\n"), 1)},
		{name: "a changed origin", body: bytes.Replace(at(0, 7), []byte("example/a\n7"), []byte("example/b\n7"), 1)},
	}
	return append(list, []request{
		{name: "the first", body: at(0, 7)},
		{name: "the same", body: at(7, 7)},
		{name: "the first again", body: at(0, 7)},
		{name: "a smaller one", body: at(0, 5)},
		{name: "smaller than old", body: at(7, 5)},
		{name: "an old size that was not cosigned", body: at(5, 20)},
		{name: "an old size to come", body: at(8, 20)},
		{name: "an old size beyond", body: body("30", nil, log.checkpoint(20))},
		{name: "no proof", body: body("7", nil, log.checkpoint(20))},
		{name: "a changed proof", body: body("7", flipped, log.checkpoint(20))},
		{name: "a proof in another order", body: body("7", swapped, log.checkpoint(20))},
		{name: "a proof that is too long", body: body("7", append(log.prove(7, 20), tlog.Hash{}), log.checkpoint(20))},
		{name: "a proof that is too short", body: body("7", log.prove(7, 20)[1:], log.checkpoint(20))},
		{name: "a proof of another size", body: body("7", log.prove(6, 20), log.checkpoint(20))},
		{name: "a proof for the same", body: body("7", log.prove(7, 20), log.checkpoint(7))},
		{name: "63 hashes", body: body("7", make(tlog.TreeProof, 63), log.checkpoint(20))},
		{name: "64 hashes", body: body("7", make(tlog.TreeProof, 64), log.checkpoint(20))},
		{name: "the next", body: at(7, 20)},
		{name: "the one before", body: at(7, 20)},
		{name: "one more", body: at(20, 21)},
		{name: "a power of two", body: at(21, 32)},
		{name: "from a power of two", body: at(32, 64)},
		{name: "another root of that size", body: body("64", nil, log.sign("log.example/a\n64\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"))},
		{name: "a fork of that size", body: body("64", nil, forked.checkpoint(64))},
		{name: "a larger fork", body: forked.request(64, 100)},
		{name: "a fork with the proof of the log", body: body("64", log.prove(64, 100), forked.checkpoint(100))},
		{name: "the log with the proof of a fork", body: body("64", forked.prove(64, 100), log.checkpoint(100))},
		{name: "with the signature of somebody else", body: append(at(64, 100), "— example.com/other AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"...)},
		{name: "with an extension line", body: body("100", log.prove(100, 120), log.sign(log.text(120)+"more\n"))},
		{name: "the end", body: at(120, 200)},
		{name: "a plus in front of the size", body: body("+200", nil, log.checkpoint(200))},
		{name: "a zero in front of the size", body: body("0200", nil, log.checkpoint(200)), departure: "the size has no leading zeroes", stock: 200, ours: 400},
		{name: "text behind the size", body: body("200 x", nil, log.checkpoint(200)), departure: "the old size line is \"old\", a space and the size", stock: 200, ours: 400},
	}...)
}

func startStock(l *memory) (*httptest.Server, string, error) {
	private, public, err := note.GenerateKey(rand.Reader, "stock.example/w")
	if err != nil {
		return nil, "", err
	}
	signer, err := f_note.NewSignerForCosignatureV1(private)
	if err != nil {
		return nil, "", err
	}
	known, err := note.NewVerifier(l.key)
	if err != nil {
		return nil, "", err
	}
	w, err := stock.New(context.Background(), stock.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return known, origin == known.Name(), nil
		}})
	if err != nil {
		return nil, "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", stock.NewHTTPHandler(w).AddCheckpoint)
	return httptest.NewServer(mux), public, nil
}

func startOurs(program, folder string, l *memory) (url, key string, stop func(), err error) {
	command := exec.Command(program, "witness", "--json", "--store", filepath.Join(folder, "store"), "--listen", "127.0.0.1:0", "--log", l.key)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return "", "", nil, err
	}
	stop = func() { _ = command.Process.Signal(os.Interrupt); _ = command.Wait() }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var about struct{ URL, Key string }
	if err == nil {
		err = json.Unmarshal(line, &about)
	}
	if err != nil {
		stop()
	}
	return about.URL, about.Key, stop, err
}

func post(url string, body []byte) (int, []byte, error) {
	reply, err := http.Post(url, "text/plain", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	content, err := io.ReadAll(reply.Body)
	return reply.StatusCode, content, err
}

// memory is a log in memory.
type memory struct {
	signer note.Signer
	key    string
	hashes []tlog.Hash
	size   int64
}

func newLog(name string) *memory {
	private, public, err := note.GenerateKey(rand.Reader, name)
	check(err)
	signer, err := note.NewSigner(private)
	check(err)
	return &memory{signer: signer, key: public}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// ReadHashes is that of a tlog.HashReader.
func (l *memory) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		list = append(list, l.hashes[i])
	}
	return list, nil
}

func (l *memory) grow(to int64, seed string) {
	for ; l.size < to; l.size++ {
		stored, err := tlog.StoredHashes(l.size, fmt.Appendf(nil, "%s %d", seed, l.size), l)
		check(err)
		l.hashes = append(l.hashes, stored...)
	}
}

func (l *memory) fork(n int64) *memory {
	return &memory{signer: l.signer, key: l.key, hashes: append([]tlog.Hash(nil), l.hashes[:tlog.StoredHashCount(n)]...), size: n}
}

func (l *memory) text(n int64) string {
	root, err := tlog.TreeHash(n, l)
	check(err)
	return fmt.Sprintf("%s\n%d\n%s\n", l.signer.Name(), n, root)
}

func (l *memory) sign(text string) []byte {
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	check(err)
	return signed
}

func (l *memory) checkpoint(n int64) []byte { return l.sign(l.text(n)) }

func (l *memory) prove(old, n int64) tlog.TreeProof {
	if old <= 0 || old >= n {
		return nil
	}
	proof, err := tlog.ProveTree(n, old, l)
	check(err)
	return proof
}

func (l *memory) request(old, n int64) []byte {
	return body(fmt.Sprint(old), l.prove(old, n), l.checkpoint(n))
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
