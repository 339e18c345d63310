package facts

import (
	"encoding/csv"
	"strings"
	"unicode"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

// Place says where in a message an instruction stood.
type Place string

// The places, in the order in which they are searched.
const (
	InSubject     Place = "subject"
	InDisplayName Place = "display_name"
	InBody        Place = "body"
	InHidden      Place = "hidden"
	InAttachment  Place = "attachment"
)

// Injection is an instruction that somebody planted in a message for a model.
type Injection struct {
	// Place is where it stood.
	Place Place
	// Cue is the code of the rule that noticed it.
	Cue string
	// Text is the instruction as its author wrote it, at most 2,000 bytes: the
	// whole subject or name, or the paragraph, table cell or calendar entry that
	// holds the cue. Invisible characters and look-alikes are still in it.
	Text string
	// Plain is Text as a model understands it.
	Plain string
}

const maxInjectionBytes = 2000

// FindInjection gives the first planted instruction of a message. A hijacked
// Reader answers with it, word for word.
//
// It works by a short list of phrases and is no defence: it misses what is
// phrased differently and may name honest mail. Nothing may be allowed because
// it found nothing.
func FindInjection(m *mailbox.Message) (Injection, bool) {
	type piece struct {
		place Place
		text  string
	}
	pieces := []piece{{InSubject, m.Subject}, {InDisplayName, m.From.Name}}
	for _, p := range paragraphs(m.Text) {
		pieces = append(pieces, piece{InBody, p})
	}
	for _, p := range paragraphs(m.Hidden) {
		pieces = append(pieces, piece{InHidden, p})
	}
	for _, a := range m.Attachments {
		for _, p := range attachmentPieces(a) {
			pieces = append(pieces, piece{InAttachment, p})
		}
	}
	for _, p := range pieces {
		plain := plainText(p.text)
		if cue := matchCue(plain); cue != "" {
			return Injection{p.place, cue, clip(p.text, maxInjectionBytes), clip(plain, maxInjectionBytes)}, true
		}
	}
	return Injection{}, false
}

// attachmentPieces cuts an attachment into what one instruction would fill.
func attachmentPieces(a mailbox.Attachment) []string {
	var out []string
	switch a.Type {
	case "text/calendar", "text/vcard":
		for line := range strings.Lines(a.Text) {
			_, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
			out = append(out, strings.NewReplacer(`\n`, "\n", `\,`, ",", `\;`, ";", `\\`, `\`).Replace(value))
		}
	case "text/csv", "text/tab-separated-values":
		for line := range strings.Lines(a.Text) {
			r := csv.NewReader(strings.NewReader(line))
			r.LazyQuotes = true
			cells, err := r.Read()
			if err != nil {
				cells = []string{line}
			}
			out = append(out, cells...)
		}
	default:
		out = paragraphs(a.Text)
	}
	return append(out, a.Name)
}

func paragraphs(s string) []string {
	var out []string
	for _, p := range strings.Split(s, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// cue is one rule: every literal occurs in the text (lower case, white space
// folded), and the words occur in order within one clause, at most gap others
// between two of them.
type cue struct {
	code     string
	literals []string
	words    [][]string
	gap      int
}

var cues = []cue{
	{code: "override", gap: 4, words: [][]string{
		{"ignore", "disregard", "forget", "override", "bypass"},
		{"instructions", "instruction", "rules", "prompt", "guidelines", "directives", "safeguards"}}},
	{code: "role_marker", literals: []string{"<|im_start|>"}},
	{code: "role_marker", literals: []string{"<|system|>"}},
	{code: "role_marker", literals: []string{"[inst]"}},
	{code: "role_marker", literals: []string{"<<sys>>"}},
	{code: "role_marker", literals: []string{"### system"}},
	{code: "tool_call", literals: []string{`"tool_calls"`}},
	{code: "tool_call", literals: []string{`"function_call"`}},
	{code: "tool_call", literals: []string{"<tool_call>"}},
	{code: "addressed_model", literals: []string{"ai assistant:"}},
	{code: "addressed_model", literals: []string{"attention language model"}},
	{code: "addressed_model", literals: []string{"dear language model"}},
	{code: "addressed_approver", literals: []string{"to the person who approves"}},
	{code: "addressed_approver", literals: []string{"whoever approves this summary"}},
	{code: "decode_and_run", gap: 5, words: [][]string{
		{"decode"}, {"base64"}, {"run", "execute", "follow", "obey"}}},
	{code: "exfiltration", literals: []string{"](http"}, gap: 2, words: [][]string{
		{"when", "while"}, {"you"}, {"summarise", "summarize", "answer", "reply", "report"}}},
	{code: "prompt_update", literals: []string{"system prompt update"}},
	{code: "prompt_update", literals: []string{"new system prompt"}},
}

// matchCue gives the code of the first rule that fits plain text, or nothing.
func matchCue(plain string) string {
	lower := strings.ToLower(strings.Join(strings.Fields(plain), " "))
	var clauses [][]string
	for _, c := range cues {
		if !containsAll(lower, c.literals) {
			continue
		}
		if len(c.words) == 0 {
			return c.code
		}
		if clauses == nil {
			clauses = splitClauses(lower)
		}
		for _, clause := range clauses {
			if inOrder(clause, c.words, c.gap) {
				return c.code
			}
		}
	}
	return ""
}

func containsAll(s string, literals []string) bool {
	for _, l := range literals {
		if !strings.Contains(s, l) {
			return false
		}
	}
	return true
}

// splitClauses cuts text at punctuation and each piece into words.
func splitClauses(s string) [][]string {
	var out [][]string
	for _, clause := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(".,;:!?。、！？", r) }) {
		words := strings.FieldsFunc(clause, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
		})
		if len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// inOrder reports whether one word of each set occurs, each at most gap words
// after the one before.
func inOrder(clause []string, sets [][]string, gap int) bool {
	for i, word := range clause {
		if !isOneOf(word, sets[0]) {
			continue
		}
		at := i
		for _, set := range sets[1:] {
			next := -1
			for j := at + 1; j < len(clause) && j <= at+1+gap; j++ {
				if isOneOf(clause[j], set) {
					next = j
					break
				}
			}
			if at = next; at < 0 {
				break
			}
		}
		if at >= 0 {
			return true
		}
	}
	return false
}

func isOneOf(word string, set []string) bool {
	for _, s := range set {
		if word == s {
			return true
		}
	}
	return false
}
