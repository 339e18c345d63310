package corpus

import "unicode"

// unspaced are scripts without blanks between words: each of their letters counts
// as a word.
var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan}

// words returns the end of each word of a text: a run of letters, digits and marks, or
// one letter of a script without blanks.
func words(text string) (ends []int) {
	within := false
	for i, r := range text {
		switch {
		case unicode.In(r, unspaced...):
			if within {
				ends = append(ends, i)
			}
			ends, within = append(ends, i+len(string(r))), false
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			within = within || !unicode.IsMark(r)
		case within && (r == '\'' || r == '\u2019'):
		case within:
			ends, within = append(ends, i), false
		}
	}
	if within {
		ends = append(ends, len(text))
	}
	return ends
}

// pieces divides a text into pieces of at most so many words.
func pieces(text string, most int) (list []string) {
	ends, from := words(text), 0
	for i := most; i < len(ends); i += most {
		list = append(list, text[from:ends[i-1]])
		from = ends[i-1]
	}
	return append(list, text[from:])
}
