package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Quarantine is a folder with a file for each message that made the gateway panic: such a
// message is refused unread, also after a restart, until its file is removed. The file
// has the sender and the place of the panic; the message itself is sealed in the journal,
// in the record of the alert. Its methods may be used concurrently. A nil one remembers
// nothing.
type Quarantine struct {
	dir string

	mu   sync.Mutex
	held map[string]Quarantined // by file name
}

// Quarantined is the content of a file.
type Quarantined struct {
	Time       time.Time     `json:"time"`
	Message    string        `json:"message"` // its kind: ask, push, reply, …
	Agent      bcp.AgentName `json:"agent"`
	Role       bcp.Role      `json:"role"`
	Controller bcp.AgentName `json:"controller,omitempty"`
	Reader     bcp.AgentName `json:"reader,omitempty"`
	Panic      string        `json:"panic"`
	Stack      []string      `json:"stack"`

	unwritten bool // there is no file
}

// maxQuarantined bounds the files; beyond it the oldest is removed.
const maxQuarantined = 1000

const quarantineSuffix = ".json"

// OpenQuarantine returns the quarantine of a folder, which is created when something is
// put there. An unreadable file counts all the same: its name identifies the message.
func OpenQuarantine(dir string) (*Quarantine, error) {
	q := &Quarantine{dir: dir, held: make(map[string]Quarantined)}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the quarantine: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), quarantineSuffix) {
			continue
		}
		var one Quarantined
		if content, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
			if json.Unmarshal(content, &one) != nil {
				one = Quarantined{}
			}
		}
		q.held[e.Name()] = one
	}
	return q, nil
}

// Len counts the messages.
func (q *Quarantine) Len() int {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held)
}

// quarantineName returns the file name of a message: the same each time that it is
// sent.
func quarantineName(m *message) string {
	subject := m.subject
	subject.Attempt = 0
	h := sha256.New()
	h.Write([]byte(subject.String() + "\n"))
	h.Write(m.body)
	return hex.EncodeToString(h.Sum(nil)) + quarantineSuffix
}

// holds reports whether a message is in quarantine. Whoever removes the file takes it out.
func (q *Quarantine) holds(m *message) bool {
	if q.Len() == 0 {
		return false
	}
	name := quarantineName(m)
	q.mu.Lock()
	defer q.mu.Unlock()
	one, held := q.held[name]
	if !held {
		return false
	}
	if _, err := os.Lstat(filepath.Join(q.dir, name)); errors.Is(err, fs.ErrNotExist) && !one.unwritten {
		delete(q.held, name)
		return false
	}
	return true
}

// add puts a message into quarantine. After an error it is there until the process ends.
func (q *Quarantine) add(m *message, who agentRole, channel bcp.ChannelKey, mistake *panicError, now time.Time) error {
	if q == nil {
		return nil
	}
	name := quarantineName(m)
	one := Quarantined{Time: now.UTC(), Message: m.subject.Kind.String(), Agent: who.Agent, Role: who.Role, Controller: channel.Controller, Reader: channel.Reader,
		Panic: mistake.kind, Stack: mistake.stack}
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.write(name, one)
	one.unwritten = err != nil
	q.held[name] = one
	for len(q.held) > maxQuarantined {
		err = errors.Join(err, q.remove(q.oldest()))
	}
	return err
}

func (q *Quarantine) oldest() (name string) {
	for other, one := range q.held {
		if name == "" || one.Time.Before(q.held[name].Time) {
			name = other
		}
	}
	return name
}

// write stores a file, whole or not at all. q.mu is held.
func (q *Quarantine) write(name string, one Quarantined) error {
	content, err := json.Marshal(one, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(q.dir, 0o700); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(q.dir, name), append(content, '\n'), 0o600)
}

// remove forgets a message, and removes its file. q.mu is held.
func (q *Quarantine) remove(name string) error {
	delete(q.held, name)
	err := os.Remove(filepath.Join(q.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// erase forgets the messages of a channel from before a time: the name of a file confirms
// the message to whoever guesses it.
func (q *Quarantine) erase(channel bcp.ChannelKey, before time.Time) (err error) {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	removed := false
	for name, one := range q.held {
		if (bcp.ChannelKey{Controller: one.Controller, Reader: one.Reader}) == channel && one.Time.Before(before) {
			err, removed = errors.Join(err, q.remove(name)), true
		}
	}
	if removed {
		err = errors.Join(err, durable.SyncFolder(q.dir))
	}
	return err
}
