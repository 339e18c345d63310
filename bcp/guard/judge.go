package guard

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// begin makes start to end the segment that rules work on.
func (r *redactor) begin(start, end int) {
	r.start, r.end, r.program = start, end, -1
	r.taken = slices.Grow(r.taken[:0], end-start)[:end-start]
	clear(r.taken)
	clear(r.read)
	for _, a := range r.fixed {
		if a.start >= end {
			break
		}
		if a.start >= start {
			r.take(a.start, min(a.end, end))
		}
	}
	n, _ := slices.BinarySearchFunc(r.hits, end, func(h hit, end int) int { return h.end - end - 1 })
	r.line = r.hits[:n]
	for len(r.line) > 0 && r.line[0].end <= start {
		r.line = r.line[1:]
	}
}

// judge applies the rules, in their order, to the segment from start to end.
func (r *redactor) judge(start, end int) {
	r.begin(start, end)
	first := len(r.found)
	for _, a := range r.fixed {
		if a.start >= end {
			break
		}
		if a.start >= start && !a.placeholder {
			r.found = append(r.found, span{start: a.start, end: a.end, kind: a.kind, certain: a.kind == kindPEM})
		}
	}
	var present [anchorToken + 1]bool
	for _, h := range r.line {
		present[min(h.id, anchorToken)] = true
	}
	for _, rule := range lineRules {
		if present[rule.id] && (rule.seed || r.set != Seed) {
			r.eachHit(rule.id, rule.look)
		}
	}
	if r.set != Keys {
		r.blobs()
	}
	slices.SortFunc(r.found[first:], func(a, b span) int { return a.start - b.start })
}

// lineRules are the rules that look at a hit of an anchor, in their order: what one has taken is not another's. Those of the
// set Seed are marked.
var lineRules = []struct {
	id   anchorID
	seed bool
	look func(*redactor, hit)
}{
	{anchorAssign, true, (*redactor).assignment}, {anchorKeyWord, false, (*redactor).keyValue},
	{anchorOpenAI, true, (*redactor).anthropic}, {anchorOpenAI, true, (*redactor).openAI}, {anchorAWS, true, (*redactor).aws},
	{anchorGitHub, true, (*redactor).gitHub}, {anchorGoogle, true, (*redactor).google}, {anchorBearer, true, (*redactor).bearer},
	{anchorToken, false, (*redactor).vendorToken}, {anchorCurl, false, (*redactor).curlProgram}, {anchorUser, false, (*redactor).curl}, {anchorJWT, false, (*redactor).jwt},
	{anchorBasic, false, (*redactor).basic}, {anchorURL, false, (*redactor).urlPassword}, {anchorTelegram, false, (*redactor).marked},
	{anchorMailchimp, false, (*redactor).marked}, {anchorAzure, false, (*redactor).marked}, {anchorTerraform, false, (*redactor).marked},
	{anchorAirtable, false, (*redactor).airtable}, {anchorZhipu, false, (*redactor).marked}, {anchorSignature, false, (*redactor).signature},
	{anchorNetrc, false, (*redactor).netrc},
}

// eachHit has a rule look at each hit of an anchor; all tokens of tokens.json are one.
func (r *redactor) eachHit(id anchorID, look func(*redactor, hit)) {
	for _, h := range r.line {
		if min(h.id, anchorToken) == id {
			look(r, h)
		}
	}
}

// isTaken reports whether the byte at i, of the segment, belongs to a finding or a placeholder.
func (r *redactor) isTaken(i int) bool { return r.taken[i-r.start] }

// takenRange reports whether a byte of a range is taken.
func (r *redactor) takenRange(start, end int) bool {
	return start < end && slices.Contains(r.taken[start-r.start:end-r.start], true)
}

func (r *redactor) take(start, end int) {
	for i := start; i < end; i++ {
		r.taken[i-r.start] = true
	}
}

// claim takes a span, unless a part of it is taken.
func (r *redactor) claim(s span) bool {
	if s.start < r.start || s.start >= s.end || r.takenRange(s.start, s.end) {
		return false
	}
	r.take(s.start, s.end)
	r.found = append(r.found, s)
	return true
}

// blocked reports whether the byte at i, next to a match, is of the set. It is looked up in the text as it came, where a
// placeholder counts as every character.
func (r *redactor) blocked(i int, set *byteSet) bool {
	switch {
	case i < r.start-1, i == len(r.text):
		return false
	case i == r.start-1:
		return r.cut || set.has(r.last)
	case r.inPlaceholder(i):
		return true
	}
	return set.has(r.text[i])
}

// inPlaceholder reports whether a byte belongs to a placeholder of the text.
func (r *redactor) inPlaceholder(i int) bool {
	if len(r.fixed) == 0 {
		return false
	}
	n, ok := slices.BinarySearchFunc(r.fixed, i, func(a atom, i int) int {
		switch {
		case a.end <= i:
			return -1
		case a.start > i:
			return 1
		}
		return 0
	})
	return ok && r.fixed[n].placeholder
}

// runEnd returns where the run of bytes of the set ends that begins at i. A run that was read before, from an earlier
// place, is not read again: a token that fails is often full of others.
func (r *redactor) runEnd(i int, set *byteSet) int {
	if known := r.read[set]; known.start <= i && i < known.end {
		return known.end
	}
	end := i
	for end < r.end && set.has(r.text[end]) {
		end++
	}
	if end-i >= minRead {
		r.read[set] = run{i, end}
	}
	return end
}

const minRead = 64 // bytes of a run that is worth remembering

// runStart returns where the run of bytes of the set begins that ends at i, at most most bytes before it; if it is longer,
// most+1 bytes before it.
func (r *redactor) runStart(i, most int, set *byteSet) int {
	from := max(r.start, i-most-1)
	for i > from && set.has(r.text[i-1]) {
		i--
	}
	return i
}

// skipBlanks returns the first place from i on that is no blank.
func (r *redactor) skipBlanks(i int) int {
	for i < r.end && (r.text[i] == ' ' || r.text[i] == '\t') {
		i++
	}
	return i
}

// isSpaceAt reports whether white space of Unicode begins at i.
func isSpaceAt(text string, i int) bool {
	if c := text[i]; c < utf8.RuneSelf {
		return isSpaceByte(c)
	}
	c, _ := utf8.DecodeRuneInString(text[i:])
	return unicode.IsSpace(c)
}
