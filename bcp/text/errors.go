package text

import "errors"

// The refusals of this package: a closed list with constant texts, so that no byte of an agent gets into an error.
var (
	// ErrEmpty: no letter or digit is left after normalisation.
	ErrEmpty = errors.New("text: empty after normalisation")
	// ErrTooManyWords: over Options.MaxWords.
	ErrTooManyWords = errors.New("text: too many words")
	// ErrWordTooLong: a word of more than MaxWordChars characters.
	ErrWordTooLong = errors.New("text: word too long")
	// ErrTooLong: over Options.MaxChars, or over the limit of an e-mail address.
	ErrTooLong = errors.New("text: too long")
	// ErrMixedScript: one word holds letters of scripts that are not written together.
	ErrMixedScript = errors.New("text: word mixes scripts")
	// ErrLookAlike: the letters of a word resemble those of another script, and no other word says which is meant.
	ErrLookAlike = errors.New("text: word looks like one of another script")
	// ErrAlphabet: a character outside of Options.Alphabet, or no valid alphabet given.
	ErrAlphabet = errors.New("text: character outside the alphabet")
	// ErrMarks: more than four combining marks in a row, eight before they compose, or more than 16 in a text after neither letter nor digit.
	ErrMarks = errors.New("text: too many combining marks")
	// ErrSpelling: ligatures, abbreviations and other code points that stand for several add more than 40 and one for every 32 bytes.
	ErrSpelling = errors.New("text: too many code points that stand for several")
	// ErrCodePoint: invalid UTF-8, or a code point that is unassigned, private or a noncharacter.
	ErrCodePoint = errors.New("text: code point not allowed")
	// ErrName: a digit or symbol in a person's name.
	ErrName = errors.New("text: not a person's name")
	// ErrDate: not one calendar date in a known layout.
	ErrDate = errors.New("text: not a date")
	// ErrTime: not a time of the form 15:04.
	ErrTime = errors.New("text: not a time")
	// ErrEmail: not a dot-atom address at a host name.
	ErrEmail = errors.New("text: not an e-mail address")
	// ErrInteger: not a plain decimal integer of 64 bits.
	ErrInteger = errors.New("text: not an integer")
	// ErrBoolean: neither true nor false.
	ErrBoolean = errors.New("text: not a boolean")
)
