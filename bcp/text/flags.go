package text

import "unicode/utf8"

// flags tell the screening which of its slower parts can find anything.
type flags uint16

const (
	sawInvisible flags = 1 << iota // an invisible code point was removed
	sawSymbol                      // a byte that only code, markup, markers and URLs use much
	sawColon
	sawDot    // a full stop with something directly after it, or a space before it
	sawLong   // a run long enough to be an encoded blob
	sawDigits // digits and letters side by side, or a percent sign
	sawBeside // not kept: see beside
	sawRare   // what letters, short numbers, single blanks, full stops and commas are not: see Result.Prose
)

// asciiFlags is what a byte raises by itself; sawBeside asks for a look at its neighbours.
var asciiFlags = [256]flags{
	'<': sawSymbol, '>': sawSymbol, '{': sawSymbol, '}': sawSymbol, '[': sawSymbol, ']': sawSymbol, '|': sawSymbol,
	'`': sawSymbol, '\\': sawSymbol, '=': sawSymbol, '#': sawSymbol, '_': sawSymbol, '@': sawSymbol, '&': sawSymbol,
	'*': sawSymbol, '(': sawBeside, '/': sawBeside, '.': sawBeside,
	':': sawColon, '%': sawBeside,
}

// flagsAt is what the ASCII byte at a place raises beyond what has been seen.
func flagsAt(src []byte, at int, seen flags) flags {
	const most = sawSymbol | sawDot | sawDigits
	rare := rareAt(src, at)
	if rare == 0 && (src[at] != '.' || behindWord(src, at)) {
		return 0
	}
	f := asciiFlags[src[at]]
	if f == sawBeside {
		if f = 0; seen&most != most {
			f = neighbourFlags(src, at)
		}
	}
	return f | rare
}

// neighbourFlags judges a byte by its neighbours: what ordinary prose has, such as a bracket after a space, raises nothing.
func neighbourFlags(src []byte, at int) flags {
	before, behind := classSpace, classSpace
	slash := false
	if at > 0 {
		r, _ := utf8.DecodeLastRune(src[:at])
		before = class(lookUp(r) & entryClass)
		slash = r == '/' || r == '.'
	}
	if at+1 < len(src) {
		r, _ := utf8.DecodeRune(src[at+1:])
		behind = class(lookUp(r) & entryClass)
		slash = slash || r == '/'
	}
	if before == classStrip || behind == classStrip || before == classStretch || behind == classStretch {
		return sawSymbol | sawDot
	}
	open := before == classSpace || before == classLine
	switch src[at] {
	case '(':
		if !open {
			return sawSymbol
		}
	case '/':
		if before == classDigit && behind != classDigit {
			return sawSymbol | sawDot // perhaps a path after an address of four numbers
		}
		if open || slash || behind >= classOther {
			return sawSymbol
		}
	case '%':
		if behind == classDigit || behind == classLetter || behind == classMapped {
			return sawDigits
		}
	case '.':
		if before == classDigit && behind == classDigit {
			return 0
		}
		if at > 0 && open || behind != classSpace && behind != classLine {
			return sawDot
		}
	}
	return 0
}

// proseDigits is the longest number of prose: a year, and one or two digits more.
const proseDigits = 6

// rareAt judges an ASCII byte that is neither letter, digit nor blank: see [Result.Prose].
func rareAt(src []byte, at int) flags {
	behind := byte(' ')
	if at+1 < len(src) {
		behind = src[at+1]
	}
	switch src[at] {
	case '\n':
		if behind != ' ' && behind != '\n' {
			return 0
		}
	case '.', ',':
		if behind == ' ' || behind == '\n' {
			return 0
		}
	}
	return sawRare
}

// behindWord says whether an ASCII letter or digit comes before a place.
func behindWord(src []byte, at int) bool {
	if at == 0 {
		return false
	}
	c := asciiClass[src[at-1]]
	return c == classLetter || c == classDigit
}

// prose says whether the flags of a text are those of [Result.Prose].
func (f flags) prose() bool { return f&(sawRare|sawInvisible|sawLong|sawDigits) == 0 }
