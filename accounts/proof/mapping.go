package proof

import (
	"slices"
	"strconv"
	"strings"
)

// mapping is how a subject is rewritten on its way into another account, or within one:
// exactly, if the wildcards of from are those of to, one by one. Any other mapping is
// overestimated: everything that from matches may become anything that to matches.
type mapping struct {
	from, to pattern
	exact    bool
}

// newMapping parses a destination as the server does: $n and {{wildcard(n)}} name a
// wildcard of from. An invalid destination maps to nothing, since the server refuses it.
func newMapping(from pattern, destination string) (mapping, bool) {
	to, inOrder := parseDestination(destination)
	inOrder = inOrder && !slices.Contains(strings.Split(destination, "."), anyToken)
	return newExact(from, to, inOrder), to != nil
}

// imported returns the mapping between an exporter's name subject and an
// importer's name local: outward from the exporter, for a stream, or inward to
// it, for a service.
func imported(subject, local string, outward bool) (mapping, bool) {
	from := parsePattern(subject)
	to, inOrder := parseDestination(local) // in which "*" is the next wildcard of subject
	if !outward {
		from, to = to, from
	}
	return newExact(from, to, inOrder), from != nil && to != nil
}

func newExact(from, to pattern, inOrder bool) mapping {
	tailed := func(p pattern) bool { return len(p) > 0 && p[len(p)-1] == anyTail }
	return mapping{from, to, inOrder && count(from) == count(to) && tailed(from) == tailed(to)}
}

// parseDestination parses a pattern with references to the wildcards of another, which
// become wildcards, and reports whether they are those in their order.
func parseDestination(s string) (p pattern, inOrder bool) {
	p, inOrder = slices.Clone(parsePattern(s)), true
	wild := 0
	for i, token := range p {
		n, reference := parseReference(token)
		switch {
		case reference || token == anyToken:
			wild++
			p[i], inOrder = anyToken, inOrder && (!reference || n == wild)
		case strings.Contains(token, "{{"): // split and slice make several tokens of one
			return append(p[:i], anyTail), false
		}
	}
	return p, inOrder
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
	if m.exact {
		for _, e := range r.except {
			image.except = append(image.except, m.apply(e.intersect(r.pattern)))
		}
	}
	return image
}

// apply maps p, which m.from must cover.
func (m mapping) apply(p pattern) pattern {
	if !m.exact {
		return m.to
	}
	var to, wild, tail pattern
	for i, token := range m.from {
		switch token {
		case anyToken:
			wild = append(wild, p[i])
		case anyTail:
			tail = p[i:]
		}
	}
	for _, token := range m.to {
		switch token {
		case anyToken:
			to, wild = append(to, wild[0]), wild[1:]
		case anyTail:
			to = append(to, tail...)
		default:
			to = append(to, token)
		}
	}
	return to
}

// origin returns the subjects of r whose image is in p, which is of r's image; if the
// mapping is not followed exactly, possibly more.
func (m mapping) origin(r, p pattern) pattern {
	if back := p.intersect(m.to); m.exact && back != nil {
		return mapping{m.to, m.from, true}.apply(back).intersect(r)
	}
	return m.from.intersect(r)
}
