package attach

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// watch is the other end of a new watcher of w, once w knows of it.
func watch(t *testing.T, w *watchers, state string) net.Conn {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(state, watchFolder, "reader.*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("%v, %v", sockets, err)
	}
	if info, err := os.Stat(filepath.Dir(sockets[0])); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
	before := w.count()
	conn, err := net.Dial("unix", sockets[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for deadline := time.Now().Add(time.Minute); w.count() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody comes")
		}
	}
	return conn
}

func (w *watchers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// A watcher hears all from the configuration on, and its end with the agent's. One that
// does not listen is cut off, and never holds the agent up.
func TestWatchersHoldNothingUp(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	w := openWatch(state, "reader", hclog.NewNullLogger())
	w.tell(stdio.Passage{Method: replay.Configuration, Done: true, Result: jsontext.Value(`{}`)})
	deaf, listens := watch(t, w, state), watch(t, w, state)
	heard := make(chan int)
	go func() {
		n := 0
		for read := replay.NewReader(listens); ; n++ {
			if _, err := read.Next(); err != nil {
				heard <- n
				return
			}
			if n > 0 {
				heard <- n
			}
		}
	}()
	long := jsontext.Value(`"` + strings.Repeat("x", 64<<10) + `"`)
	passed := 0
	for w.count() == 2 {
		w.tell(stdio.Passage{Call: "1", Method: replay.Query, Params: long})
		passed++
		if got := <-heard; got != passed {
			t.Fatalf("heard %d lines of %d", got, passed)
		}
		if passed > 10_000 {
			t.Fatal("who does not listen is not cut off")
		}
	}
	w.close()
	if got := <-heard; got != passed+1 { // and the configuration
		t.Errorf("heard %d lines of %d", got, passed+1)
	}
	if left, err := os.ReadDir(filepath.Join(state, watchFolder)); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	_ = deaf.Close()
}
