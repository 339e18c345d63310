package guard

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Set says which rules redaction applies. The zero value is [All].
type Set uint8

// The sets.
const (
	All  Set = iota // every rule
	Keys            // every rule but hex and base64 blobs, for text in which hashes matter
	Seed            // nine rules, literally as the specification of the content layer has them
)

var setNames = [...]string{All: "all", Keys: "keys", Seed: "seed"}

// String returns all, keys or seed.
func (s Set) String() string {
	if int(s) < len(setNames) {
		return setNames[s]
	}
	return fmt.Sprintf("Set(%d)", uint8(s))
}

// ParseSet reads all, keys or seed.
func ParseSet(s string) (Set, error) {
	if i := slices.Index(setNames[:], s); i >= 0 {
		return Set(i), nil
	}
	return All, fmt.Errorf("guard: unknown set of rules: expected %s, %s or %s", All, Keys, Seed)
}

// Finding is a secret in a text.
type Finding struct {
	Start, End int    // bytes of the text, End exclusive
	Kind       string // what a placeholder names
	// Certain: the shape alone says that it is a secret of this kind (a private key, a vendor's token, a password in a URL).
	// A value of an assignment and a blob are only like one.
	Certain bool
}

// Redact returns text with a placeholder, such as [REDACTED:github-token], in place of every secret that the rules of set
// find. Text without secrets is returned as it is.
//
// Redaction knows shapes, so a password in prose passes. Applying it twice gives the same as once. It takes time linear in
// the text and any bytes; text that is not UTF-8 stays as it is. Lines are judged on their own; only a private key, and a
// quoted value that begins like one, go over lines, for 64 KiB.
func Redact(text string, set Set) string { return replaced(text, Find(text, set)) }

// Find returns the secrets that [Redact] hides, in their order, which do not overlap.
func Find(text string, set Set) []Finding {
	findings, _ := findSecrets(text, set, true)
	return findings
}

// HasSecret reports whether the rules of [Keys] find a secret in text. It allocates only if there is a place to look at.
func HasSecret(text []byte) bool {
	var room [8]hit
	_, scanner := allRules()
	return (hasInvisible(text) || bytes.Contains(text, []byte(beginPEM)) || len(find(scanner, text, 0, room[:0])) > 0) && len(Find(string(text), Keys)) > 0
}

// RedactTo redacts the first end bytes of text, with the rest in view: a secret that begins before end is hidden whole, and
// nothing that begins at end or later is returned.
func RedactTo(text string, end int, set Set) string {
	end = max(0, min(end, len(text)))
	findings := Find(text, set)
	for i, f := range findings {
		if f.Start >= end {
			findings = findings[:i]
			break
		}
		end = max(end, f.End)
	}
	return replaced(text[:end], findings)
}

// replaced returns text with placeholders for its findings.
func replaced(text string, findings []Finding) string {
	if len(findings) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	at := 0
	for _, f := range findings {
		b.WriteString(text[at:f.Start] + placeholder(f.Kind))
		at = f.End
	}
	b.WriteString(text[at:])
	return b.String()
}

const (
	placeholderBegin = "[REDACTED:"
	maxKind          = 32 // characters of a kind in a placeholder
)

func placeholder(kind string) string { return placeholderBegin + kind + "]" }
