package llm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	request := must(ParseRequest([]byte(everybody)))
	if text, err := request.MarshalJSON(); err != nil || string(text) != everybody {
		t.Errorf("%s, %v", text, err)
	}
	checkFilled(t, reflect.ValueOf(*request))
	places := 0
	for _, word := range []string{"type", "what", "enum", "x"} { // of the schema
		places += checkRedacted(t, "schema "+word, func(s string) string { return strings.Replace(everybody, `"`+word+`"`, `"`+s+`"`, 1) })
	}
	var whole map[string]any
	noError(t, json.Unmarshal([]byte(everybody), &whole))
	text := func() string {
		return string(must(json.Marshal(whole)))
	}
	var visit func(path string, v any, set func(any))
	visit = func(path string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if name != "schema" && name != "source" { // the latter are closed words
					visit(path+"."+name, member, func(to any) { v[name] = to })
				}
			}
		case []any:
			for i, element := range v {
				visit(fmt.Sprintf("%s[%d]", path, i), element, func(to any) { v[i] = to })
			}
		case string:
			forms := []string{"before %s"}
			if strings.HasSuffix(path, ".arguments") {
				forms = append(forms, `{"a":"%s"}`, `{"%s":1}`, `{"a":[1,{"b":"%s"}]}`, `{"a":"%s`, `"%s" 1`)
			}
			for _, form := range forms {
				places += checkRedacted(t, path+form, func(s string) string {
					set(fmt.Sprintf(form, s))
					defer set(v)
					return text()
				})
			}
		}
	}
	visit("", whole, nil)
	failIf(t, places < 60, "only %d places", places)
}

// checkFilled reports the members of a request that have no value anywhere in it.
func checkFilled(t *testing.T, request reflect.Value) {
	filled := map[string]bool{}
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.Slice && v.Type() != reflect.TypeFor[jsontext.Value]():
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				member := v.Type().Name() + "." + v.Type().Field(i).Name
				filled[member] = filled[member] || !v.Field(i).IsZero()
				visit(v.Field(i))
			}
		}
	}
	visit(request)
	for member, is := range filled {
		failIf(t, !is, "the request above has no %s", member)
	}
}

// checkRedacted puts a secret somewhere in each spelling, and returns in how many it was in a request that can be sent.
func checkRedacted(t *testing.T, path string, with func(secret string) (request string)) (places int) {
	for _, s := range []string{secret, spelled, twice} {
		request, err := ParseRequest([]byte(with(s)))
		if err != nil { // the forced tool is not there, or it is another
			failIf(t, !strings.HasPrefix(path, ".force") && !strings.HasPrefix(path, ".tools[0].name"),
				"%s with %s: %v", path, s, err)
			continue
		}
		places++
		clean, err := request.Redacted().MarshalJSON()
		failIf(t, err != nil, "%s: %v", path, err)
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
	before := must(request.MarshalJSON())
	clean := request.Redacted()
	noError(t, clean.Check())
	after := must(clean.MarshalJSON())
	want := strings.NewReplacer(secret+"1", "redacted_3", secret, "redacted_1", other, "redacted_2").Replace(string(before))
	failIf(t, string(after) != want, "%s", after)
	again, err := request.MarshalJSON()
	failIf(t, err != nil || string(again) != string(before), "the request itself is changed")
	failIf(t, clean.Redacted() != clean, "a request without secrets is copied")
	long := &Request{Turns: []Turn{{Parts: []Part{FromOperator("a " + secret + " b")}}}}
	got := long.Redacted().Turns[0].Parts[0].Text()
	failIf(t, got != "a "+hidden+" b", "%q", got)
}
