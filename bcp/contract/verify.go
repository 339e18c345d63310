package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verify compares a contract with facts. An invariant holds if it is shown at its
// declared level or a stronger one. Evidence against it, at any level, makes it
// fail. An invariant without a predicate is unverified.
func Verify(c Contract, f Facts) Report {
	r := Report{
		Role: c.Role, Contract: c.Digest, OK: c.Role.hasContract() && len(c.Invariants) > 0,
		Invariants: []InvariantReport{}, Prohibited: []ProhibitionReport{},
	}
	for _, v := range c.Invariants {
		evidence := f.evidence(v.Predicate)
		i := InvariantReport{
			ID: v.ID, Predicate: v.Predicate.String(), Declared: v.Level, Shown: shown(evidence), Verdict: Unverified, Evidence: evidence,
		}
		switch {
		case fails(evidence):
			i.Verdict = Fails
		case len(i.Shown) > 0 && i.Shown[0] >= v.Level:
			i.Verdict = Holds
		}
		if p := v.Predicate; i.Verdict == Holds && c.Role == Planner && f.ErrorBits > 0 && (p.Name == FunctionOf || p.Name == NeverReceives) {
			i.But = fmt.Sprintf("up to %d bits a run: which step failed, and how, content may choose, and a plan after that is under control of it: it writes nothing without a rule", f.ErrorBits)
		}
		r.OK = r.OK && i.Verdict == Holds
		r.Invariants = append(r.Invariants, i)
	}
	for _, word := range c.Prohibited {
		p := prohibition(c.Role, word)
		evidence := f.evidence(p)
		w := ProhibitionReport{Word: word, Predicate: p.String(), Shown: shown(evidence), Fails: fails(evidence)}
		r.OK = r.OK && len(w.Shown) > 0 && !w.Fails
		r.Prohibited = append(r.Prohibited, w)
	}
	return r
}

// shown returns the levels that have evidence for something and none against it,
// strongest first.
func shown(evidence []Evidence) []Level {
	levels := []Level{}
	for _, level := range []Level{Architectural, Parser, Monitored} {
		at := func(against bool) bool {
			return slices.ContainsFunc(evidence, func(e Evidence) bool { return e.Level == level && e.Against == against })
		}
		if at(false) && !at(true) {
			levels = append(levels, level)
		}
	}
	return levels
}

func fails(evidence []Evidence) bool {
	return slices.ContainsFunc(evidence, func(e Evidence) bool { return e.Against })
}

// evidence returns everything that the facts say about a predicate, strongest first.
func (f *Facts) evidence(p Predicate) []Evidence {
	s := signatureOf(p.Name)
	if s == nil {
		return []Evidence{}
	}
	return append(append([]Evidence{}, s.evidence(f, p)...), f.monitored(p)...)
}

// neverReceives judges that a role hears nothing of a column, and that no message to it has room for it.
func (f *Facts) neverReceives(p Predicate) []Evidence {
	role, column := Role(p.word(0)), Column(p.word(1))
	return slices.Concat(f.neverHears(role, func(c Column) bool { return c == column }), f.noRoom(role, column))
}

func (f *Facts) gated(Predicate) []Evidence {
	return f.claim(f.Effects, "each call subject has one publisher, which asks the gate", func(Hole) bool { return true })
}

// claim judges a claim of the permission proof. A hole that concerns the predicate
// speaks against it; with any other the claim shows nothing.
func (f *Facts) claim(c *Claim, says string, concerns func(Hole) bool) []Evidence {
	if c == nil {
		return nil
	}
	var found []Evidence
	for _, h := range c.Holes {
		if concerns(h) {
			found = append(found, Evidence{Level: Architectural, By: byProof, Against: true, Detail: h.Way, Digest: c.JWTs})
		}
	}
	if len(c.Holes) == 0 {
		found = append(found, Evidence{Level: Architectural, By: byProof, Detail: says, Digest: c.JWTs})
	}
	return found
}

// neverHears judges that a role hears none of some columns. It is false of a column
// that the matrix lets the role see.
func (f *Facts) neverHears(role Role, of func(Column) bool) []Evidence {
	for _, c := range Columns() {
		if of(c) && Sees(role, c).Sees != SeesNot {
			return []Evidence{{Level: Architectural, By: byProof, Against: true, Detail: "the isolation matrix lets the role see it: " + Sees(role, c).How}}
		}
	}
	return f.claim(f.Roles, "no subject that carries it is open to the role", func(h Hole) bool { return h.Role == role && of(h.Column) })
}

// noRoom judges that no message to a role has room for a column.
func (f *Facts) noRoom(role Role, column Column) []Evidence {
	var kinds []string
	for _, t := range f.Messages {
		if t.To != role {
			continue
		}
		if slices.Contains(t.Holds, column) {
			return []Evidence{{Level: Parser, By: byTypes, Against: true, Detail: "the message " + t.Kind + " has room for it"}}
		}
		kinds = append(kinds, t.Kind)
	}
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	return []Evidence{{Level: Parser, By: byTypes, Detail: "no message to the role has room for it: " + strings.Join(slices.Compact(kinds), ", ")}}
}

// checkPlannerInput judges that the planner's output is made of the task and the tools'
// signatures: it hears nothing else. Codes of errors, which a next plan is asked for
// with, are counted (max_planner_bits).
func (f *Facts) checkPlannerInput(p Predicate) []Evidence {
	if p.word(0) != "planner.output" || !slices.Contains(p.set(1), "user_query") || !slices.Contains(p.set(1), "tool_signatures") {
		return nil
	}
	return f.claim(f.Roles, "the planner hears requests for plans alone; codes of errors are counted", func(h Hole) bool {
		return h.Role == Planner && h.Column != "" && h.Column != UserQuery || h.To == Planner
	})
}

// decoders says which schema each strict decoder enforces.
var decoders = map[string]string{"planner.output": planSchema, "processor.output": requestedSchema}

func (f *Facts) decoder(p Predicate) []Evidence {
	if decoders[p.word(0)] != p.word(1) {
		return nil
	}
	var found []Evidence
	for _, t := range f.Decoders {
		if t.Output != p.word(0) || t.Passed+t.Failed == 0 {
			continue
		}
		e := Evidence{Level: Parser, By: byDecoder, Detail: fmt.Sprintf("%d vectors passed, %d failed", t.Passed, t.Failed), Against: t.Failed > 0, Digest: t.Vectors}
		if p.word(1) == planSchema {
			e.Detail += "; the restricted language is the typed plan (plan-ir/1)"
		}
		found = append(found, e)
	}
	return found
}

// noTools judges that a role has no way to tools. Both claims have to show it.
func (f *Facts) noTools(p Predicate) []Evidence {
	from := Role(p.word(0))
	if hasEdge(from, Tool) {
		return []Evidence{{Level: Architectural, By: byProof, Against: true, Detail: "it is one of the edges between roles"}}
	}
	if f.Roles == nil || f.Effects == nil {
		return nil
	}
	concerns := func(h Hole) bool { return h.Role == from && h.To == Tool }
	roles := f.claim(f.Roles, "no edge leads there", concerns)
	effects := f.claim(f.Effects, "it may publish on no call subject", concerns)
	found := slices.Concat(roles, effects)
	if !fails(found) && (len(roles) == 0 || len(effects) == 0) {
		return nil // another hole: neither claim shows anything
	}
	return found
}

func (f *Facts) onlyMessages(p Predicate) []Evidence {
	from, to := Role(p.word(0)), Role(p.word(1))
	var found []Evidence
	if !hasEdge(from, to) {
		found = f.claim(f.Roles, "no edge leads there", func(h Hole) bool { return h.Role == from && h.To == to })
	}
	var kinds []string
	for _, t := range f.Messages {
		if t.From == from && t.To == to {
			kinds = append(kinds, t.Kind)
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(p.set(2), kind) {
			return append(found, Evidence{Level: Parser, By: byTypes, Against: true, Detail: "there is a message " + kind})
		}
	}
	if len(f.Messages) > 0 {
		detail := "there is no message"
		if len(kinds) > 0 {
			detail = "there are no messages but " + strings.Join(kinds, ", ")
		}
		found = append(found, Evidence{Level: Parser, By: byTypes, Detail: detail})
	}
	return found
}

func (f *Facts) pure(p Predicate) []Evidence {
	if f.Build == nil || !f.Build.PureInterpreter || p.word(0) != string(Orchestrator) {
		return nil
	}
	return []Evidence{{Level: Parser, By: byBuild, Detail: "the interpreter imports no clock, randomness, network or model (" + f.Build.Version + ")"}}
}

func (f *Facts) rules(p Predicate) []Evidence {
	if f.Rules == nil || p.word(0) != string(Orchestrator) {
		return nil
	}
	e := Evidence{Level: Parser, By: byRules, Detail: "no rule reads data", Digest: f.Rules.Digest}
	if n := len(f.Rules.ReadData); n > 0 {
		e.Against, e.Detail = true, "rules that read data: "+strings.Join(f.Rules.ReadData, ", ")
	}
	return []Evidence{e}
}

// monitored judges by the counters of a predicate. One that never checked anything
// shows nothing.
func (f *Facts) monitored(p Predicate) []Evidence {
	var found []Evidence
	for _, m := range f.Monitors {
		if !m.Predicate.Equal(p) || m.Checked == 0 && m.Violated == 0 {
			continue
		}
		found = append(found, Evidence{
			Level: Monitored, By: byMonitor, Against: m.Violated > 0, Record: m.First,
			Detail: fmt.Sprintf("checked %d times since %s, violated %d times", m.Checked, m.Since.UTC().Format(time.RFC3339), m.Violated),
		})
	}
	return found
}
