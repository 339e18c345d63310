package bcp_test

import (
	"encoding"
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A forgotten field denies: the zero value of each type is refused by whatever
// takes one, and is no word of the wire.
//
// covers BCP-21, BCP-38, P3.6, P8.1
func TestZeroValuesDeny(t *testing.T) {
	t.Parallel()
	boolean := bcp.Field{Name: "b", Type: bcp.TypeBoolean}
	question := bcp.Question{ID: "q", Question: "What?", MaxWords: 1, ExpectedFormat: bcp.FormatShortText}
	v := compiled(bcp.Spec{Category: 1, Fields: []bcp.Field{boolean}}, bcp.Settings{})
	compiles := func(spec bcp.Spec) bool {
		_, err := bcp.Compile(spec, bcp.Settings{})
		return err == nil
	}
	incoming, code := bcp.ParseResponse([]byte(`{"type":"bcp_response","query_id":"q","response":{}}`), bcp.JSON)
	stopIf(t, code != "", "%v", code)
	parses := func(err error) bool { return err == nil }
	for name, allowed := range map[string]bool{
		"Spec":           compiles(bcp.Spec{}),
		"Category":       compiles(bcp.Spec{Fields: []bcp.Field{boolean}}) || bcp.Category(0).Valid(),
		"Field":          compiles(bcp.Spec{Category: 1, Fields: []bcp.Field{{}}}),
		"Type":           compiles(bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b"}}}),
		"Question":       compiles(bcp.Spec{Category: 2, Questions: []bcp.Question{{}}}),
		"Format":         compiles(bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: "What?", MaxWords: 1}}}),
		"Encoding":       v.Validate([]byte(`{"b":true}`), 0).Outcome != bcp.Reject,
		"RawAnswer":      v.Judge(bcp.RawAnswer{}).Outcome != bcp.Reject,
		"Validator":      new(bcp.Validator).Validate(nil, bcp.JSON).Outcome != bcp.Reject || new(bcp.Validator).Judge(incoming.Raw).Outcome != bcp.Reject,
		"Verdict":        bcp.Verdict{}.Outcome == bcp.Accept || bcp.Verdict{}.Outcome == bcp.Hold,
		"Outcome":        bcp.Outcome(0) == bcp.Accept || bcp.Outcome(0) == bcp.Hold || bcp.Outcome(0).String() != "invalid",
		"Answer":         !bcp.Answer{}.IsZero() || len(bcp.Answer{}.JSON()) != 0,
		"OnAnomaly":      bcp.OnAnomaly(0) != bcp.AnomalyHold,
		"Taint":          bcp.Taint(0).String() != "high" || bcp.MaxTaint(0, bcp.TaintLow) != bcp.TaintHigh || bcp.Taint(0).StepDown() != bcp.TaintMedium,
		"Taint, unknown": bcp.Taint(9).String() != "high" || bcp.MaxTaint(9, bcp.TaintLow) != bcp.TaintHigh,
		"Reason":         bcp.Reason(0).Code() != "",
		"Code":           bcp.Code("").Info().Code != bcp.Internal || bcp.Code("made up").Info().Code != bcp.Internal,
		"AgentName":      func() bool { _, err := bcp.ParseAgentName(""); return parses(err) }(),
		"SubscriptionID": func() bool { _, err := bcp.ParseSubscriptionID(""); return parses(err) }(),
		"QueryID":        func() bool { _, err := bcp.ParseQueryID(""); return parses(err) }(),
		"DeliveryID":     func() bool { _, err := bcp.ParseDeliveryID(""); return parses(err) }(),
		"ClientID":       func() bool { _, err := bcp.ParseClientID(""); return parses(err) }(),
		"Session":        func() bool { _, code := bcp.ParseSession([]byte(`{}`), bcp.JSON); return code == "" }(),
		"Ask":            func() bool { _, err := bcp.Compile(bcp.Ask{}.Spec, bcp.Settings{}); return parses(err) }(),
		"Incoming":       func() bool { _, code := bcp.ParseResponse([]byte(`{}`), bcp.JSON); return code == "" }(),
	} {
		failIf(t, allowed, "the zero %s is not refused", name)
	}
	for _, zero := range []encoding.TextMarshaler{bcp.Role(0), bcp.Encoding(0), bcp.Type(0), bcp.Format(0), bcp.Outcome(0), bcp.DecisionKind(0),
		bcp.Role(99), bcp.Encoding(99), bcp.OnAnomaly(99), bcp.Type(99), bcp.Format(99), bcp.Outcome(99), bcp.DecisionKind(99)} {
		word, err := zero.MarshalText()
		failIf(t, err == nil, "%T %d is written as %q", zero, zero, word)
		expect(t, fmt.Sprint(zero), "invalid", "%T %d prints as", zero, zero)
	}
	// The zero Settings hold what is anomalous, fold case, know no vocabulary
	// and take no constraints.
	strict := must(bcp.Compile(bcp.Spec{Category: 2, Questions: []bcp.Question{question}}, bcp.Settings{}))
	expect(t, Describe(strict.Validate([]byte(`{"q":"<b>"}`), bcp.JSON)), "hold\n{\"q\":\"b\"}\nanomalies code",
		"the zero Settings")
	failIf(t, compiles(bcp.Spec{Category: 1, Fields: []bcp.Field{boolean}, Constraints: []string{"b"}}),
		"the zero Settings take constraints")
}

// The words of the wire are read as themselves and in no other spelling.
//
// covers BCP-28, BCP-46, P3.1, P3.2
func TestWords(t *testing.T) {
	t.Parallel()
	for n := 1; n < 256; n++ {
		words(t, bcp.Role(n), func(b []byte) (bcp.Role, error) { var v bcp.Role; err := v.UnmarshalText(b); return v, err })
		words(t, bcp.Encoding(n), func(b []byte) (bcp.Encoding, error) { var v bcp.Encoding; err := v.UnmarshalText(b); return v, err })
		words(t, bcp.OnAnomaly(n-1), func(b []byte) (bcp.OnAnomaly, error) { var v bcp.OnAnomaly; err := v.UnmarshalText(b); return v, err })
		words(t, bcp.Type(n), func(b []byte) (bcp.Type, error) { var v bcp.Type; err := v.UnmarshalText(b); return v, err })
		if bcp.Format(n) != bcp.FormatSummary {
			words(t, bcp.Format(n), func(b []byte) (bcp.Format, error) { var v bcp.Format; err := v.UnmarshalText(b); return v, err })
		}
		if bcp.Taint(n) <= bcp.TaintHigh {
			words(t, bcp.Taint(n), func(b []byte) (bcp.Taint, error) { var v bcp.Taint; err := v.UnmarshalText(b); return v, err })
		}
	}
	var format bcp.Format
	failIf(t, format.UnmarshalText([]byte("summary")) == nil, "a question can ask for a summary")
}

func words[V interface {
	comparable
	encoding.TextMarshaler
}](t *testing.T, v V, parse func([]byte) (V, error)) {
	t.Helper()
	word, err := v.MarshalText()
	if err != nil {
		return
	}
	read, err := parse(word)
	failIf(t, err != nil || read != v, "%q is read as %v, %v", word, read, err)
	for _, other := range []string{"", " " + string(word), string(word) + " ", string(word[:len(word)-1]), string(word[0]-32) + string(word[1:]), string(word) + "\x00"} {
		read, err := parse([]byte(other))
		failIf(t, err == nil, "%q is read as %v", other, read)
	}
}
