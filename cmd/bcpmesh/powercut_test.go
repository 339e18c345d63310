//go:build faults

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// powerCutLength is how long there is traffic before the cuts.
const powerCutLength = 4 * time.Second

var powerCuts = flag.Int("cuts", 100, "how often TestPowerCut cuts the power")

// kill -9 loses nothing that the kernel has, so it says nothing about fsync. Here
// strace writes down what the mesh does to its files, under traffic; at random
// moments the power is cut: a copy of the state folder is made in which each file
// holds what had been synced by then, and no more. Each copy opens, its journal is
// whole, and it has every push that a client had been told was accepted. Where the
// mesh need not sync, pushes are lost, or the test would show nothing; the sealing
// keys are there all the same.
//
// covers P4.5, P11.1
func TestPowerCut(t *testing.T) {
	t.Run("sync always", func(t *testing.T) {
		lost, first := cutPower(t, "sync: always\n")
		failIf(t, lost > 0, "%d cuts lost something: %v", lost, first)
	})
	t.Run("sync rarely", func(t *testing.T) {
		lost, _ := cutPower(t, "sync: 1h\n")
		failIf(t, lost == 0, "nothing was lost, although nothing was synced")
	})
}

// traceFiles starts a program that is named behind it, and writes down what that does to
// its files.
func traceFiles(to string) []string {
	return []string{
		"strace", "-f", "-ff", "-ttt", "-T", "-y", "-xx", "-s", "4000000", "-o", to,
		"-e", "trace=openat,write,pwrite64,writev,fsync,fdatasync,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat",
	}
}

// cutPower returns how many cuts lost something that was accepted, and what was
// wrong with the first.
func cutPower(t *testing.T, settings string) (lost int, first error) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	files := maps.Clone(crashFiles)
	files["mesh.yaml"] = settings
	writeFiles(t, dir, files)
	traces := filepath.Join(dir, "trace")
	ready := filepath.Join(dir, "ready.json")
	traced := append(traceFiles(traces), "bcpmesh", "up", dir, "--listen", "127.0.0.1:0", "--state", state, "--ready-file", ready)
	mesh := exec.Command(traced[0], traced[1:]...)
	mesh.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{cmd: mesh, stderr: &bytes.Buffer{}}
	mesh.Stderr = p.stderr
	noError(t, mesh.Start())
	kill := sync.OnceFunc(func() {
		_ = syscall.Kill(-mesh.Process.Pid, syscall.SIGKILL)
		_ = mesh.Wait()
	})
	defer kill()
	p.awaitReady(t, ready)

	acknowledged := pushFor(t, state, p.url, powerCutLength)
	kill()
	stopIf(t, len(acknowledged) < 50, "only %d pushes were accepted: %s", len(acknowledged), p.stderr)
	begin, end := acknowledged[0].at, acknowledged[len(acknowledged)-1].at
	cuts := make([]float64, *powerCuts)
	for i := range cuts {
		cuts[i] = begin + rand.Float64()*(end-begin)
	}
	slices.Sort(cuts)
	calls := readCalls(t, traces, state)
	d := &disk{names: map[string]*inode{}, open: map[int]*opened{}}
	for _, cut := range cuts {
		for len(calls) > 0 && calls[0].at <= cut {
			d.do(calls[0])
			calls = calls[1:]
		}
		copied := filepath.Join(t.TempDir(), "state")
		d.write(t, state, copied, cut)
		failIf(t, !holdsKeys(t, copied), "cut at %f: the sealing keys are lost", cut)
		if err := checkCut(t, copied, acknowledged, cut); err != nil {
			lost++
			first = cmp.Or(first, err)
		}
		_ = os.RemoveAll(copied)
	}
	t.Logf("%d accepted pushes, %d cuts, %d of them lost something", len(acknowledged), len(cuts), lost)
	return lost, first
}

// holdsKeys reports whether a state has sealing keys on its disk.
func holdsKeys(t *testing.T, state string) bool {
	t.Helper()
	blocks := must(filepath.Glob(filepath.Join(state, "jetstream", "jetstream", "*", "streams", jetstream.KeyStream, "msgs", "*.blk")))(t)
	for _, name := range blocks {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// acceptedPush is a push that a client was told was accepted.
type acceptedPush struct {
	key string
	at  float64 // seconds, when the client knew
}

func pushFor(t *testing.T, state, url string, length time.Duration) (all []acceptedPush) {
	t.Helper()
	pushes := startPushing(t, must(accounts.Open(state))(t), url)
	time.Sleep(length)
	pushes.end()
	noError(t, pushes.wrong)
	for key, at := range pushes.accepted {
		all = append(all, acceptedPush{key, float64(at.UnixNano()) / 1e9})
	}
	slices.SortFunc(all, func(a, b acceptedPush) int { return cmp.Compare(a.at, b.at) })
	return all
}

// checkCut opens a copy and says what is wrong with it.
func checkCut(t *testing.T, state string, acknowledged []acceptedPush, cut float64) error {
	t.Helper()
	js, end := meshtest.OpenStreams(t, state, meshtest.Parse(t, crashFiles))
	defer end()
	if _, err := js.Stream(t.Context(), jetstream.CommitStream); err != nil {
		return fmt.Errorf("cut at %f: %w", cut, err)
	}
	journal, err := meshtest.CheckStream(t, js, nil)
	if err != nil {
		return fmt.Errorf("cut at %f: %w", cut, err)
	}
	for _, p := range acknowledged {
		if p.at <= cut && journal.Pushes[p.key] != 1 {
			return fmt.Errorf("cut at %f: push %s, accepted at %f, is there %d times", cut, p.key, p.at, journal.Pushes[p.key])
		}
	}
	return nil
}

// call is a system call that changes files, in the order of its beginning.
type call struct {
	at, end float64
	name    string
	args    string
	result  int
}

// inode is a file: what it holds, and what of that is on the disk.
type inode struct {
	content, synced []byte
	syncing         []pendingSync
}

// pendingSync is a sync that had not returned when the next call began.
type pendingSync struct {
	end     float64
	content []byte
}

type opened struct {
	file   *inode
	offset int
	sync   bool // each write is on the disk when it returns
}

// disk is a file system that keeps names, and of contents what was synced.
type disk struct {
	names map[string]*inode
	open  map[int]*opened
}

var (
	callLine  = regexp.MustCompile(`^(\d+\.\d+) (\w+)\((.*)\)\s+= (-?\d+)(<[^ ]*>)?.*<(\d+\.\d+)>$`)
	hexText   = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	hexByte   = regexp.MustCompile(`\\x([0-9a-f]{2})`)
	firstArg  = regexp.MustCompile(`^(\d+)<([^>]*)>`)
	lastArg   = regexp.MustCompile(`, (\d+)$`)
	syncFlags = regexp.MustCompile(`\bO_(D?)SYNC\b`)
)

func unhex(text string) string {
	return hexByte.ReplaceAllStringFunc(text, func(h string) string {
		b, _ := strconv.ParseUint(h[2:], 16, 8)
		return string([]byte{byte(b)})
	})
}

// readCalls returns the calls of all threads that are about files of the state.
func readCalls(t *testing.T, traces, state string) []call {
	t.Helper()
	names, err := filepath.Glob(traces + ".*")
	stopIf(t, err != nil || len(names) == 0, "no traces: %v", err)
	var calls []call
	for _, name := range names {
		f := must(os.Open(name))(t)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			m := callLine.FindStringSubmatch(lines.Text())
			if m == nil || m[4][0] == '-' {
				continue
			}
			c := call{name: m[2], args: m[3]}
			c.at, _ = strconv.ParseFloat(m[1], 64)
			took, _ := strconv.ParseFloat(m[6], 64)
			c.end = c.at + took
			c.result, _ = strconv.Atoi(m[4])
			if about := firstArg.FindStringSubmatch(c.args); about != nil && !strings.HasPrefix(unhex(about[2]), state+"/") {
				continue
			}
			calls = append(calls, c)
		}
		noError(t, lines.Err())
		_ = f.Close() // it was only read
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.at, b.at) })
	return calls
}

// do takes a call into account.
func (d *disk) do(c call) {
	var texts []string
	for _, m := range hexText.FindAllStringSubmatch(c.args, -1) {
		texts = append(texts, unhex(m[1]))
	}
	var file *opened
	if about := firstArg.FindStringSubmatch(c.args); about != nil {
		n, _ := strconv.Atoi(about[1])
		file = d.open[n]
	}
	switch c.name {
	case "openat":
		if strings.Contains(c.args, "O_DIRECTORY") {
			delete(d.open, c.result)
			return
		}
		node := d.names[texts[0]]
		if node == nil {
			if !strings.Contains(c.args, "O_CREAT") {
				delete(d.open, c.result)
				return
			}
			node = &inode{}
			d.names[texts[0]] = node
		}
		o := &opened{file: node, sync: syncFlags.MatchString(c.args)}
		if strings.Contains(c.args, "O_TRUNC") {
			node.content = nil
		}
		if strings.Contains(c.args, "O_APPEND") {
			o.offset = len(node.content)
		}
		d.open[c.result] = o
	case "write", "writev", "pwrite64":
		if file == nil {
			return
		}
		data := strings.Join(texts, "")[:c.result]
		at := file.offset
		if c.name == "pwrite64" {
			at, _ = strconv.Atoi(lastArg.FindStringSubmatch(c.args)[1])
		} else {
			file.offset += len(data)
		}
		content := slices.Clone(file.file.content)
		if missing := at + len(data) - len(content); missing > 0 {
			content = append(content, make([]byte, missing)...)
		}
		copy(content[at:], data)
		file.file.content = content
		if file.sync {
			file.file.syncing = append(file.file.syncing, pendingSync{c.end, content})
		}
	case "ftruncate":
		if file != nil {
			size, _ := strconv.Atoi(lastArg.FindStringSubmatch(c.args)[1])
			content := make([]byte, size)
			copy(content, file.file.content)
			file.file.content = content
		}
	case "fsync", "fdatasync":
		if file != nil {
			file.file.syncing = append(file.file.syncing, pendingSync{c.end, file.file.content})
		}
	case "rename", "renameat", "renameat2":
		if node := d.names[texts[0]]; node != nil {
			d.names[texts[1]] = node
			delete(d.names, texts[0])
			return
		}
		for name, node := range d.names { // of a folder
			if rest, inside := strings.CutPrefix(name, texts[0]+"/"); inside {
				delete(d.names, name)
				d.names[texts[1]+"/"+rest] = node
			}
		}
	case "link", "linkat":
		if node := d.names[texts[0]]; node != nil {
			d.names[texts[1]] = node
		}
	case "unlink", "unlinkat":
		delete(d.names, texts[0])
	}
}

// write makes a copy of the state as the disk has it at the cut.
func (d *disk) write(t *testing.T, state, copied string, cut float64) {
	t.Helper()
	for name, node := range d.names {
		inside, ok := strings.CutPrefix(name, state+"/")
		if !ok {
			continue
		}
		for len(node.syncing) > 0 && node.syncing[0].end <= cut {
			node.synced = node.syncing[0].content
			node.syncing = node.syncing[1:]
		}
		to := filepath.Join(copied, inside)
		noError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		noError(t, os.WriteFile(to, node.synced, 0o600))
	}
}
