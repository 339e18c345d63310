package mcp

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// FuzzArguments reads any bytes as the arguments of each tool: what comes out is a
// valid value or a fault that says what to do, and what is a query goes through the
// gateway's own parser unchanged.
//
// covers P2.2
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"target":"researcher","category":1,"fields":[{"name":"a","type":"boolean"}]}`,
		`{"target":"r","category":2,"max_words":3,"questions":[{"id":"a","question":"b","expected_format":"date"}],"justification":"why","request_id":"x"}`,
		`{"target":"r","category":3,"directive":"x","max_words":5}`, `{"query_id":"q","fields":{"a":true}}`, `{"query_id":"q","answers":[{"id":"a","answer":"b"}]}`,
		`{"query_id":"q","summary":"x"}`, `{"query_id":"q","not_enough_information":true}`, `{"subscription_id":"s","controller":"c","response":{"a":1}}`,
		`{"target":"r","id":"s","category":1,"fields":[{"name":"a","type":"boolean"}],"max_rate":"1/h","batch_window":"5m","publish_when":"a"}`,
		`{"target":"r","target":"s"}`, `{"category":1e2}`, `{"a":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkFault := func(f *fault) {
			bcptest.StopIf(t, f.Code.Info().Code != f.Code || f.Detail == "" || f.Next == "", "%q: %+v", b, f)
		}
		if q, f := parseQuery(b); f != nil {
			checkFault(f)
		} else {
			sent, err := json.Marshal(bcp.Ask{Type: bcp.TypeQueryRequest, Target: q.Target, RequestID: q.RequestID, Spec: q.Spec})
			bcptest.StopIf(t, err != nil, "%q: %v", b, err)
			if _, code := bcp.ParseAsk(sent, bcp.JSON, q.Target); code != "" && len(sent) <= bcp.MaxControllerMessage {
				t.Fatalf("%q: the gateway says %s of %s", b, code, sent)
			}
		}
		if p, f := parseSubscribe(b); f != nil {
			checkFault(f)
		} else {
			sent, err := json.Marshal(bcp.Session{Type: bcp.TypeSession, Verb: bcp.VerbPropose, Proposal: &p})
			bcptest.StopIf(t, err != nil, "%q: %v", b, err)
			if _, code := bcp.ParseSession(sent, bcp.JSON); code != "" && len(sent) <= bcp.MaxControllerMessage {
				t.Fatalf("%q: the gateway says %s of %s", b, code, sent)
			}
		}
		if id, a, f := parseAnswer(b); f != nil {
			checkFault(f)
		} else {
			if _, err := bcp.ParseQueryID(string(id)); err != nil || (a.member == "") != a.unknown {
				t.Fatalf("%q: %q %+v", b, id, a)
			}
			if _, err := json.Marshal(a.value()); err != nil {
				t.Fatalf("%q: the answer cannot be sent: %v", b, err)
			}
		}
		if p, f := parsePublish(b); f != nil {
			checkFault(f)
		} else if p.Response.Kind() != '{' || p.PushID == "" {
			t.Fatalf("%q: %+v", b, p)
		}
	})
}

// Bounds beyond 2^53 are those of the spec.
// covers BCP-121
func TestSchemasAreExact(t *testing.T) {
	t.Parallel()
	least, most := int64(-9007199254740993), int64(9223372036854775807)
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &most}}}
	got, err := json.Marshal(SpecSchema(spec))
	want := `{"type":"object","properties":{"n":{"type":"integer","minimum":-9007199254740993,"maximum":9223372036854775807}},"required":["n"],"additionalProperties":false}`
	bcptest.FailIf(t, err != nil || string(got) != want, "%s, %v, want\n%s", got, err, want)
}
