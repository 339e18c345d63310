package guard

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// tokens.json lists the tokens that vendors mark with a prefix. Shapes are those that the vendors document; a minimum is
// the shortest token in use, or less where a vendor has changed the length.
//
//go:embed tokens.json
var tokensFile []byte

// tokenRule is one line of tokens.json.
type tokenRule struct {
	Kind   string `json:"kind"`
	Prefix string `json:"prefix"`
	Class  string `json:"class"`         // of the characters after the prefix
	Min    int    `json:"min"`           // how many of them
	Max    int    `json:"max,omitzero"`  // 0: any number. Otherwise no letter or digit may follow
	Left   string `json:"left,omitzero"` // what may not stand before the prefix; letters and digits if it is empty
	Digit  bool   `json:"digit,omitzero"`

	class, left *byteClass
	pad         int // how many characters of the class the anchor has after the prefix
}

// byteClass is a set of bytes with a name.
type byteClass struct {
	name string
	set  byteSet
	// trim: full stops at the end of a run are the end of a sentence.
	trim bool
}

const (
	alnumChars = "A-Za-z0-9"
	urlChars   = alnumChars + "_-"
)

var tokenClasses = []*byteClass{
	{name: "alnum", set: parseByteSet(alnumChars)},
	{name: "word", set: parseByteSet(alnumChars + "_")},
	{name: "url", set: parseByteSet(urlChars)},
	{name: "urldot", set: parseByteSet("." + urlChars), trim: true},
	{name: "percent", set: parseByteSet("%" + urlChars)},
	{name: "path", set: parseByteSet("/" + urlChars)},
	{name: "base64", set: parseByteSet("+/=" + alnumChars)},
	{name: "base64url", set: parseByteSet("+/=." + urlChars), trim: true},
	{name: "capital", set: parseByteSet("A-Z0-9")},
	{name: "lower", set: parseByteSet("a-z0-9")},
	{name: "base32", set: parseByteSet("A-Z2-7")},
	{name: "hex", set: parseByteSet("a-f0-9")},
	{name: "anyhex", set: parseByteSet("A-Fa-f0-9")},
	{name: "hexhyphen", set: parseByteSet("a-f0-9-")},
	{name: "hexword", set: parseByteSet("a-f0-9_")},
}

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
		r := &rules[i]
		if r.Left == "" {
			r.Left = "alnum"
		}
		r.class, r.left = classNamed(r.Class), classNamed(r.Left)
		if r.class == nil || r.left == nil || !isKind(r.Kind) || len(r.Prefix) < 2 || r.Min < 8 || r.Max != 0 && r.Max < r.Min {
			return nil, fmt.Errorf("guard: tokens.json: rule %d (%s) is not well-formed", i+1, r.Prefix)
		}
		r.pad = max(0, anchorLength-len(r.Prefix))
	}
	return rules, nil
}

func classNamed(name string) *byteClass {
	for _, c := range tokenClasses {
		if c.name == name {
			return c
		}
	}
	return nil
}

// isKind reports whether s may stand in a placeholder.
func isKind(s string) bool {
	return s != "" && len(s) <= maxKind && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
