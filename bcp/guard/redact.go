package guard

import (
	"fmt"
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
	for set, name := range setNames {
		if s == name {
			return Set(set), nil
		}
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

	joined bool // goes on with the finding before it, which a cut of a long line divided
}

// Redact returns text with a placeholder, such as [REDACTED:github-token], in place of every secret that the rules of set
// find. Text without secrets is returned as it is.
//
// Redaction knows shapes, so a password in prose passes. Applying it twice gives the same as once. It takes time linear in
// the text and any bytes; text that is not UTF-8 stays as it is.
//
// Lines are judged on their own, up to 64 KiB of them at a time: a longer line is cut at a blank between two words if there
// is one, where no rule can look across, and else inside a run of characters that belong together, which stays one run.
// Only a private key, and a quoted value that begins like one, go over lines, for 64 KiB.
func Redact(text string, set Set) string {
	return redactWithin(text, set, productionLimits)
}

func redactWithin(text string, set Set, l limits) string {
	var b strings.Builder
	at := 0 // of text, what is written
	eachFinding(text, set, l, func(f Finding) {
		if b.Len() == 0 {
			b.Grow(len(text))
		}
		writeFinding(&b, text[at:f.Start], f)
		at = f.End
	})
	if at == 0 {
		return text
	}
	b.WriteString(text[at:])
	return b.String()
}

// writeRedacted writes text with its findings replaced.
func writeRedacted(b *strings.Builder, text string, findings []Finding) {
	at := 0
	for _, f := range findings {
		writeFinding(b, text[at:f.Start], f)
		at = f.End
	}
	b.WriteString(text[at:])
}

// writeFinding writes the text before a finding, and its placeholder. A finding that goes on has no placeholder of its own,
// and what is invisible before it is a part of it.
func writeFinding(b *strings.Builder, before string, f Finding) {
	if f.joined {
		return
	}
	b.WriteString(before)
	b.WriteString(anchorPlaceholderText)
	b.WriteString(f.Kind)
	b.WriteByte(']')
}

// Find returns the secrets that [Redact] hides, in their order, which do not overlap.
func Find(text string, set Set) []Finding {
	var found []Finding
	eachFinding(text, set, productionLimits, func(f Finding) { found = append(found, f) })
	return found
}

// HasSecret reports whether the rules of [Keys] find a secret in text. It allocates only if there is a place to look at.
func HasSecret(text []byte) bool {
	var room [8]hit
	return len(find(scanner(), text, room[:0])) > 0 && len(Find(string(text), Keys)) > 0
}

// eachFinding calls do with the findings of text, in their order.
func eachFinding(text string, set Set, l limits, do func(Finding)) {
	r := newRedactor(set, l)
	for at := 0; at < len(text); {
		end := min(at+r.limits.chunk, len(text))
		consumed, findings := r.process(text[at:end], end == len(text))
		for _, f := range findings {
			f.Start += at
			f.End += at
			do(f)
		}
		at += consumed
	}
}

const maxKind = 32 // characters of a kind in a placeholder

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
	var b strings.Builder
	b.Grow(end)
	writeRedacted(&b, text[:end], findings)
	return b.String()
}
