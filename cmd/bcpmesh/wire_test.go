package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	wireDocument = "docs/wire.md"
	wireSchema   = "docs/wire.schema.json"
)

// messageSchemas are the schemas of docs/wire.schema.json, by name.
func messageSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	content := readFile(t, filepath.Join("../..", wireSchema))
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	noError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	noError(t, compiler.AddResource("wire.json", document))
	schemas := map[string]*jsonschema.Schema{}
	for name := range document.(map[string]any)["$defs"].(map[string]any) {
		if schemas[name], err = compiler.Compile("wire.json#/$defs/" + name); err != nil {
			t.Fatal(err)
		}
	}
	return schemas
}

func fits(t *testing.T, schema *jsonschema.Schema, message []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(message))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// sent are the messages that agents send: how the gateway reads them.
var sent = map[string]func([]byte) bcp.Code{
	"query_request": func(b []byte) bcp.Code {
		ask, code := bcp.ParseAsk(b, bcp.JSON, "researcher")
		if code != "" {
			return code
		}
		if _, err := bcp.Compile(ask.Spec, bcp.Settings{}); err != nil || ask.Escalation != nil && ask.Escalation.Justification == "" {
			return bcp.InvalidQuery
		}
		return ""
	},
	"session": func(b []byte) bcp.Code {
		m, code := bcp.ParseSession(b, bcp.JSON)
		if code != "" || m.Proposal == nil {
			return code
		}
		_, reader := bcp.ParseAgentName(string(m.Proposal.Reader))
		_, id := bcp.ParseSubscriptionID(string(m.Proposal.Subscription.ID))
		_, spec := bcp.Compile(m.Proposal.Subscription.Spec, bcp.Settings{})
		if errors.Join(reader, id, spec) != nil {
			return bcp.InvalidQuery
		}
		return ""
	},
	"approval":    func(b []byte) bcp.Code { _, code := bcp.ParseApproval(b); return code },
	"endorsement": func(b []byte) bcp.Code { _, code := bcp.ParseEndorsement(bcp.Endorse, b); return code },
	"response":    func(b []byte) bcp.Code { _, code := bcp.ParseResponse(b, bcp.JSON); return code },
}

// got are the messages that agents get: what the gateway writes them from.
var got = map[string]func() any{
	"accepted":             func() any { return new(bcp.Accepted) },
	"refusal":              func() any { return new(bcp.Refusal) },
	"query":                func() any { return new(bcp.Query) },
	"validation_result":    func() any { return new(bcp.ValidationResult) },
	"response_delivery":    func() any { return new(bcp.Delivery) },
	"subscriptions_active": func() any { return new(bcp.SubscriptionsActive) },
	"session_receipt": func() any {
		return new(struct {
			Session bcp.SessionID `json:"session_id"`
		})
	},
	"channels":     func() any { return new(bcp.Channels) },
	"item_list":    func() any { return new(wireItems) },
	"item_view":    func() any { return new(bcp.ItemView) },
	"proposed":     func() any { return new(bcp.Proposed) },
	"decided":      func() any { return new(bcp.Decided) },
	"edit_preview": func() any { return new(bcp.EditPreview) },
	"prompt":       func() any { return new(bcp.Prompt) },
	"alert":        func() any { return new(bcp.Alert) },
}

type wireItems struct {
	Items        []bcp.Item            `json:"items"`
	Endorsements []bcp.EndorsementView `json:"endorsements,omitempty"`
}

// personal are the messages of people, who speak JSON.
var personal = []string{"alert", "item_list", "item_view", "decided", "edit_preview"}

// examplesOf are the messages of the document, by name.
func examplesOf(t *testing.T) map[string][][]byte {
	t.Helper()
	examples := map[string][][]byte{}
	for _, b := range blocksOf(t, wireDocument) {
		if name, ok := strings.CutPrefix(b.language, "json "); ok {
			examples[name] = append(examples[name], []byte(strings.Join(b.lines, "\n")))
		}
	}
	return examples
}

// What the document shows is what its schema says, and what the code reads or
// writes, in both encodings.
//
// covers P2.1, P2.2
func TestWireExamples(t *testing.T) {
	t.Parallel()
	schemas, examples := messageSchemas(t), examplesOf(t)
	for name := range maps.Keys(sent) {
		failIf(t, len(examples[name]) == 0, "%s has no example", name)
	}
	for name, list := range examples {
		for _, message := range list {
			expect(t, fits(t, schemas[name], message), nil, "%s: %s", name, message)
			packed, err := wire.MsgpackFromJSON(nil, message)
			failIf(t, err != nil, "%s: as MessagePack: %v", name, err)
			if parse, ok := sent[name]; ok {
				expect(t, parse(message), "", "%s: %s", name, message)
				back, err := wire.JSONFromMsgpack(nil, packed)
				failIf(t, err != nil || parse(back) != "", "%s: from MessagePack: %v", name, err)
				continue
			}
			value := got[name]()
			if err := bcp.Decode(message, bcp.JSON, value); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			again, err := bcp.Encode(value, bcp.JSON)
			want := jsontext.Value(bytes.Clone(message))
			noError(t, want.Compact())
			failIf(t, err != nil || string(again) != string(want), "%s: written as\n%s\nnot\n%s\n%v", name, again, want, err)
			expect(t, bcp.Decode(packed, bcp.MessagePack, got[name]()), nil, "%s: from MessagePack", name)
		}
	}
}

// changed returns a message with every change of one place: a key left out, a
// key more, a value of another type or beyond its range.
func changed(message any) []any {
	var list []any
	values := []any{nil, true, -1, 1.5, "", "x y", "\u00e9", []any{}, map[string]any{}, []any{"x"}, strings.Repeat("x", 65)}
	switch m := message.(type) {
	case map[string]any:
		for key, value := range m {
			without := maps.Clone(m)
			delete(without, key)
			list = append(list, without)
			for _, other := range append(changed(value), values...) {
				with := maps.Clone(m)
				with[key] = other
				list = append(list, with)
			}
		}
		for _, key := range []string{"more", "query_id", "subscription_id", "controller", "push_id", "summary", "response", "not_enough_information", "taint", "target"} {
			if _, has := m[key]; !has {
				with := maps.Clone(m)
				with[key] = "x"
				list = append(list, with)
			}
		}
	case []any:
		list = append(list, append(slices.Clone(m), "x"))
		for i, value := range m {
			list = append(list, slices.Delete(slices.Clone(m), i, i+1))
			for _, other := range changed(value) {
				with := slices.Clone(m)
				with[i] = other
				list = append(list, with)
			}
		}
	}
	return list
}

// What the gateway takes fits its schema: whoever sends by the schema alone sends
// nothing that it would not read. The message that a Reader sends is refused by its
// schema wherever the gateway calls it malformed.
//
// covers P2.2
func TestWireSchemaIsNoStricterThanTheCode(t *testing.T) {
	t.Parallel()
	schemas, examples := messageSchemas(t), examplesOf(t)
	for name, parse := range sent {
		taken, refusedBoth := 0, 0
		for _, example := range examples[name] {
			var message any
			noError(t, json.Unmarshal(example, &message))
			for _, other := range changed(message) {
				text := must(json.Marshal(other, json.Deterministic(true)))(t)
				code, err := parse(text), fits(t, schemas[name], text)
				switch {
				case code == "" && err != nil:
					t.Errorf("%s: %s is read, and its schema says: %v", name, text, err)
				case code == "":
					taken++
				case err != nil:
					refusedBoth++
				case name == "response":
					t.Errorf("%s is %s, and fits its schema", text, code)
				}
			}
		}
		failIf(t, taken == 0 || refusedBoth < 50, "%s: %d changes are taken, %d refused by both", name, taken, refusedBoth)
	}
}

// The tables of the document are the code's: -update writes them.
//
// covers BCP-7, BCP-10, SUB-9
func TestWireTables(t *testing.T) {
	t.Parallel()
	file := filepath.Join("../..", wireDocument)
	content := readFile(t, file)
	page := string(content)
	for name, table := range map[string]string{"subjects": subjectTable(), "codes": codeTable()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		old, after, ok2 := strings.Cut(rest, end)
		stopIf(t, !ok || !ok2, "%s has no place for %s", wireDocument, name)
		failIf(t, old != table && !*update, "%s: the table of %s is\n%s\nnot\n%s", wireDocument, name, table, old)
		page = before + begin + table + end + after
	}
	if *update {
		noError(t, os.WriteFile(file, []byte(page), 0o644))
	}
}

func subjectTable() string {
	scopes := subjects.Permissions(&bcp.Mesh{
		Approvers: []bcp.AgentName{"kim"},
		Agents:    []bcp.Agent{{Name: "main", Controller: true}, {Name: "researcher", Reader: true}},
		Channels: []bcp.Channel{{
			ChannelKey:    bcp.ChannelKey{Controller: "main", Reader: "researcher"},
			Subscriptions: []bcp.Subscription{{ID: "findings"}},
		}},
	})
	var b strings.Builder
	b.WriteString("\n| who | may publish | may subscribe to |\n|---|---|---|\n")
	for _, s := range scopes {
		if s.Role == bcp.RoleOperator {
			continue // its subjects are between parts of the program
		}
		publish := slices.Clone(s.PubAllow)
		if s.Respond {
			publish = append(publish, "one message to each reply subject that it gets")
		}
		fmt.Fprintf(&b, "| %s (%s) | %s | %s |\n", s.Agent, s.Role, cells(publish), cells(s.SubAllow))
	}
	return b.String() + "\n"
}

func cells(list []string) string {
	var quoted []string
	for _, s := range list {
		if !strings.Contains(s, " ") {
			s = "`" + s + "`"
		}
		quoted = append(quoted, s)
	}
	return strings.Join(quoted, "<br>")
}

func codeTable() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, line := range bcp.Catalogue() {
		var who []string
		for _, a := range []struct {
			to   bcp.Audience
			name string
		}{{bcp.ToReader, "Reader"}, {bcp.ToController, "Controller"}, {bcp.ToApprover, "approver"}} {
			switch {
			case line.To&a.to == 0:
			case a.to == bcp.ToController && line.Outcome:
				who = append(who, "*Controller*")
			default:
				who = append(who, a.name)
			}
		}
		again := ""
		if line.Retry {
			again = "again; "
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s%s\n", line.Code, strings.Join(who, ", "), again, line.Decision)
	}
	return b.String() + "\n"
}

// Whatever key a message may have stands in its schema.
//
// covers P2.1
func TestWireSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	schemas := messageSchemas(t)
	types := map[string]reflect.Type{"query_request": reflect.TypeFor[bcp.Ask](), "session": reflect.TypeFor[bcp.Session](), "response": reflect.TypeFor[bcp.Response](),
		"active_subscription": reflect.TypeFor[bcp.ActiveSubscription](), "field": reflect.TypeFor[bcp.Field](), "question": reflect.TypeFor[bcp.Question](), "approval": reflect.TypeFor[bcp.Approval](), "assertion": reflect.TypeFor[bcp.Assertion](), "item": reflect.TypeFor[bcp.Item](), "pushed": reflect.TypeFor[bcp.Pushed](), "proposed_subscription": reflect.TypeFor[bcp.ProposedSubscription](), "spec": reflect.TypeFor[bcp.Spec](),
		"asked_field": reflect.TypeFor[bcp.Field](), "asked_question": reflect.TypeFor[bcp.Question](), "asked_spec": reflect.TypeFor[bcp.Spec]()}
	for name, value := range got {
		types[name] = reflect.TypeOf(value()).Elem()
	}
	for name, message := range types {
		keys := keysOf(message)
		for _, key := range keys {
			failIf(t, schemas[name].Properties[key] == nil, "%s: the schema has no %s", name, key)
		}
		if more := len(schemas[name].Properties) - len(keys); more > 0 && name != "response" { // whose answer has four spellings
			t.Errorf("%s: the schema has %d keys that the code does not have", name, more)
		}
	}
}

func keysOf(message reflect.Type) []string {
	var keys []string
	for field := range message.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous, strings.Contains(options, "inline"):
			keys = append(keys, keysOf(field.Type)...)
		case key != "" && key != "-":
			keys = append(keys, key)
		}
	}
	return keys
}

// withMember returns a message with one member more in each of its objects, but for
// answers, which are data.
func withMember(message any) any {
	switch m := message.(type) {
	case map[string]any:
		with := map[string]any{"later": []any{map[string]any{"x": 1.5}}}
		for key, member := range m {
			if with[key] = member; key != "response" && key != "content" {
				with[key] = withMember(member)
			}
		}
		return with
	case []any:
		with := []any{}
		for _, element := range m {
			with = append(with, withMember(element))
		}
		return with
	}
	return message
}

// An agent that checks what it gets by the schema goes on when a newer gateway adds
// members and words. What agents send has no other members.
//
// covers P2.2, P2.7
func TestWireSchemaIsOpenToWhatAgentsGet(t *testing.T) {
	t.Parallel()
	schemas := messageSchemas(t)
	for name, list := range examplesOf(t) {
		for _, example := range list {
			var message any
			noError(t, json.Unmarshal(example, &message))
			text := must(json.Marshal(withMember(message), json.Deterministic(true)))(t)
			_, fromAgent := sent[name]
			err := fits(t, schemas[name], text)
			failIf(t, (err == nil) == fromAgent, "%s: %s: %v", name, text, err)
		}
	}
	for name, message := range map[string]string{
		"refusal":              `{"error":"too_late","detail":"x"}`,
		"validation_result":    `{"type":"bcp_validation_result","success":false,"status":"parked","code":"too_late","detail":"x"}`,
		"response_delivery":    `{"type":"bcp_response_delivery","delivery_id":"d1","query_id":"q1","category":1,"from_agent":"r","outcome":"deferred","bandwidth_bits":1,"capacity_bits":1,"taint":"extreme","channel_mode":"bcp"}`,
		"query":                `{"type":"bcp_query","query_id":"q1","controller":"main","category":1,"fields":[{"name":"a","type":"colour"}]}`,
		"subscriptions_active": `{"type":"bcp_subscriptions_active","subscriptions":[{"subscription_id":"s","controller":"main","category":2,"questions":[{"id":"a","question":"?","expected_format":"isbn"}]}]}`,
	} {
		expect(t, fits(t, schemas[name], []byte(message)), nil, "%s: %s", name, message)
	}
}

// The schema's codes are the catalogue.
//
// covers P2.5
func TestWireCodesAreTheCatalogue(t *testing.T) {
	t.Parallel()
	schema := messageSchemas(t)["code"]
	for _, line := range bcp.Catalogue() {
		err := schema.Validate(string(line.Code))
		failIf(t, err != nil, "%v", err)
	}
	failIf(t, len(schema.Enum.Values) != len(bcp.Catalogue()),
		"it has %d codes, the catalogue %d", len(schema.Enum.Values), len(bcp.Catalogue()))
}

// An alert about the mesh itself names the gateway, which is no agent's name.
// covers P11.1
func TestWireAlertOfTheMesh(t *testing.T) {
	t.Parallel()
	schema := messageSchemas(t)["alert"]
	for agent, valid := range map[bcp.AgentName]bool{bcp.Gateway: true, "main": true, "": true, "Gateway": false, "a.b": false} {
		alert := bcp.Alert{Type: bcp.TypeAlert, Alert: bcp.AlertDiskLow, Seq: 2, Time: time.Unix(1, 0).UTC(), Agent: agent}
		message := must(bcp.Encode(alert, bcp.JSON))(t)
		err := fits(t, schema, message)
		failIf(t, (err == nil) != valid, "%s: %v", message, err)
	}
}
