package guard

import (
	"slices"
	"strings"
)

// isSecretKey reports whether the last part of a key, after a sign or at a capital, names a secret.
func isSecretKey(key string) bool {
	return slices.ContainsFunc(keyWords, func(word string) bool {
		if n := len(key) - len(word); word == "key" {
			return n >= 0 && strings.EqualFold(key[n:], word) && endsWithKeyPart(key[:n])
		}
		return endsWithPart(key, word)
	})
}

// isAuthKey reports whether the last part of a key is "auth".
func isAuthKey(key string) bool { return endsWithPart(key, authWord) }

// endsWithPart reports whether the last part of a key is a word, in any case.
func endsWithPart(key, word string) bool {
	n := len(key) - len(word)
	return n >= 0 && strings.EqualFold(key[n:], word) && partBegins(key[:n], key[n:])
}

// isSecretValue reports whether the value of a key that [isSecretKey] or [isAuthKey] holds for could be a secret.
func isSecretValue(key, value string, quoted bool) bool {
	if isAuthKey(key) {
		return isUserPassword(value)
	}
	return plausible(value, quoted)
}

// partBegins reports whether a part of a key begins between two pieces of it.
func partBegins(before, after string) bool {
	if before == "" || !isWordByte(before[len(before)-1]) {
		return true
	}
	last := before[len(before)-1]
	if after[0]-'A' > 25 {
		return false
	}
	return last-'A' > 25 || len(after) > 1 && after[1]-'a' <= 25
}

// endsWithKeyPart reports whether what comes before "key" ends with a word that makes it a secret.
func endsWithKeyPart(before string) bool {
	if n := len(before); n > 0 && !isWordByte(before[n-1]) {
		before = before[:n-1]
	}
	return slices.ContainsFunc(keyParts, func(word string) bool { return endsWithPart(before, word) })
}

const minValue = 6 // characters of a value

// plausible reports whether the value of a key could be a secret: at least six characters of ASCII without a blank, a digit
// and another class, an entropy of 2.5 bits a character, and not what programs and documents write there: a placeholder, a
// variable, a path, a URL, a call, a number, the name of a product or one of joined words.
func plausible(s string, quoted bool) bool {
	if len(s) < minValue || len(s) > maxValue || !hasDigit(s) || isNumber(s) || !entropyAtLeast(s, 25) {
		return false
	}
	if isVariable(s) || strings.Contains(s, "://") || strings.Contains(s, "#{") || strings.Contains(s, "<%") {
		return false
	}
	if !quoted && (hasAny(s, &codeSet) || isArithmetic(s)) || quoted && isCall(s) {
		return false
	}
	return !isPath(s) && !isProduct(s) && !isJoinedWords(s, quoted) && !isPlaceholder(s)
}

// isArithmetic reports whether s is a number and a name with a star between them, as programs (4*Max) and grammars (1*tchar)
// have them.
func isArithmetic(s string) bool {
	number, name, ok := strings.Cut(s, "*")
	if ok && strings.Trim(number, "0123456789") != "" {
		number, name = name, number
	}
	return ok && strings.Trim(number, "0123456789") == "" && name != "" && (name[0]-'0' > 9) && (isJoinedWords(name, false) || measureName(name).letters == 0)
}

// codeSet are characters of programs that no value without quotes has.
var codeSet = parseByteSet("()[]{}<>$|")

func hasAny(s string, set *byteSet) bool {
	for i := range len(s) {
		if set.has(s[i]) {
			return true
		}
	}
	return false
}

// isNumber reports whether s is a number, a date, a time, a version or an address: digits with signs between them.
func isNumber(s string) bool {
	letters := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c-'0' <= 9, strings.IndexByte(".:/-+,_%", c) >= 0:
		case c|0x20-'a' <= 25:
			letters++
		default:
			return false
		}
	}
	if letters == 0 {
		return true
	}
	// 0x1f00, 2026-11-22T21:16:18Z, 1.2.3-rc1, v1.2.3, 10MiB, 30days
	rest := strings.TrimLeft(s, "vV")
	if len(rest) == 0 || rest[0]-'0' > 9 {
		return false
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789.:-_,/"))
	if strings.HasPrefix(rest, "0x") && len(rest) <= 10 {
		return true
	}
	tail := rest[digits:]
	return strings.IndexByte(rest[:digits], '.') > 0 && len(tail) <= 8 && letters <= 6 && strings.Trim(tail, "abcdefghijklmnopqrstuvwxyz0123456789.-+") == "" ||
		isTimestamp(rest) || units[strings.ToLower(tail)] && letters == len(tail)
}

// isTimestamp reports whether s begins like 2026-11-22 and goes on with a time or not at all.
func isTimestamp(s string) bool {
	if len(s) < len("2026-11-22") || s[4] != '-' || s[7] != '-' || strings.Trim(s[:10], "0123456789-") != "" {
		return false
	}
	return strings.Trim(s[10:], "0123456789TtZz:.+-") == ""
}

// units stand behind numbers.
var units = listed("ms us ns s m h d sec secs min mins hours days weeks months years kb mb gb kib mib gib bytes bits bit px em rem hz khz mhz th st nd rd k")

// isCall reports whether a quoted value is an expression rather than a text.
func isCall(s string) bool {
	i := strings.IndexByte(s, '(')
	return i > 0 && strings.HasSuffix(s, ")") && measureName(s[:i]).letters == 0
}

var placeholderWords = []string{
	"your", "example", "sample", "placeholder", "changeme", "change_me", "change-me", "dummy", "redacted", "insert", "replace", "todo",
	"xxxx", "****", "....", "notreal", "not-a-real", "fake", "lorem", "foobar", "deadbeef", "0123456789",
}

// placeholderNames are the letters of others.
var placeholderNames = listed("password passwd passw pwd pass secret mysecret mypassword mytoken token key apikey secretkey " +
	"credential credentials string value test testing foo bar baz user username abc xyz n x xx xxx")

// isPlaceholder reports whether s is what documents write in place of a secret.
func isPlaceholder(s string) bool {
	lower := strings.ToLower(s)
	if slices.ContainsFunc(placeholderWords, func(word string) bool { return strings.Contains(lower, word) }) {
		return true
	}
	letters := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' {
			return c
		}
		return -1
	}, lower)
	return placeholderNames[letters] && len(letters)*2 >= len(s)
}

// isPath reports whether s is a path of a file, or a name with slashes: every segment is words or short numbers.
func isPath(s string) bool {
	if len(s) > 2 && s[1] == ':' && s[2] == '\\' || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || strings.HasPrefix(s, "~/") {
		return true
	}
	if !strings.Contains(s, "/") {
		return false
	}
	for segment := range strings.SplitSeq(s, "/") {
		if m := measureName(segment); m.letters > 1 || m.digits > 4 {
			return false
		}
	}
	return true
}

// products are names of algorithms, types and programs that have a number after them.
var products = listed("aes argon base bcrypt blake blowfish chacha crc des ecdsa ed es float hmac hs http int ipv iso jwt kerberos log md murmur ntlmv oauth pbkdf poly ps python ripemd rs rsa salsa scram sha secp siphash sni socks ssl ssha tls uint utf uuid uuidv ulid websocket windows xxh curve aesgcm gcm cbc cfb ctr ocb web sslv tlsv nip rfc bip eip erc node java ubuntu debian postgres mysql kubernetes lastpass keepass ec prime prime256v brainpool bn bls nistp id with and hash alg")

// isProduct reports whether s is the name of an algorithm, a type or a program, with its number: SHA-256, ed25519, uint64,
// AES256-GCM, OAuth2.
func isProduct(s string) bool {
	for rest := strings.ToLower(s); rest != ""; {
		var p part
		p, rest = nextPart(rest)
		switch p.kind {
		case partWord, partLetters:
			if !products[p.text] {
				return false
			}
		case partDigits:
			if len(p.text) > 5 {
				return false
			}
		case partOther:
			if strings.IndexByte("-_/.", p.text[0]) < 0 {
				return false
			}
		}
	}
	return true
}

// isJoinedWords reports whether s is a name of two words or more, with signs, capitals or short numbers between them, such as
// my-secret-2 or testRSA2048Key; or, without quotes, the member of a variable, such as t.Token1.
func isJoinedWords(s string, quoted bool) bool {
	if hasAny(s, &notNameSet) {
		return false
	}
	m := measureName(s)
	words, single := 2, 0
	if !quoted && strings.Contains(s, ".") {
		words, single = 1, 2
	}
	return m.words >= words && m.letters <= single && m.digitRuns <= max(m.words, 1) && m.longest <= 5 && m.digits*2 <= m.wordChars+m.letters
}

// notNameSet are the characters that no name has.
var notNameSet = parseByteSet("_./:@" + alnumChars + "-").complement()
