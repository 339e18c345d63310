package text

import "slices"

// AllIn reports whether every word of a normalised text, between its spaces, is in a sorted list.
func AllIn(normalised []byte, sorted []string) bool {
	for begun, i := 0, 0; i <= len(normalised); i++ {
		if i < len(normalised) && normalised[i] != ' ' {
			continue
		}
		if _, found := slices.BinarySearch(sorted, string(normalised[begun:i])); !found {
			return false
		}
		begun = i + 1
	}
	return true
}
