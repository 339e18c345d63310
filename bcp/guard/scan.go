package guard

// lanes is how many parts of a text are scanned side by side. One step of the automaton waits for the one before it; with
// four of them under way the processor has something to do meanwhile.
const lanes = 4

// scan appends the hits in text, in the order of their ends.
func (a *automaton) scan(text string, hits []hit) []hit {
	part := len(text) / lanes
	if part < 4*a.longest {
		return a.scanLane(text, 0, len(text), a.start, hits)
	}
	// Each lane but the first begins in the state that the text before it leads to. The longest anchor is all that matters of it.
	var state [lanes]int
	for k := range state {
		s := a.start
		if k > 0 {
			s = a.root
			for i := k*part - a.longest; i < k*part; i++ {
				s = a.next[int(s)<<8|int(text[i])]
			}
		}
		state[k] = int(s)
	}
	var found [lanes][]hit
	found[0] = hits
	s0, s1, s2, s3 := state[0], state[1], state[2], state[3]
	t0, t1, t2, t3 := text[:part], text[part:2*part], text[2*part:3*part], text[3*part:4*part]
	next, quiet := a.next, int(a.quiet)
	for i := 0; i < len(t0) && i < len(t1) && i < len(t2) && i < len(t3); i++ {
		s0 = int(next[s0<<8|int(t0[i])])
		s1 = int(next[s1<<8|int(t1[i])])
		s2 = int(next[s2<<8|int(t2[i])])
		s3 = int(next[s3<<8|int(t3[i])])
		if s0 >= quiet {
			found[0] = a.report(found[0], s0, i+1)
		}
		if s1 >= quiet {
			found[1] = a.report(found[1], s1, part+i+1)
		}
		if s2 >= quiet {
			found[2] = a.report(found[2], s2, 2*part+i+1)
		}
		if s3 >= quiet {
			found[3] = a.report(found[3], s3, 3*part+i+1)
		}
	}
	hits = found[0]
	for _, more := range found[1:] {
		hits = append(hits, more...)
	}
	return a.scanLane(text, lanes*part, len(text), uint16(s3), hits)
}

// scanLane scans a part of text, from a state.
func (a *automaton) scanLane(text string, from, to int, state uint16, hits []hit) []hit {
	s := int(state)
	for i := from; i < to; i++ {
		s = int(a.next[s<<8|int(text[i])])
		if s >= int(a.quiet) {
			hits = a.report(hits, s, i+1)
		}
	}
	return hits
}

// hits reports whether an anchor is in text.
func (a *automaton) hits(text []byte) bool {
	s := a.start
	for _, c := range text {
		if s = a.next[int(s)<<8|int(c)]; s >= a.quiet {
			return true
		}
	}
	return false
}

func (a *automaton) report(hits []hit, state, end int) []hit {
	for _, id := range a.found[state] {
		hits = append(hits, hit{end: end, id: id})
	}
	return hits
}

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
