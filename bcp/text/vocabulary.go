package text

import (
	"bytes"
	"slices"
)

// AllIn reports whether every word of a normalised text, between its spaces, is in a sorted list.
func AllIn(normalised []byte, sorted []string) bool {
	for word := range bytes.SplitSeq(normalised, []byte(" ")) {
		if _, found := slices.BinarySearch(sorted, string(word)); !found {
			return false
		}
	}
	return true
}
