package text

import (
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Versions names the Unicode versions behind a verdict: the tables of this package, of normalisation and of word
// segmentation, and a digest of the data that says which letters look alike. Decisions record it (PROTOCOL P11.3).
func Versions() string {
	return "tables " + tableUnicode + ", norm " + norm.Version + ", segmentation " + tableSegmentation + ", looks " + tableLooks + ", go " + unicode.Version
}
