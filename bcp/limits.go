package bcp

import "github.com/bcpmesh/bcpmesh/bcp/text"

// Limits of the core. Each bounds work or memory that a peer could otherwise
// choose (PROTOCOL P1.1, P1.3, P2.2).
const (
	maxAgentName = 63 // one subject token, as long as a DNS label
	maxID        = 64

	// MaxFields, MaxValues, MaxQuestions and MaxSpecWords bound one spec.
	MaxFields    = 64
	MaxValues    = 256
	MaxQuestions = 16
	MaxSpecWords = 1000

	// MaxConstraints bounds the constraints of one spec.
	MaxConstraints = 16
	// MaxConstraintBytes bounds the text of one constraint.
	MaxConstraintBytes = 1024
	// MaxValueChars bounds one enum value, in code points.
	MaxValueChars = 256
	// MaxQuestionChars bounds a question's text or a directive, in code points.
	MaxQuestionChars = 4000
	// MaxSealedBytes bounds a sealed text.
	MaxSealedBytes = 32 << 10
	// MaxAnswerChars bounds max_chars of a question.
	MaxAnswerChars = MaxSpecWords * 25
	// DefaultEmailChars is max_chars of an e-mail answer where the spec has none.
	DefaultEmailChars = 64
	// MaxEmailChars is the longest address that RFC 5321 lets through.
	MaxEmailChars = 254
	// DefaultIntegerMin and DefaultIntegerMax bound an integer answer of
	// category 2 where the spec does not (PROTOCOL P3.2).
	DefaultIntegerMin, DefaultIntegerMax int64 = -1_000_000_000, 1_000_000_000

	// MaxControllerMessage bounds an ask or a session message, in bytes. A
	// Controller is clean, but its key may be stolen.
	MaxControllerMessage = 64 << 10
	// answerOverhead and answerFactor make the size limit of an answer:
	// 1 KiB + 12 x the longest text that the spec could deliver, since one
	// character takes at most 12 bytes in JSON (PROTOCOL P2.2).
	answerOverhead = 1 << 10
	answerFactor   = 12

	// MaxArgumentBytes bounds what max_argument_bytes of a channel may allow for the
	// arguments of a query, canonical.
	MaxArgumentBytes = 16 << 10

	// MaxRoutes bounds the notification routes of a mesh: each reads the journal.
	MaxRoutes = 16

	// MaxJustificationWords and MaxJustificationChars bound what a channel can
	// allow for the justification of an escalation (PROTOCOL P6.4).
	MaxJustificationWords = 100
	MaxJustificationChars = MaxJustificationWords * (text.MaxWordChars + 1)
	// DefaultJustificationWords and DefaultJustificationChars are what it allows
	// unless its definition says otherwise.
	DefaultJustificationWords = 50
	DefaultJustificationChars = 400
)

// MaxAnswerBytes is the size that no answer to any spec of the mesh may exceed
// on the wire: [Validator.MaxBytes] of the widest (PROTOCOL P2.2).
func (m *Mesh) MaxAnswerBytes() int {
	const other = maxID + len(`"",`) + MaxValueChars // the key of an item, and what is no text
	word := text.MaxWordChars + len(", ")
	for _, list := range m.Vocabularies {
		word = max(word, longestValue(list)+1)
	}
	chars := len(`{}`) + max(MaxFields*other, MaxQuestions*other+MaxSpecWords*word)
	return answerOverhead + answerFactor*chars
}
