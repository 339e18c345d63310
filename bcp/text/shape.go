package text

import (
	"bytes"
	"regexp"
)

// shape is a detector for what no list of patterns can cover. Each runs once over the text.
type shape struct {
	find    func(s *shape, received, folded []byte) bool
	code    Set
	minimum int
	words   map[string]bool
	careful map[string]bool
}

// shapeKinds are the kinds of shapes that a rules file may use, as the bytes that came and those of foldView are looked at.
var shapeKinds = map[string]func(s *shape, received, folded []byte) bool{
	// A host name that ends in one of words, or in one of careful before a path; nobody writes a space before a full stop.
	"domain": func(s *shape, _, folded []byte) bool {
		return s.hosts(folded) || hasOne(spacedHosts, folded, func(found []byte) bool { return s.words[string(found[len(" . "):])] })
	},
	// At least minimum letters and digits that change kind too often for a word.
	"blob": func(s *shape, received, _ []byte) bool { return s.blob(received) },
	// At least minimum hexadecimal digits in one run, or pairs of them.
	"hex":       func(s *shape, _, folded []byte) bool { return s.hex(folded) },
	"hex_bytes": func(s *shape, _, folded []byte) bool { return s.hexBytes(folded) },
	// At least minimum percent-encoded bytes in a row.
	"percent": func(s *shape, _, folded []byte) bool {
		return hasOne(percents, folded, func(run []byte) bool { return len(run) >= s.minimum*len("%00") })
	},
	// An opening or closing tag of at most minimum bytes.
	"tag": func(s *shape, _, folded []byte) bool {
		return hasOne(tags, folded, func(tag []byte) bool { return len(tag) <= s.minimum+1 })
	},
	// name() or name.name(
	"call": func(_ *shape, _, folded []byte) bool { return bytes.IndexByte(folded, '(') >= 0 && calls.Match(folded) },
}

var (
	percents    = regexp.MustCompile(`(?:%[0-9a-f]{2})+`)
	tags        = regexp.MustCompile(`<[a-z/!?][^<>]*>`)
	calls       = regexp.MustCompile(`[a-z0-9](?:[._][a-z0-9]+)+\(|[a-z0-9]\(\)`)
	spacedHosts = regexp.MustCompile(` \. [a-z0-9]+`)
)

// hasOne reports whether a match of a form fits. It does not allocate where nothing matches.
func hasOne(form *regexp.Regexp, text []byte, fits func([]byte) bool) bool {
	for place := form.FindIndex(text); place != nil; place = form.FindIndex(text) {
		if fits(text[place[0]:place[1]]) {
			return true
		}
		text = text[place[1]:]
	}
	return false
}

// nextRun returns the first run of bytes of a kind, and what follows it.
func nextRun(text []byte, of func(byte) bool) (run, rest []byte) {
	from := 0
	for from < len(text) && !of(text[from]) {
		from++
	}
	to := from
	for to < len(text) && of(text[to]) {
		to++
	}
	return text[from:to], text[to:]
}

func hostByte(b byte) bool { return wordByte(b) || b == '-' || b == '.' || b >= 0x80 }

// hosts looks at every run of the bytes of host names. The domain of a mailbox is not an address of the web.
func (s *shape) hosts(text []byte) bool {
	for run, rest := nextRun(text, hostByte); len(run) > 0; run, rest = nextRun(rest, hostByte) {
		host := bytes.Trim(run, "-.")
		dot := bytes.LastIndexByte(host, '.')
		if dot < 0 {
			continue
		}
		port := len(rest) > 1 && rest[0] == ':' && rest[1]-'0' < 10
		path := port || len(rest) > 0 && (rest[0] == '/' || rest[0] == '?')
		before := len(text) - len(rest) - len(run)
		if before > 1 && text[before-1] == '@' && wordByte(text[before-2]) && !path {
			continue
		}
		last := host[dot+1:]
		quad := bytes.Count(host, []byte(".")) == 3 && len(bytes.Trim(host, "0123456789.")) == 0
		if s.words[string(last)] || bytes.HasPrefix(host, []byte("www.")) || path && (s.careful[string(last)] || quad && (port || len(rest) > 1 && rest[1]-'0' >= 10)) {
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
	known := func(b byte) bool { return kind(b) != 0 }
	for run, rest := nextRun(text, known); len(run) > 0; run, rest = nextRun(rest, known) {
		changes, least := 0, s.minimum
		for i := range run[1:] {
			if kind(run[i]) != kind(run[i+1]) {
				changes++
			}
		}
		if len(rest) > 0 && rest[0] == '=' && (len(rest) == 1 || !known(rest[1])) {
			least = min(least, padded)
		}
		if len(run) >= least && changes >= len(run)/4 {
			return true
		}
	}
	return false
}

func hexByte(b byte) bool { return b-'0' < 10 || b-'a' < 6 }

func (s *shape) hex(text []byte) bool {
	for run, rest := nextRun(text, hexByte); len(run) > 0; run, rest = nextRun(rest, hexByte) {
		if len(run) >= s.minimum && bytes.ContainsAny(run, "abcdef") && bytes.ContainsAny(run, "0123456789") {
			return true
		}
	}
	return false
}

func (s *shape) hexBytes(text []byte) bool {
	pairs, mixed := 0, false
	for word, rest := nextRun(text, wordByte); len(word) > 0; word, rest = nextRun(rest, wordByte) {
		if len(word) != 2 || !hexByte(word[0]) || !hexByte(word[1]) {
			pairs, mixed = 0, false
			continue
		}
		pairs++
		mixed = mixed || (word[0] >= 'a') != (word[1] >= 'a')
		if pairs >= s.minimum && mixed {
			return true
		}
	}
	return false
}
