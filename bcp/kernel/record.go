package kernel

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A State is of a mesh: a change is recorded as one decision.

// OfMesh returns the kernels of definitions, sorted by name.
func OfMesh(m *bcp.Mesh) []*Kernel {
	kernels, _ := m.Compiled.([]*Kernel)
	return slices.SortedFunc(slices.Values(kernels), func(a, b *Kernel) int { return cmp.Compare(a.Name(), b.Name()) })
}

// Record notes in the decision of a change what is recorded of it. From is who sent the
// message that it is about, if one did: a requester, of one that asks for a run.
func (s *State) Record(d *bcp.Decision, c *Change, from bcp.AgentName) {
	made := *c
	if made.open == nil {
		made.open, made.said = c.AppendJSON(nil), c.Private.AppendJSON(nil)
	}
	if string(made.said) == "{}" {
		made.said = nil
	}
	d.Kind, d.Verdict, d.Endorsed, d.Item, d.RunSaid = c.Kind, bcp.Accept, c.Endorsed, s.settledItem(c), made.said
	d.Run = &bcp.RunChange{Run: string(c.Run), From: from, Code: string(c.Code), Alert: string(c.Alert), Held: c.held(), Change: made.open}
	if told := c.tells(); told > 0 {
		d.Capacity, d.Taint = told, bcp.TaintHigh.StepDown()
	} else if c.Code != "" {
		d.Verdict = bcp.Reject
	}
	switch run := s.runs[c.Run]; {
	case c.Start != nil:
		d.Agent, d.Role, d.Run.Kernel, d.SessionBegins = from, bcp.RoleController, c.Start.Kernel, c.Code == "" && c.Start.Anew
	case run != nil:
		d.Run.Kernel = run.Start.Kernel
	}
	s.made = &made
}

// uses reports whether the change makes a call by an endorsement, for the first time.
func (c *Change) uses() bool {
	return c.Wait != nil && c.Wait.Kind == WaitTool && c.Wait.Endorsed != "" && c.Wait.Attempt == 1
}

// tells bounds what a question or the end of a run tells its requester: nothing, if nothing
// was read or called before; at the end a bit, if it was committed; else a bit more than it
// takes to say which status and code it has. So the weights of all ends, and of a question,
// add up to less than 1 (CAPACITY, 7). Which effects it had tells by which way content
// steered it, but for what questions told of that.
func (c *Change) tells() bcp.Bits {
	switch {
	case c.Wait != nil:
		return c.Wait.Tells
	case c.End == nil || c.Code == "" && c.Totals.Parses+c.Totals.Effects == 0:
		return 0
	case c.End.Status == Committed:
		return bcp.Bit + c.Totals.Control - c.Totals.ToldControl
	}
	others := (len(Statuses()) - 1) * (len(explanations) + 1)
	return bcp.Bits(1+bits.Len(uint(others-1)))*bcp.Bit + c.Totals.Control - c.Totals.ToldControl
}

// ReadRecord reads the change of a decision. The private part is empty if that was
// erased, or not opened.
func ReadRecord(d *bcp.Decision) (Change, error) { return readRecord(d, &Change{}) }

// readRecord is ReadRecord. The change that was made just now is not read again, if the
// record has its bytes.
func readRecord(d *bcp.Decision, made *Change) (c Change, err error) {
	if d.Run == nil || !d.Kind.IsRun() {
		return Change{}, ErrRecord
	}
	if c = *made; c.open == nil || !bytes.Equal(c.open, d.Run.Change) || !bytes.Equal(c.said, d.RunSaid) {
		c, err = ParseChange(d.Run.Change, d.RunSaid)
	}
	if err == nil && (c.Kind != d.Kind || c.Time != d.Time || string(c.Run) != d.Run.Run || string(c.Code) != d.Run.Code || string(c.Alert) != d.Run.Alert || c.held() != d.Run.Held || (d.Endorsed != nil) != c.uses() || d.Endorsed != nil && d.Endorsed.ID != c.Wait.Endorsed) {
		err = ErrRecord
	}
	c.Endorsed = d.Endorsed
	return c, err
}

// ApplyRun makes the change that a decision records, and returns what it says of the
// planner or tool that sent the message.
func (s *State) ApplyRun(d *bcp.Decision) ([]bcp.Seen, error) {
	c, err := readRecord(d, s.made)
	if err != nil {
		return nil, err
	}
	s.made = &Change{}
	before := s.runs[c.Run]
	if err := s.Apply(&c); err != nil {
		return nil, fmt.Errorf("run %s: %w", c.Run, err)
	}
	return c.seen(d.Run.From, before, len(s.ended) < maxEndedRuns), nil
}

// Requester returns the agent that started a run, and nothing of one that is not known.
func (s *State) Requester(run string) bcp.AgentName {
	if r := s.runs[RunID(run)]; r != nil {
		return bcp.AgentName(r.Start.Requester.Name)
	}
	return ""
}

// seen returns what the change says of who sent the message that it is about, if that is
// its sender's own doing: content had no part in it, neither by the task, if its requester
// was told something by Readers, nor by what a plan before it came to, nor by what a call
// was given. Known says that no run was forgotten before its time, so that whoever answers
// an unknown call made it up.
func (c *Change) seen(from bcp.AgentName, before *run, known bool) (seen []bcp.Seen) {
	add := func(rule bcp.SuspectRule, count int) {
		seen = append(seen, bcp.Seen{Agent: from, Rule: rule, Count: count})
	}
	switch {
	case from == "":
	case c.Kind == bcp.KindOutcome && c.Code == UnknownCall && known:
		add(bcp.SuspectReply, 1)
	case before == nil || c.Code != "":
	case c.Kind == bcp.KindOutcome && c.Result != nil && c.Result.Code == BadOutcome && !before.Wait.Tainted:
		add(bcp.SuspectOutcome, 1)
	case c.Kind == bcp.KindPlan && !before.Start.Task.Tainted() && (len(before.Frames) > 1 || before.Totals.Effects+before.Totals.Parses == 0):
		if c.Told != nil && c.Told.Code == UnknownTool || c.End != nil && (c.End.Code == UnknownTool || c.End.Cause == UnknownTool) {
			add(bcp.SuspectTools, 1)
		}
		if c.Plan != nil && c.Plan.Attempt == 1 {
			add(bcp.SuspectUnusual, c.Plan.Steps)
		}
		for i := range c.Steps {
			switch st := &c.Steps[i]; {
			case !st.Early || st.Judged == nil || st.Judged.Ruling != Deny:
			case st.Judged.Code == NoCapability:
				add(bcp.SuspectTools, 1)
			default:
				add(bcp.SuspectCall, 1)
			}
		}
	}
	return seen
}

// OpenSince counts the runs that began before a time and have not ended.
func (s *State) OpenSince(before int64) int {
	n := 0
	for _, r := range s.runs {
		if r.End == nil && r.Began < before {
			n++
		}
	}
	return n
}

// Rights returns what the kernel needs of the server, sorted.
func (k *Kernel) Rights() bcp.KernelRights {
	d := &k.definition
	r := bcp.KernelRights{Kernel: d.Name, Planner: d.Planner, SubPlanner: d.SubPlanner, Approvers: d.Approvers}
	processors := []bcp.AgentName{d.SubPlanner}
	for _, s := range d.Schemas {
		processors = append(processors, s.Reader)
	}
	for _, name := range processors {
		if name != "" && !slices.Contains(r.Processors, name) {
			r.Processors = append(r.Processors, name)
		}
	}
	for _, requester := range slices.Sorted(maps.Keys(d.Requesters)) {
		for _, grant := range d.Requesters[requester] {
			r.Runs = append(r.Runs, bcp.RunRight{Requester: requester, Grant: grant})
		}
	}
	for _, name := range k.names {
		r.Calls = append(r.Calls, bcp.CallRight{Service: bcp.AgentName(k.tools[name].Service), Tool: name})
	}
	return r
}
