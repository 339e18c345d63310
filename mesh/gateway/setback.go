package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// SetBack is a file that lists who has shown that the journal was rolled back, until
// the operator accepts it. Meanwhile their channels are closed, also after a restart;
// if a person has shown it, all are. Its methods may be used concurrently.
type SetBack struct {
	file string

	mu    sync.Mutex
	known setBack
}

type setBack struct {
	// Shown are those who have seen more than the journal has.
	Shown []shown `json:"shown,omitempty"`
	// Accepted is when the operator last accepted it, or when the newest mark of Shown
	// was given, if that is later: marks up to then are nothing new.
	Accepted time.Time `json:"accepted,omitzero"`
}

type shown struct {
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"`
	Seen  time.Time     `json:"seen"` // when its mark was given
}

// OpenSetBack reads a file; a missing file is empty.
func OpenSetBack(file string) (*SetBack, error) {
	s := &SetBack{file: file}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &s.known)
	}
	if err != nil {
		return nil, fmt.Errorf("reading who has seen more than the journal has: %w", err)
	}
	return s, nil
}

// Pending reports whether something is closed.
func (s *SetBack) Pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known.Shown) > 0
}

// Accept opens what is closed. Call it once the acceptance is recorded.
func (s *SetBack) Accept(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := setBack{Accepted: now}
	for _, one := range s.known.Shown { // the clock may have been set back, too
		if one.Seen.After(next.Accepted) {
			next.Accepted = one.Seen
		}
	}
	if err := s.write(next); err != nil {
		return fmt.Errorf("accept that the journal was set back: %w", err)
	}
	s.known = next
	return nil
}

func (s *SetBack) write(next setBack) error {
	content, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return durable.Replace(s.file, append(content, '\n'), 0o600)
}

// add closes the channels of an agent, or all if a person has shown it. After an error
// they are closed until the gateway stops. It returns false if this is already known.
func (s *SetBack) add(who agentRole, seen time.Time) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shownBy(who) {
		return false, nil
	}
	s.known.Shown = append(s.known.Shown, shown{who.Agent, who.Role, seen})
	return true, s.write(s.known)
}

func (s *SetBack) shownBy(who agentRole) bool {
	return slices.ContainsFunc(s.known.Shown, func(one shown) bool { return one.Agent == who.Agent && one.Role == who.Role })
}

// has reports whether somebody is among those who have shown it.
func (s *SetBack) has(who agentRole) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shownBy(who)
}

// accepted is when the operator accepted it last.
func (s *SetBack) accepted() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Accepted
}

// closed reports whether a channel is closed: one of its agents in its role there, the
// keeper of one, or a person has shown that the journal was rolled back.
func (s *SetBack) closed(key bcp.ChannelKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.known.Shown, func(one shown) bool {
		switch one.Role {
		case bcp.RoleController:
			return one.Agent == key.Controller
		case bcp.RoleReader:
			return one.Agent == key.Reader
		case bcp.RoleKeeper:
			return one.Agent == key.Controller || one.Agent == key.Reader
		default:
			return true
		}
	})
}
