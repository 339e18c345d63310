// Package text decides everything deterministic about free text that an agent sent: its one canonical spelling, its
// word count, whether it parses as a date, a name or an address, and which anomaly rules it sets off.
//
// The shortest correct use is [Normalise] with a word limit and an alphabet; the bytes of its [Result] are the only
// ones that may be delivered. [ParseDate], [ParseTime], [ParseEmail], [ParseInteger] and [ParseBoolean] check the formats that are not
// free text. [Rules] hold the anomaly rules of a mesh.
//
// # Canonical spelling (PROTOCOL P3.4)
//
// Invisible code points are removed (U+200B becomes a space), then NFKC, removal again, case folding letter by
// letter, NFKC, until nothing changes. Case folding takes every letter to the lower case of its upper case, so final
// sigma becomes sigma, long s becomes s, dotless i and U+0130 become i, sharp s becomes ss and iota subscript becomes iota.
// Decimal digits of every script become ASCII digits. U+2018, U+2019, U+201B, U+2032, U+00B4, the grave accent and the modifier
// letters that look like them are apostrophes; U+2010 to U+2013, U+2212, U+2043, U+058A and U+05BE are hyphens (the em dash is not: it
// separates); U+2044 and U+2215 are slashes, U+2236 is a colon, U+066A to U+066C are percent sign, full stop and comma.
//
// Then only these stay: letters, at most four marks in a row after a letter that takes them, digits, one apostrophe, hyphen, & or +
// between letters or digits, one of . , : / between digits, % or a currency sign beside a digit. Everything else is a space, never
// nothing. Lists and summaries also keep their separators, see [Join].
//
// A run without space and hyphen that mixes scripts is refused, Common and Inherited ignored. Han may be mixed with Hiragana,
// Katakana, Bopomofo or Hangul, and where UAX #29 divides beside Han, Hiragana or Katakana a new run begins, so Chinese and
// Japanese may hold Latin words without spaces.
//
// # Letters that look alike (PROTOCOL P3.4)
//
// Two texts that look the same are delivered as the same bytes, or one of them is refused. What looks the same is what UTS #39 says
// (the files in the folder unicode; gen makes the tables of them), where ASCII stands for itself. It is applied to the small
// letters that are delivered. Small letters that are capitals made smaller, such as all of Cherokee and Osage and и of Cyrillic, look
// like what their capitals look like, even if UTS #39 lists the capital alone.
//
// Letters. A letter stays if a living language writes it: if UTS #39 recommends it for identifiers or a language of CLDR has it in its
// alphabet. Any other is spelled as what it looks like (ɡ as g, small capitals as letters) or refused, and so are scripts that no
// living language is written in (UAX #31, table 4). Letters of one script that look alike are one letter (ș is ş), but for those
// of a class of which some language has two: a reader of Thai tells its letters apart. What looks like ASCII is ASCII without
// exception: æ is ae, œ oe, þ th, ƒ f, ɣ gh, ʋ v, ĸ k. The tatweel, which only stretches a word, goes. A vowel letter and a vowel sign that
// look like another vowel letter are that letter, and two Thai E are AE.
//
// Marks. A mark of a script stays after a letter of that script, once. A
// generic mark, such as an accent, stays if it composes with its letter, or if
// the alphabet of some language has the letter with it (ọ́, ɛ̀, a stressed а).
// Any other mark separates words.
//
// Words. A run all of whose letters look like letters of another script is doubtful. The runs that are not say which scripts the text
// is in, and so does a doubtful one that cannot be Latin, or for which only one script is likely. A doubtful run whose letters are the
// same glyphs in several scripts (the intentional confusables of UTS #39: Cyrillic рау) is written in the one of most other runs, and
// in Latin if there are none; a letter that few languages of a script use must occur elsewhere in the text. One whose letters only
// resemble others (Greek ναι, Latin vai) stays in a text with other runs of its script, Latin always, and is refused otherwise. An
// [Alphabet] of a script takes the place of Latin in all this.
//
// What remains: ASCII itself (rn and m, l, I and 1, O and 0); letters and digits or punctuation (б and 6, Hebrew י and an apostrophe);
// letters of one script with a look that some alphabet has twice (Greek ο and σ, Thai ค and ด, Arabic ك and ک); capitals whose small letters
// differ (Greek ΤΟΚΕΝ is delivered as τοκεν, Russian НЕТ as нет); Han, kana, Hangul and their letters among each other; in a text that has runs of another
// script than Latin, words of that script and of Latin whose letters only resemble each other; letters with vowel signs and other
// marks of their scripts (Telugu and Kannada).
//
// All this is done code point by code point, with tables of spellings and compositions; no text takes longer than another by more
// than a small factor. Texts that would are refused: [ErrSpelling] where ligatures, abbreviations and the like add more than 40
// code points and one for every 32 bytes received, [ErrMarks] for more than eight marks in a row as received and for more than 16
// in a text that follow neither a digit nor a letter that takes them. Ordinary spelling in any language, composed or not, meets
// none of these limits.
//
// # Words (PROTOCOL P3.3)
//
// The count is the larger of UAX #29 segmentation and a split at everything except one apostrophe inside a word and one
// mark between digits. A piece is a run without space and hyphen, divided where UAX #29 divides two neighbouring letters or digits.
// It has at most [MaxWordChars] characters.
//
// Premise of the capacity bound: a piece begins only where at least one of the two counts goes up (at a space or a hyphen both do,
// inside a run the first does), so there are at most as many pieces as words. Every piece has 1 to MaxWordChars characters of
// the alphabet ([AlphabetSize]), and neighbouring pieces are joined in one of [Joiners] ways. A text of at most W words is hence one of at most
// the sum, for w from 1 to W, of S^w g^(w-1) texts, where S is the sum of A^k for k from 1 to MaxWordChars. An initial capital adds a factor of two a piece.
//
// All functions are pure and safe for concurrent use. Nothing here reads a clock, and no input makes it panic.
package text
