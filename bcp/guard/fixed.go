package guard

import (
	"slices"
	"strings"
)

const (
	kindPEM  = "pem"
	beginPEM = "-----BEGIN"
	endPEM   = "-----END"

	maxBlock    = 64 << 10 // bytes of what goes over lines
	maxPEMLabel = 64       // bytes of the label of a key
)

// findFixed finds what is known before rules look at lines: the placeholders of the text, private keys, and quoted values
// that go over lines. If one of them may go on after the text, r.hold is where it begins.
func (r *redactor) findFixed() {
	r.hold = len(r.text)
	for _, start := range indexes(r.text, placeholderBegin) {
		kind := start + len(placeholderBegin)
		i := strings.IndexByte(r.text[kind:min(kind+maxKind+1, len(r.text))], ']')
		if i > 0 && isKind(r.text[kind:kind+i]) {
			r.fixed = append(r.fixed, atom{start: start, end: kind + i + 1, placeholder: true})
		}
	}
	begins := indexes(r.text, beginPEM)
	if len(begins) == 0 {
		return
	}
	if r.set != Seed {
		r.privateKeys(begins)
	}
	r.end = len(r.text) // for what looks at a line
	r.quotedBlocks(begins)
}

// indexes returns the places of s in text.
func indexes(text, s string) (places []int) {
	for at := 0; ; {
		i := strings.Index(text[at:], s)
		if i < 0 {
			return places
		}
		places = append(places, at+i)
		at += i + len(s)
	}
}

// holdBack notes that what begins at i may go on after the text, if that is no longer than it may be.
func (r *redactor) holdBack(i int) bool {
	if r.final || i+maxKey+2*maxBlock+maxQuote <= len(r.text) {
		return false
	}
	r.hold = min(r.hold, i)
	return true
}

// privateKeys finds private keys in PEM: from BEGIN to the next END, or, if that is too far away or is not there, as much
// base64 as follows.
func (r *redactor) privateKeys(begins []int) {
	var ends []int
	for _, i := range indexes(r.text, endPEM) {
		if end := labelEnd(r.text, i+len(endPEM)); end >= 0 {
			ends = append(ends, end)
		}
	}
	done := 0
	var atoms []atom
	for _, begin := range begins {
		if begin < done {
			continue
		}
		body := labelEnd(r.text, begin+len(beginPEM))
		if body < 0 {
			continue
		}
		for len(ends) > 0 && ends[0] <= body {
			ends = ends[1:]
		}
		end := -1
		if len(ends) > 0 && ends[0]-begin <= maxBlock {
			end = ends[0]
		}
		if end < 0 && r.holdBack(begin) {
			break
		}
		if end < 0 || r.touchesFixed(begin, end) {
			if end = base64Body(r.text, body, begin+maxBlock); end < 0 || r.touchesFixed(begin, end) {
				continue
			}
		}
		atoms = append(atoms, atom{start: begin, end: end, kind: kindPEM})
		done = end
	}
	r.addFixed(atoms)
}

// touchesFixed reports whether a placeholder is in a range.
func (r *redactor) touchesFixed(start, end int) bool {
	n, _ := slices.BinarySearchFunc(r.fixed, start, func(a atom, start int) int { return a.end - start - 1 })
	return n < len(r.fixed) && r.fixed[n].start < end
}

// addFixed adds atoms that touch no other ones.
func (r *redactor) addFixed(atoms []atom) {
	if len(atoms) > 0 {
		r.fixed = append(r.fixed, atoms...)
		slices.SortFunc(r.fixed, func(a, b atom) int { return a.start - b.start })
	}
}

// labelEnd returns where the line -----BEGIN … PRIVATE KEY----- ends, of which the label begins at i, or -1.
func labelEnd(text string, i int) int {
	end := strings.Index(text[i:min(len(text), i+maxPEMLabel)], "-----")
	if end < 0 {
		return -1
	}
	label := strings.TrimSuffix(text[i:i+end], " BLOCK")
	if !strings.HasPrefix(label, " ") || !strings.HasSuffix(label, "PRIVATE KEY") || strings.Trim(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ") != "" {
		return -1
	}
	return i + end + len("-----")
}

const minBody = 64 // characters of base64 of a key that is cut off

// base64Body returns where the base64 ends that begins at i, on lines, which may be written with escapes; -1 if it is too
// short to be a key.
func base64Body(text string, i, limit int) int {
	limit = min(limit, len(text))
	end, count := -1, 0
	for i < limit {
		start := i
		for i < limit && base64Set.has(text[i]) {
			i++
		}
		if i > start {
			count += i - start
			end = i
		}
		next := skipLineBreak(text[:limit], i)
		if next == i || next-i > 16 {
			break
		}
		i = next
	}
	if count < minBody {
		return -1
	}
	return end
}

// skipLineBreak returns the first place after blanks and line breaks, real or escaped, at i.
func skipLineBreak(text string, i int) int {
	for i < len(text) {
		switch {
		case isSpaceByte(text[i]):
			i++
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r'):
			i += 2
		case text[i] == '\\' && i+2 < len(text) && text[i+1] == '\\':
			i++
		default:
			return i
		}
	}
	return i
}

// quotedBlocks finds quoted values of upper-case keys that begin like a key in PEM and are not closed on their line.
func (r *redactor) quotedBlocks(begins []int) {
	var atoms []atom
	done := 0
	for _, begin := range begins {
		quote := begin - 1
		if quote <= done || !isQuote(r.text[quote]) || r.text[quote-1] != '=' || r.touchesFixed(quote, begin+1) {
			continue
		}
		key, secret := r.upperKey(quote - 1)
		if !secret {
			continue
		}
		end, overLines := r.blockEnd(quote)
		if (end < 0 || end > r.hold) && r.holdBack(key) {
			break
		}
		if end < 0 || !overLines {
			continue
		}
		for limit := min(end+maxQuote, len(r.text)); end < limit && !isSpaceAt(r.text, end) && !r.touchesFixed(end, end+1); {
			end++
		}
		if (end+len(beginPEM)+maxPEMLabel > len(r.text) || end > r.hold) && r.holdBack(key) {
			break
		}
		atoms = append(atoms, atom{start: quote, end: end, kind: kindDotenv})
		done = end
	}
	for _, a := range atoms {
		r.fixed = slices.DeleteFunc(r.fixed, func(b atom) bool { return a.start <= b.start && b.end <= a.end })
	}
	r.addFixed(atoms)
}

// blockEnd returns where a quoted value is closed, and whether a line ends inside it.
func (r *redactor) blockEnd(quote int) (end int, overLines bool) {
	fixed := r.fixed
	for i, limit := quote+1, min(quote+maxBlock, len(r.text)); i < limit; i++ {
		for len(fixed) > 0 && fixed[0].end <= i {
			fixed = fixed[1:]
		}
		if len(fixed) > 0 && fixed[0].start <= i {
			i = fixed[0].end - 1
			continue
		}
		switch c := r.text[i]; {
		case c == r.text[quote]:
			return i + 1, overLines
		case c == '\\':
			i++
		case c == '\n':
			overLines = true
		}
	}
	return -1, overLines
}
