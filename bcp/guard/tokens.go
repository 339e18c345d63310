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
	Kind   string `json:"kind"`
	Prefix string `json:"prefix"` // or the mark inside
	Class  string `json:"class"`  // of the characters behind it
	Min    int    `json:"min"`    // how many of them
	Max    int    `json:"max,omitzero"`
	Long   bool   `json:"long,omitzero"`  // what follows Max characters is none of it
	Left   string `json:"left,omitzero"`  // what may not stand before it; letters and digits if it is empty
	Right  string `json:"right,omitzero"` // what may not stand behind it; nothing if it is empty
	Digit  bool   `json:"digit,omitzero"`
	Seed   bool   `json:"seed,omitzero"` // it is a rule of the set Seed
	// What it is not if that follows the prefix; OtherThan in the set Seed too.
	OtherThan []string `json:"other_than,omitempty"`
	Unlike    []string `json:"unlike,omitempty"`

	// Of a mark inside: so many characters of a class before it, which begin with Begin.
	Before string `json:"before,omitzero"`
	Fewest int    `json:"fewest,omitzero"`
	Most   int    `json:"most,omitzero"`
	Begin  string `json:"begin,omitzero"`
	Last   string `json:"last,omitzero"` // the class of the last of them

	class, left, right, before, last *byteClass
	pad                              int // how many characters of the class the anchor has behind the prefix
}

// byteClass is a set of bytes with a name.
type byteClass struct {
	name string
	set  byteSet
	trim string // the character that at the end of a run is none of it: a full stop ends a sentence
}

const (
	alnumChars = "A-Za-z0-9"
	urlChars   = alnumChars + "_-"
)

var tokenClasses = []*byteClass{
	{name: "alnum", set: alnumSet},
	{name: "word", set: wordSet},
	{name: "url", set: urlSet},
	{name: "urltrim", set: urlSet, trim: "-"},
	{name: "urldot", set: parseByteSet("." + urlChars), trim: "."},
	{name: "urldottilde", set: parseByteSet("~." + urlChars), trim: "."},
	{name: "urlequals", set: parseByteSet("=" + urlChars)},
	{name: "percent", set: parseByteSet("%" + urlChars)},
	{name: "path", set: parseByteSet("/" + urlChars)},
	{name: "base64", set: base64Set},
	{name: "base64url", set: parseByteSet("+/=." + urlChars), trim: "."},
	{name: "capital", set: capitalSet},
	{name: "lower", set: parseByteSet("a-z0-9")},
	{name: "base32", set: parseByteSet("A-Z2-7")},
	{name: "digit", set: parseByteSet("0-9")},
	{name: "hex", set: lowerHexSet},
	{name: "anyhex", set: hexSet},
	{name: "hexhyphen", set: parseByteSet("a-f0-9-")},
	{name: "hexword", set: parseByteSet("a-f0-9_")},
}

// Sets of the characters of tokens.
var (
	alnumSet    = parseByteSet(alnumChars)
	wordSet     = parseByteSet("_" + alnumChars)
	urlSet      = parseByteSet(urlChars)
	base64Set   = parseByteSet("+/=" + alnumChars)
	capitalSet  = parseByteSet("A-Z0-9")
	hexSet      = parseByteSet("A-Fa-f0-9")
	lowerHexSet = parseByteSet("a-f0-9")
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
	for i := range rules {
		if !rules[i].complete() {
			return nil, fmt.Errorf("guard: tokens.json: rule %d (%s) is not well-formed", i+1, rules[i].Prefix)
		}
	}
	return rules, nil
}

// complete finds the classes of a rule, and reports whether it is well-formed.
func (t *tokenRule) complete() bool {
	known := true
	class := func(name string) *byteClass {
		i := slices.IndexFunc(tokenClasses, func(c *byteClass) bool { return c.name == name })
		if i < 0 {
			known = known && name == ""
			return nil
		}
		return tokenClasses[i]
	}
	if t.Left == "" {
		t.Left = "alnum"
	}
	t.class, t.left, t.right, t.before, t.last = class(t.Class), class(t.Left), class(t.Right), class(t.Before), class(t.Last)
	t.pad = min(t.Min, max(0, anchorLength-len(t.Prefix)))
	enough := len(t.Prefix) >= 2 && t.Min >= 8 || t.before != nil && t.Prefix != "" && t.Min >= 1 && t.Fewest+t.Min >= 32 && t.Most >= t.Fewest
	return known && t.class != nil && isKind(t.Kind) && enough && (t.Max == 0 || t.Max >= t.Min)
}

// anchor is where the rule looks: the prefix with its neighbours.
func (t *tokenRule) anchor() []byteSet {
	sets := []byteSet{t.left.set.complement()}
	switch {
	case t.last != nil:
		sets[0] = t.last.set
	case t.before != nil:
		sets[0] = t.before.set
	}
	for i := range len(t.Prefix) {
		sets = append(sets, parseByteSet(t.Prefix[i:i+1]))
	}
	for range t.pad {
		sets = append(sets, t.class.set)
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
	if t.before != nil {
		mark := start
		if start = r.runStart(mark, t.Most, &t.before.set); mark-start < t.Fewest || mark-start > t.Most || !r.begins(start, t.Begin) {
			return
		}
	}
	stop := body
	if t.Max == 0 {
		stop = r.runEnd(body, &t.class.set)
	}
	for ; stop < r.end && stop-body <= t.Max && t.Max > 0 && t.class.set.has(r.text[stop]); stop++ {
	}
	if t.Long {
		stop = min(stop, body+t.Max)
	}
	if start < r.start || r.blocked(start-1, &t.left.set) || r.meetsPlaceholder(stop) || t.right != nil && r.blocked(stop, &t.right.set) {
		return
	}
	for stop > body && r.text[stop-1:stop] == t.class.trim {
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
