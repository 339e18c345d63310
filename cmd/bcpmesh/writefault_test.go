//go:build faults

package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

var writeFaults = flag.Int("write-faults", 0, "how many of its faults TestWriteFaults picks; 0: all")

// writeFault is something that goes wrong with one call on one file.
type writeFault struct {
	file string // of the state folder, a pattern
	call string
	how  string // what strace does
	nth  int    // of a thread
	dies bool   // the process does, at this call
	late bool   // the call comes when the mesh ends
}

// stuck is longer than the gateway waits for an acknowledgement.
const stuck = "delay_enter=12s"

func (f writeFault) String() string {
	return fmt.Sprintf("%s of %s, %s, at call %d", f.call, filepath.Base(filepath.Dir(filepath.Dir(f.file)))+"/"+filepath.Base(f.file), f.how, f.nth)
}

// allWriteFaults are all of them.
func allWriteFaults() (all []writeFault) {
	msgs := func(stream, name string) string {
		return filepath.Join("jetstream", "jetstream", "*", "streams", stream, "msgs", name)
	}
	const enospc, eio, before, after, slow = "error=ENOSPC", "error=EIO", "signal=KILL", "delay_exit=60s", "delay_exit=1s"
	add := func(file, call string, hows ...string) {
		for _, how := range hows {
			for _, n := range []int{1, 2, 3, 5, 9} {
				all = append(all, writeFault{file: file, call: call, how: how, nth: n, dies: how == before || how == after})
			}
		}
	}
	journal := msgs(jetstream.CommitStream, "1.blk")
	add(journal, "pwrite64", enospc, eio, before, after, slow)
	add(journal, "fsync", enospc, eio, before, after, slow)
	one := func(file, call, how string, nth int) *writeFault {
		all = append(all, writeFault{file: file, call: call, how: how, nth: nth})
		return &all[len(all)-1]
	}
	for _, stream := range []string{jetstream.AuditStream, jetstream.LedgerStream} {
		one(msgs(stream, "1.blk"), "pwrite64", enospc, 2)
		one(msgs(stream, "1.blk"), "pwrite64", eio, 3)
	}
	for _, call := range []string{"pwrite64", "fsync"} { // one key for each channel
		one(msgs(jetstream.KeyStream, "1.blk"), call, eio, 1)
		one(msgs(jetstream.KeyStream, "1.blk"), call, before, 1).dies = true
	}
	for _, call := range []string{"openat", "read", "pread64"} {
		one(journal, call, eio, 1)
		one(journal, call, eio, 2)
	}
	index := msgs(jetstream.CommitStream, "index.db")
	one(index, "openat", enospc, 2).late = true
	one(index, "write", enospc, 1).late = true
	died := one(index, "write", before, 1)
	died.dies, died.late = true, true
	one("snapshots", "openat", enospc, 1).late = true
	one("snapshots", "fsync", eio, 1).late = true
	one(index, "read", eio, 1)
	if *writeFaults == 0 { // each thread is stuck once
		one(journal, "pwrite64", stuck, 3)
		one(journal, "fsync", stuck, 3)
	}
	return all
}

// One call of the commit path fails, or the process dies in front of it or behind
// it, or it takes long. Nobody hears of what is not stored, everything that was
// accepted is stored, and the mesh goes on by itself, or says why it does not; a
// start without the fault finds everything whole.
//
// covers P11.1, P4.5, P2.6, A-CRASH
func TestWriteFaults(t *testing.T) {
	random := rand.New(rand.NewPCG(chooseSeed(t), 0))
	dir, base := t.TempDir(), filepath.Join(t.TempDir(), "state")
	writeFiles(t, dir, crashFiles)
	p := startProcess(t, dir, base, "127.0.0.1:0")
	store := must(accounts.Open(base))(t)
	pushes := startPushing(t, store, p.url)
	pushes.await(t, "some pushes", func() bool { return pushes.count >= 20 })
	pushes.end()
	p.end(t)

	faults := allWriteFaults()
	if *writeFaults > 0 {
		random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		faults = faults[:min(len(faults), *writeFaults)]
	}
	var mu sync.Mutex
	tally := map[string]int{}
	t.Run("faults", func(t *testing.T) {
		for _, f := range faults {
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				outcome := underFault(t, dir, base, pushes.accepted, f)
				mu.Lock()
				defer mu.Unlock()
				tally[outcome]++
			})
		}
	})
	t.Logf("%d faults: %v", len(faults), tally)
}

func underFault(t *testing.T, dir, base string, before map[string]time.Time, f writeFault) string {
	state := filepath.Join(t.TempDir(), "state")
	copyState(t, base, state)
	files, err := filepath.Glob(filepath.Join(state, f.file))
	stopIf(t, err != nil || len(files) != 1, "%s: %v %v", f.file, files, err)
	ready, trace := filepath.Join(t.TempDir(), "ready.json"), filepath.Join(t.TempDir(), "trace")
	p := &process{stderr: &bytes.Buffer{}, cmd: exec.Command("strace", "-f", "-qq", "-o", trace, "-P", files[0],
		"-e", "trace="+f.call, "-e", fmt.Sprintf("inject=%s:%s:when=%d", f.call, f.how, f.nth),
		"bcpmesh", "up", dir, "--listen", "127.0.0.1:0", "--state", state, "--ready-file", ready)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = p.stderr
	noError(t, p.cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	kill := func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	defer kill()

	// The process that strace runs, and whether its call was tampered with.
	hit := func() bool {
		b, _ := os.ReadFile(trace)
		return bytes.Contains(b, []byte("INJECTED")) || bytes.Contains(b, []byte("DELAYED")) || bytes.Contains(b, []byte("killed by SIGKILL"))
	}
	patience := time.After(10 * time.Minute)
	outcome, pid := "", 0
	for pid == 0 && outcome == "" {
		select {
		case err := <-ended:
			if outcome = "refused to start"; f.dies {
				outcome = "died at the start"
			} else if text := p.stderr.String(); !strings.Contains(text, "hint: the disk of ") {
				t.Errorf("it ended with %v: %s", err, p.stderr)
			}
		case <-patience:
			t.Fatalf("it neither starts nor ends: %s", p.stderr)
		case <-time.After(10 * time.Millisecond):
			about, err := readAbout(ready)
			if err == nil {
				p.url, pid = about.URL, about.PID
			}
			if f.dies && strings.HasPrefix(f.how, "delay_exit") && len(begunCalls(trace)) >= f.nth {
				time.Sleep(100 * time.Millisecond) // the call takes no longer, its end does
				kill()
			}
		}
	}
	pushes := &pushing{accepted: map[string]time.Time{}}
	if pid != 0 {
		store := must(accounts.Open(state))(t)
		pushes = startPushing(t, store, p.url)
		deadline := time.Now().Add(stepPatience)
		if f.how == stuck {
			deadline = time.Now().Add(5 * time.Minute)
		}
		for outcome == "" {
			select {
			case err := <-ended:
				if outcome = "died"; !f.dies {
					outcome = "ended by itself"
					t.Errorf("it ended with %v: %s", err, p.stderr)
				}
				continue
			case <-time.After(20 * time.Millisecond):
			}
			pushes.mu.Lock()
			accepted, wrong := pushes.count, pushes.wrong
			pushes.mu.Unlock()
			switch {
			case wrong != nil:
				t.Fatal(wrong)
			case f.dies && strings.HasPrefix(f.how, "delay_exit") && len(begunCalls(trace)) >= f.nth:
				time.Sleep(100 * time.Millisecond)
				kill()
			case accepted >= 40 && (f.late || hit() && !f.dies):
				outcome = "went on"
			case accepted >= 5000, accepted >= 40 && !hit() && time.Now().After(deadline): // there is no such call
				outcome = "went on"
			case time.Now().After(deadline):
				t.Fatalf("it does not go on: %d accepted: %s", accepted, p.stderr)
			}
		}
		pushes.end()
	}
	if outcome == "went on" {
		noError(t, syscall.Kill(pid, syscall.SIGTERM))
		select {
		case err := <-ended:
			if f.dies {
				outcome = "died at the end"
			} else if err != nil {
				t.Errorf("it did not end well: %v: %s", err, p.stderr)
			}
		case <-patience:
			t.Fatalf("it does not end: %s", p.stderr)
		}
	}
	if !hit() {
		outcome += ", without the fault"
	}
	again := startProcess(t, dir, state, "127.0.0.1:0")
	again.end(t)
	maps.Copy(pushes.accepted, before)
	pushes.check(t, state)
	return outcome
}

// begunCalls are the lines of a trace, of which the last may not have ended.
func begunCalls(trace string) []string {
	b, _ := os.ReadFile(trace)
	var begun []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "resumed>") && strings.Contains(line, "(") {
			begun = append(begun, line)
		}
	}
	return begun
}
