package text

import (
	_ "embed"
	"encoding/binary"
)

//go:generate go run ../../cmd/bcpmesh-lab/letters

// tablesFile has the tables of tables.go.
//
//go:embed tables.bin
var tablesFile []byte

// tableAt reads the table that begins at a place of the file.
func tableAt[T any](at int) (table T) {
	if _, err := binary.Decode(tablesFile[at:], binary.LittleEndian, &table); err != nil {
		panic(err) // the file was compiled in
	}
	return table
}

// A class says what the scanner does with a code point. The zero class refuses.
type class uint8

const (
	classRefuse  class = iota // unassigned, private use, surrogate, noncharacter
	classStrip                // invisible: removed
	classSpace                // white space, and U+200B
	classLine                 // line break
	classLetter               // letter that stays as it is
	classDigit                // ASCII digit
	classMark                 // combining mark that stays as it is
	classQuote                // apostrophe, delivered as '
	classHyphen               // hyphen
	classInner                // & and +
	classStop                 // full stop
	classComma                // comma
	classBetween              // colon and slash
	classMoney                // % and currency signs
	classEnd                  // exclamation and question marks
	classFull                 // full stop that needs no space after it
	classSemi                 // marks that separate items only
	classOther                // everything else: becomes a space
	classMapped               // normalises to one settled code point, whatever is next to it
	classExpand               // anything else that normalises to something different
	classStretch              // lengthens a word: removed
)

// Attachment of a letter or digit under UAX #29, on the alphabet that the scanner keeps.
const (
	attachNone    = 0 // a word of its own: ideographs, Hiragana, Thai and the like
	attachAlpha   = 1 // ALetter and Hebrew_Letter: joins itself and digits
	attachNumeric = 2 // joins itself and letters
	attachKana    = 3 // Katakana: joins itself
)

// Layout of an entry of the table. From entryMapped on, an entry of classMapped holds its target instead, and one of
// classExpand the place in expandTable of what is read in its place; above entryExtra is how many code points more that is.
const (
	entryClass   = 0xff
	entryAttach  = 8       // two bits
	entryRough   = 1 << 10 // may compose with what comes before
	entryAccent  = 1 << 11 // combining class is not 0: two in a row may change order
	entryLook    = 1 << 12 // looks like a letter of another script
	entryScript  = 16      // eight bits; 0 for Common and Inherited
	entryOrder   = 24      // canonical combining class
	entryMapped  = 8
	entryExtra   = 24
	entryCapital = 1 << 31 // of classMapped: an upper-case letter
)

func entryScriptNumber(e uint32) uint8 { return uint8(e >> entryScript) }

// capitalMark is in expandTable before a letter that was upper case. It is private use, so no received text holds it.
const capitalMark = 0xf8ff

// mappedTo is the target of an entry of classMapped.
func mappedTo(e uint32) rune { return rune(e &^ entryCapital >> entryMapped) }

// expand is what is read in place of a code point of classExpand.
func expand(e uint32) string { return expandTable[uint16(e>>entryMapped)] }

// lookUp looks up one code point in the generated table.
func lookUp(r rune) uint32 {
	if uint32(r) > 0x10ffff {
		return uint32(classRefuse)
	}
	return tableBlocks[int(tableIndex[r>>7])<<7|int(r&0x7f)]
}
