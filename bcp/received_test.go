package bcp_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// fromTheGateway is one of each message that agents and people get.
func fromTheGateway() []any {
	least, greatest := int64(1), int64(5)
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &greatest}}}
	asked := bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "who", Question: "Who?", MaxWords: 3, ExpectedFormat: bcp.FormatPersonName}}}
	at := time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC)
	return []any{
		&bcp.Query{Type: bcp.TypeQuery, QueryID: "q1", Controller: "main", Spec: asked},
		&bcp.Accepted{QueryID: "q1", NominalBits: 6906890596, CapacityBits: 7906890596, RemainingBits: 493_093109404},
		&bcp.Refusal{Error: bcp.NoChannel, Detail: "no"},
		&bcp.ValidationResult{Type: bcp.TypeValidationResult, QueryID: "q1", Status: bcp.StatusRefused, Code: bcp.ValidationFailed, Detail: "n: is out of range", RetryAfter: 3},
		&bcp.Delivery{Type: bcp.TypeResponseDelivery, DeliveryID: "d1", SubscriptionID: "s", Category: 1, FromAgent: "researcher",
			Batch: []bcp.Pushed{{Response: []byte(`{"n":3}`)}}, Anomalies: []string{"code"}, BandwidthBits: 2321928095, CapacityBits: 3321928095, Taint: bcp.TaintMedium, ChannelMode: "bcp"},
		&bcp.Delivery{Type: bcp.TypeResponseDelivery, DeliveryID: "d1", QueryID: "q1", Category: 1, FromAgent: "researcher", Response: []byte(`{"n":3}`), Taint: bcp.TaintLow, ChannelMode: "bcp"},
		&bcp.SubscriptionsActive{Type: bcp.TypeSubscriptionsActive, Tools: []string{"BCPPublish"},
			Subscriptions: []bcp.ActiveSubscription{{SubscriptionID: "s", Controller: "main", MaxRate: bcp.Rate{Count: 1, Span: time.Hour}, Spec: spec}}},
		&bcp.Prompt{Type: bcp.TypePrompt, PromptID: "d2", Message: "Look.", Time: at},
		&bcp.Alert{Type: bcp.TypeAlert, Alert: bcp.AlertHeld, Seq: 3, Time: at, Controller: "main"},
		&bcp.Channels{Type: bcp.TypeChannels, Channels: []bcp.ChannelView{{Reader: "researcher"}}},
		&bcp.Decided{Item: "i1", Act: bcp.Approve},
	}
}

// later are values of members that a newer gateway may add.
var later = []any{7, "text", true, nil, 1.5, []any{1, "x", nil}, map[string]any{"type": "other", "deep": []any{map[string]any{"x": 0.25}}}}

// extended returns a message with a member more in each of its objects, but for
// answers, which are data.
func extended(message, value any) any {
	switch m := message.(type) {
	case map[string]any:
		with := map[string]any{"a_later_one": value, "zz_later": value}
		for key, member := range m {
			if with[key] = member; key != "response" {
				with[key] = extended(member, value)
			}
		}
		return with
	case []any:
		with := []any{}
		for _, element := range m {
			with = append(with, extended(element, value))
		}
		return with
	}
	return message
}

// An agent reads a message of a newer gateway, which has members that the agent does
// not know, as it reads the one without them: wherever they stand, whatever they are,
// in both encodings.
//
// covers P2.7
func TestUnknownMembersAreIgnored(t *testing.T) {
	t.Parallel()
	for _, message := range fromTheGateway() {
		canonical := must(bcp.Encode(message, bcp.JSON))
		var tree any
		noError(t, json.Unmarshal(canonical, &tree))
		for _, value := range later {
			text := must(json.Marshal(extended(tree, value), json.Deterministic(true)))
			member := must(json.Marshal(value))
			inOrder := append(canonical[:len(canonical)-1:len(canonical)-1], fmt.Sprintf(`,"later":%s}`, member)...)
			for _, text := range [][]byte{text, inOrder} {
				readsAs(t, text, bcp.JSON, message)
				if packed, err := wire.MsgpackFromJSON(nil, text); err == nil {
					readsAs(t, packed, bcp.MessagePack, message)
				} else if value != nil && !strings.Contains(string(text), "null") {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}

func readsAs[M any](t *testing.T, b []byte, encoding bcp.Encoding, want M) {
	t.Helper()
	equal := func(got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%q: %v", b, err)
		} else if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%q (-want +got):\n%s", b, d)
		}
	}
	got := emptyOf(want)
	equal(got, bcp.Decode(b, encoding, got))
	received, err := bcp.Receive(b, encoding)
	if err != nil {
		t.Errorf("%q: %v", b, err)
		return
	}
	var typed struct {
		Type string `json:"type"`
	}
	err = received.Decode(&typed)
	failIf(t, err != nil || typed.Type != received.Type, "%q is of type %q, and says %q, %v", b, received.Type, typed.Type, err)
	got = emptyOf(want)
	equal(got, received.Decode(got))
}

func emptyOf(message any) any { return reflect.New(reflect.TypeOf(message).Elem()).Interface() }

// A word that the agent does not know is kept where it is a code, and is no valid
// member of its list elsewhere; nothing else of the message is lost.
//
// covers P2.7, P8.1
func TestUnknownWordsOfTheGateway(t *testing.T) {
	t.Parallel()
	for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
		read := func(text string, message any) {
			t.Helper()
			b := []byte(text)
			if encoding == bcp.MessagePack {
				var err error
				if b, err = wire.MsgpackFromJSON(nil, b); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, bcp.Decode(b, encoding, message), nil, "%s", text)
		}
		var d bcp.Delivery
		read(`{"type":"bcp_response_delivery","delivery_id":"d1","outcome":"deferred","taint":"extreme","channel_mode":"bcp2"}`, &d)
		failIf(t, d.DeliveryID != "d1" || d.Outcome != "deferred" || d.Taint != bcp.TaintUnknown || d.Taint.String() != "high",
			"a delivery with unknown words is %+v", d)
		var v bcp.ValidationResult
		read(`{"type":"bcp_validation_result","status":"parked","code":"too_late","detail":"x"}`, &v)
		failIf(t, v.Status != "parked" || v.Code != "too_late", "a result with unknown words is %+v", v)
		var list bcp.SubscriptionsActive
		read(`{"type":"bcp_subscriptions_active","subscriptions":[{"subscription_id":"a","controller":"main","max_rate":"1/fortnight","category":1,"fields":[{"name":"n","type":"boolean"}]},`+
			`{"subscription_id":"b","controller":"main","category":1,"fields":[{"name":"n","type":"colour"}]},`+
			`{"subscription_id":"c","controller":"main","category":2,"questions":[{"id":"n","question":"?","expected_format":"isbn"}]}]}`, &list)
		stopIf(t, len(list.Subscriptions) != 3 || list.Subscriptions[0].MaxRate != (bcp.Rate{}),
			"a list with unknown words is %+v", list)
		for i, known := range []bool{true, false, false} {
			if s := list.Subscriptions[i]; s.Spec.Known() != known {
				t.Errorf("%s is known: %t", s.SubscriptionID, !known)
			}
		}
	}
	failIf(t, (&bcp.Spec{}).Known() || (&bcp.Spec{Category: 4}).Known(), "a category that there is not is known")
}

// What is no message at all stays an error: a key twice, broken text, a member of
// another type, the other encoding, an answer's strictness aside.
//
// covers P2.7, A-DUP, A-UTF8
func TestBrokenMessagesOfTheGateway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b        string
		encoding bcp.Encoding
	}{
		"nothing":                           {"", bcp.JSON},
		"a list":                            {`[]`, bcp.JSON},
		"a known key twice":                 {`{"error":"a","error":"b"}`, bcp.JSON},
		"an unknown key twice":              {`{"error":"a","x":1,"x":2}`, bcp.JSON},
		"a key twice inside an unknown one": {`{"error":"a","x":{"y":1,"y":2}}`, bcp.JSON},
		"broken UTF-8":                      {"{\"error\":\"\xff\"}", bcp.JSON},
		"broken UTF-8 in an unknown member": {"{\"x\":\"\xff\"}", bcp.JSON},
		"a member of another type":          {`{"error":7}`, bcp.JSON},
		"something behind it":               {`{"error":"a"}{}`, bcp.JSON},
		"JSON as MessagePack":               {`{"error":"a"}`, bcp.MessagePack},
		"MessagePack as JSON":               {"\x81\xa5error\xa1a", bcp.JSON},
		"a packed key twice":                {"\x82\xa5error\xa1a\xa5error\xa1b", bcp.MessagePack},
		"an unknown packed key twice":       {"\x83\xa5error\xa1a\xa1x\x01\xa1x\x02", bcp.MessagePack},
		"broken packed UTF-8":               {"\x81\xa5error\xa1\xff", bcp.MessagePack},
		"a packed NaN":                      {"\x81\xa1x\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01", bcp.MessagePack},
		"a packed infinity":                 {"\x81\xa1x\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", bcp.MessagePack},
		"a packed length that lies":         {"\x81\xa1x\xdb\xff\xff\xff\xff", bcp.MessagePack},
		"no encoding":                       {`{"error":"a"}`, 0},
	} {
		var r bcp.Refusal
		failIf(t, bcp.Decode([]byte(c.b), c.encoding, &r) == nil, "%s: read as %+v", name, r)
		got, err := bcp.Receive([]byte(c.b), c.encoding)
		failIf(t, err == nil && got.Decode(&r) == nil, "%s: received as %+v", name, r)
	}
	var r bcp.Refusal
	err := bcp.Decode([]byte("\x83\xa5error\xa1a\xa1x\xc0\xa1y\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"), bcp.MessagePack, &r)
	failIf(t, err != nil || r.Error != "a", "nil and a float: %+v, %v", r, err)
}

// A member that the gateway does not know is refused from operators, and from who joins, as it is from agents.
//
// covers P2.2
func TestUnknownMembersAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`{"agent":"main"}`: true, `{"agent":"main","later":1}`: false, `{"agent":"main","agent":"x"}`: false, `{"agent":null}`: false, ``: false} {
		_, ok := bcp.ParseControl([]byte(text))
		failIf(t, ok != want, "an operator's %s: %t", text, ok)
	}
	for text, want := range map[string]bool{
		`{"type":"bcp_join_request","public_key":"U","signature":"YQ=="}`:           true,
		`{"type":"bcp_join_request","public_key":"U","signature":"YQ==","later":1}`: false,
		`{"type":"bcp_join","public_key":"U","signature":"YQ=="}`:                   false,
	} {
		_, ok := bcp.ParseJoinRequest([]byte(text))
		failIf(t, ok != want, "a request to join %s: %t", text, ok)
	}
}

// covers P2.7, A-CRASH
func FuzzReceive(f *testing.F) {
	for _, message := range fromTheGateway() {
		for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
			b := must(bcp.Encode(message, encoding))
			f.Add(b, encoding == bcp.MessagePack)
		}
	}
	f.Add([]byte(`{"t\u0079pe":"bcp_query","x":1.5}`), false)
	f.Fuzz(func(t *testing.T, b []byte, packed bool) {
		encoding := bcp.JSON
		if packed {
			encoding = bcp.MessagePack
		}
		var typed struct {
			Type string `json:"type"`
		}
		failed := bcp.Decode(b, encoding, &typed)
		got, err := bcp.Receive(b, encoding)
		stopIf(t, failed == nil && (err != nil || got.Type != typed.Type),
			"%q is %q, received as %q, %v", b, typed.Type, got.Type, err)
		stopIf(t, failed != nil && err == nil && got.Decode(&typed) == nil, "%q is refused and received", b)
		for _, message := range fromTheGateway() {
			into := emptyOf(message)
			if bcp.Decode(b, encoding, into) != nil {
				continue
			}
			// What was read can be read again, but for words that are not known.
			if again, err := bcp.Encode(into, encoding); err == nil && bcp.Decode(again, encoding, emptyOf(message)) != nil {
				t.Fatalf("%q is written as %q, which is not read", b, again)
			}
		}
	})
}

var noError, fails, failIf, stopIf = bcptest.NoError, bcptest.Fails, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
