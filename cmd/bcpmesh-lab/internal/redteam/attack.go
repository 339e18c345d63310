package redteam

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Class groups attacks by target, as docs/ATTACKS.md does.
type Class string

// The classes, in the order of the catalogue.
const (
	ClassEncoding   Class = "encoding"   // channels inside a valid answer
	ClassFormat     Class = "format"     // evasion of length and format
	ClassStructure  Class = "structure"  // ids, retries, spoofed members
	ClassTransport  Class = "transport"  // NATS subjects, JWTs, connections
	ClassDecoder    Class = "decoder"    // bytes against the readers
	ClassBudget     Class = "budget"     // bits that are not charged
	ClassPeople     Class = "people"     // approvals
	ClassTaint      Class = "taint"      // provenance
	ClassOperations Class = "operations" // audit, restart, floods
	ClassCombined   Class = "combined"   // several agents at once
	ClassKernel     Class = "kernel"     // plans, calls and outcomes
)

// Classes returns the classes in their order.
func Classes() []Class {
	return []Class{ClassEncoding, ClassFormat, ClassStructure, ClassTransport, ClassDecoder, ClassBudget, ClassPeople, ClassTaint, ClassOperations, ClassCombined, ClassKernel}
}

// Verdict is the result of an attack. The zero value is NotRun.
type Verdict uint8

// The verdicts.
const (
	NotRun Verdict = iota // it could not be tried to its end: nothing is known
	Held
	Broken
	Skipped // it does not apply to these definitions
)

func (v Verdict) String() string {
	switch v {
	case Held:
		return "held"
	case Broken:
		return "broken"
	case Skipped:
		return "skipped"
	}
	return "not run"
}

// MarshalText returns the verdict's word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's word.
func (v *Verdict) UnmarshalText(text []byte) error {
	for _, known := range []Verdict{NotRun, Held, Broken, Skipped} {
		if known.String() == string(text) {
			*v = known
			return nil
		}
	}
	return errors.New("no verdict: held, broken, skipped or not run")
}

// Attack is one attempt of hostile agents.
type Attack struct {
	ID         string // never changes its meaning
	Class      Class
	Text       string            // what it does
	Property   string            // what must hold
	files      map[string]string // definitions other than the sample's
	definition *bcp.Mesh         // somebody's own, in place of files
	// Run makes the attack on its own mesh and reports broken properties with
	// [Rig.Broken]. The oracle checks the mesh afterwards.
	Run func(*Rig)
}

// Catalogue returns all attacks, class after class.
func Catalogue() []Attack {
	return slices.Concat(encodings(), formats(), structures(), transports(), decoders(), budgets(), approvals(), taints(), operations(), combinations(), kernels())
}

// Select returns the attacks of a list whose ID or class is among words; all without
// words. The error lists words without a match.
func Select(all []Attack, words []string) ([]Attack, error) {
	return Matching(all, words, "neither an attack nor a class", func(a Attack, word string) bool { return a.ID == word || string(a.Class) == word })
}

// Matching returns those of a list that one of the words is for; all without words. The error is
// about words that are for none.
func Matching[T any](all []T, words []string, unknown string, is func(T, string) bool) ([]T, error) {
	if len(words) == 0 {
		return all, nil
	}
	without := slices.DeleteFunc(slices.Clone(words), func(word string) bool {
		return slices.ContainsFunc(all, func(one T) bool { return is(one, word) })
	})
	if len(without) > 0 {
		return nil, fmt.Errorf("%s: %s", unknown, strings.Join(without, ", "))
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return is(one, word) })
	}), nil
}
