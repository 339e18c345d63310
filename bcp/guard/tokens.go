package guard

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// tokens.json lists the tokens that vendors mark: with a prefix, or with a mark inside. Shapes are those that the vendors
// document; a minimum is the shortest token in use, or less where a vendor has changed the length.
//
//go:embed tokens.json
var tokensFile []byte

// tokenRule is one line of tokens.json.
type tokenRule struct {
	Kind   string   `json:"kind"`
	Prefix string   `json:"prefix"` // or the mark inside
	Class  *byteSet `json:"class"`  // the characters behind it
	Min    int      `json:"min"`    // how many of them
	Max    int      `json:"max,omitzero"`
	Long   bool     `json:"long,omitzero"`  // what follows Max characters is none of it
	Trim   string   `json:"trim,omitzero"`  // the character of them that at the end is none of it: a full stop ends a sentence
	Left   byteSet  `json:"left,omitzero"`  // what may not stand before it; letters and digits if it is empty
	Right  byteSet  `json:"right,omitzero"` // what may not stand behind it; nothing if it is empty
	Digit  bool     `json:"digit,omitzero"`
	Seed   bool     `json:"seed,omitzero"` // it is a rule of the set Seed
	// What it is not if that follows the prefix; OtherThan in the set Seed too.
	OtherThan []string `json:"other_than,omitempty"`
	Unlike    []string `json:"unlike,omitempty"`

	// Of a mark inside: so many of these characters before it, which begin with Begin.
	Before byteSet `json:"before,omitzero"`
	Fewest int     `json:"fewest,omitzero"`
	Most   int     `json:"most,omitzero"`
	Begin  string  `json:"begin,omitzero"`
	Last   byteSet `json:"last,omitzero"` // what the last of them is

	pad int // how many characters of the class the anchor has behind the prefix
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *byteSet) UnmarshalText(chars []byte) error {
	*s = parseByteSet(string(chars))
	return nil
}

const (
	alnumChars = "A-Za-z0-9"
	urlChars   = alnumChars + "_-"
)

// Sets of the characters of tokens.
var (
	alnumSet  = parseByteSet(alnumChars)
	wordSet   = parseByteSet("_" + alnumChars)
	urlSet    = parseByteSet(urlChars)
	base64Set = parseByteSet("+/=" + alnumChars)
)

// anchorLength is how long an anchor of a token is at least, counted from the prefix on: the longer, the fewer texts hit
// it by chance.
const anchorLength = 4

// tokenRules returns the rules of tokens.json.
var tokenRules = sync.OnceValue(func() []tokenRule {
	rules, err := parseTokens(tokensFile)
	if err != nil {
		panic(err) // a fault of the program: the file is compiled in, and a test reads it
	}
	return rules
})

func parseTokens(file []byte) ([]tokenRule, error) {
	var rules []tokenRule
	if err := json.Unmarshal(file, &rules, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("guard: tokens.json: %w", err)
	}
	classes := map[byteSet]*byteSet{} // a run that was read is known by its class
	for i := range rules {
		t := &rules[i]
		if !t.complete() {
			return nil, fmt.Errorf("guard: tokens.json: rule %d (%s) is not well-formed", i+1, t.Prefix)
		}
		if classes[*t.Class] == nil {
			classes[*t.Class] = t.Class
		}
		t.Class = classes[*t.Class]
	}
	return rules, nil
}

// complete fills in what may stand before a token, and reports whether a rule is well-formed.
func (t *tokenRule) complete() bool {
	if t.Left == (byteSet{}) {
		t.Left = alnumSet
	}
	t.pad = min(t.Min, max(0, anchorLength-len(t.Prefix)))
	enough := len(t.Prefix) >= 2 && t.Min >= 8 || t.Before != (byteSet{}) && t.Prefix != "" && t.Min >= 1 && t.Fewest+t.Min >= 32 && t.Most >= t.Fewest
	return t.Class != nil && isKind(t.Kind) && enough && (t.Max == 0 || t.Max >= t.Min)
}

// anchor is where the rule looks: the prefix with its neighbours.
func (t *tokenRule) anchor() []byteSet {
	sets := []byteSet{t.Left.complement()}
	switch {
	case t.Last != (byteSet{}):
		sets[0] = t.Last
	case t.Before != (byteSet{}):
		sets[0] = t.Before
	}
	for i := range len(t.Prefix) {
		sets = append(sets, parseByteSet(t.Prefix[i:i+1]))
	}
	for range t.pad {
		sets = append(sets, *t.Class)
	}
	return sets
}

// token looks at a token of tokens.json.
func (r *redactor) token(t *tokenRule, h hit) {
	body := h.end - t.pad
	start := body - len(t.Prefix)
	after := func(s string) bool { return r.begins(body, s) }
	if slices.ContainsFunc(t.OtherThan, after) || r.set != Seed && slices.ContainsFunc(t.Unlike, after) {
		return
	}
	if t.Before != (byteSet{}) {
		mark := start
		if start = r.runStart(mark, t.Most, &t.Before); mark-start < t.Fewest || mark-start > t.Most || !r.begins(start, t.Begin) {
			return
		}
	}
	stop := body
	if t.Max == 0 {
		stop = r.runEnd(body, t.Class)
	}
	for ; stop < r.end && stop-body <= t.Max && t.Max > 0 && t.Class.has(r.text[stop]); stop++ {
	}
	if t.Long {
		stop = min(stop, body+t.Max)
	}
	if start < r.start || r.blocked(start-1, &t.Left) || r.meetsPlaceholder(stop) || t.Right != (byteSet{}) && r.blocked(stop, &t.Right) {
		return
	}
	for stop > body && r.text[stop-1:stop] == t.Trim {
		stop--
	}
	if n := stop - body; n >= t.Min && (t.Max == 0 || n <= t.Max) && (!t.Digit || hasDigit(r.text[body:stop])) {
		r.claim(span{start: start, end: stop, kind: t.Kind, certain: true})
	}
}

// isKind reports whether s may stand in a placeholder.
func isKind(s string) bool {
	return s != "" && len(s) <= maxKind && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }
