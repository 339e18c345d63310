package bcp

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Verdict is what the validator says of an answer. A refusal is a value, not an
// error. The zero value denies.
type Verdict struct {
	Outcome Outcome
	Reason  Reason // why it was rejected, 0 otherwise
	// Field is the field or question that the reason is about, by the name that
	// the spec gives it; never a name from the answer.
	Field string
	// Answer is set when the outcome is accept or hold.
	Answer    Answer
	Anomalies []string // codes, in their fixed order
}

// Validate judges an answer on its own: the seed's map of names to values, or
// an object with the one key fields, answers or summary. It never panics, and
// its cost is linear in the size of raw, which it checks first.
func (v *Validator) Validate(raw []byte, encoding Encoding) Verdict {
	if len(raw) > v.maxBytes {
		return Verdict{Outcome: Reject, Reason: ReasonTooLarge}
	}
	raw, err := toJSON(nil, raw, encoding)
	if err != nil || wire.Check(raw) != nil {
		return Verdict{Outcome: Reject, Reason: ReasonMalformed}
	}
	return v.Judge(RawAnswer{json: raw, form: formObject})
}

// Judge judges an answer that was found in a message.
func (v *Validator) Judge(raw RawAnswer) Verdict {
	if len(v.items) == 0 || raw.form == formNone { // zero values
		return Verdict{Outcome: Reject, Reason: ReasonMalformed}
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw.json), jsontext.AllowDuplicateNames(true)) // there are none
	w := answerWalk{v: v, dec: dec, answers: make([]answerValue, len(v.items))}
	if !w.walk(raw.form) {
		return Verdict{Outcome: Reject, Reason: w.reason, Field: w.field}
	}
	w.compare()
	if strong := w.anomalies.Strong(); strong != 0 { // a weak sign adds nothing to it
		w.anomalies = strong
	}
	verdict := Verdict{Outcome: Accept}
	if w.anomalies != 0 {
		verdict.Anomalies = w.anomalies.Codes()
	}
	switch {
	case v.spec.Category == 3:
		verdict.Outcome = Hold
	case w.anomalies == 0 || v.settings.OnAnomaly == AnomalyFlag:
	case v.settings.OnAnomaly == AnomalyHoldAll:
		verdict.Outcome = Hold
	case w.anomalies.Strong() == 0:
	case v.settings.OnAnomaly == AnomalyHold:
		verdict.Outcome = Hold
	default:
		return Verdict{Outcome: Reject, Reason: ReasonAnomaly, Anomalies: verdict.Anomalies}
	}
	if !w.passes() {
		return Verdict{Outcome: Reject, Reason: ReasonFiltered, Anomalies: verdict.Anomalies}
	}
	verdict.Answer = Answer{json: w.canonical()}
	return verdict
}

// answerWalk reads one answer against its spec. It is JSON that [wire.Check] let through: no
// token of it is refused any more.
type answerWalk struct {
	v         *Validator
	dec       *jsontext.Decoder
	seen      uint64        // bit i: item i was answered
	answers   []answerValue // by place in the spec
	norm      []byte        // normalised texts, one after the other
	anomalies text.Set
	reason    Reason
	field     string
}

// answerValue is one checked value: a boolean as 0 or 1, an integer, the index
// of an enum's value, a date; a text, also that of a date, is norm[from:to].
type answerValue struct {
	n        int64
	date     Date
	from, to int
}

// walk reads the answer and reports whether it matches the spec.
func (w *answerWalk) walk(f form) bool {
	switch {
	case f == formFields && w.v.spec.Category != 1, f == formAnswers && w.v.spec.Category != 2, f == formSummary && w.v.spec.Category != 3:
		return w.fail(ReasonType, -1)
	case f == formAnswers:
		return w.list() && w.complete()
	case f == formSummary:
		w.seen = 1
		return w.value(0) && w.complete()
	default:
		return w.object(f == formObject) && w.complete()
	}
}

// complete checks that the answer missed nothing.
func (w *answerWalk) complete() bool {
	for i := range w.v.items {
		if w.seen&(1<<i) == 0 {
			return w.fail(ReasonMissing, i)
		}
	}
	return true
}

// enter reads the bracket that an object or a list begins with.
func (w *answerWalk) enter(kind jsontext.Kind) bool {
	if w.dec.PeekKind() != kind {
		return w.fail(ReasonType, -1)
	}
	_, err := w.dec.ReadToken()
	return err == nil
}

// more reports whether the object or list goes on; otherwise it reads the bracket that ends it.
func (w *answerWalk) more() bool {
	switch w.dec.PeekKind() {
	case '}', ']', jsontext.KindInvalid:
		_, _ = w.dec.ReadToken()
		return false
	}
	return true
}

// name reads a key, or an id.
func (w *answerWalk) name() string {
	token, _ := w.dec.ReadToken()
	return token.String()
}

// object reads a map of names to values. An outer one may hold nothing but the
// form of its category; no value of an answer is an object or an array, so the
// two cannot be confused.
func (w *answerWalk) object(outer bool) bool {
	if !w.enter('{') {
		return false
	}
	for first := true; w.more(); first = false {
		key := w.name()
		if outer && first {
			switch kind := w.dec.PeekKind(); {
			case kind == '{' && w.v.spec.Category == 1 && key == "fields":
				return w.object(false) && w.onlyMember()
			case kind == '[' && w.v.spec.Category == 2 && key == "answers":
				return w.list() && w.onlyMember()
			}
		}
		if i := w.item(key); i < 0 || !w.value(i) {
			return false
		}
	}
	return true
}

func (w *answerWalk) onlyMember() bool {
	if w.more() {
		return w.fail(ReasonUnknownName, -1)
	}
	return true
}

// list reads a list of {id, answer}.
func (w *answerWalk) list() bool {
	if !w.enter('[') {
		return false
	}
	for w.more() {
		if !w.enter('{') {
			return false
		}
		var answer jsontext.Value
		found, members, judged := -1, 0, false
		for ; w.more(); members++ {
			switch key := w.name(); {
			case key == "id" && w.dec.PeekKind() != '"':
				return w.fail(ReasonType, -1)
			case key == "id":
				if found = w.item(w.name()); found < 0 {
					return false
				}
			case key == "answer":
				value, _ := w.dec.ReadValue()
				answer = value.Clone()
				if judged = found >= 0; judged && !w.judge(found, answer) {
					return false
				}
			default:
				return w.fail(ReasonUnknownName, -1)
			}
		}
		if members != 2 || found < 0 || answer == nil {
			return w.fail(ReasonUnknownName, -1)
		}
		if !judged && !w.judge(found, answer) { // the answer came before its id
			return false
		}
	}
	return true
}

// item finds an item that was not answered yet by its name; it is below 0 for others.
func (w *answerWalk) item(name string) int {
	i := slices.IndexFunc(w.v.items, func(it item) bool { return it.name == name })
	if i < 0 || w.seen&(1<<i) != 0 {
		w.fail(ReasonUnknownName, -1)
		return -1
	}
	w.seen |= 1 << i
	return i
}

// value reads and checks the value of item i.
func (w *answerWalk) value(i int) bool {
	value, _ := w.dec.ReadValue()
	return w.judge(i, value)
}

// judge checks a value of item i.
func (w *answerWalk) judge(i int, given jsontext.Value) bool {
	it, value, kind := &w.v.items[i], &w.answers[i], given.Kind()
	switch {
	case kind == '"' && (!it.typed || it.kind == FormatEnum || it.kind == formatSealed):
		raw, err := jsontext.AppendUnquote(nil, given)
		switch {
		case err != nil:
			return w.fail(ReasonMalformed, i)
		case it.kind == FormatEnum:
			return w.enum(i, raw)
		}
		return w.text(i, raw)
	case (kind == 't' || kind == 'f') && it.kind == FormatBoolean:
		return value.setBool(kind == 't')
	case kind == '0' && it.kind == FormatInteger:
		n, err := strconv.ParseInt(string(given), 10, 64)
		return err == nil && w.integer(i, n) || w.fail(ReasonRange, i)
	}
	return w.fail(ReasonType, i)
}

// enum finds the value that the answer names, byte for byte in NFC.
func (w *answerWalk) enum(i int, raw []byte) bool {
	it := &w.v.items[i]
	raw = norm.NFC.Bytes(raw)
	for n, allowed := range it.values {
		if allowed == string(raw) {
			w.answers[i].n = int64(n)
			return true
		}
	}
	return w.fail(ReasonValue, i)
}

// text checks a string against the item's format.
func (w *answerWalk) text(i int, raw []byte) bool {
	it, value := &w.v.items[i], &w.answers[i]
	switch it.kind {
	case formatSealed: // as it is: what it says, no rule looks at
		if int64(len(raw)) > it.max {
			return w.fail(ReasonTooLarge, i)
		}
		value.from = len(w.norm) + 1
		w.norm = appendQuoted(w.norm, raw)
		value.to = len(w.norm) - 1
		return true
	case FormatPersonName, FormatShortText, FormatShortList, FormatSummary, FormatVocabulary:
		result, err := text.Normalise(w.norm, raw, it.options)
		if err != nil {
			return w.fail(textReason(err), i)
		}
		value.from, value.to = len(w.norm), len(result.Text)
		w.norm = result.Text
		if it.kind == FormatVocabulary {
			return text.AllIn(w.norm[value.from:], it.values) || w.fail(ReasonValue, i)
		}
		w.anomalies |= result.Anomalies
		if !result.Prose && (guard.HasSecret(raw) || guard.HasSecret(w.norm[value.from:value.to])) {
			w.anomalies |= text.Secret
		}
		return true
	}
	if text.Fields(raw) > it.maxWords {
		return w.fail(ReasonWords, i)
	}
	switch it.kind {
	case FormatDate:
		date, err := text.ParseDate(raw)
		if err != nil {
			return w.fail(ReasonFormat, i)
		}
		if date.HasYear && (int64(date.Year) < it.min || int64(date.Year) > it.max) {
			return w.fail(ReasonRange, i)
		}
		value.date = Date{Year: date.Year, Month: date.Month, Day: date.Day}
		value.from = len(w.norm)
		w.norm = date.Append(w.norm)
	case FormatTime:
		clock, err := text.ParseTime(raw)
		if err != nil {
			return w.fail(ReasonFormat, i)
		}
		value.from = len(w.norm)
		w.norm = clock.Append(w.norm)
	case FormatEmail:
		value.from = len(w.norm)
		address, err := text.ParseEmail(w.norm, raw, it.options.MaxChars)
		if err != nil {
			return w.fail(textReason(err), i)
		}
		w.norm = address
		w.anomalies |= w.v.settings.Rules.Screen(nil, spaced(address, value.from)).InName()
	case FormatInteger:
		n, err := text.ParseInteger(raw)
		if err != nil {
			return w.fail(ReasonFormat, i)
		}
		return w.integer(i, n)
	case FormatBoolean:
		b, err := text.ParseBoolean(raw)
		return (err == nil || w.fail(ReasonFormat, i)) && value.setBool(b)
	default:
		return w.fail(ReasonType, i)
	}
	value.to = len(w.norm)
	return true
}

// spaced returns the address text[from:] as words, after text, so that it
// cannot spell instructions; that it looks like an address is no anomaly.
func spaced(text []byte, from int) []byte {
	words := append(text, text[from:]...)[len(text):]
	for i, c := range words {
		if !isLower(c) && !isDigit(c) {
			words[i] = ' '
		}
	}
	return words
}

func (w *answerWalk) integer(i int, n int64) bool {
	if it := &w.v.items[i]; n < it.min || n > it.max {
		return w.fail(ReasonRange, i)
	}
	w.answers[i].n = n
	return true
}

func (value *answerValue) setBool(b bool) bool {
	if b {
		value.n = 1
	}
	return true
}

// compare raises the anomalies that need several answers: constraints that do
// not hold (PROTOCOL P3.7), redundant answers that differ (P3.8).
func (w *answerWalk) compare() {
	items := w.v.items
	for i := range items {
		if j := items[i].sameAs; j >= 0 && !w.same(i, j) {
			w.anomalies |= text.Divergent
		}
	}
	if len(w.v.constraints) == 0 {
		return
	}
	values := w.values()
	for _, c := range w.v.constraints {
		if holds, err := c.Holds(values); err != nil || !holds {
			w.anomalies |= text.Inconsistent
		}
	}
}

// passes reports whether publish_when holds; where it has no result it does not.
func (w *answerWalk) passes() bool {
	if w.v.filter == nil {
		return true
	}
	holds, err := w.v.filter.Holds(w.values())
	return err == nil && holds
}

// values returns all answers as conditions see them.
func (w *answerWalk) values() []Value {
	values := make([]Value, len(w.v.items))
	for i := range values {
		values[i] = w.typed(i)
	}
	return values
}

// typed returns item i as constraints see it.
func (w *answerWalk) typed(i int) Value {
	it, value := &w.v.items[i], &w.answers[i]
	typed := Value{Kind: it.valueKind()}
	switch typed.Kind {
	case KindBool:
		typed.Bool = value.n != 0
	case KindInt:
		typed.Int = value.n
	case KindDate:
		typed.Date = value.date
	default:
		typed.Text = w.delivered(i)
	}
	return typed
}

func (w *answerWalk) same(i, j int) bool {
	switch w.v.items[i].kind {
	case FormatInteger, FormatBoolean:
		return w.answers[i].n == w.answers[j].n
	default:
		return w.delivered(i) == w.delivered(j)
	}
}

// delivered returns the text of item i; integers and booleans have none.
func (w *answerWalk) delivered(i int) string {
	it, value := &w.v.items[i], &w.answers[i]
	if it.kind == FormatEnum {
		return it.values[value.n]
	}
	return string(w.norm[value.from:value.to])
}

// fail notes the first reason; i is -1 where it is about the whole answer.
func (w *answerWalk) fail(reason Reason, i int) bool {
	if w.reason == 0 {
		w.reason = reason
		if i >= 0 {
			w.field = w.v.items[i].name
		}
	}
	return false
}

// textReasons are those of the refusals of package text; of others it is [ReasonCharacters].
var textReasons = map[error]Reason{
	text.ErrEmpty: ReasonEmpty, text.ErrTooManyWords: ReasonWords, text.ErrWordTooLong: ReasonWordLength, text.ErrTooLong: ReasonLength,
	text.ErrAlphabet: ReasonAlphabet, text.ErrMixedScript: ReasonScript, text.ErrLookAlike: ReasonLook, text.ErrName: ReasonFormat, text.ErrEmail: ReasonFormat,
}

func textReason(err error) Reason { return cmp.Or(textReasons[err], ReasonCharacters) }

// screened reports whether the anomaly rules look at the item's answers.
func (it *item) screened() bool {
	return slices.Contains([]Format{FormatPersonName, FormatShortText, FormatShortList, FormatEmail, FormatSummary}, it.kind)
}
