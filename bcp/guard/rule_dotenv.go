package guard

import (
	"slices"
	"strings"
)

const kindDotenv = "dotenv"

const (
	maxKey   = 64      // characters of a key
	maxQuote = 4 << 10 // bytes of a quoted value on its line
)

// keySet are the characters of an upper-case key.
var keySet = parseByteSet("A-Z0-9_")

// upperKey returns where the upper-case key begins that ends at sign, and whether it names a secret.
func (r *redactor) upperKey(sign int) (start int, secret bool) {
	start = r.runStart(sign, maxKey, &keySet)
	key := r.text[start:sign]
	if len(key) < len("API") || len(key) > maxKey || r.blocked(start-1, &keySet) {
		return start, false
	}
	for _, word := range [...]string{"SECRET", "TOKEN", "KEY", "PASSWORD", "PASSWD", "API"} {
		if strings.Contains(key, word) {
			return start, true
		}
	}
	return start, false
}

// assignment looks for KEY=VALUE with a key in upper case, of which an anchor has found the sign.
func (r *redactor) assignment(h hit) {
	sign := h.end - 1
	if sign < r.start || r.isTaken(sign) {
		return
	}
	start, secret := r.upperKey(sign)
	if !secret || r.takenRange(start, sign) {
		return
	}
	if end := r.valueEnd(sign + 1); end > sign+1 {
		r.claimValue(sign+1, end)
	}
}

// valueEnd returns where the value ends that begins at i: a quoted one, with what touches its closing quote, or one that
// goes up to white space. A taken span is like one character.
func (r *redactor) valueEnd(i int) (end int) {
	end = i
	if i < r.end && isQuote(r.text[i]) && !r.isTaken(i) {
		if closed := r.quoteEnd(i); closed > 0 {
			end = closed
		}
	}
	for end < r.end && (r.isTaken(end) || !isSpaceAt(r.text, end)) {
		end++
	}
	return end
}

// quoteEnd returns where the quoted text ends that begins at i, or -1.
func (r *redactor) quoteEnd(i int) int {
	limit := min(r.end, i+maxQuote)
	for j := i + 1; j < limit; j++ {
		switch {
		case r.isTaken(j):
		case r.text[j] == r.text[i]:
			return j + 1
		case r.text[j] == '\\':
			j++
		case r.text[j] == '\n':
			return -1
		}
	}
	return -1
}

// claimValue takes the value of an assignment, with all that was taken inside it. A value that is one placeholder, or one
// finding, stays as it is.
func (r *redactor) claimValue(start, end int) {
	for _, a := range r.fixed {
		if a.start == start && a.end == end {
			return
		}
		if a.start >= end {
			break
		}
	}
	s := span{start: start, end: end, kind: kindDotenv}
	if r.claim(s) {
		return
	}
	r.found = slices.DeleteFunc(r.found, func(inner span) bool { return start <= inner.start && inner.end <= end })
	r.found = append(r.found, s)
	r.take(start, end)
}

// Sets of an assignment with a key in any case.
var (
	lowerKeySet = parseByteSet("_." + alnumChars + "-")
	// keyParts are what comes before "key" in a key of a secret.
	keyParts = []string{"api", "access", "secret", "private", "auth", "account", "signing", "encryption", "shared", "master"}
)

const maxBlanks = 64 // around the sign of an assignment

// keyValue looks at a word that keys of secrets end with; the anchor ends one or two characters after it.
func (r *redactor) keyValue(h hit) {
	end := h.end
	word := end - 1
	for word > r.start && !isWordByte(r.text[word-1]) {
		word--
	}
	start := r.runStart(word, maxKey, &lowerKeySet)
	if word-start > maxKey || r.blocked(start-1, &lowerKeySet) || !isSecretKey(r.text[start:word]) && !isAuthKey(r.text[start:word]) {
		return
	}
	i, ok := r.sign(word)
	if !ok {
		return
	}
	value, stop, quoted := r.value(i)
	if stop == value || r.takenRange(start, stop) || r.meetsPlaceholder(stop) || !isSecretValue(r.text[start:word], r.text[value:stop], quoted) {
		return
	}
	r.claim(span{start: value, end: stop, kind: kindDotenv})
}

// Signs of an assignment in the width of Chinese and Japanese.
const fullColon, fullEquals = "：", "＝"

// sign returns the first place after the sign of an assignment, and blanks, that follows a key.
func (r *redactor) sign(i int) (after int, ok bool) {
	i = r.skipSome(r.skipQuote(i))
	switch {
	case r.begins(i, "=>"), r.begins(i, ":="):
		i += 2
	case r.begins(i, "==") || r.begins(i, "=~") || r.begins(i, "::"):
		return i, false
	case r.begins(i, "=") || r.begins(i, ":"):
		i++
	case r.begins(i, fullColon), r.begins(i, fullEquals):
		i += len(fullColon)
	default:
		return i, false
	}
	i = r.skipSome(i)
	return i, i < r.end
}

// skipSome returns the first place from i on that is no blank, but goes over maxBlanks at most.
func (r *redactor) skipSome(i int) int { return min(r.skipBlanks(i), i+maxBlanks) }

// skipQuote returns the first place after a quote at i, which backslashes may escape.
func (r *redactor) skipQuote(i int) int {
	j := i
	for j < r.end && r.text[j] == '\\' && j-i < 4 {
		j++
	}
	if j < r.end && isQuote(r.text[j]) {
		return j + 1
	}
	return i
}

const maxValue = 256 // bytes of a value

// unquotedEnds are the bytes at which a value without quotes ends.
var unquotedEnds = byteTable(parseByteSet("\x00- \x7f-\xff\"'`,;&\\"))

// value returns where the value at i begins and ends; nothing if it is not closed, too long or has a blank.
func (r *redactor) value(i int) (start, end int, quoted bool) {
	start = r.skipQuote(i)
	limit := min(r.end, start+maxValue+1)
	if start > i {
		quote, escaped := r.text[start-1], start-i > 1
		for end = start; end < limit; end++ {
			switch c := r.text[end]; {
			case c == quote && !escaped, c == '\\' && escaped:
				return start, end, true
			case c == '\\':
				end++
			case c <= ' ', c >= 0x7f:
				return start, start, true
			}
		}
		return start, start, true
	}
	for end = start; end < limit; end++ {
		if unquotedEnds[r.text[end]] {
			break
		}
	}
	if end-start > maxValue || end < r.end && r.text[end] >= 0x7f {
		return start, start, false
	}
	for end > start && strings.IndexByte(")]}>.", r.text[end-1]) >= 0 {
		end--
	}
	return start, end, false
}
