package audit

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	people "github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rerun is a run that is decided again.
type rerun struct {
	Run         kernel.RunID  `json:"run_id"`
	Kernel      bcp.AgentName `json:"kernel"`
	By          bcp.Digest    `json:"by"` // what decides now
	Records     int           `json:"records"`
	Same        int           `json:"same"`
	Differ      int           `json:"differ"`
	Incidents   int           `json:"incidents"`
	NotPossible int           `json:"not_possible"`
	Results     []rerunRecord `json:"results"`

	people *people.State // what they endorsed
}

// rerunRecord is one record of it, and how it compares.
type rerunRecord struct {
	Decision uint64           `json:"decision"`
	Kind     bcp.DecisionKind `json:"kind"`
	From     bcp.AgentName    `json:"from,omitempty"`
	Result   string           `json:"result"` // same, differs, incident, erased, cut or untold
	// Parts are those of the record that differ; said is what was said.
	Parts []string `json:"parts,omitempty"`
}

// redecideRun decides the records of a run again.
func redecideRun(ctx context.Context, p *cli.Program, where meshdir.StateFlags, id string) error {
	_, def, err := where.Load()
	if err != nil {
		return err
	}
	state := kernel.NewState(kernel.OfMesh(def)...)
	r := rerun{Run: kernel.RunID(id), Results: []rerunRecord{}}
	if r.By, err = mesh.DecidedBy(def, cli.ProgramVersion()); err != nil {
		return err
	}
	if r.people, err = people.New(people.Config{Mesh: &bcp.Mesh{Agents: def.Agents, Kernels: def.Kernels, EndorseTools: def.EndorseTools}}); err != nil {
		return err
	}
	state.EndorseBy(r.people.EndorsedCall)
	if err := readOpened(ctx, where, func(one *replayed) error { return r.redecide(state, one) }); err != nil {
		return err
	}
	if r.Records == 0 {
		return noRun(id)
	}
	return r.report(p.Out)
}

// readChange reads what a record says of a run; nil without an error says nothing of any.
func readChange(d *bcp.Decision) (*kernel.Change, error) {
	if d.Run == nil || !d.Kind.IsRun() {
		return nil, nil
	}
	c, err := kernel.ReadRecord(d)
	if err != nil {
		return nil, cli.Failf("this version does not understand record %d", d.Seq)
	}
	return &c, nil
}

// redecide decides a record of the run again, and applies it; those of others it applies
// alone.
func (r *rerun) redecide(state *kernel.State, one *replayed) error {
	d := &one.Decision
	c, err := readChange(d)
	if err == nil && (c != nil || d.Endorsed != nil && d.Reader == "") {
		defer r.people.ApplyCall(d) // what was given before a journal was cut off it does not know
	}
	if c == nil {
		return err
	}
	mine := c.Run == r.Run
	if mine {
		r.Kernel, r.Records = d.Run.Kernel, r.Records+1
		r.Results = append(r.Results, r.compare(state, one, c))
	}
	// A run whose beginning was cut off with the journal's is none of this state.
	if err := state.Apply(c); err != nil && mine {
		return cli.Failf("record %d does not follow from those before it", d.Seq).WithHint("was the beginning of the run truncated? Otherwise bcpmesh audit verify")
	}
	return nil
}

// compare decides about a record again.
func (r *rerun) compare(state *kernel.State, one *replayed, c *kernel.Change) rerunRecord {
	d, message := &one.Decision, []byte(nil)
	result := rerunRecord{Decision: d.Seq, Kind: d.Kind, From: d.Run.From}
	if one.Raw != nil {
		message = one.Raw.Base64
	}
	would, possible := state.Redecide(c, d.Run.From, d.Salt, message)
	switch {
	case d.Erased, one.Raw != nil && one.Raw.Erased:
		result.Result = "erased"
	case one.Raw != nil && len(message) < one.Raw.Bytes:
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

func (r *rerun) report(o *cli.Output) error {
	if err := o.Show(r, func() {
		o.Table([]string{"record", "kind", "from", "decided again", "differs in"}, cli.Rows(r.Results, func(one *rerunRecord) []string {
			return []string{strconv.FormatUint(one.Decision, 10), one.Kind.String(), string(one.From), one.Result, strings.Join(one.Parts, ", ")}
		}))
		o.Printf("%s of run %s: %d same, %d differ, %d not possible\n", cli.Count(r.Records, "record"), cli.Plain(string(r.Run)), r.Same, r.Differ, r.NotPossible)
	}); err != nil {
		return err
	}
	switch {
	case r.Incidents > 0:
		return cli.Failf("%s: the same definitions and version decide differently", cli.Count(r.Incidents, "incident")).WithHint("bcpmesh audit verify says whether the journal was changed")
	case r.Differ > 0:
		return cli.Failf("%s decided differently by the current definitions", cli.Count(r.Differ, "record")+" would be").WithHint("it was made under others")
	}
	return nil
}
