package contract

import (
	"slices"
	"time"
)

// Requirement is what a peer's agent must show. The zero value wants a recognised
// architecture with contracts, and nothing of them.
type Requirement struct {
	// Architectures and Orchestrators are those that will do; nil stands for the
	// recognised ones, dual_llm and deterministic_interpreter.
	Architectures, Orchestrators []string
	// Demands are the invariants that the contracts must have.
	Demands []Demand
	// Proof demands a permission proof without holes.
	Proof bool
	// MaxAge is how old the evidence may be; 0 is as old as the statement may be.
	MaxAge time.Duration
}

// Demand is one invariant that a contract must promise at a level or a stronger one.
type Demand struct {
	Name  string
	Args  []Arg // none: any
	Level Level
}

// DualLLM is the architecture of the draft.
const DualLLM = "dual_llm"

// DualLLMRequirement returns the built-in requirement dual-llm: the draft's six
// invariants at their levels, and a permission proof of the last 24 hours.
func DualLLMRequirement() Requirement {
	r := Requirement{Proof: true, MaxAge: 24 * time.Hour}
	for _, name := range []string{"planner-v1", "processor-v1"} {
		c, _ := ParseBuiltin(name)
		for _, i := range c.Invariants {
			r.Demands = append(r.Demands, Demand{i.Predicate.Name, i.Predicate.Args, i.Level})
		}
	}
	return r
}

// ParseRequirement reads a requirement, strictly: architectures, orchestrators,
// invariants [{predicate, args?, level}], evidence {permission_proof?, max_age?}, and
// perhaps its name. Each may be left out.
func ParseRequirement(b []byte) (Requirement, bool) {
	var r Requirement
	if len(b) > MaxEnvelope {
		return r, false
	}
	o, ok := value{raw: b}.closed(keys{optional: []string{"name", "architectures", "orchestrators", "invariants", "evidence"}})
	if !ok {
		return r, false
	}
	if v := o.get("name"); !v.missing() {
		_, ok = v.label(maxLabel)
	}
	for _, list := range []struct {
		key  string
		into *[]string
	}{{"architectures", &r.Architectures}, {"orchestrators", &r.Orchestrators}} {
		if v := o.get(list.key); ok && !v.missing() {
			*list.into, ok = v.texts(maxDemands, maxLabel)
		}
	}
	if v := o.get("invariants"); ok && !v.missing() {
		r.Demands, ok = readDemands(v)
	}
	if v := o.get("evidence"); ok && !v.missing() {
		ok = r.readEvidence(v)
	}
	if !ok {
		return Requirement{}, false
	}
	return r, true
}

func readDemands(v value) ([]Demand, bool) {
	elements, _, ok := v.list(maxDemands)
	if !ok {
		return nil, false
	}
	var demands []Demand
	for _, element := range elements {
		o, ok := element.closed(keys{required: []string{"predicate", "level"}, optional: []string{"args"}})
		if !ok {
			return nil, false
		}
		name, ok1 := o.get("predicate").text(maxLabel)
		word, ok2 := o.get("level").text(maxLabel)
		level, ok3 := ParseLevel(word)
		if !ok1 || !ok2 || !ok3 || !slices.Contains(PredicateNames(), name) {
			return nil, false
		}
		d := Demand{Name: name, Level: level}
		if args := o.get("args"); !args.missing() {
			p, code := readArgs(name, args)
			if code != "" {
				return nil, false
			}
			d.Args = p.Args
		}
		demands = append(demands, d)
	}
	return demands, true
}

func (r *Requirement) readEvidence(v value) bool {
	o, ok := v.closed(keys{optional: []string{"permission_proof", "max_age"}})
	if !ok {
		return false
	}
	if v := o.get("permission_proof"); !v.missing() {
		if r.Proof, ok = v.bool(); !ok {
			return false
		}
	}
	if v := o.get("max_age"); !v.missing() {
		text, ok := v.text(maxLabel)
		age, err := time.ParseDuration(text)
		if !ok || err != nil || age <= 0 {
			return false
		}
		r.MaxAge = age
	}
	return true
}

// recognises reports whether an architecture and its orchestrator will do.
func (r *Requirement) recognises(d *Declaration) bool {
	oneOf := func(word string, list []string, recognised string) bool {
		if list == nil {
			return word == recognised
		}
		return slices.Contains(list, word)
	}
	return oneOf(d.Architecture, r.Architectures, DualLLM) && oneOf(d.Orchestrator.Is, r.Orchestrators, DeterministicInterpreter)
}

// role returns the role whose contract has to meet a demand, or none if several
// could.
func (d *Demand) role() Role {
	switch {
	case len(d.Args) > 0:
		return Predicate{d.Name, d.Args}.subject()
	case d.Name == Deterministic || d.Name == Gated || d.Name == DecidesOn:
		return Orchestrator
	default:
		return ""
	}
}
