package guard

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// limits bound how far redaction looks. Tests make them small.
type limits struct {
	line  int // bytes of a line that are judged together
	quote int // bytes of a quoted value on its line
	block int // bytes of what goes over lines: a private key
	chunk int // bytes that are scanned together, more than line and block
}

var productionLimits = limits{line: 64 << 10, quote: 4 << 10, block: 64 << 10, chunk: 256 << 10}

// redactor finds secrets in a text that is given to it in chunks. What it decides does not depend on how the text was
// divided into chunks.
type redactor struct {
	set    Set
	limits limits

	// What the text before the chunk leaves.
	open *byteSet // not nil: a finding goes on as long as bytes of the set come
	last byte     // the byte before the chunk, '\n' at the beginning of a line
	cut  bool     // the byte before the chunk belongs to a placeholder

	// Of the chunk.
	text    string // without what is invisible
	gaps    []gap  // where the invisible was
	hits    []hit  // those that are not passed yet
	runs    []run  // likewise
	allHits []hit  // what hits is a part of, for the next chunk
	allRuns []run
	final   bool
	fixed   []atom // placeholders, and what goes over lines; in order, not overlapping
	hold    int    // nothing from the line of this place on can be decided yet

	// Of the segment: a line, or a part of a long one.
	start, end int
	line       []hit
	program    int              // where the first word "curl" ends; -1: there is none
	taken      []bool           // the bytes that belong to a finding or a placeholder
	read       map[*byteSet]run // the last long run of each set
	found      []span           // of the whole chunk
	findings   []Finding        // what process returned
}

// gap is a place in the visible text at which invisible bytes were removed.
type gap struct {
	at    int // in the visible text
	total int // bytes removed so far, these included
}

// atom is a span that is known before the rules that work on a line.
type atom struct {
	from        int // where what it is recognised by begins: for a value, the key
	start, end  int
	kind        string // empty: a placeholder of the text, which stays
	placeholder bool
}

// span is a finding in the visible text.
type span struct {
	start, end int
	kind       string
	certain    bool
	class      *byteSet // what the span may go on with if the line is cut at its end; nil: nothing
	joined     bool
}

func newRedactor(set Set, l limits) *redactor {
	return &redactor{set: set, limits: l, last: '\n', read: map[*byteSet]run{}}
}

// process finds the secrets at the beginning of chunk, and returns how many bytes of it are decided. If final is set, the
// text ends with the chunk and everything is. Otherwise the next chunk begins with the bytes that are not decided; it has
// to be longer, unless this one was limits.chunk bytes long already, in which case some are always decided. The findings are
// valid until the next call.
func (r *redactor) process(chunk string, final bool) (consumed int, findings []Finding) {
	r.final = final
	whole := chunk
	if !final {
		chunk = chunk[:len(chunk)-unfinishedRune(chunk)]
	}
	r.view(chunk)
	decided := r.segments()
	if decided == 0 && !final && len(whole) >= r.limits.chunk {
		// Nearly all of the chunk is invisible. It is decided as it is.
		r.final = true
		r.findFixed(0)
		decided = r.segments()
	}
	switch {
	case r.final:
		consumed = len(chunk)
	case r.open != nil:
		consumed = r.rawEnd(decided) // what is invisible after it may be inside
	default:
		consumed = r.rawStart(decided)
	}
	findings = r.findings[:0]
	for _, s := range r.found {
		findings = append(findings, Finding{
			Start: r.rawStart(s.start), End: r.rawEnd(s.end), Kind: s.kind, Certain: s.certain, joined: s.joined,
		})
	}
	r.found, r.findings = r.found[:0], findings
	return consumed, findings
}

// unfinishedRune returns how many bytes at the end of s may be the beginning of a code point.
func unfinishedRune(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if c := s[len(s)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// view scans the chunk; if it holds anything invisible, the rules see it without.
func (r *redactor) view(chunk string) {
	r.text, r.gaps = chunk, r.gaps[:0]
	r.hits = find(scanner(), chunk, r.allHits[:0])
	if slices.ContainsFunc(r.hits, func(h hit) bool { return h.id == anchorInvisible }) {
		r.strip(chunk)
		if len(r.gaps) > 0 {
			r.hits = find(scanner(), r.text, r.hits[:0])
		}
	}
	r.allHits = r.hits
	r.runs = nil
	if r.set != Keys {
		r.runs = scanRuns(r.text, r.allRuns[:0])
		r.allRuns = r.runs
	}
	r.findFixed(0)
}

// strip makes the visible text. The hits say where something invisible may be.
func (r *redactor) strip(chunk string) {
	var b strings.Builder
	b.Grow(len(chunk))
	at, total := 0, 0
	for _, h := range r.hits {
		if h.id != anchorInvisible {
			continue
		}
		c, size := utf8.DecodeLastRuneInString(chunk[:h.end])
		if start := h.end - size; start >= at && invisible(c) {
			b.WriteString(chunk[at:start])
			at = h.end
			total += size
			if n := len(r.gaps); n > 0 && r.gaps[n-1].at == b.Len() {
				r.gaps[n-1].total = total
			} else {
				r.gaps = append(r.gaps, gap{at: b.Len(), total: total})
			}
		}
	}
	b.WriteString(chunk[at:])
	r.text = b.String()
}

// rawStart returns where in the chunk the visible byte at i stands: after what was removed before it.
func (r *redactor) rawStart(i int) int { return i + r.removed(i) }

// rawEnd returns where in the chunk the visible byte before i ends.
func (r *redactor) rawEnd(i int) int { return i + r.removed(i-1) }

// removed returns how many bytes were removed before the visible byte at i.
func (r *redactor) removed(i int) int {
	n, _ := slices.BinarySearchFunc(r.gaps, i, func(g gap, i int) int {
		if g.at <= i {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	return r.gaps[n-1].total
}
