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

// telegram looks at a digit and ":AA" that end at end: a bot's number, a colon and 35 characters.
func (r *redactor) telegram(h hit) {
	colon := h.end - len(":AA")
	digits := parseByteSet("0-9")
	start := r.runStart(colon, 10, &digits)
	if n := colon - start; n < 8 || n > 10 {
		return
	}
	r.exact("telegram-token", start, colon+1, 35, &urlSet, &wordSet, &urlSet)
}

// mailchimp looks at a hex digit, "-us" and a digit that end at end.
func (r *redactor) mailchimp(h hit) {
	end := h.end
	dash := end - len("-us0")
	start := r.runStart(dash, 32, &lowerHexSet)
	if dash-start != 32 || r.blocked(start-1, &wordSet) {
		return
	}
	if end < r.end && r.text[end]-'0' <= 9 {
		end++
	}
	if !r.blocked(end, &wordSet) {
		r.claim(span{start: start, end: end, kind: "mailchimp-key", certain: true})
	}
}

var (
	lowerHexSet = parseByteSet("a-f0-9")
	azureSet    = parseByteSet("_~." + alnumChars + "-")
)

const minAzure, maxAzure = 31, 34

// azure looks at a digit and "Q~" that end at end: three characters and the digit before it, 31 to 34 after it.
func (r *redactor) azure(h hit) {
	end := h.end
	start := end - len("Q~") - 4
	if start < r.start || r.blocked(start-1, &azureSet) {
		return
	}
	for i := start; i < start+3; i++ {
		if !azureSet.has(r.text[i]) {
			return
		}
	}
	stop := end
	for stop < r.end && stop-end <= maxAzure && azureSet.has(r.text[stop]) {
		stop++
	}
	for stop > end && r.text[stop-1] == '.' {
		stop--
	}
	if n := stop - end; n < minAzure || n > maxAzure || r.meetsPlaceholder(stop) {
		return
	}
	r.claim(span{start: start, end: stop, kind: "azure-client-secret", certain: true})
}

const minTerraform, maxTerraform = 60, 70

// terraform looks at an ".atlasv1." that ends at end: 14 characters before it, 60 to 70 after it.
func (r *redactor) terraform(h hit) {
	end := h.end
	dot := end - len(".atlasv1.")
	start := dot - 14
	if start < r.start || r.runStart(dot, 14, &alnumSet) > start || r.blocked(start-1, &alnumSet) {
		return
	}
	stop := end
	for stop < r.end && stop-end < maxTerraform && (urlSet.has(r.text[stop]) || r.text[stop] == '=') {
		stop++
	}
	if stop-end >= minTerraform && !r.meetsPlaceholder(stop) {
		r.claim(span{start: start, end: stop, kind: "terraform-token", certain: true})
	}
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

// zhipu looks at three hex digits, a full stop and one character that end at end: 32 hex digits, a full stop and 16
// characters.
func (r *redactor) zhipu(h hit) {
	dot := h.end - len(".x")
	start := r.runStart(dot, 32, &lowerHexSet)
	if dot-start != 32 {
		return
	}
	r.exact("zhipu-glm-key", start, dot+1, 16, &alnumSet, &wordSet, &wordSet)
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
