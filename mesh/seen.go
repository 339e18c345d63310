package mesh

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/durable"
)

// seenFile says when credentials were last connected. The audit says it too, but
// would have to be read for it; losing the file affects only a list.
const seenFile = "seen.json"

// seenInterval is how often a running mesh writes the file; it also does so when it
// stops.
const seenInterval = 5 * time.Minute

// Seen returns when the credentials of a state folder were last connected, by
// public key, exact to five minutes if a mesh was killed.
func Seen(state string) (map[string]time.Time, error) {
	return readTimes(filepath.Join(state, seenFile))
}

// times is a file of times by the public key of credentials.
type times struct {
	file string

	mu sync.Mutex
	at map[string]time.Time
}

func readTimes(file string) (map[string]time.Time, error) {
	at := map[string]time.Time{}
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &at)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return at, nil
}

// openTimes reads a file. One that cannot be read is forgotten.
func openTimes(file string, log hclog.Logger) *times {
	at, err := readTimes(file)
	if err != nil {
		log.Warn("what is known of credentials is forgotten", "error", err)
		at = map[string]time.Time{}
	}
	return &times{file: file, at: at}
}

func (t *times) set(key string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at[key] = at
}

func (t *times) has(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.at[key]
	return known
}

// save writes the file, without those that are not kept.
func (t *times) save(keep func(key string, at time.Time) bool) error {
	t.mu.Lock()
	maps.DeleteFunc(t.at, func(key string, at time.Time) bool { return !keep(key, at) })
	content, err := json.Marshal(t.at)
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return durable.Replace(t.file, append(content, '\n'), 0o600)
}

// lastSeen keeps it while a mesh runs. Nil keeps nothing.
type lastSeen struct {
	*times
	store *accounts.Store
	open  func() []string // public keys of open connections
}

func newLastSeen(state string, store *accounts.Store, open func() []string, log hclog.Logger) *lastSeen {
	return &lastSeen{openTimes(filepath.Join(state, seenFile), log), store, open}
}

// setSeen notes that credentials are, or just were, connected.
func (s *lastSeen) setSeen(key string) {
	if s != nil {
		s.set(key, time.Now().UTC().Truncate(time.Second))
	}
}

// save writes the times of credentials that the store remembers.
func (s *lastSeen) save() error {
	users, err := s.store.Users()
	if err != nil {
		return err
	}
	for _, key := range s.open() {
		s.setSeen(key)
	}
	known := make(map[string]bool, len(users))
	for _, u := range users {
		known[u.PublicKey] = true
	}
	return s.times.save(func(key string, _ time.Time) bool { return known[key] })
}
