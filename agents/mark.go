package agents

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// markSuffix, after the name of the creds file, names the file of the mark.
	markSuffix = ".mark"
	// maxMark is the maximum size of a stored mark in bytes, and maxMarked that of a
	// message that carries one: the server counts both, and disconnects clients that
	// send too much.
	maxMark   = 512
	maxMarked = 8 << 10
)

// markStore keeps the newest mark from the gateway, which is sent back to it with messages
// (PROTOCOL P11.7). With a file it survives the process.
type markStore struct {
	file string // empty: only in memory
	log  hclog.Logger

	mu     sync.Mutex // guards what follows
	newest string
	unkept bool // it is not in the file yet
}

// open reads the file. A file that cannot be read, or has no mark, counts as none.
func (k *markStore) open(creds string) {
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

// isMark reports whether a text may be a mark. Only the gateway knows its meaning.
func isMark(text string) bool {
	return text != "" && len(text) <= maxMark && strings.Trim(text, markLetters) == ""
}

const markLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// keepFrom keeps the mark of a message, if it has one.
func (k *markStore) keepFrom(m *nats.Msg) {
	text := m.Header.Get(bcp.MarkHeader)
	if !isMark(text) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest, k.unkept = text, true
}

// shown returns the header of a message: the newest mark, or that it has none.
func (k *markStore) shown(body []byte) nats.Header {
	if len(body) > maxMarked {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return nats.Header{bcp.MarkHeader: {k.newest}}
}

// write puts the newest mark into the file.
func (k *markStore) write() {
	k.mu.Lock()
	text, due := k.newest, k.unkept && k.file != ""
	k.unkept = false
	k.mu.Unlock()
	if !due {
		return
	}
	if err := disk.Replace(k.file, []byte(text+"\n"), 0o600); err != nil {
		k.log.Warn("the mark is kept in memory alone", "error", err)
	}
}
