package bcp

import (
	"encoding"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// jsonWriter writes the messages that each push and each question has, as the
// library would and a test holds it to: the library looks at their types each
// time.
type jsonWriter struct {
	b   []byte
	err error
}

// usualMessage is the room that most messages need, in bytes.
const usualMessage = 288

// encodeJSON is the canonical JSON of a message (PROTOCOL P2.4).
func encodeJSON(message any) ([]byte, error) {
	w := jsonWriter{b: make([]byte, 0, usualMessage)}
	switch m := message.(type) { // not an interface: others have a Spec inside
	case ValidationResult:
		m.write(&w)
	case Accepted:
		m.write(&w)
	case Delivery:
		m.write(&w)
	case Query:
		m.write(&w)
	case Spec:
		m.write(&w)
	default:
		return json.Marshal(message, json.Deterministic(true), jsontext.AllowInvalidUTF8(false))
	}
	return w.b, w.err
}

func (r *ValidationResult) write(w *jsonWriter) {
	w.open('{')
	w.text("type", r.Type)
	w.word("query_id", string(r.QueryID))
	w.word("subscription_id", string(r.SubscriptionID))
	w.word("push_id", string(r.PushID))
	w.flag("success", r.Success)
	w.text("status", r.Status)
	w.word("code", string(r.Code))
	w.text("detail", r.Detail)
	w.count("retry_after_seconds", r.RetryAfter)
	w.close('}')
}

func (a *Accepted) write(w *jsonWriter) {
	w.open('{')
	w.text("query_id", string(a.QueryID))
	w.bits("nominal_bits", a.NominalBits)
	w.bits("capacity_bits", a.CapacityBits)
	w.bits("remaining_bits", a.RemainingBits)
	w.close('}')
}

func (d *Delivery) write(w *jsonWriter) {
	w.open('{')
	w.text("type", d.Type)
	w.text("delivery_id", string(d.DeliveryID))
	w.word("query_id", string(d.QueryID))
	w.word("subscription_id", string(d.SubscriptionID))
	w.word("run_id", d.RunID)
	w.number("category", int64(d.Category))
	w.text("from_agent", string(d.FromAgent))
	if d.Response != nil {
		w.key("response")
		w.value(d.Response)
	}
	if len(d.Batch) > 0 {
		w.key("batch")
		w.value(d.Batch)
	}
	w.word("outcome", string(d.Outcome))
	w.texts("anomalies", d.Anomalies)
	w.bits("bandwidth_bits", d.BandwidthBits)
	w.bits("capacity_bits", d.CapacityBits)
	w.text("taint", d.Taint.String())
	w.text("channel_mode", d.ChannelMode)
	w.close('}')
}

func (q *Query) write(w *jsonWriter) {
	w.open('{')
	w.text("type", q.Type)
	w.text("query_id", string(q.QueryID))
	w.text("controller", string(q.Controller))
	q.Spec.members(w)
	w.word("instruction", q.Instruction)
	w.word("content", q.Content)
	w.close('}')
}

func (s *Spec) write(w *jsonWriter) {
	w.open('{')
	s.members(w)
	w.close('}')
}

func (s *Spec) members(w *jsonWriter) {
	w.number("category", int64(s.Category))
	if len(s.Fields) > 0 {
		w.key("fields")
		w.open('[')
		for i := range s.Fields {
			f := &s.Fields[i]
			w.open('{')
			w.text("name", f.Name)
			w.named("type", f.Type)
			w.texts("values", f.Values)
			w.limit("min", f.Min)
			w.limit("max", f.Max)
			w.close('}')
		}
		w.close(']')
	}
	if len(s.Questions) > 0 {
		w.key("questions")
		w.open('[')
		for i := range s.Questions {
			s.Questions[i].write(w)
		}
		w.close(']')
	}
	w.word("directive", s.Directive)
	w.count("max_words", int64(s.MaxWords))
	w.choice("requires_approval", s.RequiresApproval)
	w.texts("constraints", s.Constraints)
	w.choice("allow_not_enough_information", s.AllowNotEnoughInformation)
	if s.Arguments != nil {
		w.key("arguments")
		w.value(s.Arguments)
	}
}

func (q *Question) write(w *jsonWriter) {
	w.open('{')
	w.text("id", q.ID)
	w.text("question", q.Question)
	w.count("max_words", int64(q.MaxWords))
	w.named("expected_format", q.ExpectedFormat)
	w.limit("min", q.Min)
	w.limit("max", q.Max)
	w.texts("values", q.Values)
	w.word("vocabulary", q.Vocabulary)
	w.count("max_chars", int64(q.MaxChars))
	w.word("alphabet", q.Alphabet)
	w.word("same_as", q.SameAs)
	w.close('}')
}

// separate puts a comma after what is in the same object or list.
func (w *jsonWriter) separate() {
	if n := len(w.b); n > 0 {
		switch w.b[n-1] {
		case '{', '[', ':':
		default:
			w.b = append(w.b, ',')
		}
	}
}

func (w *jsonWriter) open(c byte) {
	w.separate()
	w.b = append(w.b, c)
}

func (w *jsonWriter) close(c byte) { w.b = append(w.b, c) }

func (w *jsonWriter) key(k string) {
	w.separate()
	w.b = append(append(append(w.b, '"'), k...), '"', ':')
}

func (w *jsonWriter) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b, err := jsontext.AppendQuote(w.b, s)
			if w.b = b; err != nil {
				w.err = err
			}
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

// value writes what the library writes.
func (w *jsonWriter) value(v any) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(false))
	if w.b = append(w.b, b...); err != nil {
		w.err = err
	}
}

func (w *jsonWriter) text(k, v string) {
	w.key(k)
	w.quote(v)
}

// named writes a word of an enumeration; one that has none is an error.
func (w *jsonWriter) named(k string, v encoding.TextMarshaler) {
	word, err := v.MarshalText()
	if w.text(k, string(word)); err != nil {
		w.err = err
	}
}

func (w *jsonWriter) flag(k string, v bool) {
	w.key(k)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *jsonWriter) number(k string, n int64) {
	w.key(k)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *jsonWriter) bits(k string, v Bits) {
	w.key(k)
	w.b = v.Append(w.b)
}

// The members that are left out where they are empty.

func (w *jsonWriter) word(k, v string) {
	if v != "" {
		w.text(k, v)
	}
}

func (w *jsonWriter) count(k string, n int64) {
	if n != 0 {
		w.number(k, n)
	}
}

func (w *jsonWriter) limit(k string, n *int64) {
	if n != nil {
		w.number(k, *n)
	}
}

func (w *jsonWriter) choice(k string, v *bool) {
	if v != nil {
		w.flag(k, *v)
	}
}

func (w *jsonWriter) texts(k string, v []string) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	w.open('[')
	for _, s := range v {
		w.separate()
		w.quote(s)
	}
	w.close(']')
}
