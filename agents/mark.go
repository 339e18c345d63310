package agents

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// markSuffix makes the name of the file of the mark, which is beside the creds.
	markSuffix = ".mark"
	// maxMark is the size of a mark that is kept, in bytes, and maxMarked that of a
	// message that shows one: the server counts both, and ends the connection of who
	// sends too much.
	maxMark   = 512
	maxMarked = 8 << 10
	// markInterval is the time between two writes of the file.
	markInterval = time.Second
)

// marks keeps the newest mark that the gateway gave, which is shown to it with what is
// sent (PROTOCOL P11.7). With a file it outlives the process.
type marks struct {
	file string // empty: in memory alone
	log  hclog.Logger

	mu     sync.Mutex // guards what follows
	newest string
	unkept bool // it is not in the file yet
}

// open reads the file. One that cannot be read, or holds no mark, is as good as none.
func (k *marks) open(creds string) {
	if creds == "" {
		return
	}
	k.file = creds + markSuffix
	content, err := os.ReadFile(k.file)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("reading the mark next to the creds", "error", err)
		}
		return
	}
	if text := strings.TrimSpace(string(content)); isMark(text) {
		k.newest = text
	}
}

// isMark reports whether a text may be a mark: what it says is the gateway's alone.
func isMark(text string) bool {
	return text != "" && len(text) <= maxMark && strings.Trim(text, markLetters) == ""
}

const markLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// keepFrom keeps the mark of a message, if it has one.
func (k *marks) keepFrom(m *nats.Msg) {
	text := m.Header.Get(bcp.MarkHeader)
	if !isMark(text) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest, k.unkept = text, true
}

// shown is the header of a message: the newest mark, or that there is none.
func (k *marks) shown(body []byte) nats.Header {
	if len(body) > maxMarked {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return nats.Header{bcp.MarkHeader: {k.newest}}
}

// write puts the newest mark into the file.
func (k *marks) write() {
	k.mu.Lock()
	text, due := k.newest, k.unkept && k.file != ""
	k.unkept = false
	k.mu.Unlock()
	if !due {
		return
	}
	if err := durable.Replace(k.file, []byte(text+"\n"), 0o600); err != nil {
		k.log.Warn("the mark is kept in memory alone", "error", err)
	}
}

// writeUntil writes now and then, and once more when the connection is closed.
func (k *marks) writeUntil(closed <-chan struct{}) {
	defer k.write()
	ticker := time.NewTicker(markInterval)
	defer ticker.Stop()
	for {
		select {
		case <-closed:
			return
		case <-ticker.C:
			k.write()
		}
	}
}
