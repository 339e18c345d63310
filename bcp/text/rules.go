package text

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
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
	file      rulesFile
	canonical []byte
	phrases   *phrases
	weights   *weights // nil for rules of a file alone: they judge no language
	text      *automaton
	compact   *automaton
	shapes    []shape
	colons    [64]uint64
	always    flags // parts that must run on every text, because some pattern has no byte to trigger them
}

type rulesFile struct {
	Version  int           `json:"version"`
	Phrases  []phraseRule  `json:"phrases,omitempty"`
	Patterns []patternRule `json:"patterns,omitempty"`
	Shapes   []shapeRule   `json:"shapes,omitempty"`
}

type phraseRule struct {
	Code     string   `json:"code"`
	Language string   `json:"language,omitempty"`
	Class    string   `json:"class,omitempty"`
	Phrases  []string `json:"phrases"`
}

type patternRule struct {
	Code     string   `json:"code"`
	View     string   `json:"view"`
	Patterns []string `json:"patterns"`
}

type shapeRule struct {
	Code    string   `json:"code"`
	Shape   string   `json:"shape"`
	Limit   int      `json:"limit,omitempty"`
	Words   []string `json:"words,omitempty"`
	Careful []string `json:"careful,omitempty"`
}

// Limits of a rules file.
const (
	maxRulesBytes   = 1 << 20
	maxPhraseWords  = 8
	maxPhrases      = 1 << 14
	minPatternBytes = 2
	maxPatternBytes = 48
	maxShapes       = 32
	maxShapeLimit   = 1000
	rulesVersion    = 1
)

// loadDefault compiles the embedded rules once. A broken file yields rules that find everything; a test keeps it whole.
var loadDefault = sync.OnceValue(func() *Rules {
	r, err := ParseRules(defaultRules)
	if err != nil {
		return &Rules{}
	}
	if r.weights = loadWeights(weightsFile); r.weights == nil {
		return &Rules{}
	}
	return r
})

// add appends the rules of another file.
func (f *rulesFile) add(more rulesFile) {
	f.Phrases = append(f.Phrases, more.Phrases...)
	f.Patterns = append(f.Patterns, more.Patterns...)
	f.Shapes = append(f.Shapes, more.Shapes...)
}

// DefaultRules are the rules of the embedded file, and the weights of words.
func DefaultRules() *Rules { return loadDefault() }

// ParseRules reads a rules file: strict JSON with the members version (1), phrases, patterns and shapes, no unknown ones.
// A phrase is one to eight words, matched on normalised text whatever is between the words. A pattern is lower-case printable ASCII, matched on the received text in the view "text", "line" or "compact" (white space
// removed). The error wraps ErrRules and names the rule; it quotes the operator's own file only.
func ParseRules(data []byte) (*Rules, error) {
	file, err := readRules(data)
	if err != nil {
		return nil, err
	}
	return compile(file)
}

func readRules(data []byte) (file rulesFile, err error) {
	if len(data) > maxRulesBytes {
		return file, fmt.Errorf("%w: over %d bytes", ErrRules, maxRulesBytes)
	}
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return file, fmt.Errorf("%w: %w", ErrRules, err)
	}
	if file.Version != rulesVersion {
		return file, fmt.Errorf("%w: version must be %d", ErrRules, rulesVersion)
	}
	return file, nil
}

// Extend returns new rules with those of another file added; r is unchanged. Nothing can be taken away.
func (r *Rules) Extend(data []byte) (*Rules, error) {
	more, err := readRules(data)
	if err != nil {
		return nil, err
	}
	file := rulesFile{Version: rulesVersion}
	file.add(r.file)
	file.add(more)
	extended, err := compile(file)
	if err == nil {
		extended.weights = r.weights
	}
	return extended, err
}

// Digest is the SHA-256 of the canonical JSON of the rules in hexadecimal; decisions record it (PROTOCOL P11.3).
func (r *Rules) Digest() string {
	sum := sha256.Sum256(r.canonical)
	return hex.EncodeToString(sum[:])
}

func compile(file rulesFile) (*Rules, error) {
	r := &Rules{file: file, phrases: newPhrases()}
	if err := r.addPhrases(); err != nil {
		return nil, err
	}
	if err := r.addPatterns(); err != nil {
		return nil, err
	}
	if err := r.addShapes(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(file, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRules, err)
	}
	value := jsontext.Value(data)
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRules, err)
	}
	r.canonical = value
	return r, nil
}

func (r *Rules) addPhrases() error {
	n := 0
	for i, rule := range r.file.Phrases {
		name := fmt.Sprintf("phrases[%d]", i)
		code, ok := ParseCode(rule.Code)
		if !ok {
			return fmt.Errorf("%w: %s: unknown code %q", ErrRules, name, rule.Code)
		}
		if len(rule.Phrases) == 0 {
			return fmt.Errorf("%w: %s: no phrase", ErrRules, name)
		}
		for _, phrase := range rule.Phrases {
			words, err := phraseWords(phrase)
			if err != nil {
				return fmt.Errorf("%w: %s: %q: %w", ErrRules, name, phrase, err)
			}
			if n++; n > maxPhrases || len(words) > maxPhraseWords {
				return fmt.Errorf("%w: %s: %q: over %d words or %d phrases", ErrRules, name, phrase, maxPhraseWords, maxPhrases)
			}
			r.phrases.add(r.phrases.enter(words), code)
		}
	}
	r.phrases.build()
	return nil
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
	if len(words) == 0 {
		return nil, ErrEmpty
	}
	return words, nil
}

func (r *Rules) addPatterns() error {
	views := map[string]view{"text": viewText, "line": viewLine, "compact": viewCompact}
	var text, compact []pattern
	for i, rule := range r.file.Patterns {
		code, ok := ParseCode(rule.Code)
		if !ok {
			return fmt.Errorf("%w: patterns[%d]: unknown code %q", ErrRules, i, rule.Code)
		}
		v, ok := views[rule.View]
		if !ok {
			return fmt.Errorf("%w: patterns[%d]: view must be text, line or compact, not %q", ErrRules, i, rule.View)
		}
		for _, p := range rule.Patterns {
			if !validPattern(p, v) {
				return fmt.Errorf("%w: patterns[%d]: %q must be %d to %d lower-case printable ASCII characters, single inner spaces (none in compact)",
					ErrRules, i, p, minPatternBytes, maxPatternBytes)
			}
			if v == viewCompact {
				compact = append(compact, pattern{p, v, code})
			} else {
				text = append(text, pattern{p, v, code})
			}
			r.gate(p, v)
		}
	}
	if r.text, r.compact = newAutomaton(text), newAutomaton(compact); r.text == nil || r.compact == nil {
		return fmt.Errorf("%w: patterns: over %d characters in all", ErrRules, maxStates)
	}
	return nil
}

func validPattern(p string, v view) bool {
	if len(p) < minPatternBytes || len(p) > maxPatternBytes || p[0] == ' ' || p[len(p)-1] == ' ' {
		return false
	}
	for i := range len(p) {
		b := p[i]
		if b < ' ' || b >= 0x7f || b-'A' < 26 || b == ' ' && (v == viewCompact || p[i-1] == ' ') {
			return false
		}
	}
	return true
}

// gate notes what must be seen in a text before the pattern can be there.
func (r *Rules) gate(p string, v view) {
	gated := false
	for i := range len(p) {
		switch {
		case asciiFlags[p[i]] == sawSymbol:
			gated = true
		case v == viewCompact: // white space may have been next to it
		case p[i] == '(' && i > 0 && p[i-1] != ' ',
			p[i] == '.' && i+1 < len(p) && p[i+1] != ' ' && p[i+1]-'0' >= 10,
			p[i] == '/' && i > 0 && (p[i-1] == '/' || p[i-1] == '.'):
			gated = true
		}
	}
	for i := colonReach; i < len(p) && !gated; i++ {
		var last [colonReach]byte
		if copy(last[:], p[i-colonReach:i]); p[i] == ':' && last[0] != ' ' && last[1] != ' ' && last[2] != ' ' {
			k := colonKey(last)
			r.colons[k>>6] |= 1 << (k & 63)
			gated = true
		}
	}
	if !gated {
		r.always |= sawSymbol
	}
}

func (r *Rules) addShapes() error {
	if len(r.file.Shapes) > maxShapes {
		return fmt.Errorf("%w: shapes: over %d", ErrRules, maxShapes)
	}
	for i, rule := range r.file.Shapes {
		code, ok := ParseCode(rule.Code)
		if !ok {
			return fmt.Errorf("%w: shapes[%d]: unknown code %q", ErrRules, i, rule.Code)
		}
		s := shape{kind: rule.Shape, code: code, minimum: rule.Limit, words: map[string]bool{}, careful: map[string]bool{}}
		least := 1
		switch rule.Shape {
		case shapeDomain, shapeCall:
			least = 0
		case shapeBlob, shapeHex:
			least = longPiece
		case shapeHexBytes, shapePercent, shapeTag:
		default:
			return fmt.Errorf("%w: shapes[%d]: unknown shape %q", ErrRules, i, rule.Shape)
		}
		if rule.Limit < least || rule.Limit > maxShapeLimit {
			return fmt.Errorf("%w: shapes[%d]: limit must be %d to %d", ErrRules, i, least, maxShapeLimit)
		}
		for _, w := range rule.Words {
			s.words[w] = true
		}
		for _, w := range rule.Careful {
			s.careful[w] = true
		}
		r.shapes = append(r.shapes, s)
	}
	return nil
}
