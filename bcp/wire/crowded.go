package wire

// maxMembers bounds the members and elements of JSON that somebody else wrote. One is two bytes there, and some hundred in
// memory.
const maxMembers = 1 << 16

// Crowded reports whether JSON has more members and elements than anybody needs, so that its size does not bound what it
// takes in memory. It is asked before JSON is read that somebody else wrote.
func Crowded(b []byte) bool {
	members, inText := 0, false
	for i := 0; i < len(b) && members <= maxMembers; i++ {
		switch c := b[i]; {
		case c == '"':
			inText = !inText
		case inText && c == '\\':
			i++
		case !inText && (c == ',' || c == '{' || c == '['): // one follows each
			members++
		}
	}
	return members > maxMembers
}
