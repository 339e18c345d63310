package text

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// defaultRules are the rules that a mesh starts with, for what is of no language. Language is judged by weights.
//
//go:embed anomalies.json
var defaultRules []byte

// Rules are compiled anomaly rules (PROTOCOL P3.6). They are immutable and safe for concurrent use. The zero value
// finds every code in every text; a nil *Rules stands for DefaultRules wherever rules are taken.
type Rules struct {
	digest   string
	phrases  phrases
	weights  *weights
	patterns *patterns
	shapes   []shape
}

// rulesFile is the form of the embedded file. A phrase is one to eight words, matched on normalised text whatever is between the
// words. A pattern is lower-case printable ASCII, matched on the received text in the view "text", "line" or "compact" (white space
// removed).
type rulesFile struct {
	Version int `json:"version"`
	Phrases []struct {
		Code    ruleCode `json:"code"`
		Phrases []string `json:"phrases"`
	} `json:"phrases"`
	Patterns []struct {
		Code     ruleCode `json:"code"`
		View     string   `json:"view"`
		Patterns []string `json:"patterns"`
	} `json:"patterns"`
	Shapes []struct {
		Code    ruleCode `json:"code"`
		Shape   string   `json:"shape"`
		Limit   int      `json:"limit"`
		Words   []string `json:"words"`
		Careful []string `json:"careful"`
	} `json:"shapes"`
}

// ruleCode is a code that a rule names by its wire word.
type ruleCode Set

func (c *ruleCode) UnmarshalText(word []byte) error {
	code, ok := ParseCode(string(word))
	if !ok {
		return errRules
	}
	*c = ruleCode(code)
	return nil
}

var errRules = errors.New("text: the embedded rules are broken")

// DefaultRules are the rules of the embedded file, and the weights of words. They are compiled once. A broken file yields rules
// that find everything; a test keeps it whole.
func DefaultRules() *Rules { return loadDefault() }

var loadDefault = sync.OnceValue(func() *Rules {
	r, err := parseRules(defaultRules)
	if err != nil {
		return &Rules{}
	}
	if r.weights = loadWeights(weightsFile); r.weights == nil {
		return &Rules{}
	}
	return r
})

// Digest is the SHA-256 of the canonical JSON of the rules in hexadecimal; decisions record it (PROTOCOL P11.3).
func (r *Rules) Digest() string { return r.digest }

func parseRules(data []byte) (*Rules, error) {
	var file rulesFile
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(slices.Clone(data))
	if err := canonical.Canonicalize(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	r := &Rules{digest: hex.EncodeToString(sum[:]), phrases: phrases{}, patterns: &patterns{}}
	for _, rule := range file.Phrases {
		for _, phrase := range rule.Phrases {
			words, err := phraseWords(phrase)
			if err != nil {
				return nil, err
			}
			r.phrases.add(words, Set(rule.Code))
		}
	}
	views := map[string]view{"text": viewText, "line": viewLine, "compact": viewCompact}
	for _, rule := range file.Patterns {
		for _, p := range rule.Patterns {
			r.patterns.add(pattern{p, views[rule.View], Set(rule.Code)})
		}
	}
	for _, rule := range file.Shapes {
		find := shapeKinds[rule.Shape]
		if find == nil {
			return nil, errRules
		}
		s := shape{find: find, code: Set(rule.Code), minimum: rule.Limit, words: map[string]bool{}, careful: map[string]bool{}}
		for _, w := range rule.Words {
			s.words[w] = true
		}
		for _, w := range rule.Careful {
			s.careful[w] = true
		}
		r.shapes = append(r.shapes, s)
	}
	return r, nil
}

// phraseWords hashes the words of a phrase after normalisation, as match will meet them.
func phraseWords(phrase string) ([]uint64, error) {
	var words []uint64
	s := scanner{limit: Any.limit(), own: noScript, maxWords: len(phrase), maxChars: 4 * len(phrase)}
	if err := s.scan([]byte(phrase)); err != nil {
		return nil, err
	}
	for t := (tokens{text: s.out}); t.next(); {
		words = append(words, t.word)
	}
	if len(words) == 0 || len(words) > maxPhrase {
		return nil, errRules
	}
	return words, nil
}
