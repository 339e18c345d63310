package proof

import (
	"slices"
	"strconv"
	"strings"
)

// mapping is how a subject is rewritten on its way into another account, or
// within one. Inexact mappings are overestimated.
type mapping struct {
	from pattern
	to   []piece
}

// piece is one token of a mapping's output.
type piece struct {
	literal string
	wild    int  // the token of the wildcard with this number, from 1
	unknown bool // any token, or, with tail, any one or more
	tail    bool // everything that the ">" of from matches
}

// mapToAnything maps from to anything that to matches.
func mapToAnything(from, to pattern) mapping {
	m := mapping{from: from}
	for _, token := range to {
		m.to = append(m.to, piece{literal: token, unknown: token == anyToken || token == anyTail, tail: token == anyTail})
	}
	return m
}

// newMapping parses a destination as the server does: $n and {{wildcard(n)}}
// name a wildcard of from, and every other function gives an unknown result. An
// invalid destination maps to nothing, since the server refuses it.
func newMapping(from pattern, destination string) (mapping, bool) {
	m := mapping{from: from}
	tokens := parsePattern(destination)
	if tokens == nil {
		return m, false
	}
	wildcards := count(from)
	for _, token := range tokens {
		switch n, reference := parseReference(token); {
		case reference && n >= 1 && n <= wildcards:
			m.to = append(m.to, piece{wild: n})
		case token == anyTail:
			m.to = append(m.to, piece{tail: true, unknown: from[len(from)-1] != anyTail})
		case reference || token == anyToken:
			m.to = append(m.to, piece{unknown: true})
		case strings.Contains(token, "{{"):
			// Split and slice make several tokens of one.
			m.to = append(m.to, piece{unknown: true, tail: true})
			return m, true
		default:
			m.to = append(m.to, piece{literal: token})
		}
	}
	return m, true
}

// imported returns the mapping between an exporter's name subject and an
// importer's name local: outward from the exporter, for a stream, or inward to
// it, for a service.
func imported(subject, local string, outward bool) (mapping, bool) {
	outer, near := parsePattern(subject), parsePattern(local)
	if outer == nil || near == nil {
		return mapping{}, false
	}
	// A token of local names a wildcard of subject, or is the next.
	var named []int
	plain := slices.Clone(near)
	for i, token := range near {
		switch n, reference := parseReference(token); {
		case reference:
			named, plain[i] = append(named, n), anyToken
		case token == anyToken:
			named = append(named, len(named)+1)
		}
	}
	tailed := outer[len(outer)-1] == anyTail && near[len(near)-1] == anyTail
	exact := permutation(named, count(outer)) && (tailed || outer[len(outer)-1] != anyTail && near[len(near)-1] != anyTail)
	from, to := plain, outer
	if outward {
		from, to = outer, plain
	}
	if !exact {
		return mapToAnything(from, to), true
	}
	m := mapping{from: from}
	wild := 0
	for _, token := range to {
		switch token {
		case anyToken:
			wild++
			at := named[wild-1] // outward: local's wildcard is this one of subject
			if !outward {
				at = slices.Index(named, wild) + 1
			}
			m.to = append(m.to, piece{wild: at})
		case anyTail:
			m.to = append(m.to, piece{tail: true})
		default:
			m.to = append(m.to, piece{literal: token})
		}
	}
	return m, true
}

func count(p pattern) int {
	n := 0
	for _, token := range p {
		if token == anyToken {
			n++
		}
	}
	return n
}

// permutation reports whether named holds each of 1 to n once.
func permutation(named []int, n int) bool {
	sorted := slices.Sorted(slices.Values(named))
	for i, m := range sorted {
		if m != i+1 {
			return false
		}
	}
	return len(sorted) == n
}

// parseReference reads $n or {{wildcard(n)}}.
func parseReference(token string) (int, bool) {
	digits, ok := strings.CutPrefix(token, "$")
	if !ok {
		if digits, ok = strings.CutPrefix(token, "{{"); !ok {
			return 0, false
		}
		digits, ok = strings.CutSuffix(strings.TrimSpace(digits), "}}")
		digits = strings.TrimSpace(digits)
		if !ok || len(digits) < len("wildcard()") || !strings.EqualFold(digits[:len("wildcard")], "wildcard") {
			return 0, false
		}
		digits = strings.Trim(digits[len("wildcard"):], " ()")
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// image returns a superset of the subjects to which the mapping maps a region.
func (m mapping) image(r region) region {
	r = r.restrict(m.from)
	if r.empty() {
		return region{}
	}
	image := region{pattern: m.apply(r.pattern)}
	if m.injective() {
		for _, e := range r.except {
			if both := e.intersect(r.pattern); both != nil {
				image.except = append(image.except, m.apply(both))
			}
		}
	}
	return image
}

// apply maps p, which m.from must cover.
func (m mapping) apply(p pattern) pattern {
	wild, tail := m.parts(p)
	var to pattern
	for _, t := range m.to {
		switch {
		case t.unknown && t.tail:
			return append(to, anyTail)
		case t.unknown:
			to = append(to, anyToken)
		case t.tail:
			return append(to, tail...)
		case t.wild > 0:
			to = append(to, wild[t.wild-1])
		default:
			to = append(to, t.literal)
		}
	}
	return to
}

// parts returns the parts of p that match the wildcards of m.from.
func (m mapping) parts(p pattern) (wild, tail pattern) {
	for i, token := range m.from {
		switch token {
		case anyToken:
			wild = append(wild, p[i])
		case anyTail:
			tail = p[i:]
		}
	}
	return wild, tail
}

// injective reports whether no two subjects have the same image: every wildcard
// is used.
func (m mapping) injective() bool {
	used := map[int]bool{}
	tail := false
	for _, t := range m.to {
		if t.unknown {
			return false
		}
		if used[t.wild] = true; t.tail {
			tail = true
		}
	}
	for n := range count(m.from) {
		if !used[n+1] {
			return false
		}
	}
	return tail || m.from[len(m.from)-1] != anyTail
}

// origin returns the subjects of r whose image is in p, which is of r's image; if the
// mapping is not followed exactly, possibly more.
func (m mapping) origin(r, p pattern) pattern {
	from := slices.Clone(m.from.intersect(r))
	at := make([]int, 0, len(m.from)) // positions of the wildcards
	for i, token := range m.from {
		if token == anyToken {
			at = append(at, i)
		}
	}
	for i, t := range m.to {
		switch {
		case t.unknown && t.tail || i >= len(p) || p[i] == anyTail:
			return from
		case t.tail:
			last := len(m.from) - 1
			return append(from[:last:last], from[last:].intersect(p[i:])...)
		case t.wild > 0 && p[i] != anyToken:
			from[at[t.wild-1]] = p[i]
		}
	}
	return from
}
