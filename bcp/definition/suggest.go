package definition

import "strings"

// didYouMean returns `; did you mean "x"?` with the nearest of the words, or
// nothing where none is near: at most two edits, one for short words.
func didYouMean(word string, words []string) string {
	if near := nearest(word, words); near != "" {
		return "; did you mean " + quote(near) + "?"
	}
	return ""
}

func nearest(word string, words []string) string {
	const longest = 64 // bounds the work; no word of ours is longer
	if len(word) > longest {
		return ""
	}
	fold := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	folded := fold(word)
	best, bestDistance := "", 3
	if len(word) <= 4 {
		bestDistance = 2
	}
	for _, w := range words {
		if len(w) > longest {
			continue
		}
		if d := distance([]rune(folded), []rune(fold(w))); d < bestDistance {
			best, bestDistance = w, d
		}
	}
	return best
}

// distance counts insertions, deletions, substitutions and swaps of
// neighbours.
func distance(a, b []rune) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(next[j]+1, row[j+1]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
