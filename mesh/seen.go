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
	last := map[string]time.Time{}
	content, err := os.ReadFile(filepath.Join(state, seenFile))
	if err == nil {
		err = json.Unmarshal(content, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", seenFile, err)
	}
	return last, nil
}

// lastSeen keeps it while a mesh runs. Nil keeps nothing.
type lastSeen struct {
	state string
	store *accounts.Store
	open  func() []string // public keys of open connections

	mu   sync.Mutex
	last map[string]time.Time
}

func newLastSeen(state string, store *accounts.Store, open func() []string, log hclog.Logger) *lastSeen {
	last, err := Seen(state)
	if err != nil {
		log.Warn("when credentials were last seen is forgotten", "error", err)
		last = map[string]time.Time{}
	}
	return &lastSeen{state: state, store: store, open: open, last: last}
}

// setSeen notes that credentials are, or just were, connected.
func (s *lastSeen) setSeen(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[key] = time.Now().UTC().Truncate(time.Second)
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
	s.mu.Lock()
	maps.DeleteFunc(s.last, func(key string, _ time.Time) bool { return !known[key] })
	content, err := json.Marshal(s.last)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(s.state, seenFile), content, 0o600)
}
