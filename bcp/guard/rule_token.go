package guard

// Tokens that begin with a prefix.

// Classes of the tokens of the seed's rules.
var (
	alnumSet   = parseByteSet(alnumChars)
	urlSet     = parseByteSet(urlChars)
	wordSet    = parseByteSet("_" + alnumChars)
	capitalSet = parseByteSet("A-Z0-9")
	hexSet     = parseByteSet("A-Fa-f0-9")
	bearerSet  = parseByteSet("._~+/=" + alnumChars + "-")
)

// token claims a token of at least least characters of a class that begin at body, if nothing comes before its prefix,
// at start, that may not. Hyphens at its end are none of it.
func (r *redactor) token(kind string, start, body, least int, class, left *byteSet) {
	if r.blocked(start-1, left) {
		return
	}
	end := r.runEnd(body, class)
	if r.meetsPlaceholder(end) {
		return
	}
	open := end < len(r.text) && class.has(r.text[end]) // the line was cut here
	for end > body && r.text[end-1] == '-' && !open {
		end--
	}
	if end-body >= least {
		r.claim(span{start: start, end: end, kind: kind, certain: true, class: class})
	}
}

// meetsPlaceholder reports whether a placeholder of the text begins at i, where a run ends: for the run it is one more
// character, so that what redaction left of a longer run is not found in it later.
func (r *redactor) meetsPlaceholder(i int) bool {
	return i < r.end && r.inPlaceholder(i)
}

const (
	prefixOpenAI    = "sk-"
	prefixAnthropic = "sk-ant-"
)

func (r *redactor) anthropic(h hit) {
	end := h.end
	start := end - 1 - len(prefixOpenAI)
	if body := start + len(prefixAnthropic); body < r.end && r.text[start:body] == prefixAnthropic {
		r.token("anthropic-key", start, body, 10, &urlSet, &alnumSet)
	}
}

func (r *redactor) openAI(h hit) {
	start := h.end - 1 - len(prefixOpenAI)
	if r.begins(start, prefixAnthropic) || r.set != Seed && (r.begins(start, "sk-ssh-") || r.begins(start, "sk-ecdsa-")) {
		return
	}
	r.token("openai-key", start, start+len(prefixOpenAI), 20, &urlSet, &alnumSet)
}

// begins reports whether s is at i.
func (r *redactor) begins(i int, s string) bool {
	return i+len(s) <= r.end && r.text[i:i+len(s)] == s
}

// exact claims a token of exactly n characters of a class beside which no character of edge stands.
func (r *redactor) exact(kind string, start, body, n int, class, left, right *byteSet) {
	end := body + n
	if end > r.end || r.blocked(start-1, left) || r.blocked(end, right) {
		return
	}
	for i := body; i < end; i++ {
		if !class.has(r.text[i]) {
			return
		}
	}
	r.claim(span{start: start, end: end, kind: kind, certain: true})
}

func (r *redactor) aws(h hit) {
	start := h.end - 1 - len("AKIA")
	r.exact("aws-access-key", start, start+4, 16, &capitalSet, &capitalSet, &capitalSet)
}

func (r *redactor) gitHub(h hit) {
	start := h.end - 1 - len("ghp_")
	r.token("github-token", start, start+4, 20, &alnumSet, &alnumSet)
}

func (r *redactor) google(h hit) {
	start := h.end - 1 - len("AIza")
	r.exact("google-api-key", start, start+4, 35, &urlSet, &alnumSet, &urlSet)
}

// vendorToken looks for a token of tokens.json.
func (r *redactor) vendorToken(h hit) {
	rule := &tokenRules()[h.id-anchorToken]
	body := h.end - rule.pad
	start := body - len(rule.Prefix)
	if start < r.start || r.isTaken(start) {
		return
	}
	if rule.Max > 0 {
		r.exact(rule.Kind, start, body, rule.Min, &rule.class.set, &rule.left.set, &alnumSet)
		return
	}
	end := r.runEnd(body, &rule.class.set)
	if r.blocked(start-1, &rule.left.set) || r.meetsPlaceholder(end) {
		return
	}
	for rule.class.trim && end > body && r.text[end-1] == '.' {
		end--
	}
	if end-body >= rule.Min && (!rule.Digit || hasDigit(r.text[body:end])) {
		r.claim(span{start: start, end: end, kind: rule.Kind, certain: true, class: &rule.class.set})
	}
}

func hasDigit(s string) bool {
	for i := range len(s) {
		if s[i]-'0' <= 9 {
			return true
		}
	}
	return false
}
