package proof

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// The wildcard tokens of a pattern: one token, or one and all after it.
const (
	anyToken = "*"
	anyTail  = ">"
)

// pattern is a set of subjects: those that a NATS pattern matches. It is
// immutable; the nil pattern matches nothing.
type pattern []string

// everything is the permission of a missing list.
var everything = pattern{anyTail}

// parsePattern parses a pattern. If the server would reject it, the result is nil.
func parsePattern(s string) pattern {
	if !subjects.Valid(s) {
		return nil
	}
	return strings.Split(s, ".")
}

func parsePatterns(list []string) []pattern {
	var patterns []pattern
	for _, s := range list {
		if p := parsePattern(s); p != nil {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

func (p pattern) String() string { return strings.Join(p, ".") }

// intersect returns the pattern of the subjects that both match, or nil if
// there are none.
func (p pattern) intersect(q pattern) pattern {
	if len(p) == 0 || len(q) == 0 {
		return nil
	}
	for i := range min(len(p), len(q)) { // most have none: nothing is made for them
		if p[i] == anyTail || q[i] == anyTail {
			break
		}
		if p[i] != q[i] && p[i] != anyToken && q[i] != anyToken {
			return nil
		}
	}
	both := make(pattern, 0, max(len(p), len(q)))
	for i := range min(len(p), len(q)) {
		switch {
		case p[i] == anyTail:
			return append(both, q[i:]...)
		case q[i] == anyTail:
			return append(both, p[i:]...)
		case p[i] == anyToken:
			both = append(both, q[i])
		default:
			both = append(both, p[i])
		}
	}
	if len(p) != len(q) {
		return nil
	}
	return both
}

// covers reports whether p matches everything that q matches.
func (p pattern) covers(q pattern) bool {
	for i, token := range p {
		if token == anyTail {
			return len(q) > i
		}
		if i >= len(q) || q[i] == anyTail || token != anyToken && token != q[i] {
			return false
		}
	}
	return len(p) == len(q) && len(p) > 0
}

// region is a set of subjects: a pattern without some others.
type region struct {
	pattern pattern
	except  []pattern
}

// empty is exact. The number of possible tokens is infinite, so no number of patterns
// covers all subjects of one length unless one of them does so by itself: a subject
// made of tokens that occur nowhere is in none of the others. A pattern with an open
// end may be covered length by length; beyond the longest exception, all lengths are
// alike.
func (r region) empty() bool {
	if len(r.pattern) == 0 || slices.ContainsFunc(r.except, func(e pattern) bool { return e.covers(r.pattern) }) {
		return true
	}
	last := len(r.pattern) - 1
	if r.pattern[last] != anyTail || !slices.ContainsFunc(r.except, func(e pattern) bool { return len(e) > last+1 }) {
		return false
	}
	one := append(slices.Clone(r.pattern[:last]), anyToken)
	return region{one, r.except}.empty() && region{append(slices.Clip(one), anyTail), r.except}.empty()
}

// restrict returns the part of r that p matches; it may be empty.
func (r region) restrict(p pattern) region {
	both := r.pattern.intersect(p)
	if both == nil {
		return region{}
	}
	return region{both, touching(r.except, both)}
}

// intersect returns the part of r that is also in s.
func (r region) intersect(s region) region {
	both := r.restrict(s.pattern)
	return both.without(s.except)
}

// without returns r without what the patterns match.
func (r region) without(patterns []pattern) region {
	if len(r.pattern) == 0 {
		return region{}
	}
	return region{r.pattern, append(slices.Clip(r.except), touching(patterns, r.pattern)...)}
}

// touching returns the patterns that intersect p.
func touching(patterns []pattern, p pattern) []pattern {
	return slices.DeleteFunc(slices.Clone(patterns), func(e pattern) bool { return e.intersect(p) == nil })
}

// contains reports whether a literal subject is in the region.
func (r region) contains(subject pattern) bool {
	return r.pattern.covers(subject) && !slices.ContainsFunc(r.except, func(e pattern) bool { return e.covers(subject) })
}

// examples returns literal subjects of p, of growing length if p leaves that
// open.
func (p pattern) examples(avoid []pattern) []pattern {
	fresh, longest := "any", len(p)
	for _, a := range avoid {
		longest = max(longest, len(a))
		for slices.Contains(a, fresh) {
			fresh += "x"
		}
	}
	filled := make(pattern, len(p))
	for i, token := range p {
		if filled[i] = token; token == anyToken || token == anyTail {
			filled[i] = fresh
		}
	}
	list := []pattern{filled}
	if len(p) > 0 && p[len(p)-1] == anyTail {
		for range longest - len(p) + 1 {
			filled = append(slices.Clip(filled), fresh)
			list = append(list, filled)
		}
	}
	return list
}
