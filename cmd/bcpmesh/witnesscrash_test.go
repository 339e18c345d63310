package main_test

import (
	"bufio"
	"bytes"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// branch is a history in memory; several are signed with one key.
type branch []tlog.Hash

// ReadHashes is that of a tlog.HashReader.
func (b branch) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		list = append(list, b[i])
	}
	return list, nil
}

func (b branch) grown(t *testing.T, from, to int64, seed string) branch {
	b = slices.Clone(b)
	for n := from; n < to; n++ {
		stored, err := tlog.StoredHashes(n, fmt.Appendf(nil, "%s %d", seed, n), b)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, stored...)
	}
	return b
}

// A witness is killed again and again while four clients that hold the log's key have it
// cosign two histories at once. After each start it has at least what it had answered, and
// what it cosigned is one history.
//
// covers P11.6, A-FORK, A-CRASH
func TestWitnessCrash(t *testing.T) {
	t.Parallel()
	const most, shared = 2000, 3
	private, public, err := note.GenerateKey(crand.Reader, "log.example/a")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	root := branch(nil).grown(t, 0, shared, "leaf")
	branches := []branch{root.grown(t, shared, most, "one"), root.grown(t, shared, most, "two")}
	store := filepath.Join(t.TempDir(), "store")

	var mu sync.Mutex
	cosigned := make(map[int64]map[tlog.Hash]bool)
	var largest int64
	enough := make(chan struct{}, 1)
	client := func(url string, random *rand.Rand) {
		var old int64
		for {
			b, n := branches[random.IntN(2)], min(most, old+1+random.Int64N(3))
			hash, err := tlog.TreeHash(n, b)
			var proof tlog.TreeProof
			if err == nil && old > 0 && old < n {
				proof, err = tlog.ProveTree(n, old, b)
			}
			signed, signErr := note.Sign(&note.Note{Text: fmt.Sprintf("log.example/a\n%d\n%s\n", n, hash)}, signer)
			if err != nil || signErr != nil {
				t.Error(err, signErr)
				return
			}
			var body bytes.Buffer
			fmt.Fprintf(&body, "old %d\n", old)
			for _, h := range proof {
				fmt.Fprintf(&body, "%s\n", h)
			}
			fmt.Fprintf(&body, "\n%s", signed)
			reply, err := http.Post(url+"/add-checkpoint", "text/plain", &body)
			if err != nil {
				return // it was killed
			}
			content, err := io.ReadAll(reply.Body)
			_ = reply.Body.Close()
			if err != nil {
				return
			}
			switch reply.StatusCode {
			case http.StatusOK:
				mu.Lock()
				if cosigned[n] == nil {
					cosigned[n] = make(map[tlog.Hash]bool)
				}
				cosigned[n][hash] = true
				largest = max(largest, n)
				mu.Unlock()
				old = n
				select {
				case enough <- struct{}{}:
				default:
				}
			case http.StatusConflict:
				if size, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err == nil {
					old = size
				}
			case http.StatusUnprocessableEntity: // of the other history
			default:
				t.Errorf("status %d: %s", reply.StatusCode, content)
				return
			}
		}
	}
	random := rand.New(rand.NewPCG(chooseSeed(t), 0))
	for range 2 * *rounds {
		if largest > most/2 {
			break // the histories are as long as they are
		}
		cmd := exec.Command("bcpmesh", "witness", "--json", "--store", store, "--listen", "127.0.0.1:0", "--log", public)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var about struct{ URL string }
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &about)
		}
		if err != nil {
			t.Fatal(err)
		}
		reply, err := http.Post(about.URL+"/add-checkpoint", "text/plain", strings.NewReader(string(sizeQuestion(t, signer))))
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if has, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err != nil || has < largest {
			t.Errorf("it has cosigned %d, and after a start knows of %q", largest, content)
		}
		var all sync.WaitGroup
		for range 4 {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			all.Go(func() { client(about.URL, own) })
		}
		for range 5 + random.IntN(20) {
			select {
			case <-enough:
			case <-time.After(stepPatience):
				t.Error("nothing is cosigned")
			}
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) // anywhere in a request
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		all.Wait()
	}
	if len(cosigned) == 0 {
		t.Fatal("nothing was cosigned")
	}
	histories := 0
	for _, b := range branches {
		one := true
		for n, hashes := range cosigned {
			hash, err := tlog.TreeHash(n, b)
			if err != nil {
				t.Fatal(err)
			}
			one = one && len(hashes) == 1 && hashes[hash]
		}
		if one {
			histories++
		}
	}
	if histories == 0 {
		t.Errorf("it cosigned two histories in %d checkpoints", len(cosigned))
	}
}

// sizeQuestion is a request that the witness refuses with the size that it has cosigned.
func sizeQuestion(t *testing.T, signer note.Signer) []byte {
	t.Helper()
	const size = 1 << 40
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("log.example/a\n%d\n%s\n", int64(size), tlog.Hash{})}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return append(fmt.Appendf(nil, "old %d\n\n", int64(size)), signed...)
}
