// Package inert shows hostile text to people: on a terminal and on a page. A
// person approves an attacker's text, so none of it may act, hide, or look
// like our own output:
//
//   - Everything that is not a plain visible character is shown as a mark such as
//     ⟨U+200B⟩, and so are the signs that marks and frames are drawn with. A run of
//     one character is one mark, ⟨U+000A×10000⟩: it cannot push anything out of sight.
//   - Two texts never look the same: what is shown can be read back.
//   - On a terminal each line of content follows a gutter ([Prefixed]).
//
// [Runs] tells plain text from marks, for a page that draws marks in its own way.
// [Line] is for names and reasons within a sentence of ours. Functions are pure and
// may be called concurrently.
package inert
