package agents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// outcomeMemory is how long an outcome is remembered: after that no kernel repeats a
// call.
const outcomeMemory = 24 * time.Hour

// Outcomes remembers the results of a tool's calls by the digest of a call, for 24 hours. The zero value
// remembers them only in memory. It may be used concurrently, but only by one process.
type Outcomes struct {
	mu    sync.Mutex
	file  *os.File // nil: only in memory
	known map[string]keptOutcome
}

// keptOutcome is a line of the file.
type keptOutcome struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time"`
	Outcome outcome   `json:"outcome"`
}

// OpenOutcomes opens or creates the file in which a tool keeps its outcomes. Outcomes
// older than a day are dropped. An outcome is on disk before it is sent. The file
// contains results of tools, so only its owner should be able to read it.
func OpenOutcomes(name string) (*Outcomes, error) {
	o := &Outcomes{known: map[string]keptOutcome{}}
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("agents: reading outcomes: %w", err)
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(b) {
		if line[len(line)-1] != '\n' { // a line without an end was not sent
			break
		}
		var k keptOutcome
		if err := json.Unmarshal(line, &k); err != nil || k.Key == "" {
			return nil, fmt.Errorf("agents: %s is no file of outcomes", name)
		}
		if time.Since(k.Time) < outcomeMemory {
			o.known[k.Key] = k
			kept.Write(line)
		}
	}
	if err := disk.Replace(name, kept.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("agents: writing outcomes: %w", err)
	}
	if o.file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0); err != nil {
		return nil, fmt.Errorf("agents: writing outcomes: %w", err)
	}
	return o, nil
}

// Close closes the file. Later outcomes cannot be remembered, and are not sent.
func (o *Outcomes) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file == nil {
		return nil
	}
	return o.file.Close()
}

func (o *Outcomes) find(key string) (outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k, ok := o.known[key]
	return k.Outcome, ok && time.Since(k.Time) < outcomeMemory
}

// remember returns when the outcome is on the disk.
func (o *Outcomes) remember(key string, of outcome) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := keptOutcome{Key: key, Time: time.Now().UTC(), Outcome: of}
	if o.file != nil {
		line, err := json.Marshal(k)
		if err != nil {
			return err
		}
		if _, err := o.file.Write(append(line, '\n')); err != nil {
			return err
		}
		if err := o.file.Sync(); err != nil {
			return err
		}
	}
	if o.known == nil {
		o.known = map[string]keptOutcome{}
	}
	for old, was := range o.known {
		if k.Time.Sub(was.Time) < outcomeMemory {
			break // most are younger: look at few
		}
		delete(o.known, old)
	}
	o.known[key] = k
	return nil
}
