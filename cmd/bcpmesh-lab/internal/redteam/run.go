package redteam

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config configures a run. State is required.
type Config struct {
	State   string   // an empty folder for the meshes of attacks
	Attacks []Attack // the whole catalogue if nil
	Seed    uint64   // the same seed makes the same acts
	// Limit is how long one attack may take; the default is two minutes.
	Limit time.Duration
	// OnResult, if set, is called as each attack ends.
	OnResult func(Result)
}

// Result is the result of an attack.
type Result struct {
	ID       string   `json:"id"`
	Class    Class    `json:"class"`
	Text     string   `json:"text"`
	Property string   `json:"property"`
	Verdict  Verdict  `json:"verdict"`
	Evidence []string `json:"evidence,omitempty"` // what broke, or why it could not be run
	TookMS   int64    `json:"took_ms"`
}

// Report is the result of a run.
type Report struct {
	Schema  int       `json:"schema"` // 1
	Seed    uint64    `json:"seed"`
	Began   time.Time `json:"began,omitzero"`
	Results []Result  `json:"results"`
}

// Count returns how many attacks have a verdict.
func (r Report) Count(v Verdict) (n int) {
	for _, result := range r.Results {
		if result.Verdict == v {
			n++
		}
	}
	return n
}

// Run makes the attacks one after the other. The error says that nothing could be
// tried; an error of a single attack is its result. When ctx ends, the remaining
// attacks are not run.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.State == "" {
		return Report{}, errors.New("redteam: there is no folder for state")
	}
	if c.Attacks == nil {
		c.Attacks = Catalogue()
	}
	if c.Limit == 0 {
		c.Limit = 2 * time.Minute
	}
	report := Report{Schema: 1, Seed: c.Seed, Began: time.Now().UTC().Truncate(time.Second)}
	for _, a := range c.Attacks {
		result := try(ctx, c, a)
		report.Results = append(report.Results, result)
		if c.OnResult != nil {
			c.OnResult(result)
		}
	}
	return report, nil
}

// try makes one attack, and has the oracle judge it.
func try(ctx context.Context, c Config, a Attack) (result Result) {
	begin := time.Now()
	result = Result{ID: a.ID, Class: a.Class, Text: a.Text, Property: a.Property}
	defer func() { result.TookMS = time.Since(begin).Milliseconds() }()
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	r, err := newRig(ctx, c.State, a, c.Seed)
	if err != nil {
		result.Evidence = []string{err.Error()}
		return result
	}
	err = r.guarded(func() {
		r.Mesh()
		a.Run(r)
	})
	// An attack that stops half-way may be one that got through.
	if judged := r.guarded(func() {
		if r.mesh != nil && ctx.Err() == nil {
			r.judge()
		}
	}); err == nil {
		err = judged
	}
	if stop := r.guarded(r.stop); err == nil {
		err = stop
	}
	result.Evidence = r.evidence
	if not, ok := errors.AsType[skipped](err); ok && len(r.evidence) == 0 {
		result.Verdict, result.Evidence = Skipped, []string{not.reason}
		return result
	}
	switch {
	case len(r.evidence) > 0:
		result.Verdict = Broken
	case err == nil:
		result.Verdict = Held
	}
	if err != nil {
		result.Evidence = append(result.Evidence, "not run to its end: "+err.Error())
	}
	return result
}

// guarded calls f and returns why it was abandoned.
func (r *Rig) guarded(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case abandoned:
			err = p.error
		case skipped:
			err = p
		default:
			err = fmt.Errorf("a panic: %v", p)
		}
	}()
	f()
	return nil
}
