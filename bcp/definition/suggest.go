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
	d := make([][]int, len(a)+1) // between beginnings of both
	for i := range d {
		d[i] = make([]int, len(b)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j], d[i][j-1], d[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
