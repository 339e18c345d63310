package kernel

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Capability names a permission: ^[a-z0-9][a-z0-9._-]{0,62}$.
type Capability string

// Valid reports whether the name is one.
func (c Capability) Valid() bool {
	return len(c) >= 1 && len(c) <= 63 && isOf(string(c), lower+digits+"._-") && !strings.ContainsRune("._-", rune(c[0]))
}

const (
	lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	nameBytes     = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits + "_"
)

// isOf reports whether a text has no other characters than these.
func isOf(s, characters string) bool { return strings.Trim(s, characters) == "" }

// Grant is a set of capabilities: what a run may do. The zero Grant holds none.
// It is immutable.
type Grant struct{ held []Capability } // sorted, each once

// NewGrant returns the set of the valid names among those given. Names compare
// exactly; there are no wildcards.
func NewGrant(names ...Capability) Grant {
	held := slices.DeleteFunc(slices.Clone(names), func(c Capability) bool { return !c.Valid() })
	slices.Sort(held)
	return Grant{slices.Compact(held)}
}

// Holds reports whether the grant has the capability.
func (g Grant) Holds(c Capability) bool {
	_, found := slices.BinarySearch(g.held, c)
	return found
}

// HoldsAll reports whether the grant has all capabilities.
func (g Grant) HoldsAll(names []Capability) bool {
	return !slices.ContainsFunc(names, func(c Capability) bool { return !g.Holds(c) })
}

// Clamp returns what is asked for and held: a sub-run's grant, never more than
// that of the run around it (KER-34).
func (g Grant) Clamp(asked []Capability) Grant {
	return NewGrant(slices.DeleteFunc(slices.Clone(asked), func(c Capability) bool { return !g.Holds(c) })...)
}

// Capabilities returns the set, sorted. The caller must not change it.
func (g Grant) Capabilities() []Capability { return g.held }

// IsStepID reports whether s can be the id of a step, what a planner called one, or a
// property of a schema, and so a segment of a path: ^[A-Za-z0-9_-]{1,64}$. The ids of
// questions have hyphens.
func IsStepID(s string) bool { return len(s) >= 1 && len(s) <= maxNameBytes && isOf(s, nameBytes+"-") }

// isName reports whether s names an argument, an input of a merge, or a
// property of a schema that a rule can read: ^[A-Za-z_][A-Za-z0-9_]{0,63}$.
func isName(s string) bool {
	return len(s) >= 1 && len(s) <= maxNameBytes && isOf(s, nameBytes) && (s[0] < '0' || s[0] > '9')
}

// isPath reports whether s is a path: properties and indexes with dots between.
func isPath(s string) bool {
	if len(s) > maxPathBytes {
		return false
	}
	for segment := range strings.SplitSeq(s, ".") {
		if !IsStepID(segment) {
			return false
		}
	}
	return true
}

// isText reports whether s is short enough for a text of a plan.
func isText(s string) bool {
	return len(s) <= MaxPlanText || len(s) <= MaxPlanText*utf8.UTFMax && utf8.RuneCountInString(s) <= MaxPlanText
}

// says reports whether a text has a character that a reader sees.
func says(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) })
}
