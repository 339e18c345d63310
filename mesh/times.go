package mesh

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
)

// times is a file of times by the public key of credentials.
type times struct {
	file string

	mu sync.Mutex
	at map[string]time.Time
}

// openTimes reads a file. One that cannot be read is forgotten.
func openTimes(file string, log hclog.Logger) *times {
	at := map[string]time.Time{}
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &at)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("what is known of credentials is forgotten", "file", filepath.Base(file), "error", err)
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
