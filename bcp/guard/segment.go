package guard

import (
	"strings"
	"unicode/utf8"
)

// segments judges one line after the other, and returns where the first one begins that is not decided yet.
func (r *redactor) segments() int {
	at := 0
	for {
		if r.open != nil {
			if at = r.continueOpen(at); r.open != nil {
				return at
			}
		}
		if at == len(r.text) {
			return at
		}
		if next := r.skipQuiet(at); next > at {
			at = next
			r.last, r.cut = '\n', false
			continue
		}
		end, forced := r.segmentEnd(at)
		if end < 0 {
			return at
		}
		r.judge(at, end)
		r.last, r.cut = r.text[end-1], r.inPlaceholder(end-1)
		if n := len(r.found); forced && n > 0 && r.found[n-1].end == end {
			r.open = r.found[n-1].class
		}
		at = end
	}
}

// continueOpen goes on with a finding that a cut divided, and returns where it ends.
func (r *redactor) continueOpen(at int) int {
	end := at
	for end < len(r.text) && r.open.has(r.text[end]) {
		end++
	}
	if end > at {
		r.found = append(r.found, span{start: at, end: end, joined: true})
		r.last, r.cut = r.text[end-1], false
	}
	if end < len(r.text) || r.final {
		r.open = nil
		r.findFixed(end) // what begins inside the finding is no more
	}
	return end
}

// skipQuiet returns the beginning of the first line from at on in which a rule has to look, at itself if it is that line.
func (r *redactor) skipQuiet(at int) int {
	next := r.hold
	for len(r.hits) > 0 && r.hits[0].end <= at {
		r.hits = r.hits[1:]
	}
	for len(r.runs) > 0 && r.runs[0].end <= at {
		r.runs = r.runs[1:]
	}
	for len(r.fixed) > 0 && r.fixed[0].end <= at {
		r.fixed = r.fixed[1:]
	}
	if len(r.hits) > 0 {
		next = min(next, r.hits[0].end-1)
	}
	if len(r.runs) > 0 {
		next = min(next, r.runs[0].start)
	}
	if len(r.fixed) > 0 {
		next = min(next, r.fixed[0].start)
	}
	if r.final && next == len(r.text) {
		return next
	}
	return at + strings.LastIndexByte(r.text[at:max(at, next)], '\n') + 1
}

// segmentEnd returns where the segment that begins at at ends: with its line if that is short enough. forced says that it
// is cut where a run may go on. It is -1 if what has come does not tell.
func (r *redactor) segmentEnd(at int) (end int, forced bool) {
	limit := at + r.limits.line
	end = r.lineEnd(at, min(limit, len(r.text)))
	switch {
	case end >= 0:
	case r.hold < min(limit, len(r.text)):
		return -1, false
	case len(r.text) > limit:
		end, forced = r.cutLine(at, limit)
	case r.final:
		end = len(r.text)
	default:
		return -1, false
	}
	if end > r.hold {
		return -1, false
	}
	return end, forced
}

// lineEnd returns where the line at at ends, before limit, or -1. A line break inside an atom ends no line.
func (r *redactor) lineEnd(at, limit int) int {
	fixed := r.fixed
	for at < limit {
		i := strings.IndexByte(r.text[at:limit], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
		for len(fixed) > 0 && fixed[0].end < at {
			fixed = fixed[1:]
		}
		if len(fixed) == 0 || fixed[0].start >= at {
			return at
		}
		at = fixed[0].end
	}
	return -1
}

// cutLine returns where a line that is too long is cut. The best place is a blank across which no rule looks, the next best
// any blank or quote, the last one the beginning of a long run, or a place in it.
func (r *redactor) cutLine(at, limit int) (end int, forced bool) {
	last := limit - r.limits.quote
	r.begin(at, limit)
	kept := len(r.found)
	r.eachHit(anchorAssign, (*redactor).assignment) // of which values may be quoted, with blanks
	blank := -1
	for i := last; i > at; i-- {
		switch c := r.text[i]; {
		case r.isTaken(i) || r.isTaken(i-1):
		case c == ' ' && safeCut(r.text[at:], i-at):
			r.found = r.found[:kept]
			return i, false
		case blank < 0 && (c == ' ' || c == '\t' || isQuote(c)):
			blank = i
		}
	}
	r.found = r.found[:kept]
	if blank > 0 {
		return blank + 1, false
	}
	end = last
	for end > at && (tokenBytes[r.text[end-1]] || !utf8.RuneStart(r.text[end])) {
		end--
	}
	if end < at+(last-at)/2 {
		end = last
		for !utf8.RuneStart(r.text[end]) && end > at+1 {
			end--
		}
	}
	for _, a := range r.fixed {
		if a.from < end && end < a.end {
			if a.from > at {
				return a.from, false
			}
			return a.end, false
		}
	}
	return end, true
}

// tokenBytes are the characters that may stand in one token.
var tokenBytes = byteTable(parseByteSet("+/=.%~:@!" + urlChars))

// safeCut reports whether no rule can look across the blank at i: it is alone between a word, or the end of a clause,
// and another word.
func safeCut(text string, i int) bool {
	before, after := text[i-1], byte(0)
	if i+1 < len(text) {
		after = text[i+1]
	}
	if !isWordByte(after) || !isWordByte(before) && strings.IndexByte(",.;!?)", before) < 0 {
		return false
	}
	word := i
	for word > 0 && i-word <= len("bearer") && isWordByte(text[word-1]) {
		word--
	}
	switch strings.ToLower(text[word:i]) {
	case "bearer", "basic":
		return false
	}
	return true
}

func isWordByte(c byte) bool { return c|0x20-'a' <= 25 || c-'0' <= 9 }

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
