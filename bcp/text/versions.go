package text

import (
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Versions names the Unicode versions behind a verdict: the tables of this package, of normalisation and of word
// segmentation, and digests of the data that says which letters look alike and what words weigh. Decisions record it (PROTOCOL P11.3).
func Versions() string {
	return "tables " + tableUnicode + ", norm " + norm.Version + ", segmentation " + tableSegmentation + ", looks " + tableLooks + ", weights " + weightsVersion() + ", go " + unicode.Version
}
