package bcp

import (
	"math/big"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// JudgeJustification checks what a Controller gives as its reason against the limits
// of its channel, whose settings are given, and returns it as it is recorded, with an
// upper bound of what it can carry (PROTOCOL P6.4); ok is false if it says nothing, or
// too much.
func (c *Channel) JudgeJustification(settings *Settings, e *Escalation) (reason string, carries Bits, ok bool) {
	if e == nil {
		return "", 0, false
	}
	chars := utf8.RuneCountInString(e.Justification)
	if chars > c.MaxJustificationChars || !utf8.ValidString(e.Justification) {
		return "", 0, false
	}
	// Its words are counted as those of an answer, and must be words.
	result, err := text.Normalise(nil, []byte(e.Justification), text.Options{Alphabet: text.Any, Looks: text.LooksAlone, MaxWords: c.MaxJustificationWords, Rules: settings.Rules})
	if err != nil {
		return "", 0, false
	}
	if c.JustificationVocabulary == "" {
		return e.Justification, textBits(chars, codePoints), true
	}
	list := settings.Vocabularies[c.JustificationVocabulary]
	words := text.Fields(result.Text)
	if !text.AllIn(result.Text, list) {
		return "", 0, false
	}
	return string(result.Text), textBits(words, uint64(len(list))), true
}

// codePoints is the number of Unicode code points that a text can have.
const codePoints = 0x110000 - 0x800

// textBits bounds log2 of the number of texts of at most so many words, or code points, of
// which there are so many: it is below (of+1)^most.
func textBits(most int, of uint64) Bits {
	one := logUint(of + 1)
	return roundUp(one.Mul(one, big.NewInt(int64(most))))
}
