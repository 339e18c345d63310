package facts

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

// Kind is what a message is about.
type Kind string

// The closed list of kinds.
const (
	Billing    Kind = "billing"
	Support    Kind = "support"
	Meeting    Kind = "meeting"
	Newsletter Kind = "newsletter"
	Spam       Kind = "spam"
	Personal   Kind = "personal"
	Other      Kind = "other"
)

// Kinds lists all kinds, for the spec of a question.
func Kinds() []Kind {
	return []Kind{Billing, Support, Meeting, Newsletter, Spam, Personal, Other}
}

// Sentiment is the mood of a message.
type Sentiment string

// The closed list of sentiments.
const (
	Positive Sentiment = "positive"
	Neutral  Sentiment = "neutral"
	Negative Sentiment = "negative"
)

// Facts are what an honest Reader says about a message.
type Facts struct {
	// SenderName is the display name, or the address where there is none.
	SenderName string
	// SenderAddress is the address of the author.
	SenderAddress string
	// Date is the day of the message in UTC; zero when it is not known.
	Date time.Time
	// Urgent says that the author presses for time.
	Urgent bool
	// Kind is what it is about.
	Kind Kind
	// Sentiment is the author's mood.
	Sentiment Sentiment
	// Due is the amount that the author wants paid, if one is named.
	Due *Amount
	// KeySentence is the sentence that says most, at most 200 bytes; empty for a
	// message without text.
	KeySentence string
	// Actions are up to three sentences that ask for something.
	Actions []string
	// NeedsReply says that a person waits for an answer.
	NeedsReply bool
	// Confidence is 1 (a guess) to 5.
	Confidence int
}

const (
	maxSentenceBytes = 200
	maxActions       = 3
	// maxFactBytes is how much of a text the rules look at: what matters in mail
	// stands early.
	maxFactBytes = 16 << 10
)

// Extract plays the honest Reader: fixed rules on words and headers, no model.
// The same message gives the same facts. It reads English best and knows a few
// words of German, French, Russian and Japanese; it is easily wrong and says so
// by Confidence. Being honest, it passes over paragraphs that [FindInjection]
// would repeat, so far as they are noticed. It may be called concurrently.
func Extract(m *mailbox.Message) Facts {
	own := ownText(clip(m.Text, maxFactBytes))
	all := strings.ToLower(plainText(m.Subject + "\n" + own))
	sentences := splitSentences(own)
	automatic := isAutomatic(m)
	kind, score, lead := judgeKind(m, all)
	bulk := kind == Newsletter || kind == Spam
	f := Facts{
		SenderName:    m.From.Name,
		SenderAddress: m.From.Address,
		Kind:          kind,
		Sentiment:     judgeSentiment(all),
		Due:           findDue(own, m.Text),
		KeySentence:   keySentence(sentences),
	}
	if f.SenderName == "" {
		f.SenderName = m.From.Address
	}
	if !m.Date.IsZero() {
		f.Date = m.Date.UTC().Truncate(24 * time.Hour)
	}
	if bulk {
		f.Due = nil
	}
	if !bulk && !automatic {
		f.Urgent = isUrgent(m, all)
		f.Actions = actions(sentences)
		f.NeedsReply = !hasAny(all, closingWords) && (len(f.Actions) > 0 || hasQuestion(sentences))
	}
	f.Confidence = confidence(m, own, score, lead)
	return f
}

// ownText is what the author of this message wrote to a person: without quoted
// lines, forwarded text, signature, invisible characters and planted paragraphs.
func ownText(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "--" || strings.HasPrefix(trimmed, "____") || strings.HasPrefix(trimmed, "---------- Forwarded") ||
			strings.HasPrefix(trimmed, "-----Original Message") {
			break
		}
		if strings.HasPrefix(trimmed, ">") || strings.HasPrefix(trimmed, "On ") && strings.HasSuffix(trimmed, "wrote:") {
			continue
		}
		out.WriteString(line)
	}
	var kept []string
	for _, p := range paragraphs(out.String()) {
		if matchCue(plainText(p)) == "" {
			kept = append(kept, visible(p))
		}
	}
	return strings.Join(kept, "\n\n")
}

// splitSentences ends sentences at stops followed by white space, at the end of
// paragraphs, and at lines that are list items or end in a colon.
func splitSentences(text string) []string {
	var out []string
	for _, p := range paragraphs(text) {
		var block strings.Builder
		for line := range strings.Lines(p) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "- ") {
				out = appendSentences(out, block.String())
				block.Reset()
			}
			block.WriteString(line + "\n")
		}
		out = appendSentences(out, block.String())
	}
	return out
}

func appendSentences(out []string, block string) []string {
	start := 0
	add := func(end int) {
		s := strings.Join(strings.Fields(block[start:end]), " ")
		if s = strings.TrimPrefix(strings.TrimPrefix(s, "* "), "- "); s != "" {
			out = append(out, s)
		}
		start = end
	}
	for i, r := range block {
		after := i + utf8.RuneLen(r)
		switch r {
		case '。', '！', '？':
			add(after)
		case '.', '!', '?':
			if after < len(block) && (block[after] == ' ' || block[after] == '\n') && i-start > 2 {
				add(after)
			}
		case '\n':
			if i > 0 && (block[i-1] == ',' && i-start < 60 && isGreeting(block[start:i]) || block[i-1] == ':') {
				add(after)
			}
		}
	}
	add(len(block))
	return out
}

func isGreeting(s string) bool {
	return startsWithAny(strings.ToLower(strings.TrimSpace(s)), greetings)
}

// keySentence picks the sentence with the most signs of substance; the first of
// equals.
func keySentence(sentences []string) string {
	best, bestScore := "", 0
	for _, s := range sentences {
		lower := strings.ToLower(s)
		if isGreeting(s) || len(strings.Fields(s)) < 3 && utf8.RuneCountInString(s) < 8 {
			continue
		}
		score := 1
		if strings.ContainsAny(s, "?？") {
			score += 2
		}
		if strings.ContainsAny(s, "0123456789") {
			score++
		}
		score += 2 * min(countAny(lower, substanceWords), 3)
		if startsWithAny(lower, askWords) {
			score++
		}
		if score > bestScore {
			best, bestScore = s, score
		}
	}
	return clip(best, maxSentenceBytes)
}

// actions are the sentences that ask for something, in order.
func actions(sentences []string) []string {
	var out []string
	for _, s := range sentences {
		if len(out) == maxActions {
			break
		}
		lower := strings.ToLower(s)
		if hasAny(lower, askWords) && !hasAny(lower, closingWords) && !startsWithAny(lower, noticeWords) {
			out = append(out, clip(s, maxSentenceBytes))
		}
	}
	return out
}

func hasQuestion(sentences []string) bool {
	for _, s := range sentences {
		if strings.ContainsAny(s, "?？") {
			return true
		}
	}
	return false
}

// isAutomatic reports mail that a machine sent and nobody waits at.
func isAutomatic(m *mailbox.Message) bool {
	if v := strings.ToLower(m.Headers["Auto-Submitted"]); v != "" && v != "no" {
		return true
	}
	local, _, _ := strings.Cut(strings.ToLower(m.From.Address), "@")
	return hasAny(local, []string{"no-reply", "noreply", "mailer-daemon"})
}

func isUrgent(m *mailbox.Message, all string) bool {
	return strings.EqualFold(m.Headers["Priority"], "urgent") || strings.HasPrefix(m.Headers["X-Priority"], "1") ||
		hasAny(all, urgentWords)
}

// judgeKind gives the kind with the highest score, that score, and how far it
// leads. Headers decide before words.
func judgeKind(m *mailbox.Message, all string) (kind Kind, score, lead int) {
	switch {
	case strings.EqualFold(m.Headers["X-Spam-Flag"], "yes") || countAny(all, spamWords) >= 3:
		return Spam, 6, 6
	case m.Headers["List-Unsubscribe"] != "" && m.Headers["List-Post"] == "":
		return Newsletter, 6, 6
	case isAutomatic(m) && m.Headers["Auto-Submitted"] != "":
		return Other, 6, 6
	}
	subject := strings.ToLower(plainText(m.Subject))
	scores := map[Kind]int{}
	for kind, list := range kindWords {
		scores[kind] = countAny(all, list) + 2*countAny(subject, list)
	}
	for _, a := range m.Attachments {
		if a.Type == "text/calendar" {
			scores[Meeting] += 4
		}
	}
	kind = Other
	for _, k := range Kinds() {
		switch s := scores[k]; {
		case s > score:
			kind, score, lead = k, s, s-score
		default:
			lead = min(lead, score-s)
		}
	}
	return kind, score, lead
}

func judgeSentiment(all string) Sentiment {
	switch mood := countAny(all, positiveWords) - countAny(all, negativeWords); {
	case mood > 0:
		return Positive
	case mood < 0:
		return Negative
	}
	return Neutral
}

// confidence starts in the middle; a clear kind raises it, damage and little
// text lower it.
func confidence(m *mailbox.Message, own string, score, lead int) int {
	c := 3
	if score >= 3 {
		c++
	}
	if lead >= 3 {
		c++
	}
	if score == 0 {
		c--
	}
	if len(m.Defects) > 0 {
		c--
	}
	if utf8.RuneCountInString(own) < 40 {
		c--
	}
	return max(1, min(5, c))
}
