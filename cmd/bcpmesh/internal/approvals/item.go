package approvals

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// lineKind says whose words a line of an item holds, and so how it is coloured.
type lineKind int

const (
	lineHead    lineKind = iota // ours: what the mesh knows
	lineLabel                   // ours: the edge of a frame
	lineAsked                   // a question within a frame, behind askedGutter
	lineContent                 // hostile, behind the gutter
)

// The edges of frames. What they are drawn with is shown as marks in content.
const (
	labelGutter = "┌─ "
	askedGutter = "├─ "
	endGutter   = "└─ "
)

// itemLine is one line of an item as its approver sees it.
type itemLine struct {
	kind lineKind
	text string
}

// itemText collects the lines of an item.
type itemText struct {
	lines []itemLine
	width int
}

// head writes a line of what the mesh knows. The value may be an operator's or
// an agent's: it is made inert all the same.
func (t *itemText) head(key, value string) {
	const column = 10
	for i, line := range inert.Wrap(inert.Text(value), t.width-column) {
		if i > 0 {
			key = ""
		}
		t.lines = append(t.lines, itemLine{lineHead, strings.TrimRight(fmt.Sprintf("%-*s%s", column, key, line), " ")})
	}
}

func (t *itemText) blank() { t.lines = append(t.lines, itemLine{kind: lineHead}) }

func (t *itemText) add(kind lineKind, prefix, s string) {
	for _, line := range inert.Prefixed(prefix, s, t.width) {
		t.lines = append(t.lines, itemLine{kind, line})
	}
}

// frame puts hostile text into a frame that it can neither leave nor imitate.
func (t *itemText) frame(label string, parts []framed, end string) {
	t.blank()
	t.add(lineLabel, labelGutter, label)
	for _, part := range parts {
		if part.asked != "" {
			t.add(lineAsked, askedGutter, part.asked)
		}
		t.add(lineContent, inert.Gutter, part.text)
	}
	t.add(lineLabel, endGutter, end)
}

// framed is one piece of content with the question that it answers.
type framed struct{ asked, text string }

// ItemLines shows everything that an approver judges an item by (PROTOCOL P7.1,
// P7.2): what the mesh knows first, then the content, framed.
func ItemLines(v *bcp.ItemView, now time.Time, width int) []itemLine {
	t := itemText{width: max(width, leastScreenWidth)}
	t.head("item", string(v.ID))
	t.head("kind", string(v.Kind)+": "+kindText(v.Kind))
	channel := channelText(&v.Item) + ", category " + strconv.Itoa(int(v.Category))
	if v.Subscription != "" {
		channel += ", subscription " + string(v.Subscription)
	} else {
		channel += ", query " + string(v.Query)
	}
	t.head("channel", channel)
	t.head("source", sourceText(v))
	if v.Kind != bcp.ItemProposal { // it charges nothing
		t.head("bits", cli.BitsOf(v.Nominal)+" nominal, at most "+cli.BitsOf(v.Capacity)+" in capacity")
	}
	if v.JustificationBits > 0 {
		t.head("reason", "can carry "+cli.BitsOf(v.JustificationBits)+" of what the agent was told")
	}
	anomalies := "none"
	if len(v.Anomalies) > 0 {
		anomalies = strings.Join(v.Anomalies, ", ")
	} else if v.Kind == bcp.ItemEscalation || v.Kind == bcp.ItemProposal {
		anomalies = "" // nothing was said yet
	}
	if anomalies != "" {
		t.head("anomalies", anomalies)
	}
	if kinds := secretKinds(string(v.Content)); len(kinds) > 0 {
		t.head("secrets", strings.Join(kinds, ", ")+": who approves it lets them through as they are")
	}
	t.head("waits", "for "+roughly(now.Sub(v.Since))+"; "+timeLeft(now, v.Deadline))
	t.head("sha256", digestText(v.SHA256))
	earlier := released(v.Earlier)
	if len(earlier) > 0 {
		t.head("earlier", cli.Count(len(earlier), "release")+" of this session, below the content")
	}
	if v.Kind == bcp.ItemEscalation {
		t.escalation(v)
	} else if v.Kind == bcp.ItemProposal {
		t.proposal(v)
	} else {
		t.content(v.Spec, v.Content, "untrusted content from a tainted agent ("+string(v.Reader)+")", "end of what "+string(v.Reader)+" said")
	}
	t.earlier(earlier, now)
	return t.lines
}

// secretKinds returns the kinds of secrets that a text has by its shape, in the order in which they come.
func secretKinds(s string) []string {
	var kinds []string
	for _, f := range guard.Find(s, guard.Keys) {
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

// kindText says what a person decides.
func kindText(kind bcp.ItemKind) string {
	switch kind {
	case bcp.ItemEscalation:
		return "may this be asked at all? What comes back is held again"
	case bcp.ItemProposal:
		return "shall this be a subscription? It is one once an operator writes it into the definition"
	case bcp.ItemSummary:
		return "free text, held every time"
	case bcp.ItemAnomaly:
		return "an answer that looks like instructions, code or an address, or contradicts itself"
	}
	return "unknown to this program"
}

// proposal shows the lines that a definition would have.
func (t *itemText) proposal(v *bcp.ItemView) {
	var p bcp.Proposal
	parts := []framed{{text: "it cannot be read"}}
	if json.Unmarshal(v.Content, &p) == nil {
		parts = nil
		for _, line := range definition.SubscriptionLines(&p.Subscription) {
			parts = append(parts, framed{text: strings.TrimLeft(line, " ")})
		}
	}
	t.frame("untrusted: a subscription that "+string(v.Controller)+" wants "+string(v.Reader)+" to push", parts, "end of what "+string(v.Controller)+" proposes")
}

func channelText(it *bcp.Item) string { return string(it.Controller) + " ← " + string(it.Reader) }

func sourceText(v *bcp.ItemView) string {
	s := v.Source
	parts := []string{"agent " + string(s.Agent) + ", taint " + s.Taint.String()}
	if s.Taint != v.Taint {
		parts[0] += ", delivered as " + v.Taint.String()
	}
	if s.Description != "" {
		parts = append(parts, s.Description)
	}
	if s.Network != "" {
		parts = append(parts, "network "+s.Network)
	}
	if len(s.Tools) > 0 {
		parts = append(parts, "tools "+strings.Join(s.Tools, ", "))
	}
	return strings.Join(parts, "; ")
}

// escalation shows what would be asked and why: the Controller's words, which
// are an agent's too.
func (t *itemText) escalation(v *bcp.ItemView) {
	parts := []framed{{asked: "why", text: v.Justification}}
	parts = append(parts, askedParts(v.Spec)...)
	t.frame("an agent's own words ("+string(v.Controller)+"): what it wants to ask "+string(v.Reader), parts,
		"end of the words of "+string(v.Controller))
}

// askedParts spells a spec out.
func askedParts(spec bcp.Spec) []framed {
	var parts []framed
	for _, f := range spec.Fields {
		parts = append(parts, framed{"field", f.Name + " (" + fieldForm(f) + ")"})
	}
	for _, q := range spec.Questions {
		parts = append(parts, framed{"question " + q.ID + " (" + questionForm(q) + ")", q.Question})
	}
	if spec.Directive != "" {
		parts = append(parts, framed{"directive, for a summary of at most " + cli.Count(spec.MaxWords, "word"), spec.Directive})
	}
	if len(spec.Constraints) > 0 {
		parts = append(parts, framed{"constraints", strings.Join(spec.Constraints, "; ")})
	}
	return parts
}

// maxShownValues is how many values of an enum stand beside a question.
const maxShownValues = 12

func fieldForm(f bcp.Field) string {
	switch {
	case len(f.Values) > 0:
		return choiceOf(f.Values)
	case f.Min != nil && f.Max != nil:
		return fmt.Sprintf("integer from %d to %d", *f.Min, *f.Max)
	}
	return f.Type.String()
}

func choiceOf(values []string) string {
	if len(values) > maxShownValues {
		return "one of " + strings.Join(values[:maxShownValues], ", ") + " and " + strconv.Itoa(len(values)-maxShownValues) + " more"
	}
	return "one of " + strings.Join(values, ", ")
}

func questionForm(q bcp.Question) string {
	form := q.ExpectedFormat.String()
	if len(q.Values) > 0 {
		form = choiceOf(q.Values)
	}
	if q.MaxWords > 0 {
		form += ", at most " + cli.Count(q.MaxWords, "word")
	}
	return form
}

// content frames an answer, each part of it beside its question.
func (t *itemText) content(spec bcp.Spec, content jsontext.Value, label, end string) {
	parts, all := contentParts(spec, content)
	t.frame(label+": "+inert.Length(all)+", behind bars", parts, end)
}

// contentParts splits canonical content into answers beside their questions,
// and returns all text of it. What is not exactly canonical content of the spec
// is shown as the bytes that it is: two contents never look the same.
func contentParts(spec bcp.Spec, content jsontext.Value) (parts []framed, all string) {
	answers, ok := answersOf(content)
	if !ok {
		return []framed{{"as it is", string(content)}}, string(content)
	}
	asked := map[string]string{}
	for _, f := range spec.Fields {
		asked[f.Name] = f.Name + " (" + fieldForm(f) + ")"
	}
	for _, q := range spec.Questions {
		asked[q.ID] = q.ID + ": " + q.Question + " (" + questionForm(q) + ")"
	}
	if spec.Directive != "" {
		asked[SummaryName] = "asked for: " + spec.Directive + " (at most " + cli.Count(spec.MaxWords, "word") + ")"
	}
	var texts []string
	for _, a := range answers {
		question := asked[a.name]
		if question == "" {
			return []framed{{"as it is", string(content)}}, string(content)
		}
		parts = append(parts, framed{question, a.text})
		texts = append(texts, a.text)
	}
	return parts, strings.Join(texts, " ")
}

// SummaryName is the one member of a category 3 answer.
const SummaryName = "summary"

// answered is one member of an answer: a text, a number, or true or false.
type answered struct{ name, text string }

// answersOf reads an object of plain values that is written in the one way in
// which the gateway writes it.
func answersOf(content jsontext.Value) ([]answered, bool) {
	var answers []answered
	canonical := []byte{'{'}
	dec := jsontext.NewDecoder(bytes.NewReader(content))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		a := answered{name: name.String()}
		value, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		a.text = value.String()
		if len(answers) > 0 {
			canonical = append(canonical, ',')
		}
		canonical, _ = jsontext.AppendQuote(canonical, a.name) // it was read as valid
		canonical = append(canonical, ':')
		switch value.Kind() {
		case '"':
			canonical, _ = jsontext.AppendQuote(canonical, a.text)
		case '0', 't', 'f':
			canonical = append(canonical, a.text...)
		default:
			return nil, false
		}
		answers = append(answers, a)
	}
	canonical = append(canonical, '}')
	return answers, len(answers) > 0 && utf8.Valid(content) && bytes.Equal(canonical, content)
}

// released leaves out that something was held, which is said of the item itself
// too: it is a word of the gateway's.
func released(releases []bcp.Release) []bcp.Release {
	return slices.DeleteFunc(slices.Clone(releases), func(r bcp.Release) bool { return r.Outcome == bcp.Held })
}

// earlier shows what the Controller heard before in its session: an instruction
// may come in parts.
func (t *itemText) earlier(releases []bcp.Release, now time.Time) {
	if len(releases) == 0 {
		return
	}
	var parts []framed
	for _, r := range releases {
		what := "query " + string(r.Query)
		if r.Subscription != "" {
			what = "subscription " + string(r.Subscription)
		}
		said := string(r.Content)
		if r.Outcome != "" {
			said = string(r.Outcome)
		}
		parts = append(parts, framed{fmt.Sprintf("%s ago, %s, %s, category %d, %s", roughly(now.Sub(r.Time)), r.Reader, what, r.Category, cli.BitsOf(r.Nominal)), said})
	}
	t.frame("released earlier in this session: what untrusted agents said, and was delivered", parts, "end of the earlier releases")
}

// PreviewLines shows what an edit would release, and what it replaces.
func PreviewLines(v *bcp.ItemView, preview bcp.EditPreview, width int) []itemLine {
	t := itemText{width: max(width, leastScreenWidth)}
	t.head("item", string(v.ID))
	t.head("sha256", digestText(preview.SHA256))
	if len(preview.Anomalies) > 0 {
		t.head("anomalies", strings.Join(preview.Anomalies, ", ")+": a person has seen it, so it is not held again")
	}
	t.content(v.Spec, preview.Content, "your edit, in the spelling that would be released", "end of your edit")
	if bytes.Equal(v.Content, preview.Content) {
		t.blank()
		t.head("changed", "nothing: this is what "+string(v.Reader)+" said. Approve it instead")
		return t.lines
	}
	before, _ := contentParts(v.Spec, v.Content)
	after, _ := contentParts(v.Spec, preview.Content)
	var changed []framed
	for i, part := range before {
		if i >= len(after) || part != after[i] {
			changed = append(changed, part)
		}
	}
	t.frame("in place of this untrusted content from a tainted agent ("+string(v.Reader)+"), which is not delivered", changed, "end of what it replaces")
	return t.lines
}

// Intact reports whether an item's digest is that of what is shown. A digest of
// other bytes would have a person sign what nobody saw.
func Intact(v *bcp.ItemView) error {
	shown := []byte(v.Content)
	if v.Kind == bcp.ItemEscalation {
		var err error
		if shown, err = bcp.Encode(v.Spec, bcp.JSON); err != nil {
			return cli.Failf("the query of %s cannot be shown: %s", v.ID, err)
		}
	}
	return Matches(v.ID, shown, v.SHA256)
}

// Matches compares bytes that a person saw with those that would be signed.
func Matches(id bcp.ItemID, shown []byte, signed bcp.Digest) error {
	if sha256.Sum256(shown) != signed {
		return (&cli.Failure{Code: cli.ExitRefused, Message: string(bcp.DigestMismatch) + ": " + string(id) + " is not what its digest says"}).
			WithHint("decide nothing about it, and tell the operator: gateway and program may be of different versions")
	}
	return nil
}

// roughly writes a span of time in its two largest units.
func roughly(d time.Duration) string {
	switch {
	case d < 0:
		d = 0
	case d >= 24*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return cli.Duration(int64(d / time.Second))
}

// timeLeft says how long an item can be decided.
func timeLeft(now, deadline time.Time) string {
	if left := deadline.Sub(now); left > 0 {
		return roughly(left) + " left"
	}
	return "expired"
}

// writeItem writes an item's lines to a terminal or a file.
func writeItem(w io.Writer, lines []itemLine, colours bool) {
	for _, l := range lines {
		// An error of stdout sticks to its writer; there is nowhere to report one
		// of stderr.
		_, _ = fmt.Fprintln(w, painted(l, colours))
	}
}

func digestText(d bcp.Digest) string { return hex.EncodeToString(d[:]) }

// painted colours a line of ours. Content is never coloured.
func painted(l itemLine, colours bool) string {
	if !colours || l.text == "" {
		return l.text
	}
	switch l.kind {
	case lineLabel:
		return text.Colors{text.Bold, text.FgYellow}.EscapeSeq() + l.text + text.Reset.EscapeSeq()
	case lineAsked:
		return text.Colors{text.FgCyan}.EscapeSeq() + l.text + text.Reset.EscapeSeq()
	}
	return l.text
}

// ShowLines shows an item to the person who is asked about it next.
func ShowLines(q *cli.Prompter, lines []itemLine) {
	writeItem(q.Out.Stderr, lines, q.Out.TalkTerminal && q.Out.Colours)
	q.Out.Talkf("")
}
