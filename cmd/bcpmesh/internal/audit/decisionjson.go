package audit

import (
	"encoding/hex"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
)

// writeDecisions returns what writes decisions as line does. The bytes of one are the
// room for the next.
func writeDecisions(o *cli.Output) func(*bcp.Decision) error {
	var b []byte
	return func(d *bcp.Decision) error {
		var ok bool
		if b, ok = appendDecision(b[:0], d); !ok {
			return o.Line(d)
		}
		return o.HarmlessLine(b)
	}
}

// appendDecision appends the JSON of a decision, byte by byte what the library
// writes: a test holds it to that. A replay is mostly this, and the library finds
// out anew for every decision which of the members are empty. It is false where
// only the library can say what the JSON is, or that there is none: for rare
// members, words without a meaning and text that is not UTF-8.
func appendDecision(b []byte, d *bcp.Decision) ([]byte, bool) {
	if len(d.Files) > 0 || d.Truncation != nil || d.Credential != nil || d.Egress != nil {
		return b, false
	}
	w := decisionWriter{b: append(b, '{')}
	w.decision(d)
	return append(w.b, '}'), !w.bad
}

// decisionWriter writes the members of an object. What it wrote is worth nothing
// where bad is set.
type decisionWriter struct {
	b   []byte
	bad bool
}

func (w *decisionWriter) key(k string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), k...), `":`...)
}

func (w *decisionWriter) quote(s string) {
	b, err := jsontext.AppendQuote(w.b, s)
	w.b, w.bad = b, w.bad || err != nil
}

func (w *decisionWriter) number(k string, n int64) {
	w.key(k)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *decisionWriter) bits(k string, v bcp.Bits) {
	w.key(k)
	w.b = v.Append(w.b)
}

func (w *decisionWriter) flag(k string, v bool) {
	w.key(k)
	w.b = strconv.AppendBool(w.b, v)
}

// digest writes a digest, and the zero digest as an empty text.
func (w *decisionWriter) digest(k string, v *bcp.Digest) {
	w.key(k)
	w.b = append(w.b, '"')
	if !v.IsZero() {
		w.b = hex.AppendEncode(w.b, v[:])
	}
	w.b = append(w.b, '"')
}

// word writes a value that has a word of its own.
func (w *decisionWriter) word(k string, v interface{ MarshalText() ([]byte, error) }) {
	text, err := v.MarshalText()
	w.bad = w.bad || err != nil
	w.key(k)
	w.b = append(append(append(w.b, '"'), text...), '"')
}

// The members that are left out where they are empty.

func someText[T ~string](w *decisionWriter, k string, v T) {
	if v != "" {
		w.key(k)
		w.quote(string(v))
	}
}

func someNumber[T ~int | ~int64 | ~uint8](w *decisionWriter, k string, v T) {
	if v != 0 {
		w.number(k, int64(v))
	}
}

func someWord[T interface {
	~uint8
	MarshalText() ([]byte, error)
}](w *decisionWriter, k string, v T) {
	if v != 0 {
		w.word(k, v)
	}
}

func (w *decisionWriter) someBits(k string, v bcp.Bits) {
	if v != 0 {
		w.bits(k, v)
	}
}

func (w *decisionWriter) ifTrue(k string, v bool) {
	if v {
		w.flag(k, v)
	}
}

func (w *decisionWriter) someDigest(k string, v *bcp.Digest) {
	if !v.IsZero() {
		w.digest(k, v)
	}
}

func (w *decisionWriter) someTexts(k string, v []string) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	for i, s := range v {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.quote(s)
	}
	w.b = append(w.b, ']')
}

func (w *decisionWriter) balance(k string, v *bcp.Balance) {
	w.key(k)
	w.b = append(w.b, '{')
	w.bits("settled_bits", v.Settled)
	w.bits("reserved_bits", v.Reserved)
	w.bits("pushed_bits", v.Pushed)
	w.bits("settled_capacity_bits", v.SettledCapacity)
	w.bits("reserved_capacity_bits", v.ReservedCapacity)
	w.number("cat2_queries", int64(v.Cat2Queries))
	w.b = append(w.b, '}')
}

// decision writes the members in the order of the type.
func (w *decisionWriter) decision(d *bcp.Decision) {
	w.key("seq")
	w.b = strconv.AppendUint(w.b, d.Seq, 10)
	w.digest("prev", &d.Prev)
	w.number("time", d.Time)
	w.word("kind", d.Kind)
	w.digest("context", &d.Context)
	someText(w, "agent", d.Agent)
	someWord(w, "role", d.Role)
	someText(w, "controller", d.Controller)
	someText(w, "reader", d.Reader)
	someText(w, "session", d.Session)
	w.ifTrue("session_begins", d.SessionBegins)
	w.ifTrue("session_by_delivery", d.SessionByDelivery)
	w.ifTrue("session_renews", d.SessionRenews)
	w.ifTrue("session_ends", d.SessionEnds)
	if d.Epoch != 0 {
		w.key("epoch")
		w.b = strconv.AppendUint(w.b, d.Epoch, 10)
	}
	someText(w, "query_id", d.Query)
	someText(w, "subscription_id", d.Subscription)
	someText(w, "delivery_id", d.Delivery)
	someText(w, "item_id", d.Item)
	someNumber(w, "attempt", d.Attempt)
	someNumber(w, "category", d.Category)
	w.ifTrue("escalation", d.Escalation)
	w.ifTrue("repeat", d.Repeat)
	someWord(w, "verdict", d.Verdict)
	w.ifTrue("unfunded", d.Unfunded)
	someText(w, "code", d.Code)
	someText(w, "field", d.Field)
	someNumber(w, "reason", d.Reason)
	someWord(w, "check", d.Check)
	w.someBits("price_bits", d.Price)
	w.someBits("lacking_bits", d.Lack)
	someText(w, "outcome", d.Outcome)
	w.someTexts("anomalies", d.Anomalies)
	w.ifTrue("flagged", d.Flagged)
	someWord(w, "taint", d.Taint)
	someWord(w, "exposure", d.Exposure)
	w.flag("timing_counted", d.Timing)
	w.ifTrue("prepaid", d.Prepaid)
	w.bits("nominal_bits", d.Nominal)
	w.bits("capacity_bits", d.Capacity)
	w.balance("balance", &d.Balance)
	w.someBits("remaining_bits", d.Remaining)
	someText(w, "justification", d.Justification)
	w.someBits("justification_bits", d.JustificationBits)
	someNumber(w, "deadline", d.Deadline)
	someNumber(w, "release_at", d.Release)
	someNumber(w, "slot_at", d.Slot)
	someNumber(w, "slot_began_at", d.SlotBegan)
	w.someDigest("raw_commitment", &d.RawCommitment)
	w.someDigest("payload_commitment", &d.PayloadCommitment)
	someText(w, "event", d.Event)
	someText(w, "target", d.Target)
	someText(w, "note", d.Note)
	someText(w, "notice_id", d.Notice)
	someNumber(w, "scheduled", d.Scheduled)
	w.someTexts("changes", d.Changes)
	someText(w, "key", d.Key)
	someNumber(w, "signed_until", d.SignedUntil)
	w.ifTrue("unsealed", d.Unsealed)
	someNumber(w, "before", d.Before)
	someNumber(w, "count", d.Count)
	someText(w, "family", d.Family)
	someText(w, "versions", d.Versions)
}
