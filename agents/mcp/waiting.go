package mcp

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// keyedQueue holds what waits for a host, oldest first, by a key. The zero value is
// empty. Its users bound it: the gateway keeps a window of unacknowledged
// deliveries, and there are MaxPending handlers of queries.
type keyedQueue[K comparable, V any] struct {
	mu    sync.Mutex // guards what follows
	order []K
	items map[K]V
	grown chan struct{} // closed and replaced when something is put; nil until somebody waits
}

// put adds an item, or replaces the one with its key.
func (s *keyedQueue[K, V]) put(key K, item V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items == nil {
		s.items = make(map[K]V)
	}
	if _, there := s.items[key]; !there {
		s.order = append(s.order, key)
	}
	s.items[key] = item
	if s.grown != nil {
		close(s.grown)
		s.grown = nil
	}
}

// take removes an item and reports whether it was there.
func (s *keyedQueue[K, V]) take(key K) (item V, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if item, there = s.items[key]; !there {
		return item, false
	}
	delete(s.items, key)
	at := slices.Index(s.order, key)
	s.order = slices.Delete(s.order, at, at+1)
	return item, true
}

// listLocked returns the oldest matching items, up to most, and how many more
// match. Called with mu held.
func (s *keyedQueue[K, V]) listLocked(most int, match func(V) bool) (found []V, more int) {
	for _, key := range s.order {
		switch item := s.items[key]; {
		case !match(item):
		case len(found) < most:
			found = append(found, item)
		default:
			more++
		}
	}
	return found, more
}

// growsLocked returns a channel that is closed when something is put. Called with mu held.
func (s *keyedQueue[K, V]) growsLocked() <-chan struct{} {
	if s.grown == nil {
		s.grown = make(chan struct{})
	}
	return s.grown
}

// wait returns the oldest matching items, up to most, and how many more match. It
// waits until there is one, for at most a time, or until ctx ends or woken is
// closed.
func (s *keyedQueue[K, V]) wait(ctx context.Context, d time.Duration, woken <-chan struct{}, most int, match func(V) bool) (found []V, more int) {
	late := time.After(d)
	for {
		s.mu.Lock()
		found, more = s.listLocked(most, match)
		grown := s.growsLocked()
		s.mu.Unlock()
		if len(found) > 0 || d <= 0 {
			return found, more
		}
		select {
		case <-grown:
		case <-late:
			return nil, 0
		case <-woken:
			return nil, 0
		case <-ctx.Done():
			return nil, 0
		}
	}
}

// prompts passes the messages of an agent's cron_schedules to the host, each
// once. A prompt that no call took before the end comes again.
type prompts struct {
	keyedQueue[bcp.DeliveryID, waitingPrompt]
}

type waitingPrompt struct {
	bcp.Prompt
	taken chan struct{}
}

// handle waits until a call took the prompt, which is then acknowledged.
func (p *prompts) handle(ctx context.Context, prompt bcp.Prompt) {
	one := waitingPrompt{prompt, make(chan struct{})}
	p.put(prompt.PromptID, one)
	select {
	case <-one.taken:
	case <-ctx.Done():
		p.take(prompt.PromptID)
	}
}

// takeAll returns the waiting prompts.
func (p *prompts) takeAll() (list []bcp.Prompt) {
	waiting, _ := p.wait(context.Background(), 0, nil, math.MaxInt, func(waitingPrompt) bool { return true })
	for _, one := range waiting {
		if _, there := p.take(one.PromptID); there { // and no other call has it
			list = append(list, one.Prompt)
			close(one.taken)
		}
	}
	return list
}

// coming returns a channel that is closed when a prompt waits or comes.
func (p *prompts) coming() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.order) == 0 {
		return p.growsLocked()
	}
	there := make(chan struct{})
	close(there)
	return there
}
