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

// DeterministicInterpreter is the type of this mesh's orchestrators.
const DeterministicInterpreter = "deterministic_interpreter"

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
	var doc requirementDocument
	if !decode(b, &doc) || doc.Name != nil && !areLabels(*doc.Name) ||
		doc.Architectures != nil && !isList(doc.Architectures, maxDemands) || doc.Orchestrators != nil && !isList(doc.Orchestrators, maxDemands) || len(doc.Invariants) > maxDemands {
		return Requirement{}, false
	}
	r = Requirement{Architectures: doc.Architectures, Orchestrators: doc.Orchestrators, Proof: doc.Evidence.Proof}
	for _, i := range doc.Invariants {
		level, ok := ParseLevel(i.Level)
		if !ok || !slices.Contains(PredicateNames(), i.Predicate) {
			return Requirement{}, false
		}
		d := Demand{Name: i.Predicate, Level: level}
		if i.Args != nil {
			p, code := readArgs(i.Predicate, i.Args)
			if code != "" {
				return Requirement{}, false
			}
			d.Args = p.Args
		}
		r.Demands = append(r.Demands, d)
	}
	if doc.Evidence.MaxAge != nil {
		var err error
		if r.MaxAge, err = time.ParseDuration(*doc.Evidence.MaxAge); err != nil || r.MaxAge <= 0 {
			return Requirement{}, false
		}
	}
	return r, true
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
