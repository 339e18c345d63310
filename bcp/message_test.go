package bcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// messages are the seeds' messages, for fuzzing to start from.
var messages = []string{
	`{"type":"bcp_response","query_id":"abc123","response":{"status":"ok"}}`,
	`{"type":"bcp_response","subscription_id":"research-findings","controller":"main","response":{"q1":"a","q2":"b","q3":"4"}}`,
	`{"type":"bcp_response","query_id":"abc123","not_enough_information":true}`,
	`{"type":"bcp_response","query_id":"abc123","answers":[{"id":"q1","answer":"x"}]}`,
	`{"type":"bcp_query_request","target":"researcher","category":1,"fields":[{"name":"b","type":"boolean"}],"request_id":"r1"}`,
	`{"category":3,"directive":"Summarize.","max_words":100,"escalation":{"justification":"because"}}`,
	`{"verb":"open"}`, `{"type":"bcp_session","verb":"close"}`, `{"verb":"taint","taint":{"source":"web"}}`,
}

// parsedAlike is what becomes of a message in JSON, which must be the same in
// MessagePack, and nothing good in the wrong encoding.
func parsedAlike(t *testing.T, message string, parse func([]byte, bcp.Encoding) bcp.Code) bcp.Code {
	t.Helper()
	code := parse([]byte(message), bcp.JSON)
	if packed, err := wire.MsgpackFromJSON(nil, []byte(message)); err == nil && wire.Check([]byte(message)) == nil && len(message) <= bcp.MaxControllerMessage {
		other := parse(packed, bcp.MessagePack)
		failIf(t, other != code, "%.80s: %q in JSON and %q in MessagePack", message, code, other)
		if sniffed := parse(packed, bcp.JSON); sniffed != bcp.Malformed && sniffed != bcp.MessageTooLarge {
			t.Errorf("%.80s: MessagePack was taken for JSON: %q", message, sniffed)
		}
		if sniffed := parse([]byte(message), bcp.MessagePack); sniffed != bcp.Malformed && sniffed != bcp.MessageTooLarge {
			t.Errorf("%.80s: JSON was taken for MessagePack: %q", message, sniffed)
		}
	}
	none := parse([]byte(message), 0)
	failIf(t, none != bcp.Malformed && none != bcp.MessageTooLarge, "%.80s: read without an encoding: %q", message, none)
	return code
}

// A Reader's message is exactly one of the seeds' forms.
//
// covers BCP-130, BCP-131, BCP-132, BCP-133, SUB-56, SUB-57, SUB-58, SUB-59, SUB-60, P2.1, P2.2, P3.9, C-4, A-SPOOF, A-SNIFF, A-SUBJTOK
func TestParseResponse(t *testing.T) {
	t.Parallel()
	id64 := strings.Repeat("a", 64)
	for message, want := range map[string]bcp.Code{
		messages[0]: "", messages[1]: "", messages[2]: "", messages[3]: "",
		`{"query_id":"q","type":"bcp_response","fields":{"a":true}}`:                                      "",
		`{"type":"bcp_response","query_id":"q","summary":"x"}`:                                            "",
		`{"type":"bcp_response","query_id":"q","response":[1]}`:                                           "", // for the validator to refuse
		`{"type":"bcp_response","query_id":"` + id64 + `","summary":"x"}`:                                 "",
		`{"type":"bcp_response","query_id":"` + id64 + `a","summary":"x"}`:                                bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","controller":"main","push_id":"p_1","summary":"x"}`: "",
		`{"type":"bcp_response","query_id":"q"}`:                                                          bcp.Malformed,
		`{"type":"bcp_response","response":{}}`:                                                           bcp.Malformed,
		`{"query_id":"q","response":{}}`:                                                                  bcp.Malformed,
		`{"type":"bcp_query","query_id":"q","response":{}}`:                                               bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"summary":"x"}`:                              bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","fields":{},"answers":[]}`:                                 bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"not_enough_information":true}`:              bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","not_enough_information":false}`:                           bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","not_enough_information":"true"}`:                          bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"not_enough_information":false}`:             bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","not_enough_information":true,"why":"x"}`:                  bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","subscription_id":"s","controller":"main","response":{}}`:  bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","response":{}}`:                                     bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","controller":"main","response":{}}`:                        bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","push_id":"p","response":{}}`:                              bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","controller":"main","not_enough_information":true}`: bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"a_b","controller":"main","response":{}}`:               bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"a.b","controller":"main","response":{}}`:               bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"*","controller":"main","response":{}}`:                 bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","controller":"Main","response":{}}`:                 bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","controller":"gateway","response":{}}`:              bcp.Malformed,
		`{"type":"bcp_response","subscription_id":"s","controller":"a.>","response":{}}`:                  bcp.Malformed,
		`{"type":"bcp_response","query_id":"","response":{}}`:                                             bcp.Malformed,
		`{"type":"bcp_response","query_id":"q q","response":{}}`:                                          bcp.Malformed,
		`{"type":"bcp_response","query_id":1,"response":{}}`:                                              bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","query_id":"q","response":{}}`:                             bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{"a":1,"a":1}}`:                                 bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{"a":null}}`:                                    bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{"a":1.0}}`:                                     bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"taint":"low"}`:                              bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"from_agent":"x"}`:                           bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","response":{},"requires_approval":false}`:                  bcp.Malformed,
		`{"Type":"bcp_response","query_id":"q","response":{}}`:                                            bcp.Malformed,
		`{"type":"bcp_response","query_id":"q","Response":{}}`:                                            bcp.Malformed,
		messages[0] + " ": "", messages[0] + "\n": "", messages[0] + "{}": bcp.Malformed, "\ufeff" + messages[0]: bcp.Malformed,
		`[` + messages[0] + `]`: bcp.Malformed, `"bcp_response"`: bcp.Malformed, `null`: bcp.Malformed, `{}`: bcp.Malformed, ``: bcp.Malformed,
	} {
		got := parsedAlike(t, message, func(b []byte, e bcp.Encoding) bcp.Code {
			in, code := bcp.ParseResponse(b, e)
			failIf(t, cmp.Equal(in, bcp.Incoming{}, cmp.AllowUnexported(bcp.RawAnswer{})) != (code != ""),
				"%s: %q and %+v", message, code, in)
			return code
		})
		expect(t, got, want, "%s", message)
	}
}

// An ask is the seed's request and the keys of PROTOCOL, to its own Reader.
//
// covers BCP-122, BCP-123, BCP-124, BCP-125, BCP-126, BCP-127, BCP-21, P2.1, P2.2, P2.6, A-ZEROW, A-SNIFF
func TestParseAsk(t *testing.T) {
	t.Parallel()
	boolean := `"category":1,"fields":[{"name":"b","type":"boolean"}]`
	for message, want := range map[string]bcp.Code{
		messages[4]: "", messages[5]: "", `{` + boolean + `}`: "",
		`{"type":"bcp_query","target":"researcher",` + boolean + `}`:       bcp.Malformed,
		`{"target":"other",` + boolean + `}`:                               bcp.Malformed,
		`{"request_id":"r 1",` + boolean + `}`:                             bcp.Malformed,
		`{"request_id":"` + strings.Repeat("r", 64) + `",` + boolean + `}`: "",
		`{"request_id":"` + strings.Repeat("r", 65) + `",` + boolean + `}`: bcp.Malformed,
		`{` + boolean + `,"category":1}`:                                   bcp.Malformed,
		`{` + boolean + `,"min":null}`:                                     bcp.Malformed,
		`{` + boolean + `,"extra":1}`:                                      bcp.InvalidQuery,
		`{` + boolean + `,"Category":1}`:                                   bcp.InvalidQuery,
		`{"category":"1","fields":[]}`:                                     bcp.InvalidQuery,
		`{"category":1.5,"fields":[]}`:                                     bcp.Malformed,
		`{"category":-1,"fields":[]}`:                                      bcp.InvalidQuery,
		`{"category":256,"fields":[]}`:                                     bcp.InvalidQuery,
		`{"category":1,"fields":{}}`:                                       bcp.InvalidQuery,
		`{"category":1,"fields":[{"name":"b","type":"float"}]}`:            bcp.InvalidQuery,
		`{"category":2,"max_words":0,"questions":[]}`:                      bcp.InvalidQuery,
		`{"category":3,"directive":"0","max_words":5}`:                     "",
		`{"category":3,"directive":"","max_words":5}`:                      bcp.InvalidQuery,
		`{"category":2,"max_words":5,"questions":[{"id":"a","question":"What?","max_words":0,"expected_format":"date"}]}`:       bcp.InvalidQuery,
		`{"category":2,"questions":[{"id":"a","question":"What?","max_words":1,"max_chars":0,"expected_format":"short_text"}]}`: bcp.InvalidQuery,
		`[]`: bcp.InvalidQuery, ``: bcp.Malformed, `{`: bcp.Malformed,
		`{` + boolean + `}` + strings.Repeat(" ", bcp.MaxControllerMessage): bcp.MessageTooLarge,
	} {
		got := parsedAlike(t, message, func(b []byte, e bcp.Encoding) bcp.Code {
			_, code := bcp.ParseAsk(b, e, "researcher")
			return code
		})
		expect(t, got, want, "%.80s", message)
	}
	atLimit := `{` + boolean + `}`
	atLimit += strings.Repeat(" ", bcp.MaxControllerMessage-len(atLimit))
	_, code := bcp.ParseAsk([]byte(atLimit), bcp.JSON, "researcher")
	failIf(t, code != "", "an ask at the limit: %q", code)
}

// covers P9.2, P2.2, P2.1
func TestParseSession(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bcp.Code{
		messages[6]: "", messages[7]: "", `{"verb":"close"}`: "",
		`{}`: bcp.Malformed, `{"verb":"Open"}`: bcp.Malformed, `{"verb":"renew"}`: bcp.Malformed, `{"verb":1}`: bcp.Malformed, `{"verb":""}`: bcp.Malformed,
		`{"type":"bcp_query","verb":"open"}`: bcp.Malformed, `{"verb":"open","force":true}`: bcp.Malformed, `{"verb":"open","verb":"open"}`: bcp.Malformed,
		`"open"`: bcp.Malformed, ``: bcp.Malformed, `{"verb":"open"}` + strings.Repeat(" ", bcp.MaxControllerMessage): bcp.MessageTooLarge,
	} {
		got := parsedAlike(t, message, func(b []byte, e bcp.Encoding) bcp.Code {
			_, code := bcp.ParseSession(b, e)
			return code
		})
		expect(t, got, want, "%.80s", message)
	}
}

// What the gateway sends is read by the SDK as it was, in both encodings, and
// is the same bytes each time.
//
// covers P2.1, P2.4, BCP-128, BCP-137, SUB-2
func TestMessagesOfTheGateway(t *testing.T) {
	t.Parallel()
	for _, message := range fromTheGateway() {
		for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
			b, read := must(bcp.Encode(message, encoding)), emptyOf(message)
			readsAs(t, b, encoding, message)
			noError(t, bcp.Decode(b, encoding, read))
			expect(t, string(must(bcp.Encode(read, encoding))), string(b), "%T in %s is written again as", message, encoding)
		}
	}
	_, err := bcp.Encode(bcp.Session{Verb: "open"}, 0)
	failIf(t, err == nil, "a message was written without an encoding")
}

// A push is the message of an answer with another identifier, and is delivered
// and judged by the messages of an answer: the list of subscriptions is the one
// message that pushes add.
//
// covers SUB-14, SUB-134
func TestPushesAddOneMessage(t *testing.T) {
	t.Parallel()
	const push = `{"type":"%s","subscription_id":"s","controller":"main","response":{"n":3}}`
	in, code := bcp.ParseResponse(fmt.Appendf(nil, push, bcp.TypeResponse), bcp.JSON)
	failIf(t, code != "" || in.SubscriptionID != "s" || in.QueryID != "", "a push is %+v, %s", in, code)
	for _, other := range []string{"bcp_publish", bcp.TypeSubscriptionsActive, bcp.TypeQuery, bcp.TypeResponseDelivery, ""} {
		_, code := bcp.ParseResponse(fmt.Appendf(nil, push, other), bcp.JSON)
		failIf(t, code != bcp.Malformed, "a push of type %q is heard as %q", other, code)
	}
	pushed := bcp.Decision{Kind: bcp.KindPush, Verdict: bcp.Accept, Subscription: "s", Delivery: "d1", Controller: "main", Reader: "r", Category: 1, Private: bcp.Private{Payload: []byte(`{"n":3}`)}}
	if d, ok := pushed.Message(); !ok || d.Type != bcp.TypeResponseDelivery || d.SubscriptionID != "s" || d.QueryID != "" {
		t.Errorf("a push is delivered as %+v", d)
	}
}

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", fmt.Sprintf(what, args...), got, want)
	}
}
