package guard

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// lookalikes has, for each letter of the fence's tag, characters that are drawn like it or nearly so: the confusables of
// UTS 39 for these letters in either case, small capitals, and letters with a hook or a stroke. What NFKD and lower case
// turn into the letter is not listed.
var lookalikes = lookalikeTable(map[byte]string{
	'a': "ɑαа⍺ᴀɐɒΑАᎪꭺᗅꓮ𐊠𖽀ⱥⱯ🅐🅰🇦",
	'd': "ԁᏧᑯꓒᎠꭰᗞᗪꓓᴅɖɗđðԃ₫ᶁʠ🅓🅳🇩",
	'e': "еҽєε℮ꬲ⋿ΕЕᎬꭼⴹꓰ𑢦𑢮𐊆ᴇɛɘəǝɇԑэ∈🅔🅴🇪",
	'n': "ոռηɴΝꓠⲚ𐔓ŋɲɳƞпᴎᥒח🅝🅽🇳",
	'r': "гꭇꭈᴦⲅꮁʀᎡꭱᏒꮢᖇꓣ𐒴𝈖𖼵ɽɼɾяᴙɍ🅡🆁🇷",
	's': "ѕƽꜱꮪ𐑈𑣁ЅՏᏕꮥᏚꓢ𖼺𐊖𐐠ʂȿട🅢🆂🇸",
	't': "ᴛτтꭲТΤᎢ⊤⟙ⲦꓔꞱ𐊗𐊱𐌕𑢼𖼊🝨ƫƭʈŧțʇȶե†🅣🆃🇹",
	'u': "ʋυսᴜꞟꭎꭒ𐓶𑣘Սሀᑌᑘꓴ∪⋃𑢸𖽂𐓎μцʉųµ🅤🆄🇺",
})

func lookalikeTable(letters map[byte]string) map[rune]byte {
	table := map[rune]byte{}
	for letter, drawn := range letters {
		for _, r := range drawn {
			table[r] = letter
		}
	}
	return table
}

// matchLetters returns how many bytes at the beginning of want r stands for, in any case, compatibility form or script; 0
// if it does not. A ligature stands for more than one.
func matchLetters(r rune, want string) int {
	if r < 0x80 {
		if r|0x20 == rune(want[0]) {
			return 1
		}
		return 0
	}
	if lookalikes[r] == want[0] {
		return 1
	}
	n := 0
	for _, part := range norm.NFKD.String(strings.ToLower(norm.NFKD.String(string(r)))) {
		switch {
		case unicode.Is(unicode.M, part) && n > 0: // an accent
		case n < len(want) && (part == rune(want[n]) || lookalikes[part] == want[n]):
			n++
		default:
			return 0
		}
	}
	return n
}
