package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// StatusFile is its name in a state folder.
const StatusFile = "notify.json"

// Status is how a route is.
type Status struct {
	Delivered time.Time `json:"delivered,omitzero"` // the newest message that was taken
	// Failing is when the current failure began; zero if the newest message was taken.
	// Why and Attempts belong to it.
	Failing  time.Time `json:"failing,omitzero"`
	Attempts int       `json:"attempts,omitzero"`
	Why      string    `json:"why,omitempty"`
}

// ReadStatus reads the status file of a notifier, by route; it is empty if there is no
// file.
func ReadStatus(file string) (map[string]Status, error) {
	routes := map[string]Status{}
	content, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(content, &routes)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", StatusFile, err)
	}
	return routes, nil
}

// statusFile keeps how the routes are.
type statusFile struct {
	file string
	log  hclog.Logger

	mu     sync.Mutex
	routes map[string]Status
}

// newStatusFile goes on with what the file says; without a file all are new.
func newStatusFile(file string, log hclog.Logger) *statusFile {
	routes, err := ReadStatus(file)
	if err != nil {
		log.Warn("how notification routes were is forgotten", "error", err)
		routes = map[string]Status{}
	}
	return &statusFile{file: file, log: log, routes: routes}
}

func (s *statusFile) note(route string, failed error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.routes[route]
	if failed == nil {
		status = Status{Delivered: now.UTC().Truncate(time.Second)}
	} else {
		if status.Failing.IsZero() {
			status.Failing = now.UTC().Truncate(time.Second)
		}
		status.Attempts++
		status.Why = Reason(failed)
	}
	s.routes[route] = status
	s.write()
}

func (s *statusFile) forget(route string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.routes[route]; there {
		delete(s.routes, route)
		s.write()
	}
}

// write writes the file; the caller holds the lock.
func (s *statusFile) write() {
	if s.file == "" {
		return
	}
	content, err := json.Marshal(s.routes)
	if err == nil {
		err = disk.Replace(s.file, append(content, '\n'), 0o600)
	}
	if err != nil {
		s.log.Warn("writing how notification routes are", "error", err)
	}
}
