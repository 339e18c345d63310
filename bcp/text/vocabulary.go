package text

// AllIn reports whether every word of a normalised text, between its spaces, stands in a sorted list.
func AllIn(normalised []byte, sorted []string) bool {
	for begun, i := 0, 0; i <= len(normalised); i++ {
		if i < len(normalised) && normalised[i] != ' ' {
			continue
		}
		if !contains(sorted, normalised[begun:i]) {
			return false
		}
		begun = i + 1
	}
	return true
}

func contains(sorted []string, word []byte) bool {
	low, high := 0, len(sorted)
	for low < high {
		middle := (low + high) / 2
		switch {
		case sorted[middle] == string(word):
			return true
		case sorted[middle] < string(word):
			low = middle + 1
		default:
			high = middle
		}
	}
	return false
}
