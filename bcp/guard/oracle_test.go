package guard

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// oracle is redaction as GUARD's rules say it, slow and plain: no automaton, no chunks, no bitmaps, every rule tried at
// every place of every line. What a value or a name is like (plausible, isPathOfWords, …), and the
// data of the vendors' tokens, are those of the package.
type oracle struct {
	set   Set
	text  string
	mark  []byte // 0: free; 'p': placeholder of the text; 'c': claimed
	came  []byte // mark, before any rule
	spans []span
	line  run
}

func oracleRedact(raw string, set Set) string {
	o := &oracle{set: set}
	var starts, ends []int // of each visible byte, in raw
	var visible strings.Builder
	for i := 0; i < len(raw); {
		c, size := utf8.DecodeRuneInString(raw[i:])
		if c == utf8.RuneError && size == 1 || !invisible(c) {
			for k := range size {
				starts = append(starts, i+k)
				ends = append(ends, i+k+1)
			}
			visible.WriteString(raw[i : i+size])
		}
		i += size
	}
	o.text = visible.String()
	o.mark = make([]byte, len(o.text))
	o.placeholders()
	o.came = slices.Clone(o.mark)
	if set != Seed {
		o.pem()
	}
	o.blocks()
	for at := 0; at < len(o.text); {
		end := at
		for end < len(o.text) && (o.text[end] != '\n' || o.mark[end] != 0) {
			end++
		}
		o.line = run{at, end}
		o.rules()
		at = end + 1
	}
	slices.SortFunc(o.spans, func(a, b span) int { return a.start - b.start })
	var b strings.Builder
	at := 0
	for _, s := range o.spans {
		b.WriteString(raw[at:starts[s.start]])
		b.WriteString("[REDACTED:" + s.kind + "]")
		at = ends[s.end-1]
	}
	b.WriteString(raw[at:])
	return b.String()
}

func (o *oracle) at(i int) byte {
	if i < 0 || i >= len(o.text) {
		return '\n'
	}
	return o.text[i]
}

func (o *oracle) has(i int, s string) bool {
	return i >= 0 && strings.HasPrefix(o.text[min(i, len(o.text)):], s)
}

func (o *oracle) free(start, end int) bool {
	for i := start; i < end; i++ {
		if o.mark[i] != 0 {
			return false
		}
	}
	return true
}

func (o *oracle) claim(start, end int, kind string) {
	if start < end && o.free(start, end) {
		o.take(start, end, kind)
	}
}

func (o *oracle) take(start, end int, kind string) {
	for i := start; i < end; i++ {
		o.mark[i] = 'c'
	}
	o.spans = append(o.spans, span{start: start, end: end, kind: kind})
}

// beside reports whether a character of set, or a placeholder, stands at i.
func (o *oracle) beside(i int, set byteSet) bool {
	return i >= 0 && i < len(o.text) && (o.came[i] == 'p' || set.has(o.text[i]))
}

func (o *oracle) run(i int, set byteSet) int {
	for i < len(o.text) && set.has(o.text[i]) {
		i++
	}
	return i
}

func (o *oracle) placeholders() {
	for i := range o.text {
		if !o.has(i, "[REDACTED:") {
			continue
		}
		kind, _, ok := strings.Cut(o.text[i+10:], "]")
		if ok && isKind(kind) {
			for k := i; k < i+10+len(kind)+1; k++ {
				o.mark[k] = 'p'
			}
		}
	}
}

func (o *oracle) pem() {
	for i := 0; i < len(o.text); i++ {
		if !o.has(i, "-----BEGIN") {
			continue
		}
		body := labelEnd(o.text, i+10)
		if body < 0 {
			continue
		}
		end := -1
		for e := body; e < len(o.text); e++ {
			if o.has(e, "-----END") && labelEnd(o.text, e+8) >= 0 {
				end = labelEnd(o.text, e+8)
				break
			}
		}
		if end < 0 || !o.free(i, end) {
			end = base64Body(o.text, body, len(o.text))
		}
		if end >= 0 && o.free(i, end) {
			o.take(i, end, "pem")
			i = end - 1
		}
	}
}

// key returns where the upper-case key begins that ends at sign, or -1 if it names no secret.
func (o *oracle) key(sign int) int {
	start := sign
	for start > 0 && keySet.has(o.text[start-1]) {
		start--
	}
	if sign-start > 64 || o.beside(start-1, keySet) {
		return -1
	}
	for _, word := range []string{"SECRET", "TOKEN", "KEY", "PASSWORD", "PASSWD", "API"} {
		if strings.Contains(o.text[start:sign], word) {
			return start
		}
	}
	return -1
}

func (o *oracle) blocks() {
	done := 0
	for i := range o.text {
		if i < done || i < 2 || !o.has(i, "-----BEGIN") || !isQuote(o.at(i-1)) || o.at(i-2) != '=' || !o.free(i-1, i+1) || o.key(i-2) < 0 {
			continue
		}
		end, lines := -1, false
		for k := i; k < len(o.text); k++ {
			if o.mark[k] != 0 {
				continue
			}
			if o.text[k] == o.text[i-1] {
				end = k + 1
				break
			}
			if o.text[k] == '\\' {
				k++
			} else if o.text[k] == '\n' {
				lines = true
			}
		}
		if end < 0 || !lines {
			continue
		}
		for end < len(o.text) && o.mark[end] == 0 && !isSpaceAt(o.text, end) {
			end++
		}
		o.swallow(i-1, end)
		done = end
	}
}

// swallow takes a value with all that is inside.
func (o *oracle) swallow(start, end int) {
	o.spans = slices.DeleteFunc(o.spans, func(s span) bool { return start <= s.start && s.end <= end })
	o.take(start, end, "dotenv")
}

func (o *oracle) rules() {
	each := func(rule func(i int)) {
		for i := o.line.start; i < o.line.end; i++ {
			rule(i)
		}
	}
	each(o.assignment)
	if o.set != Seed {
		each(o.keyValue)
	}
	tokens := func(seed bool) {
		for _, t := range tokenRules() {
			if t.Seed == seed {
				each(func(i int) { o.token(&t, i) })
			}
		}
	}
	tokens(true)
	each(func(i int) { o.scheme(i, "bearer") })
	if o.set != Seed {
		tokens(false)
		each(o.curl)
		each(o.jwt)
		each(func(i int) { o.scheme(i, "basic") })
		each(o.url)
		each(o.signature)
		each(o.netrc)
	}
	if o.set == Keys {
		return
	}
	o.parts(wordSet, func(start, end int) {
		if strings.Trim(o.text[start:end], "0123456789abcdefABCDEF") == "" {
			o.claim(start, end, "hex-blob")
		}
	})
	blob := func(start, end int) {
		for end < o.line.end && o.text[end] == '=' && o.mark[end] == 0 {
			end++
		}
		o.claim(start, end, "base64-blob")
	}
	o.parts(stdSet, func(start, end int) {
		if s := o.text[start:end]; o.set == Seed || !isPathOfWords(s) && !isCamelCase(s) {
			blob(start, end)
		}
	})
	if o.set == All {
		o.parts(urlSet, func(start, end int) {
			if s := o.text[start:end]; strings.ContainsAny(s, "-_") && looksRandom(s) {
				blob(start, end)
			}
		})
	}
}

func (o *oracle) placeholderAt(i int) bool { return i < o.line.end && o.came[i] == 'p' }

func (o *oracle) parts(set byteSet, look func(start, end int)) {
	start := o.line.start
	for i := o.line.start; i <= o.line.end; i++ {
		if i < o.line.end && set.has(o.text[i]) && o.mark[i] == 0 {
			continue
		}
		if i-start >= 40 {
			look(start, i)
		}
		start = i + 1
	}
}

func (o *oracle) assignment(sign int) {
	if o.text[sign] != '=' || o.mark[sign] != 0 {
		return
	}
	start := o.key(sign)
	if start < o.line.start || !o.free(start, sign) {
		return
	}
	value := sign + 1
	end := value
	if value < o.line.end && isQuote(o.text[value]) && o.mark[value] == 0 {
		for k := value + 1; k < o.line.end; k++ {
			if o.mark[k] != 0 {
				continue
			}
			if o.text[k] == o.text[value] {
				end = k + 1
				break
			}
			if o.text[k] == '\\' {
				k++
			}
		}
	}
	for end < o.line.end && (o.mark[end] != 0 || !isSpaceAt(o.text, end)) {
		end++
	}
	if end == value {
		return
	}
	// A value that is one placeholder or one finding stays.
	if o.came[value] == 'p' && strings.IndexByte(o.text[value:end], ']') == end-value-1 && o.has(value, "[REDACTED:") {
		return
	}
	for _, s := range o.spans {
		if s.start == value && s.end == end {
			return
		}
	}
	o.swallow(value, end)
}

// keyValue looks for an assignment whose key ends before i.
func (o *oracle) keyValue(i int) {
	if i == 0 || !isWordByte(o.text[i-1]) || isWordByte(o.text[i]) {
		return
	}
	start := i
	for start > o.line.start && lowerKeySet.has(o.text[start-1]) {
		start--
	}
	if i-start > 64 || o.beside(start-1, lowerKeySet) || !isSecretKey(o.text[start:i]) && !isAuthKey(o.text[start:i]) {
		return
	}
	// The grammar of sign and value is that of the package, on a line of its own.
	r := &redactor{text: o.text[:o.line.end], start: o.line.start, end: o.line.end}
	k, ok := r.sign(i)
	if !ok {
		return
	}
	value, stop, quoted := r.value(k)
	if stop > value && o.free(start, stop) && !o.placeholderAt(stop) && isSecretValue(o.text[start:i], o.text[value:stop], quoted) {
		o.claim(value, stop, "dotenv")
	}
}

func (o *oracle) signature(i int) {
	for word, before := range map[string]string{"sig=": "?&;", "signature=": "?&;-"} {
		body := i + len(word)
		if i == o.line.start || body > o.line.end || !strings.EqualFold(o.text[i:body], word) || !strings.Contains(before, o.text[i-1:i]) {
			continue
		}
		if end := o.run(body, signatureSet); end-body >= 32 && hasDigit(o.text[body:end]) && !o.placeholderAt(end) {
			o.claim(body, end, "url-signature")
		}
	}
}

// taken is a redactor of the line that knows what is taken: the grammars of some rules are those of the package.
func (o *oracle) taken() *redactor {
	r := &redactor{text: o.text, start: o.line.start, end: o.line.end, taken: make([]bool, o.line.end-o.line.start)}
	for k := o.line.start; k < o.line.end; k++ {
		r.taken[k-r.start] = o.mark[k] != 0
	}
	return r
}

func (o *oracle) curl(i int) {
	blank := func(i int) bool { return i >= 0 && (o.at(i) == ' ' || o.at(i) == '\t') }
	option := ""
	switch next := o.at(i + 2); {
	case !blank(i - 1):
	case o.has(i, "-u") && (isQuote(next) && next != '`' || next == '=' || blank(i+2) || isWordByte(next)):
		option = "-u"
	case o.has(i, "--user") && (o.at(i+6) == '=' || blank(i+6)):
		option = "--user"
	}
	if option == "" || i+len(option) >= o.line.end {
		return
	}
	for k := o.line.start; k < i-5; k++ {
		if o.has(k, "curl") && blank(k+4) && !o.beside(k-1, alnumSet) {
			if start, end := o.taken().userPassword(i + len(option)); start < end && !o.placeholderAt(end) {
				o.claim(start, end, "user-password")
			}
			return
		}
	}
}

func (o *oracle) netrc(i int) {
	if next := o.at(i + 8); !o.has(i, "password") || i+8 >= o.line.end || next != ' ' && next != '\t' || o.beside(i-1, alnumSet) {
		return
	}
	if start, end := o.taken().netrcPassword(i); start < end && !o.placeholderAt(end) {
		o.claim(start, end, "user-password")
	}
}

// scheme looks for the word of an authentication scheme at i.
func (o *oracle) scheme(i int, word string) {
	after := i + len(word)
	if after >= o.line.end || !strings.EqualFold(o.text[i:after], word) || o.beside(i-1, alnumSet) {
		return
	}
	body := after
	for body < o.line.end && (o.text[body] == ' ' || o.text[body] == '\t') {
		body++
	}
	if body == after {
		return
	}
	header := o.taken().afterAuthorization(i)
	if word == "bearer" {
		end := o.run(body, bearerSet)
		if end > body && !o.placeholderAt(end) && (header || end-body >= 8 && hasDigit(o.text[body:end])) {
			o.claim(body, end, "bearer-token")
		}
		return
	}
	end := o.run(body, base64Set)
	if end-body >= 16 && !o.placeholderAt(end) && (header || isUserPassword(o.text[body:end])) {
		o.claim(body, end, "basic-auth")
	}
}

// token looks for a token of a vendor whose prefix, or mark, is at i.
func (o *oracle) token(t *tokenRule, i int) {
	start, body := i, i+len(t.Prefix)
	other := func(s string) bool { return o.has(body, s) }
	if !o.has(i, t.Prefix) || slices.ContainsFunc(t.OtherThan, other) || o.set != Seed && slices.ContainsFunc(t.Unlike, other) {
		return
	}
	if t.Before != (byteSet{}) {
		for start > 0 && t.Before.has(o.text[start-1]) {
			start--
		}
		if i-start < t.Fewest || i-start > t.Most || !o.has(start, t.Begin) || t.Last != (byteSet{}) && !t.Last.has(o.text[i-1]) {
			return
		}
	}
	end := o.run(body, *t.Class)
	if t.Long {
		end = min(end, body+t.Max)
	}
	if o.beside(start-1, t.Left) || o.placeholderAt(end) || t.Right != (byteSet{}) && o.beside(end, t.Right) {
		return
	}
	for t.Trim != "" && end > body && o.text[end-1] == t.Trim[0] {
		end--
	}
	if n := end - body; n >= t.Min && (t.Max == 0 || n <= t.Max) && (!t.Digit || hasDigit(o.text[body:end])) {
		o.claim(start, end, t.Kind)
	}
}

func (o *oracle) jwt(start int) {
	if !o.has(start, "eyJ") || o.beside(start-1, alnumSet) {
		return
	}
	end, count := o.run(start, urlSet), 1
	if end-start < 10 {
		return
	}
	for count < 5 && o.at(end) == '.' {
		next := o.run(end+1, urlSet)
		if next == end+1 || count == 1 && next-end-1 < 10 {
			break
		}
		end = next
		count++
	}
	if count >= 2 && !o.placeholderAt(end) && !(count < 5 && o.at(end) == '.' && o.placeholderAt(end+1)) {
		o.claim(start, end, "jwt")
	}
}

func (o *oracle) url(i int) {
	if !o.has(i, "://") {
		return
	}
	user := i + 3
	colon := user
	for ; ; colon++ {
		if colon >= o.line.end || colon-user > 256 || isSpaceAt(o.text, colon) {
			return
		}
		if o.mark[colon] != 0 {
			continue
		}
		if o.text[colon] == ':' {
			break
		}
		if strings.ContainsRune("/?#@\"'<>`\\", rune(o.text[colon])) {
			return
		}
	}
	stop := colon + 1
	for stop < o.line.end && stop-colon <= 513 && o.mark[stop] == 0 && !isSpaceAt(o.text, stop) && !strings.ContainsRune("/\"'<>`\\", rune(o.text[stop])) {
		stop++
	}
	for at := stop - 1; at > colon; at-- {
		if o.text[at] == '@' && at+1 < o.line.end && urlHostByte(o.text[at+1]) && o.came[at+1] != 'p' && isURLPassword(o.text[colon+1:at]) {
			o.claim(colon+1, at, "url-password")
			return
		}
	}
}
