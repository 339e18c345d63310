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

// scanRuns appends the stretches of text of at least 40 characters of blobBytes.
func scanRuns(text string, runs []run) []run {
	start := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && blobBytes[text[i]] {
			continue
		}
		if i-start >= minBlob {
			runs = append(runs, run{start, i})
		}
		start = i + 1
	}
	return runs
}
