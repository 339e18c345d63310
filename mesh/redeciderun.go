package mesh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// RunRedecision is a run that was decided again.
type RunRedecision struct {
	Run         kernel.RunID  `json:"run_id"`
	Kernel      bcp.AgentName `json:"kernel"`
	By          bcp.Digest    `json:"by"`      // what decides now: see [DecidedBy]
	Records     int           `json:"records"` // 0: the journal has no such run
	Same        int           `json:"same"`
	Differ      int           `json:"differ"`
	Incidents   int           `json:"incidents"` // of those that differ: decided by By
	NotPossible int           `json:"not_possible"`
	Results     []RunRecord   `json:"results"`
}

// RunRecord is one record of a run, and how it compares.
type RunRecord struct {
	Decision uint64           `json:"decision"`
	Kind     bcp.DecisionKind `json:"kind"`
	From     bcp.AgentName    `json:"from,omitempty"`
	Result   string           `json:"result"` // same, differs, incident, erased, cut or untold
	// Parts are those of the record that differ; said is what was said.
	Parts []string `json:"parts,omitempty"`
}

// ErrRunRecord says that a record of a run does not follow from those before it: the
// beginning of the run was truncated, or the journal was changed.
var ErrRunRecord = errors.New("does not follow from those before it")

// RedecideRun decides the records of a kernel's run again, by definitions and the program
// that version names, and compares them. Nothing is changed. The error may be
// [ErrRunRecord], or of reading the journal.
func (s *Source) RedecideRun(ctx context.Context, by *bcp.Mesh, version, run string) (RunRedecision, error) {
	r, err := newRunRedecider(by, version, kernel.RunID(run))
	if err == nil {
		err = s.Records(ctx, 0, 0, func(record jetstream.Record) error {
			for _, decision := range record.Decisions {
				rec, err := s.Keys.Recorded(ctx, decision)
				if err == nil {
					err = r.next(&rec)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return r.RunRedecision, err
}

// runRedecider decides a run again, record by record.
type runRedecider struct {
	RunRedecision

	runs   *kernel.State
	people *state.State // what they endorsed
}

func newRunRedecider(def *bcp.Mesh, version string, run kernel.RunID) (r runRedecider, err error) {
	r = runRedecider{RunRedecision: RunRedecision{Run: run, Results: []RunRecord{}}, runs: kernel.NewState(kernel.OfMesh(def)...)}
	if r.By, err = DecidedBy(def, version); err != nil {
		return r, err
	}
	if r.people, err = state.New(state.Config{Mesh: &bcp.Mesh{Agents: def.Agents, Kernels: def.Kernels, EndorseTools: def.EndorseTools}}); err != nil {
		return r, err
	}
	r.runs.EndorseBy(r.people.EndorsedCall)
	return r, nil
}

// next decides a record of the run again, and applies it; those of others it applies alone.
func (r *runRedecider) next(rec *state.Recorded) error {
	d := &rec.Decision
	var c *kernel.Change
	if d.Run != nil && d.Kind.IsRun() {
		change, err := kernel.ReadRecord(d)
		if err != nil {
			return fmt.Errorf("this version does not understand record %d", d.Seq)
		}
		c = &change
	}
	if c != nil || d.Endorsed != nil && d.Reader == "" {
		defer r.people.ApplyCall(d) // what was given before a journal was cut off it does not know
	}
	if c == nil {
		return nil
	}
	mine := c.Run == r.Run
	if mine {
		r.Kernel, r.Records = d.Run.Kernel, r.Records+1
		r.Results = append(r.Results, r.compare(rec, c))
	}
	// A run whose beginning was cut off with the journal's is none of this state.
	if err := r.runs.Apply(c); err != nil && mine {
		return fmt.Errorf("record %d %w", d.Seq, ErrRunRecord)
	}
	return nil
}

// compare decides about a record again.
func (r *runRedecider) compare(rec *state.Recorded, c *kernel.Change) RunRecord {
	d := &rec.Decision
	result := RunRecord{Decision: d.Seq, Kind: d.Kind, From: d.Run.From}
	would, possible := r.runs.Redecide(c, d.Run.From, d.Salt, rec.Message)
	switch {
	case d.Erased, rec.Gone:
		result.Result = "erased"
	case len(d.SealedRaw) > 0 && len(rec.Message) < d.RawBytes:
		result.Result = "cut"
	case !possible, c.Endorsed != nil && !r.people.KnowsEndorsement(bcp.ChannelKey{Controller: d.Run.Kernel}, c.Endorsed.ID):
		result.Result = "untold"
	case would.Same(c):
		result.Result = "same"
		r.Same++
		return result
	default:
		r.Differ++
		result.Result, result.Parts = "differs", partsThatDiffer(c, &would)
		if d.Context == r.By {
			r.Incidents++
			result.Result = "incident"
		}
		return result
	}
	r.NotPossible++
	return result
}

// partsThatDiffer names the members of two changes that are not the same.
func partsThatDiffer(a, b *kernel.Change) []string {
	var was, would map[string]jsontext.Value
	if json.Unmarshal(a.AppendJSON(nil), &was) != nil || json.Unmarshal(b.AppendJSON(nil), &would) != nil {
		return nil
	}
	var parts []string
	maps.Copy(was, map[string]jsontext.Value{"said": a.Private.AppendJSON(nil)})
	maps.Copy(would, map[string]jsontext.Value{"said": b.Private.AppendJSON(nil)})
	for key := range was {
		if !bytes.Equal(was[key], would[key]) {
			parts = append(parts, key)
		}
	}
	for key := range would {
		if _, both := was[key]; !both {
			parts = append(parts, key)
		}
	}
	slices.Sort(parts)
	return parts
}
