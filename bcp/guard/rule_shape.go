package guard

import "strings"

// Tokens whose shape is not a prefix: JSON web tokens, and those with a mark inside.

const (
	minJWTPart  = 10
	maxJWTParts = 5 // of an encrypted token
)

// jwt looks at an "eyJ" and one character that end at end: two to five parts with full stops between them, of which the
// first two have 10 characters or more.
func (r *redactor) jwt(h hit) {
	end := h.end
	start := end - 1 - len("eyJ")
	if start < r.start || r.isTaken(start) || r.blocked(start-1, &alnumSet) {
		return
	}
	stop := r.runEnd(start, &urlSet)
	if stop-start < minJWTPart {
		return
	}
	parts := 1
	for parts < maxJWTParts && stop < r.end && r.text[stop] == '.' {
		next := r.runEnd(stop+1, &urlSet)
		if next == stop+1 || parts == 1 && next-stop-1 < minJWTPart {
			break
		}
		stop = next
		parts++
	}
	if parts < 2 || r.meetsPlaceholder(stop) || parts < maxJWTParts && r.begins(stop, ".") && r.meetsPlaceholder(stop+1) {
		return
	}
	r.claim(span{start: start, end: stop, kind: "jwt", certain: true, class: &urlSet})
}

var (
	digitSet     = parseByteSet("0-9")
	lowerHexSet  = parseByteSet("a-f0-9")
	azureSet     = parseByteSet("_~." + alnumChars + "-")
	terraformSet = parseByteSet("=" + urlChars)
)

// marked is a token with a mark inside it: so many characters of a class before the mark, and so many behind it.
type marked struct {
	kind          string
	back, mark    int // bytes of the anchor from the mark on, and of the mark
	before, after *byteSet
	fewest, most  int // characters before the mark
	least, limit  int // and behind it
	left, right   *byteSet
	long          bool // more may stand behind it, which is none of it
	trim          bool // full stops at its end are the end of a sentence
}

var markedTokens = map[anchorID]*marked{
	anchorTelegram:  {kind: "telegram-token", back: 3, mark: 1, before: &digitSet, fewest: 8, most: 10, after: &urlSet, least: 35, limit: 35, left: &wordSet, right: &urlSet},
	anchorMailchimp: {kind: "mailchimp-key", back: 4, mark: 3, before: &lowerHexSet, fewest: 32, most: 32, after: &digitSet, least: 1, limit: 2, left: &wordSet, right: &wordSet},
	anchorAzure:     {kind: "azure-client-secret", back: 2, mark: 2, before: &azureSet, fewest: 4, most: 4, after: &azureSet, least: 31, limit: 34, left: &azureSet, trim: true},
	anchorTerraform: {kind: "terraform-token", back: 9, mark: 9, before: &alnumSet, fewest: 14, most: 14, after: &terraformSet, least: 60, limit: 70, left: &alnumSet, long: true},
	anchorZhipu:     {kind: "zhipu-glm-key", back: 2, mark: 1, before: &lowerHexSet, fewest: 32, most: 32, after: &alnumSet, least: 16, limit: 16, left: &wordSet, right: &wordSet},
}

// marked looks around a mark.
func (r *redactor) marked(h hit) {
	t := markedTokens[h.id]
	at := h.end - t.back
	start := r.runStart(at, t.most, t.before)
	if n := at - start; n < t.fewest || n > t.most || r.blocked(start-1, t.left) {
		return
	}
	body := at + t.mark
	stop := body
	for stop < r.end && stop-body <= t.limit && t.after.has(r.text[stop]) {
		stop++
	}
	if t.long {
		stop = min(stop, body+t.limit)
	}
	for t.trim && stop > body && r.text[stop-1] == '.' {
		stop--
	}
	if n := stop - body; n < t.least || n > t.limit || r.meetsPlaceholder(stop) || t.right != nil && r.blocked(stop, t.right) {
		return
	}
	r.claim(span{start: start, end: stop, kind: t.kind, certain: true})
}

// airtable looks at a "pat" and one character that end at end: 14 characters, a full stop and 64 hex digits.
func (r *redactor) airtable(h hit) {
	end := h.end
	start := end - 1 - len("pat")
	dot := start + len("pat") + 14
	if start < r.start || dot >= r.end || r.text[dot] != '.' || r.blocked(start-1, &alnumSet) {
		return
	}
	for i := end; i < dot; i++ {
		if !alnumSet.has(r.text[i]) {
			return
		}
	}
	r.exact("airtable-token", start, dot+1, 64, &lowerHexSet, &alnumSet, &alnumSet)
}

// blobs looks for hex and base64 in the long runs of the segment.
func (r *redactor) blobs() {
	var long []run
	for _, u := range r.runs {
		if u.start >= r.end {
			break
		}
		if u = (run{max(u.start, r.start), min(u.end, r.end)}); u.end-u.start >= minBlob {
			long = append(long, u)
		}
	}
	for _, u := range long {
		r.eachPart(u, &wordSet, r.hexBlob)
	}
	for _, u := range long {
		r.eachPart(u, &stdSet, r.base64Blob)
	}
	if r.set == All {
		for _, u := range long {
			r.eachPart(u, &urlSet, r.urlBlob)
		}
	}
}

var stdSet = parseByteSet("+/" + alnumChars)

// eachPart calls look with the parts of a run that have characters of the set alone, of which none is taken.
func (r *redactor) eachPart(u run, set *byteSet, look func(start, end int)) {
	start := u.start
	for i := u.start; i <= u.end; i++ {
		if i < u.end && set.has(r.text[i]) && !r.isTaken(i) {
			continue
		}
		if i-start >= minBlob {
			look(start, i)
		}
		start = i + 1
	}
}

func (r *redactor) hexBlob(start, end int) {
	for i := start; i < end; i++ {
		if !isHex(r.text[i]) {
			return
		}
	}
	r.claim(span{start: start, end: end, kind: "hex-blob", class: &hexSet})
}

func (r *redactor) base64Blob(start, end int) {
	if s := r.text[start:end]; r.set == All && (isPathOfWords(s) || isCamelCase(s)) {
		return
	}
	r.claimBlob(start, end, &stdSet)
}

func (r *redactor) urlBlob(start, end int) {
	if s := r.text[start:end]; strings.ContainsAny(s, "-_") && looksRandom(s) {
		r.claimBlob(start, end, &urlSet)
	}
}

func (r *redactor) claimBlob(start, end int, class *byteSet) {
	for end < r.end && r.text[end] == '=' && !r.isTaken(end) {
		end++
	}
	r.claim(span{start: start, end: end, kind: "base64-blob", class: class})
}
