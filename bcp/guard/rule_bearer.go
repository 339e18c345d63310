package guard

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// Credentials in headers and URLs.

var bearerSet = parseByteSet("._~+/=" + alnumChars + "-")

const minBearer = 8 // characters of a token after the word alone

// bearer looks at a word "bearer" and a blank that end at end. Behind Authorization it has any token after it, elsewhere one
// of 8 characters or more with a digit.
func (r *redactor) bearer(h hit) {
	end := h.end
	word := end - 1 - len("bearer")
	body := r.skipBlanks(end)
	stop := r.runEnd(body, &bearerSet)
	if word < r.start || r.blocked(word-1, &alnumSet) || stop == body || r.meetsPlaceholder(stop) {
		return
	}
	if r.afterAuthorization(word) || stop-body >= minBearer && hasDigit(r.text[body:stop]) {
		r.claim(span{start: body, end: stop, kind: "bearer-token"})
	}
}

const maxHeaderGap = 16 // quotes, blanks and the sign between Authorization and the scheme

// afterAuthorization reports whether the header's name and a colon, or an equals sign, stand before i, perhaps in quotes.
func (r *redactor) afterAuthorization(i int) bool {
	from := max(r.start, i-maxHeaderGap)
	j := i
	for j > from && (isQuote(r.text[j-1]) || strings.IndexByte(" \t\\", r.text[j-1]) >= 0) {
		j--
	}
	if j == from || r.text[j-1] != ':' && r.text[j-1] != '=' {
		return false
	}
	for j--; j > from && (isQuote(r.text[j-1]) || strings.IndexByte(" \t\\", r.text[j-1]) >= 0); j-- {
	}
	const name = "authorization"
	return j-len(name) >= r.start && strings.EqualFold(r.text[j-len(name):j], name) && !r.takenRange(j-len(name), i)
}

const minBasic = 16 // characters of base64

// basic looks at a word "basic" and a blank that end at end. Elsewhere than after Authorization, what follows has to be
// base64 of a text with a colon.
func (r *redactor) basic(h hit) {
	end := h.end
	word := end - 1 - len("basic")
	body := r.skipBlanks(end)
	stop := r.runEnd(body, &base64Set)
	if word < r.start || r.blocked(word-1, &alnumSet) || stop-body < minBasic || r.meetsPlaceholder(stop) {
		return
	}
	if r.afterAuthorization(word) || isUserPassword(r.text[body:stop]) {
		r.claim(span{start: body, end: stop, kind: "basic-auth", certain: true})
	}
}

const maxUserPassword = 1 << 10

// isUserPassword reports whether s is base64 of printable ASCII with a colon in it.
func isUserPassword(s string) bool {
	s = strings.TrimRight(s, "=")
	if len(s) > maxUserPassword {
		return false
	}
	decoded, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || bytes.ContainsFunc(decoded, func(c rune) bool { return c < ' ' || c > '~' }) {
		return false
	}
	return bytes.IndexByte(decoded, ':') >= 0
}

const (
	maxUser        = 256 // bytes
	minURLPassword = 3
	maxURLPassword = 512
)

// urlPassword looks, after a "://" that ends at end, for a user name, which may be empty, a colon, a password and an @.
func (r *redactor) urlPassword(h hit) {
	end := h.end
	colon := end
	if end-len("://") < r.start {
		return
	}
	for {
		if colon == r.end || colon-end > maxUser || isSpaceAt(r.text, colon) {
			return
		}
		c := r.text[colon]
		if c == ':' && !r.isTaken(colon) {
			break
		}
		if (urlEnds[c] || c == '?' || c == '#' || c == '@') && !r.isTaken(colon) {
			return
		}
		colon++
	}
	stop := colon + 1
	for stop < r.end && stop-colon <= maxURLPassword+1 && !urlEnds[r.text[stop]] && !isSpaceAt(r.text, stop) && !r.isTaken(stop) {
		stop++
	}
	for i := stop - 1; i > colon+minURLPassword; i-- {
		if r.text[i] == '@' && i+1 < r.end && urlHostByte(r.text[i+1]) && !r.inPlaceholder(i+1) && isURLPassword(r.text[colon+1:i]) {
			r.claim(span{start: colon + 1, end: i, kind: "url-password", certain: true})
			return
		}
	}
}

// urlEnds are bytes at which a password in a URL ends.
var urlEnds = byteTable(parseByteSet("/\"'<>`\\"))

// isURLPassword reports whether s, after a user name in a URL, is a password: at least three bytes, no variable, and not
// the word that documents write there.
func isURLPassword(s string) bool {
	return len(s) >= minURLPassword && !isVariable(s) && !isPlaceholderPassword(s)
}

func urlHostByte(c byte) bool {
	return isWordByte(c) || c == '[' || c == '_' || c == '{' || c == '$' || c >= 0x80
}

// isVariable reports whether a value stands for another one: $NAME, ${NAME}, {{name}}, {name}, %(name)s, %NAME%, %s.
func isVariable(s string) bool {
	if s[0] == '$' || strings.Contains(s, "${") || strings.Contains(s, "$(") || strings.Contains(s, "{{") || strings.Contains(s, "%(") {
		return true
	}
	if s[0] == '{' && s[len(s)-1] == '}' || len(s) > 2 && s[0] == '%' && s[len(s)-1] == '%' {
		return true
	}
	return s[0] == '%' && len(s) <= 3 && (len(s) == 1 || s[1]|0x20-'a' <= 25)
}

// placeholderPasswords are what documents write where a password would stand.
var placeholderPasswords = listed("password passwd pass pwd passw secret token user yourpassword your_password your-password " +
	"mypassword my_password changeme xxx redacted example ... foo bar key apikey api_key")

func isPlaceholderPassword(s string) bool {
	return placeholderPasswords[strings.ToLower(s)] || strings.IndexByte("*x.X-_#", s[0]) >= 0 && strings.Trim(s, s[:1]) == ""
}

const kindUserPassword = "user-password"

// curl looks at a -u or --user, of which the anchor ends one character behind it, with a word "curl" in front of it.
func (r *redactor) curl(h hit) {
	option := h.end - 1 - len("-u")
	if !r.begins(option, "-u") {
		option = h.end - 1 - len("--user")
	}
	if start, stop := r.userPassword(h.end - 1); r.program >= 0 && r.program <= option && start < stop && !r.meetsPlaceholder(stop) {
		r.claim(span{start: start, end: stop, kind: kindUserPassword, certain: true})
	}
}

// curlProgram notes where the first word "curl" of the segment ends, of which an anchor ends one character behind it.
func (r *redactor) curlProgram(h hit) {
	if begin := h.end - len("curl "); r.program < 0 && begin >= r.start && !r.blocked(begin-1, &alnumSet) {
		r.program = h.end
	}
}

// userPassword returns where the password is of a user and a password, with a colon between them, behind an option that ends
// at i; nothing if there is none.
func (r *redactor) userPassword(i int) (start, end int) {
	if r.begins(i, "=") {
		i++
	}
	i = r.skipBlanks(i)
	quote := byte(0)
	if i < r.end && isQuote(r.text[i]) {
		quote = r.text[i]
		i++
	}
	for start = i; ; start++ {
		switch {
		case start >= r.end || start-i > maxUser || r.isTaken(start) || isSpaceAt(r.text, start) || isQuote(r.text[start]):
			return 0, 0
		case r.text[start] != ':':
			continue
		}
		break
	}
	start++
	for end = start; end < r.end && end-start <= maxURLPassword && !r.isTaken(end); end++ {
		if c := r.text[end]; c == quote || quote == 0 && (isSpaceAt(r.text, end) || isQuote(c) || strings.IndexByte(";|&)", c) >= 0) {
			break
		}
	}
	if end-start > maxURLPassword || quote != 0 && (end == r.end || r.text[end] != quote) || !isURLPassword(r.text[start:end]) {
		return 0, 0
	}
	return start, end
}

// netrc looks at a word "password" and a blank that end at end: in a line of a .netrc, after a login or a machine, or alone
// on its line with what could be a secret.
func (r *redactor) netrc(h hit) {
	end := h.end
	word := end - 1 - len("password")
	if word < r.start || r.blocked(word-1, &alnumSet) {
		return
	}
	if start, stop := r.netrcPassword(word); start < stop && !r.meetsPlaceholder(stop) {
		r.claim(span{start: start, end: stop, kind: kindUserPassword})
	}
}

// netrcPassword returns where the password is behind a word "password" that begins at word.
func (r *redactor) netrcPassword(word int) (start, end int) {
	start = r.skipBlanks(word + len("password"))
	for end = start; end < r.end && end-start <= maxValue && !r.isTaken(end) && !isSpaceAt(r.text, end); end++ {
	}
	if r.isTaken(word) || end == start || end-start > maxValue || end < r.end && r.isTaken(end) {
		return 0, 0
	}
	value, at := r.text[start:end], r.blanksBefore(word)
	if at == r.start {
		if strings.TrimRight(r.text[end:r.end], " \t\r\n") == "" && plausible(value, true) {
			return start, end
		}
		return 0, 0
	}
	key, at := r.pairBefore(at)
	if key == "login" {
		if key, _ = r.pairBefore(r.blanksBefore(at)); key != "machine" && plausible(value, true) {
			return start, end
		}
	}
	if key == "machine" && isURLPassword(value) {
		return start, end
	}
	return 0, 0
}

// pairBefore returns the first of the two tokens that end at i, and where it begins; nothing if there are none.
func (r *redactor) pairBefore(i int) (key string, at int) {
	name := r.tokenBefore(i)
	last := r.blanksBefore(name)
	at = r.tokenBefore(last)
	if name == i || last == name || r.takenRange(at, last) {
		return "", i
	}
	return r.text[at:last], at
}

// blanksBefore returns where the blanks begin that end at i.
func (r *redactor) blanksBefore(i int) int {
	for i > r.start && (r.text[i-1] == ' ' || r.text[i-1] == '\t') && !r.isTaken(i-1) {
		i--
	}
	return i
}

// tokenBefore returns where what is no white space begins that ends at i, of at most maxUser bytes. A taken span is like one
// character.
func (r *redactor) tokenBefore(i int) int {
	least := max(r.start, i-maxUser)
	for i > least && (r.isTaken(i-1) || !isSpaceByte(r.text[i-1])) {
		i--
	}
	return i
}

// signatureSet are the characters of a signature in a URL: base64 or hex, escaped.
var signatureSet = parseByteSet("%+/=_" + alnumChars + "-")

const minSignature = 32 // characters

// signature looks at a sig= or signature= of a URL that ends at end, with what signs the URL behind it.
func (r *redactor) signature(h hit) {
	end := h.end
	begin := end - len("sig=")
	if !strings.EqualFold(r.text[max(0, begin):end], "sig=") {
		begin = end - len("signature=")
	}
	stop := r.runEnd(end, &signatureSet)
	if begin > r.start && stop-end >= minSignature && hasDigit(r.text[end:stop]) && !r.meetsPlaceholder(stop) {
		r.claim(span{start: end, end: stop, kind: "url-signature", certain: true})
	}
}
