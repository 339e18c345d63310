package guard

// run is a stretch of text that may hold a blob.
type run struct{ start, end int }

const minBlob = 40 // characters of a blob

// blobBytes are the characters of blobs of all alphabets.
var blobBytes = byteTable(parseByteSet("+/" + urlChars))

func byteTable(s byteSet) (table [256]bool) {
	for c := range 256 {
		table[c] = s.has(byte(c))
	}
	return table
}

// scanRuns appends the stretches of text of at least 40 characters of blobBytes. Such a stretch has a byte whose place is
// 31 modulo 32, so only these are looked at first.
func scanRuns(text string, runs []run) []run {
	done := 0
	for i := 31; i < len(text); {
		if !blobBytes[text[i]] {
			i += 32
			continue
		}
		start, end := i, i+1
		for start > done && blobBytes[text[start-1]] {
			start--
		}
		for end < len(text) && blobBytes[text[end]] {
			end++
		}
		if end-start >= minBlob {
			runs = append(runs, run{start, end})
		}
		done = end
		i += 32
		if i < end {
			i += (end - i + 31) / 32 * 32
		}
	}
	return runs
}
