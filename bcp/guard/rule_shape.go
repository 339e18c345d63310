package guard

import "strings"

// Tokens whose shape is not a prefix: JSON web tokens, hex and base64.

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
	r.claim(span{start: start, end: stop, kind: "jwt", certain: true})
}

// blobs looks for hex and base64 in the long runs of the line.
func (r *redactor) blobs() {
	for _, u := range r.runs {
		r.eachPart(u, &wordSet, r.hexBlob)
	}
	for _, u := range r.runs {
		r.eachPart(u, &stdSet, r.base64Blob)
	}
	if r.set == All {
		for _, u := range r.runs {
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
	r.claim(span{start: start, end: end, kind: "hex-blob"})
}

func (r *redactor) base64Blob(start, end int) {
	if s := r.text[start:end]; r.set == All && (isPathOfWords(s) || isCamelCase(s)) {
		return
	}
	r.claimBlob(start, end)
}

func (r *redactor) urlBlob(start, end int) {
	if s := r.text[start:end]; strings.ContainsAny(s, "-_") && looksRandom(s) {
		r.claimBlob(start, end)
	}
}

func (r *redactor) claimBlob(start, end int) {
	for end < r.end && r.text[end] == '=' && !r.isTaken(end) {
		end++
	}
	r.claim(span{start: start, end: end, kind: "base64-blob"})
}

// run is a stretch of text that may hold a blob.
type run struct{ start, end int }

const minBlob = 40 // characters of a blob

// blobBytes are the characters of blobs of all alphabets.
var blobBytes = byteTable(parseByteSet("+/" + urlChars))

func byteTable(s byteSet) (table [256]bool) {
	for c := range 256 {
		table[c] = s.has(byte(c))
	}
	return table
}

// appendRuns appends the stretches of blobBytes, of at least 40, between two places of text.
func appendRuns(runs []run, text string, at, end int) []run {
	start := at
	for i := at; i <= end; i++ {
		if i < end && blobBytes[text[i]] {
			continue
		}
		if i-start >= minBlob {
			runs = append(runs, run{start, i})
		}
		start = i + 1
	}
	return runs
}
