package guard

import (
	"sync"
	"unicode/utf8"
)

// anchorID says which rule an anchor belongs to. From anchorToken on, it is the number of a rule of tokens.json.
type anchorID uint16

const (
	anchorInvisible   anchorID = iota
	anchorPlaceholder          // [REDACTED:
	anchorBegin                // -----BEGIN
	anchorEnd                  // -----END
	anchorAssign               // the last character of an upper-case key and =
	anchorKeyWord              // a word that a key ends with, and what follows it
	anchorOpenAI               // sk-
	anchorAWS                  // AKIA
	anchorGitHub               // ghp_ or gho_
	anchorGoogle               // AIza
	anchorBearer               // bearer and a blank
	anchorBasic                // basic and a blank
	anchorJWT                  // eyJ
	anchorURL                  // ://
	anchorTelegram             // digit and :AA
	anchorMailchimp            // hex digit and -us
	anchorAzure                // digit and Q~
	anchorTerraform            // .atlasv1.
	anchorAirtable             // pat
	anchorZhipu                // hex digits and a full stop
	anchorCurl                 // the program
	anchorUser                 // its -u or --user, and what follows it
	anchorNetrc                // password and a blank
	anchorSignature            // sig= or signature= of a URL
	anchorToken
)

// hit is where an anchor ends.
type hit struct {
	end int
	id  anchorID
}

// Words that the last part of a key is, or ends with. "key" needs another part before it: keyParts.
var keyWords = []string{
	"password", "passwd", "pwd", "passphrase", "passcode", "secret", "token", "apikey", "key", "credential", "credentials", "identitytoken", "registrytoken",
}

// authWord is a word of keys whose value is base64 of a user's name and password, as Docker and npm keep them.
const authWord = "auth"

const (
	anchorPlaceholderText = "[REDACTED:"
	anchorBeginText       = "-----BEGIN"
	anchorEndText         = "-----END"
)

// scanner returns the finder of all anchors.
var scanner = sync.OnceValue(func() *finder {
	var (
		alnum    = parseByteSet(alnumChars)
		notAlnum = alnum.complement()
		capital  = parseByteSet("A-Z0-9")
		hexDigit = parseByteSet("a-f0-9")
		digit    = parseByteSet("0-9")
		blank    = parseByteSet(" \t")
	)
	var all []anchor
	add := func(id anchorID, sets ...byteSet) { all = append(all, anchor{id: id, sets: sets}) }
	text := func(s string) []byteSet {
		var sets []byteSet
		for i := range len(s) {
			sets = append(sets, parseByteSet(s[i:i+1]))
		}
		return sets
	}
	folded := func(s string) []byteSet {
		var sets []byteSet
		for i := range len(s) {
			var both byteSet
			both.add(s[i])
			both.add(s[i] &^ 0x20)
			sets = append(sets, both)
		}
		return sets
	}
	after := func(left byteSet, sets []byteSet, right ...byteSet) []byteSet {
		return append(append([]byteSet{left}, sets...), right...)
	}
	for _, sets := range invisibleSequences() {
		add(anchorInvisible, sets...)
	}
	add(anchorPlaceholder, text(anchorPlaceholderText)...)
	add(anchorBegin, text(anchorBeginText)...)
	add(anchorEnd, text(anchorEndText)...)
	add(anchorAssign, parseByteSet("A-Z0-9_"), parseByteSet("="))
	wide := byteSet{}
	wide.add(fullColon[0])
	for _, word := range append([]string{authWord}, keyWords...) {
		add(anchorKeyWord, append(folded(word), parseByteSet(":=\"'`\\").union(wide))...)
		add(anchorKeyWord, append(folded(word), blank, parseByteSet(":= \t").union(wide))...)
	}
	add(anchorOpenAI, after(notAlnum, text("sk-"), parseByteSet(urlChars))...)
	add(anchorAWS, after(capital.complement(), text("AKIA"), capital)...)
	add(anchorGitHub, after(notAlnum, text("ghp_"), alnum)...)
	add(anchorGitHub, after(notAlnum, text("gho_"), alnum)...)
	add(anchorGoogle, after(notAlnum, text("AIza"), parseByteSet(urlChars))...)
	add(anchorBearer, after(notAlnum, folded("bearer"), blank)...)
	add(anchorBasic, after(notAlnum, folded("basic"), blank)...)
	add(anchorJWT, after(notAlnum, text("eyJ"), parseByteSet(urlChars))...)
	add(anchorURL, text("://")...)
	add(anchorTelegram, append([]byteSet{digit}, text(":AA")...)...)
	add(anchorMailchimp, append([]byteSet{hexDigit}, append(text("-us"), digit)...)...)
	add(anchorAzure, append([]byteSet{digit}, text("Q~")...)...)
	add(anchorTerraform, text(".atlasv1.")...)
	add(anchorAirtable, after(notAlnum, text("pat"), alnum)...)
	add(anchorZhipu, hexDigit, hexDigit, parseByteSet("."), alnum)
	add(anchorCurl, after(notAlnum, text("curl"), blank)...)
	behind := parseByteSet("=\"' \t" + alnumChars)
	add(anchorUser, after(blank, text("-u"), behind)...)
	add(anchorUser, after(blank, text("--user"), parseByteSet("= \t"))...)
	add(anchorNetrc, after(notAlnum, text("password"), blank)...)
	add(anchorSignature, after(parseByteSet("?&;"), folded("sig"), parseByteSet("="))...)
	add(anchorSignature, after(parseByteSet("?&;-"), folded("signature"), parseByteSet("="))...)
	for i, rule := range tokenRules() {
		sets := after(rule.left.set.complement(), text(rule.Prefix))
		for range rule.pad {
			sets = append(sets, rule.class.set)
		}
		add(anchorToken+anchorID(i), sets...)
	}
	return newFinder(all)
})

// invisibleSequences returns the UTF-8 spellings of all invisible code points, as sequences of byte sets.
func invisibleSequences() [][]byteSet {
	var sequences [][]byteSet
	merged := map[string]int{} // all bytes but the last: number of the sequence
	var buffer [utf8.UTFMax]byte
	add := func(r rune) {
		if isWholeRange(r) || !invisible(r) {
			return
		}
		n := utf8.EncodeRune(buffer[:], r)
		key := string(buffer[:n-1])
		at, ok := merged[key]
		if !ok {
			at = len(sequences)
			merged[key] = at
			sets := make([]byteSet, n)
			for i := range n - 1 {
				sets[i].add(buffer[i])
			}
			sequences = append(sequences, sets)
		}
		sequences[at][n-1].add(buffer[n-1])
	}
	for _, table := range hidden {
		for _, r16 := range table.R16 {
			for r := rune(r16.Lo); r <= rune(r16.Hi); r += rune(r16.Stride) {
				add(r)
			}
		}
		for _, r32 := range table.R32 {
			for r := rune(r32.Lo); r <= rune(r32.Hi) && !isWholeRange(r); r += rune(r32.Stride) {
				add(r)
			}
		}
	}
	continuation := byteSet{0, 0, ^uint64(0), 0}
	lead := func(from, to byte) (s byteSet) {
		for c := int(from); c <= int(to); c++ {
			s.add(byte(c))
		}
		return s
	}
	return append(sequences,
		[]byteSet{lead(0xee, 0xee), continuation, continuation},                   // private use, U+E000 to U+EFFF
		[]byteSet{lead(0xef, 0xef), lead(0x80, 0xa3), continuation},               // to U+F8FF
		[]byteSet{lead(0xf3, 0xf3), lead(0xa0, 0xbf), continuation, continuation}, // tags, selectors, private use
		[]byteSet{lead(0xf4, 0xf4), lead(0x80, 0x8f), continuation, continuation})
}

// isWholeRange reports whether r lies in a range that invisibleSequences adds as a whole. Some code points in it are visible or
// unassigned: an anchor only says where to look.
func isWholeRange(r rune) bool { return r >= 0xe000 && r <= 0xf8ff || r >= 0xe0000 }
