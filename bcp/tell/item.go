package tell

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// What follows tells an approver about what is held. Unlike all else of this package it
// holds what agents said, as they said it: whoever draws it makes it inert.

// ItemFact is something that the mesh knows about an item. Its value may have words of an
// agent or of the operator.
type ItemFact struct{ Name, Value string }

// Frame is hostile text between a label and an end, which are ours.
type Frame struct {
	Label string
	// Length says how long all text of the content is; empty for other frames.
	Length string
	Parts  []Part
	End    string
}

// Part is one piece of hostile text, with the question that it answers.
type Part struct{ Asked, Text string }

// ItemFacts returns what the mesh knows about an item (PROTOCOL P7.1).
func ItemFacts(v *bcp.ItemView, now time.Time) []ItemFact {
	var facts []ItemFact
	head := func(name, value string) { facts = append(facts, ItemFact{name, value}) }
	head("item", string(v.ID))
	head("kind", string(v.Kind)+": "+cmp.Or(kinds[v.Kind].decides, "unknown to this program"))
	if v.Effect != nil {
		return append(append(facts, effectFacts(v.Effect, v.Controller)...), ItemFact{"waits", "for " + Roughly(now.Sub(v.Since)) + "; " + TimeLeft(now, v.Deadline)}, ItemFact{"sha256", fmt.Sprintf("%x", v.SHA256[:])})
	}
	channel := string(v.Controller) + " ← " + string(v.Reader) + ", category " + strconv.Itoa(int(v.Category))
	if v.Subscription != "" {
		channel += ", subscription " + string(v.Subscription)
	} else if v.Query != "" {
		channel += ", query " + string(v.Query)
	}
	head("channel", channel)
	head("source", sourceText(v))
	if v.Kind != bcp.ItemProposal && v.Kind != bcp.ItemHanded { // they charge nothing
		head("bits", v.Nominal.Words()+" nominal, at most "+v.Capacity.Words()+" in capacity")
	}
	if v.JustificationBits > 0 {
		head("reason", "can carry "+v.JustificationBits.Words()+" of what the agent was told")
	}
	anomalies := "none"
	if len(v.Anomalies) > 0 {
		anomalies = strings.Join(v.Anomalies, ", ")
	} else if v.Kind == bcp.ItemEscalation || v.Kind == bcp.ItemProposal || v.Kind == bcp.ItemHanded {
		anomalies = "" // nothing was said yet, or no rule looked at it
	}
	if anomalies != "" {
		head("anomalies", anomalies)
	}
	if kinds := secretKinds(string(v.Content)); len(kinds) > 0 {
		head("secrets", strings.Join(kinds, ", ")+": who approves it lets them through as they are")
	}
	head("waits", "for "+Roughly(now.Sub(v.Since))+"; "+TimeLeft(now, v.Deadline))
	head("sha256", fmt.Sprintf("%x", v.SHA256[:]))
	earlier := released(v.Earlier)
	if len(earlier) > 0 {
		head("earlier", Count(len(earlier), "release")+" of this session, below the content")
	}
	return facts
}

// ItemFrames returns what agents said of an item: its content, or what is to be asked,
// and what was released earlier in the session (PROTOCOL P7.2).
func ItemFrames(v *bcp.ItemView, now time.Time) []Frame {
	var frames []Frame
	switch v.Kind {
	case bcp.ItemEscalation:
		frames = append(frames, escalation(v))
	case bcp.ItemProposal:
		frames = append(frames, proposal(v))
	case bcp.ItemHanded:
		frames = append(frames, Frame{"untrusted content from a tainted agent (" + string(v.Reader) + ")", Length(v.Sealed), []Part{{"sealed", v.Sealed}}, "end of what " + string(v.Reader) + " said"})
	case bcp.ItemEffect, bcp.ItemInDoubt, bcp.ItemQuestion:
		frames = append(frames, callFrame(v))
	default:
		frames = append(frames, content(v.Spec, v.Content, "untrusted content from a tainted agent ("+string(v.Reader)+")", "end of what "+string(v.Reader)+" said"))
	}
	if earlier := released(v.Earlier); len(earlier) > 0 {
		frames = append(frames, earlierFrame(earlier, now))
	}
	return frames
}

// proposal shows the lines that a definition would have.
func proposal(v *bcp.ItemView) Frame {
	var p bcp.Proposal
	parts := []Part{{Text: "it cannot be read"}}
	if json.Unmarshal(v.Content, &p) == nil {
		parts = nil
		for _, line := range definition.SubscriptionLines(&p.Subscription) {
			parts = append(parts, Part{Text: strings.TrimLeft(line, " ")})
		}
	}
	return Frame{Label: "untrusted: a subscription that " + string(v.Controller) + " wants " + string(v.Reader) + " to push", Parts: parts, End: "end of what " + string(v.Controller) + " proposes"}
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

func sourceText(v *bcp.ItemView) string {
	s := v.Source
	parts := []string{"agent " + string(s.Agent) + ", own taint " + s.Taint.String()}
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
func escalation(v *bcp.ItemView) Frame {
	parts := []Part{{Asked: "why", Text: v.Justification}}
	parts = append(parts, askedParts(v.Spec)...)
	return Frame{Label: "an agent's own words (" + string(v.Controller) + "): what it wants to ask " + string(v.Reader), Parts: parts, End: "end of the words of " + string(v.Controller)}
}

// askedParts spells a spec out.
func askedParts(spec bcp.Spec) []Part {
	var parts []Part
	for _, f := range spec.Fields {
		parts = append(parts, Part{"field", f.Name + " (" + fieldForm(f) + ")"})
	}
	for _, q := range spec.Questions {
		parts = append(parts, Part{"question " + q.ID + " (" + questionForm(q) + ")", q.Question})
	}
	if spec.Directive != "" {
		parts = append(parts, Part{"directive, for a summary of at most " + Count(spec.MaxWords, "word"), spec.Directive})
	}
	if len(spec.Constraints) > 0 {
		parts = append(parts, Part{"constraints", strings.Join(spec.Constraints, "; ")})
	}
	return parts
}

// maxShownValues is how many values of an enum stand beside a question.
const maxShownValues = 12

func fieldForm(f bcp.Field) string {
	switch {
	case len(f.Values) > 0:
		return describeChoice(f.Values)
	case f.Min != nil && f.Max != nil:
		return fmt.Sprintf("integer from %d to %d", *f.Min, *f.Max)
	}
	return f.Type.String()
}

func describeChoice(values []string) string {
	if len(values) > maxShownValues {
		return "one of " + strings.Join(values[:maxShownValues], ", ") + " and " + strconv.Itoa(len(values)-maxShownValues) + " more"
	}
	return "one of " + strings.Join(values, ", ")
}

func questionForm(q bcp.Question) string {
	form := q.ExpectedFormat.String()
	if len(q.Values) > 0 {
		form = describeChoice(q.Values)
	}
	if q.MaxWords > 0 {
		form += ", at most " + Count(q.MaxWords, "word")
	}
	return form
}

// content frames an answer, each part of it beside its question.
func content(spec bcp.Spec, content jsontext.Value, label, end string) Frame {
	parts, all := contentParts(spec, content)
	return Frame{label, Length(all), parts, end}
}

// contentParts splits canonical content into answers beside their questions,
// and returns all text of it. What is not exactly canonical content of the spec
// is shown as the bytes that it is: two contents never look the same.
func contentParts(spec bcp.Spec, content jsontext.Value) (parts []Part, all string) {
	answers, ok := AnswersOf(content)
	if !ok {
		return []Part{{"as it is", string(content)}}, string(content)
	}
	asked := map[string]string{}
	for _, f := range spec.Fields {
		asked[f.Name] = f.Name + " (" + fieldForm(f) + ")"
	}
	for _, q := range spec.Questions {
		asked[q.ID] = q.ID + ": " + q.Question + " (" + questionForm(q) + ")"
	}
	if spec.Directive != "" {
		asked[SummaryName] = "asked for: " + spec.Directive + " (at most " + Count(spec.MaxWords, "word") + ")"
	}
	var texts []string
	for _, a := range answers {
		question := asked[a.Name]
		if question == "" {
			return []Part{{"as it is", string(content)}}, string(content)
		}
		parts = append(parts, Part{question, a.Text})
		texts = append(texts, a.Text)
	}
	return parts, strings.Join(texts, " ")
}

// SummaryName is the one member of a category 3 answer.
const SummaryName = "summary"

// Answered is one member of an answer: a text, a number, or true or false.
type Answered struct{ Name, Text string }

// AnswersOf reads an object of plain values that is written in the one way in
// which the gateway writes it.
func AnswersOf(content jsontext.Value) (answers []Answered, ok bool) {
	var canonical bytes.Buffer
	dec, enc := jsontext.NewDecoder(bytes.NewReader(content)), jsontext.NewEncoder(&canonical)
	next := func(kinds string) (text string, ok bool) {
		token, err := dec.ReadToken()
		return token.String(), err == nil && strings.IndexByte(kinds, byte(token.Kind())) >= 0 && enc.WriteToken(token) == nil
	}
	_, ok = next("{")
	for ok && dec.PeekKind() != '}' {
		var a Answered
		if a.Name, ok = next(`"`); ok {
			a.Text, ok = next(`"0tf`)
		}
		answers = append(answers, a)
	}
	_, ended := next("}")
	if !ok || !ended || len(answers) == 0 || !utf8.Valid(content) || !bytes.Equal(bytes.TrimSuffix(canonical.Bytes(), []byte("\n")), content) {
		return nil, false
	}
	return answers, true
}

// released leaves out that something was held, which is said of the item itself
// too: it is a word of the gateway's.
func released(releases []bcp.Release) []bcp.Release {
	return slices.DeleteFunc(slices.Clone(releases), func(r bcp.Release) bool { return r.Outcome == bcp.Held })
}

// earlierFrame shows what the Controller heard before in its session: an instruction
// may come in parts.
func earlierFrame(releases []bcp.Release, now time.Time) Frame {
	var parts []Part
	for _, r := range releases {
		what := "query " + string(r.Query)
		if r.Subscription != "" {
			what = "subscription " + string(r.Subscription)
		}
		said := string(r.Content)
		if r.Outcome != "" {
			said = string(r.Outcome)
		}
		parts = append(parts, Part{fmt.Sprintf("%s ago, %s, %s, category %d, %s", Roughly(now.Sub(r.Time)), r.Reader, what, r.Category, r.Nominal.Words()), said})
	}
	return Frame{Label: "released earlier in this session: what untrusted agents said, and was delivered", Parts: parts, End: "end of the earlier releases"}
}

// Intact reports whether an item's digest is that of what its frames show. Otherwise
// a person would sign what nobody saw.
func Intact(v *bcp.ItemView) bool {
	shown := []byte(v.Content)
	if v.Kind == bcp.ItemEscalation {
		var err error
		if shown, err = bcp.Encode(v.Spec, bcp.JSON); err != nil {
			return false
		}
	}
	return sha256.Sum256(shown) == v.SHA256 && (v.Effect == nil || v.Kind == bcp.ItemQuestion && isQuestion(v) || parseCall(v).is(v.Effect))
}

// PreviewFacts returns what the mesh knows about an edit of an item.
func PreviewFacts(v *bcp.ItemView, preview bcp.EditPreview) []ItemFact {
	facts := []ItemFact{{"item", string(v.ID)}, {"sha256", fmt.Sprintf("%x", preview.SHA256[:])}}
	if len(preview.Anomalies) > 0 {
		facts = append(facts, ItemFact{"anomalies", strings.Join(preview.Anomalies, ", ") + ": a person has seen it, so it is not held again"})
	}
	return facts
}

// PreviewFrames returns what an edit would release and what it replaces; one frame alone
// if it replaces nothing.
func PreviewFrames(v *bcp.ItemView, preview bcp.EditPreview) []Frame {
	if v.Effect != nil {
		label := "what you say that " + v.Effect.Tool + " returned"
		if v.Kind == bcp.ItemQuestion {
			label = "your answer"
		}
		return []Frame{{Label: label, Parts: []Part{{"", string(preview.Content)}}, End: "end of what you say"}, callFrame(v)}
	}
	frames := []Frame{content(v.Spec, preview.Content, "your edit, in the spelling that would be released", "end of your edit")}
	if bytes.Equal(v.Content, preview.Content) {
		return frames
	}
	before, _ := contentParts(v.Spec, v.Content)
	after, _ := contentParts(v.Spec, preview.Content)
	var changed []Part
	for i, part := range before {
		if i >= len(after) || part != after[i] {
			changed = append(changed, part)
		}
	}
	return append(frames, Frame{Label: "in place of this untrusted content from a tainted agent (" + string(v.Reader) + "), which is not delivered", Parts: changed, End: "end of what it replaces"})
}

// excerptLength is how many characters of an item a list shows.
const excerptLength = 90

// Excerpt is the beginning of what an item is about, in one inert line.
func Excerpt(v *bcp.ItemView, now time.Time) string {
	var texts []string
	for _, part := range ItemFrames(v, now)[0].Parts {
		texts = append(texts, part.Text)
	}
	text := []rune(inert.Line(strings.Join(texts, " / ")))
	if len(text) > excerptLength {
		return string(text[:excerptLength-1]) + "…"
	}
	return string(text)
}

// Signs returns where the words begin and end for which an item's text was held: those that
// read most like an instruction.
func Signs(it *bcp.Item, said string) [][2]int {
	if !slices.Contains(it.Anomalies, "instruction") && !slices.Contains(it.Anomalies, "weak_sign") {
		return nil
	}
	return text.DefaultRules().Signs([]byte(said))
}

// Connection reports whether a decision says that somebody connected or disconnected, which
// each command does: the newest decisions leave it out.
func Connection(d *bcp.Decision) bool {
	return d.Kind == bcp.KindConnect || d.Kind == bcp.KindDisconnect
}

// Verdict is the verdict of a decision as people are shown it: that of a person who
// rejects is reject, though the mesh accepts the act. 0 is none.
func Verdict(d *bcp.Decision) bcp.Outcome {
	if d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && bcp.Act(d.Event) == bcp.RejectItem {
		return bcp.Reject
	}
	return d.Verdict
}

// Decided is what became of an item by an act.
func Decided(act bcp.Act) string {
	switch act {
	case bcp.Approve:
		return "approved"
	case bcp.RejectItem:
		return "rejected"
	}
	return "edited"
}

// Roughly writes a span of time in its two largest units.
func Roughly(d time.Duration) string {
	switch {
	case d < 0:
		d = 0
	case d >= 24*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return Span(int64(d / time.Second))
}

// TimeLeft says how long an item can be decided.
func TimeLeft(now, deadline time.Time) string {
	if left := deadline.Sub(now); left > 0 {
		return Roughly(left) + " left"
	}
	return "expired"
}

// Span writes seconds as definitions do: 90s, 15m, 1h30m, 7d.
func Span(seconds int64) string {
	var b strings.Builder
	for _, unit := range []struct {
		size int64
		name string
	}{{24 * 60 * 60, "d"}, {60 * 60, "h"}, {60, "m"}, {1, "s"}} {
		if n := seconds / unit.size; n > 0 || unit.size == 1 && b.Len() == 0 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.name)
			seconds %= unit.size
		}
	}
	return b.String()
}

// Endorsed says of what an endorsement is: the channel, or the kernel with the tool that it
// calls, and by which signs.
func Endorsed(e *bcp.Endorsement) (channel, what, signs string) {
	if e.Kernel != "" {
		return string(e.Kernel), e.Tool + " with the same critical arguments", "content in the others"
	}
	return Channel(e.Controller, e.Reader), string(e.Subscription), strings.Join(e.Codes, "+")
}

// EndorsedKind is what one lets through.
func EndorsedKind(e *bcp.Endorsement) string {
	if e.Kernel != "" {
		return "call"
	}
	return "answer"
}

// UsesLeft says how many answers or calls an endorsement still releases.
func UsesLeft(e *bcp.EndorsementView) string { return fmt.Sprintf("%d of %d", e.UsesLeft, e.Uses) }

// EndorsementState says until when an endorsement holds, or why it does not any more.
func EndorsementState(e *bcp.EndorsementView) string {
	return cmp.Or(e.Ended, "until "+Moment(e.Until))
}
