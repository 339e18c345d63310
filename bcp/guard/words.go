package guard

import (
	"math/big"
	"strings"
	"sync"
)

// What tells a secret from a name: words, and entropy.

// part is a stretch of a name: letters of one word, digits, or one other character.
type part struct {
	text string
	kind partKind
}

type partKind uint8

const (
	partOther partKind = iota
	partWord
	partLetters // no word
	partDigits
)

// nextPart splits the first part from a name. Letters are divided where a capital begins a word: after a small letter, and
// at the last of several capitals before a small one.
func nextPart(s string) (part, string) {
	i := 0
	switch {
	case s[0]-'0' <= 9:
		for i < len(s) && s[i]-'0' <= 9 {
			i++
		}
		return part{s[:i], partDigits}, s[i:]
	case s[0]|0x20-'a' > 25:
		return part{s[:1], partOther}, s[1:]
	}
	for i < len(s) && s[i]-'A' <= 25 {
		i++
	}
	if i < len(s) && s[i]-'a' <= 25 {
		if i > 1 { // HTTPServer
			i--
			return part{s[:i], lettersKind(s[:i])}, s[i:]
		}
		for i < len(s) && s[i]-'a' <= 25 {
			i++
		}
	}
	return part{s[:i], lettersKind(s[:i])}, s[i:]
}

// lettersKind says whether letters could be a word or an abbreviation: not a single letter, with a vowel unless they are
// few, and never many consonants or vowels in a row.
func lettersKind(s string) partKind {
	if len(s) < 2 {
		return partLetters
	}
	vowels, row, wasVowel := 0, 0, false
	for i := range len(s) {
		isVowel := strings.IndexByte("aeiouy", s[i]|0x20) >= 0
		if isVowel {
			vowels++
		}
		if isVowel != wasVowel {
			row = 0
		}
		wasVowel = isVowel
		if row++; row > 6 || isVowel && row > 3 {
			return partLetters
		}
	}
	if vowels == 0 && len(s) > 4 || len(s) > 9 && vowels*5 < len(s) {
		return partLetters
	}
	return partWord
}

// measure says what a name consists of.
type measure struct {
	words, wordChars   int // words, and their characters
	letters, digits    int // characters of letters that are no words, and of digits
	digitRuns, longest int // longest: of the runs of digits
	strong             int // characters of what is a word rather than chance
}

func measureName(s string) (m measure) {
	for s != "" {
		var p part
		p, s = nextPart(s)
		if (p.kind == partWord || p.kind == partLetters) && isStrongWord(p.text) {
			m.strong += len(p.text)
		}
		switch p.kind {
		case partWord:
			m.words++
			m.wordChars += len(p.text)
		case partLetters:
			m.letters += len(p.text)
		case partDigits:
			m.digits += len(p.text)
			m.digitRuns++
			m.longest = max(m.longest, len(p.text))
		}
	}
	return m
}

// weak counts the characters of letters that may be chance.
func (m measure) weak() int { return m.wordChars + m.letters - m.strong }

// shortWords are words and abbreviations of names that have two letters, or no vowel.
var shortWords = listed("am an as at be by cd cn cs db de do ec en fn fr fs gb gc go hi id if in io ip is it js kb ln lo mb md me mu my ng no ns of ok on op or os pi rb re " +
	"rx sh so ss th to ts tx ui up us vm we www bcp bbb cbc cdn cfg cfb cli clr cmd cpp crc crl css csv ctl ctr ctx cwd cvs dbg dhe dll dns dst dsp dsl ebp fft ffs flv fmt fst ftp gcm gnu " +
	"gpg grpc gtk hdr hmac html http https ldap lhs lib lstm hpp mkdir mpls msg mtls mtx mv nbr nbt npm ntp nth ntt null num obj pbkdf pdf pem pgp php pkg pkt png pnp ppc prng proc ptr pwd py " +
	"qt regx rhs rnd rng rpc rpm rst rtt rtl smtp spf spl sql src srv ssh ssl str std stk svc svg sync sys tcp tgt tgz tls tmp tmpl ttl ttf tty txt tzst udp url usb usr utf vlc vfs vpn vnd wsdl www xhr " +
	"xhtml xml xmlns xsd xsl xslt yml zlib zstd")

func listed(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// isStrongWord reports whether letters are a word rather than chance: three letters or more with a vowel, or one that is
// known.
func isStrongWord(s string) bool {
	if len(s) >= 3 && lettersKind(s) == partWord && strings.ContainsAny(s, "aeiouyAEIOUY") {
		return true
	}
	return len(s) <= 6 && shortWords[strings.ToLower(s)]
}

// isCamelCase reports whether a run of base64 characters is an identifier of joined words: no sign, hardly a digit, and
// hardly a letter that belongs to no word.
func isCamelCase(s string) bool {
	if strings.ContainsAny(s, "+/") {
		return false
	}
	m := measureName(s)
	return m.weak()*12 <= len(s) && m.digits <= 4 && m.strong*4 >= len(s)*3
}

// isPathOfWords reports whether a run of base64 characters is a path, or names that are added up: segments of words, with few
// digits.
func isPathOfWords(s string) bool {
	if !strings.ContainsAny(s, "+/") {
		return false
	}
	n, strong, weak, digits := 0, 0, 0, 0
	for segment := range strings.FieldsFuncSeq(s, func(c rune) bool { return c == '+' || c == '/' }) {
		if isCommit(segment) {
			continue
		}
		m := measureName(segment)
		n, strong, weak, digits = n+len(segment), strong+m.strong, weak+m.weak(), digits+m.digits
	}
	return weak*10 <= n && digits*6 <= n && strong*3 >= n*2
}

// isCommit reports whether a segment of a path is an abbreviated hash.
func isCommit(s string) bool {
	return len(s) >= 7 && len(s) < minBlob && strings.Trim(s, "0123456789abcdef") == ""
}

// looksRandom reports whether a run of base64url characters is likely to be a secret: capitals, small letters and digits,
// an entropy of 4.2 bits a character or more, and few words.
func looksRandom(s string) bool {
	return strings.ToLower(s) != s && strings.ToUpper(s) != s && hasDigit(s) && entropyAtLeast(s, 42) && measureName(s).strong*5 < len(s)*3
}

const maxEntropy = 256 // bytes of a text whose entropy is looked at

// weights has n log2 n for n up to maxEntropy, in nano-bits.
var weights = sync.OnceValue(func() *[maxEntropy + 1]int64 {
	var table [maxEntropy + 1]int64
	for n := int64(2); n <= maxEntropy; n++ {
		table[n] = n * int64(RoundUp(Log2(big.NewInt(n))))
	}
	return &table
})

// entropyAtLeast reports whether s has, by the frequencies of its bytes, tenths/10 bits or more a character.
func entropyAtLeast(s string, tenths int64) bool {
	s = s[:min(len(s), maxEntropy)]
	var counts [256]uint16
	table := weights()
	sum := table[len(s)]
	for i := range len(s) {
		n := counts[s[i]]
		sum -= table[n+1] - table[n]
		counts[s[i]] = n + 1
	}
	return sum >= int64(len(s))*tenths*int64(bit)/10
}
