package llm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	secret    = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	hidden    = "[REDACTED:github-token]"
	spelled   = `\u0067hp_abcdefghijklmnopqrstuvwxyz012345678\u0039`
	twice     = `\u005cu0067hp_abcdefghijklmnopqrstuvwxyz0123456789`
	everybody = `{"model":"m","system":[{"instruction":"rules"}],"tools":[{"name":"t","description":"what for","schema":{"type":"object","description":"what","properties":{"a":{"enum":["x"]}}}}],` +
		`"turns":[{"role":1,"parts":[{"instruction":"task"},{"data":{"source":"web","text":"page"}}]},` +
		`{"role":2,"parts":[{"said":"words"}],"calls":[{"id":"c","name":"t","arguments":"{\"a\":\"x\",\"b\":[{\"c\":\"y\"}]}"}]},` +
		`{"role":1,"results":[{"call":"c","parts":[{"data":{"source":"mcp","text":"result"}},{"instruction":"fine"}],"failed":true}]}],"force":"t","max_tokens":7}`
)

// Each text of a request, wherever it stands and however it is spelled, reaches a provider without a secret. The request
// above has every member that there is.
//
// covers ALF-88, A-SECRET
func TestEveryPlaceOfARequestIsRedacted(t *testing.T) {
	t.Parallel()
	var whole requestJSON
	if err := json.Unmarshal([]byte(everybody), &whole); err != nil {
		t.Fatal(err)
	}
	places, members := 0, map[string]bool{}
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			visit(path, v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				member := v.Type().Name() + "." + v.Type().Field(i).Name
				if f := v.Field(i); f.IsZero() {
					if !members[member] { // named, whether or not it is filled
						members[member] = false
					}
				} else {
					members[member] = true
					visit(path+"."+v.Type().Field(i).Name, f)
				}
			}
		case reflect.Slice:
			if raw, ok := v.Interface().(jsontext.Value); ok {
				for _, word := range []string{"type", "what", "enum", "x"} {
					places += checkRedacted(t, &whole, path+" "+word, func(s string) func() {
						before := raw.Clone()
						v.SetBytes([]byte(strings.Replace(string(raw), `"`+word+`"`, `"`+s+`"`, 1)))
						return func() { v.SetBytes(before) }
					})
				}
				return
			}
			for i := range v.Len() {
				visit(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.String:
			if v.Type() == reflect.TypeFor[guard.Source]() { // closed words
				return
			}
			places += checkRedacted(t, &whole, path, func(s string) func() {
				before := v.String()
				v.SetString("before " + s)
				return func() { v.SetString(before) }
			})
			if strings.HasSuffix(path, ".Arguments") {
				for _, text := range []string{`{"a":"%s"}`, `{"%s":1}`, `{"a":[1,{"b":"%s"}]}`, `{"a":"%s`, `"%s" 1`} {
					places += checkRedacted(t, &whole, path+text, func(s string) func() {
						before := v.String()
						v.SetString(fmt.Sprintf(text, s))
						return func() { v.SetString(before) }
					})
				}
			}
		}
	}
	visit("request", reflect.ValueOf(&whole))
	for member, tried := range members {
		if !tried {
			t.Errorf("the request above has no %s", member)
		}
	}
	if places < 60 {
		t.Errorf("only %d places", places)
	}
}

// checkRedacted puts a secret somewhere in each spelling, and returns in how many it was in a request that can be sent.
func checkRedacted(t *testing.T, whole *requestJSON, path string, put func(string) (back func())) (places int) {
	for _, s := range []string{secret, spelled, twice} {
		back := put(s)
		text, err := json.Marshal(whole)
		back()
		if err != nil {
			t.Fatal(err)
		}
		request, err := ParseRequest(text)
		if err != nil { // the forced tool is not there, or it is another
			if !strings.HasSuffix(path, ".Force") && !strings.HasSuffix(path, "Tools[0].Name") {
				t.Errorf("%s with %s: %v", path, s, err)
			}
			continue
		}
		places++
		clean, err := request.Redacted(guard.Keys).MarshalJSON()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for range 4 { // as often as it could be spelled by numbers
			if strings.Contains(string(clean), secret[1:30]) {
				t.Errorf("%s with %s: %s", path, s, clean)
				break
			}
			clean = []byte(strings.NewReplacer(`\u0067`, "g", `\u0039`, "9", `\u005c`, `\`, `\\`, `\`).Replace(string(clean)))
		}
	}
	return places
}

// A name that held a secret is the same name wherever it stands, two are two, and nothing else changes.
func TestNamesStayTogether(t *testing.T) {
	t.Parallel()
	other := strings.Replace(secret, "ghp_a", "ghp_b", 1)
	request := &Request{
		Model: "m", Tools: []Tool{{Name: secret, Schema: jsontext.Value(`{"a": 1.50}`)}, {Name: other}}, Force: secret,
		Turns: []Turn{
			{Role: Model, Parts: []Part{NewSaid("plain \\u0041")}, Calls: []Call{{ID: secret + "1", Name: other, Arguments: jsontext.Value(`{"a": 1e2, "b":`)}, {ID: "c"}}},
			{Role: User, Results: []Result{{Call: "c"}, {Call: secret + "1"}}},
		},
	}
	before, err := request.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	clean := request.Redacted(guard.Keys)
	if err := clean.Check(); err != nil {
		t.Fatal(err)
	}
	after, err := clean.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(secret+"1", "redacted_3", secret, "redacted_1", other, "redacted_2").Replace(string(before))
	if string(after) != want {
		t.Errorf("%s", after)
	}
	if again, err := request.MarshalJSON(); err != nil || string(again) != string(before) {
		t.Error("the request itself is changed")
	}
	if clean.Redacted(guard.Keys) != clean {
		t.Error("a request without secrets is copied")
	}
	long := &Request{Turns: []Turn{{Parts: []Part{FromProgram("a " + secret + " b")}}}}
	if got := long.Redacted(guard.Keys).Turns[0].Parts[0].Text(); got != "a "+hidden+" b" {
		t.Errorf("%q", got)
	}
}
