package text

import "bytes"

// shape is a detector for what no list of patterns can cover. Each runs once over the text.
type shape struct {
	kind    string
	code    Set
	minimum int
	words   map[string]bool
	careful map[string]bool
}

// The kinds of shapes that a rules file may use.
const (
	shapeDomain   = "domain"    // a host name that ends in one of words, or in one of careful before a path
	shapeBlob     = "blob"      // at least minimum letters and digits that change kind too often for a word
	shapeHex      = "hex"       // at least minimum hexadecimal digits in one run
	shapeHexBytes = "hex_bytes" // at least minimum pairs of hexadecimal digits
	shapePercent  = "percent"   // at least minimum percent-encoded bytes in a row
	shapeTag      = "tag"       // an opening or closing tag of at most minimum bytes
	shapeCall     = "call"      // name() or name.name(
)

// find runs the shape. folded is foldView's text, received the bytes as they came.
func (s *shape) find(received, folded []byte) bool {
	switch s.kind {
	case shapeDomain:
		return s.hosts(folded) || s.spacedHost(folded)
	case shapeBlob:
		return s.blob(received)
	case shapeHex:
		return s.hex(folded)
	case shapeHexBytes:
		return s.hexBytes(folded)
	case shapePercent:
		return s.percent(folded)
	case shapeTag:
		return s.tag(folded)
	case shapeCall:
		return call(folded)
	}
	return false
}

func hostByte(b byte) bool { return wordByte(b) || b == '-' || b == '.' || b >= 0x80 }

// hosts looks at every run of the bytes of host names. The domain of a mailbox is not an address of the web.
func (s *shape) hosts(text []byte) bool {
	for i := 0; i < len(text); {
		if !hostByte(text[i]) {
			i++
			continue
		}
		begun := i
		dots := 0
		for i < len(text) && hostByte(text[i]) {
			if text[i] == '.' {
				dots++
			}
			i++
		}
		if dots == 0 {
			continue
		}
		host := text[begun:i]
		for len(host) > 0 && (host[0] == '.' || host[0] == '-') {
			host = host[1:]
		}
		for len(host) > 0 && (host[len(host)-1] == '.' || host[len(host)-1] == '-') {
			host = host[:len(host)-1]
		}
		path := i < len(text) && (text[i] == '/' || text[i] == '?' || text[i] == ':' && i+1 < len(text) && text[i+1]-'0' < 10)
		dot := bytes.LastIndexByte(host, '.')
		if dot < 1 || begun > 1 && text[begun-1] == '@' && wordByte(text[begun-2]) && !path {
			continue
		}
		last := host[dot+1:]
		if s.words[string(last)] || bytes.HasPrefix(host, []byte("www.")) || path && (s.careful[string(last)] || dottedQuad(host) && (text[i] == ':' || i+1 < len(text) && text[i+1]-'0' >= 10)) {
			return true
		}
	}
	return false
}

func dottedQuad(host []byte) bool {
	dots := 0
	for _, b := range host {
		if b == '.' {
			dots++
		} else if b-'0' >= 10 {
			return false
		}
	}
	return dots == 3
}

// spacedHost finds "name . com": nobody writes a space before a full stop.
func (s *shape) spacedHost(text []byte) bool {
	for i := 1; i+3 < len(text); i++ {
		if text[i] != '.' || text[i-1] != ' ' || text[i+1] != ' ' {
			continue
		}
		end := i + 2
		for end < len(text) && wordByte(text[end]) {
			end++
		}
		if s.words[string(text[i+2:end])] {
			return true
		}
	}
	return false
}

// blob finds runs that change between capitals, small letters and digits as only encoded data does, and shorter ones
// that end in the padding of base64.
func (s *shape) blob(text []byte) bool {
	const padded = 12
	kind := func(b byte) int {
		switch {
		case b-'a' < 26:
			return 1
		case b-'A' < 26:
			return 2
		case b-'0' < 10:
			return 3
		}
		return 0
	}
	for i := 0; i < len(text); {
		last := kind(text[i])
		if last == 0 {
			i++
			continue
		}
		begun, changes := i, 0
		for i++; i < len(text); i++ {
			k := kind(text[i])
			if k == 0 {
				break
			}
			if k != last {
				changes++
			}
			last = k
		}
		n := i - begun
		if n >= s.minimum && changes >= n/4 ||
			n >= padded && changes >= n/4 && i < len(text) && text[i] == '=' && (i+1 == len(text) || kind(text[i+1]) == 0) {
			return true
		}
	}
	return false
}

func hexByte(b byte) bool { return b-'0' < 10 || b-'a' < 6 }

func (s *shape) hex(text []byte) bool {
	for i := 0; i < len(text); {
		begun, letters, digits := i, 0, 0
		for i < len(text) && hexByte(text[i]) {
			if text[i] >= 'a' {
				letters++
			} else {
				digits++
			}
			i++
		}
		if i-begun >= s.minimum && letters > 0 && digits > 0 {
			return true
		}
		if i == begun {
			i++
		}
	}
	return false
}

func (s *shape) hexBytes(text []byte) bool {
	pairs, mixed := 0, 0
	for i := 0; i < len(text); {
		if !wordByte(text[i]) {
			i++
			continue
		}
		begun := i
		for i < len(text) && wordByte(text[i]) {
			i++
		}
		if i-begun != 2 || !hexByte(text[begun]) || !hexByte(text[begun+1]) {
			pairs, mixed = 0, 0
			continue
		}
		pairs++
		if (text[begun] >= 'a') != (text[begun+1] >= 'a') {
			mixed++
		}
		if pairs >= s.minimum && mixed > 0 {
			return true
		}
	}
	return false
}

func (s *shape) percent(text []byte) bool {
	row := 0
	for i := 0; i < len(text); {
		if text[i] == '%' && i+2 < len(text) && hexByte(text[i+1]) && hexByte(text[i+2]) {
			if row++; row >= s.minimum {
				return true
			}
			i += 3
			continue
		}
		row = 0
		i++
	}
	return false
}

func (s *shape) tag(text []byte) bool {
	open := -1
	for i, b := range text {
		switch b {
		case '<':
			open = -1
			if i+1 < len(text) && (text[i+1]-'a' < 26 || text[i+1] == '/' || text[i+1] == '!' || text[i+1] == '?') {
				open = i
			}
		case '>':
			if open >= 0 && i-open <= s.minimum && i-open > 1 {
				return true
			}
		}
	}
	return false
}

func call(text []byte) bool {
	dotted := false // the current name holds a full stop or underscore inside
	named := false
	for i, b := range text {
		switch {
		case wordByte(b):
			named = true
		case (b == '.' || b == '_') && named && i+1 < len(text) && wordByte(text[i+1]):
			dotted = true
		case b == '(':
			if named && (dotted || i+1 < len(text) && text[i+1] == ')') {
				return true
			}
			named, dotted = false, false
		default:
			named, dotted = false, false
		}
	}
	return false
}
