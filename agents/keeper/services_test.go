package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const request = `{"conversation":"c","request":{"model":"dearer","max_tokens":1000000,"turns":[{"role":1,"parts":[{"instruction":"x"}]}]}}`

func endpoint(turns int) (llm.Endpoint, *llm.Script) {
	script := &llm.Script{Turns: make([]llm.ScriptTurn, turns)}
	return llm.Endpoint{Provider: script, Model: "pinned", MaxTokens: 100}, script
}

// spent is a ledger that admits everything, and adds up the prices.
type spent struct{ bits guard.NanoBits }

func (s *spent) Reserve(_ context.Context, h fetch.Hop) (func(sent, received int64), error) {
	s.bits += h.Price
	return func(int64, int64) {}, nil
}

func (s *spent) Refused(context.Context, string, guard.Code) {}

// pages is a desk in a world of one page.
func pages() (*fetch.Desk, error) {
	world := &fetch.Scripted{Routes: map[string]fetch.Route{"https://good.test/": {Status: 200, ContentType: "text/plain", Body: []byte("hello https://good.test/next")}}}
	return fetch.NewDesk(fetch.Options{
		Ledger: new(spent), Resolver: world, Transport: world,
		Policy: fetch.Policy([]string{"good.test"}, func(string) (string, bool) { return "", false }),
	})
}

func code(err error) string {
	var refused *stdio.CallError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

// A cell gets the model and the tokens of the definition, whatever it asks for, and no error of a provider.
func TestACellsModelIsTheDefinitions(t *testing.T) {
	t.Parallel()
	model, script := endpoint(1)
	methods := keeper.NewServices("configured", model, nil).Methods()
	if got, err := methods["configuration"](t.Context(), nil); got != "configured" || err != nil {
		t.Error(got, err)
	}
	must(methods["model"](t.Context(), jsontext.Value(request)))
	if r := script.Requests[0]; r.Model != "pinned" || r.MaxTokens != 100 {
		t.Errorf("%+v", r)
	}
	if _, err := methods["model"](t.Context(), jsontext.Value(request)); code(err) != "protocol" || strings.Contains(err.Error(), "script") {
		t.Errorf("%v", err)
	}
	long := strings.Replace(request, `"x"`, `"`+strings.Repeat("x", 4<<20)+`"`, 1)
	if _, err := methods["model"](t.Context(), jsontext.Value(long)); code(err) != "too_long" {
		t.Errorf("%v", err)
	}
}

// A confined command has the model and the hosts of its definition, is told why it has no others, and none of what a cell has
// besides.
//
// covers P7.5, ALF-10
func TestACommandsServices(t *testing.T) {
	t.Parallel()
	model, script := endpoint(1)
	methods := keeper.NewServices("configured", model, pages).ProgramMethods()
	for method := range keeper.NewServices(nil, model, pages).Methods() {
		if _, has := methods[method]; has != slices.Contains([]string{"model", "fetch", "end"}, method) {
			t.Errorf("%s: %t", method, has)
		}
	}
	if _, err := methods["model"](t.Context(), jsontext.Value(request)); err != nil || script.Requests[0].Model != "pinned" || script.Requests[0].MaxTokens != 100 {
		t.Errorf("%+v, %v", script.Requests, err)
	}
	nothing := keeper.NewServices(nil, llm.Endpoint{}, nil).ProgramMethods()
	for method, params := range map[string]string{"model": request, "fetch": `{"conversation":"c","ask":{"url":"https://good.test/"}}`} {
		if _, err := nothing[method](t.Context(), jsontext.Value(params)); code(err) != "not_permitted" {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// What is no call of a cell is refused, and so is one conversation too many, until another ends.
func TestServicesRefuse(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(1000)
	methods := keeper.NewServices(nil, model, pages).Methods()
	for _, params := range []string{``, `{}`, `[]`, `{"conversation":""}`, `{"conversation":"` + strings.Repeat("c", 65) + `"}`, `{"conversation":"c","more":1}`} {
		for _, method := range []string{"model", "fetch", "mcp", "end"} {
			if _, err := methods[method](t.Context(), jsontext.Value(params)); code(err) != "malformed" {
				t.Errorf("%s %s: %v", method, params, err)
			}
		}
	}
	for _, r := range []string{`{"conversation":"c"}`, `{"conversation":"c","request":{"model":"m","turns":[{"role":3}]}}`} {
		if _, err := methods["model"](t.Context(), jsontext.Value(r)); code(err) != "malformed" {
			t.Errorf("%s: %v", r, err)
		}
	}
	open := func(n int) error {
		_, err := methods["model"](t.Context(), jsontext.Value(strings.Replace(request, `"c"`, fmt.Sprintf(`"c%d"`, n), 1)))
		return err
	}
	for n := range 63 { // with "c" of above 64
		if err := open(n); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := open(64); code(err) != "rate_limited" {
		t.Errorf("the 65th: %v", err)
	}
	if err := open(5); err != nil {
		t.Errorf("one that is open: %v", err)
	}
	must(methods["end"](t.Context(), jsontext.Value(`{"conversation":"c5"}`)))
	if err := open(64); err != nil {
		t.Errorf("after an end: %v", err)
	}
	if _, err := methods["mcp"](t.Context(), jsontext.Value(`{"conversation":"c","call":{"tool":"mcp__a__b","arguments":{}}}`)); code(err) != "not_permitted" {
		t.Errorf("without MCP servers: %v", err)
	}
	alone := keeper.NewServices(nil, model, nil).Methods()
	if _, err := alone["fetch"](t.Context(), jsontext.Value(`{"conversation":"c","ask":{"url":"https://good.test/"}}`)); code(err) != "not_permitted" {
		t.Errorf("without a network: %v", err)
	}
}

// A link is bytes of a page of the same conversation: of another, and where none was served, it is nothing.
//
// covers ALF-84
func TestPagesStayInTheirConversation(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(0)
	methods := keeper.NewServices(nil, model, pages).Methods()
	fetched := func(conversation, ask string) fetch.Fetched {
		got := must(methods["fetch"](t.Context(), jsontext.Value(`{"conversation":"`+conversation+`","ask":`+ask+`}`)))
		return got.(fetch.Fetched)
	}
	if f := fetched("a", `{"url":"https://good.test/"}`); f.Error != "" || f.Page != 1 || string(f.Bytes) != "hello https://good.test/next" {
		t.Fatalf("%+v", f)
	}
	const link = `{"page":1,"start":6,"end":28}`
	if f := fetched("a", link); f.Error != guard.BadStatus || f.Status != 404 { // there is no such page, and it was asked for
		t.Errorf("%+v", f)
	}
	for conversation, ask := range map[string]string{"b": link, "a": `{"page":2,"start":0,"end":1}`} {
		if f := fetched(conversation, ask); f.Error != guard.Malformed {
			t.Errorf("%s %s: %+v", conversation, ask, f)
		}
	}
	for _, ask := range []string{`{}`, `{"page":1}`, `{"page":1,"start":6,"end":29}`, `{"page":1,"start":-1,"end":5}`, `{"page":1,"start":9,"end":8}`, `{"page":-9223372036854775808,"start":0,"end":1}`, `{"url":"https://evil.test/"}`} {
		if f := fetched("a", ask); f.Error == "" || f.Bytes != nil {
			t.Errorf("%s: %+v", ask, f)
		}
	}
}

// A link costs as much as the choice between all links that a cell can name, in whichever conversation it was served.
//
// covers ALF-84
func TestTheConversationIsChosen(t *testing.T) {
	t.Parallel()
	var meter spent
	world := &fetch.Scripted{Routes: map[string]fetch.Route{"https://good.test/": {Status: 200, ContentType: "text/plain", Body: []byte("hello https://good.test/next")}}}
	model, _ := endpoint(0)
	methods := keeper.NewServices(nil, model, func() (*fetch.Desk, error) {
		return fetch.NewDesk(fetch.Options{Ledger: &meter, Resolver: world, Transport: world, StartURLs: []string{"https://good.test/"}, Policy: fetch.Policy([]string{"good.test"}, func(string) (string, bool) { return "", false })})
	}).Methods()
	costs := func(conversation int, ask string) guard.NanoBits {
		before := meter.bits
		must(methods["fetch"](t.Context(), jsontext.Value(fmt.Sprintf(`{"conversation":"%d","ask":%s}`, conversation, ask))))
		return meter.bits - before
	}
	for n := range 64 {
		var lengths []uint64
		for range n {
			lengths = append(lengths, 28)
		}
		if got, want := costs(n, `{"url":"https://good.test/"}`), guard.LinkPrice(1, lengths); got != want {
			t.Errorf("a start URL beside %d pages costs %d, not %d", n, got, want)
		}
	}
	for left := 64; left > 1; left /= 2 {
		lengths := make([]uint64, left)
		for n := range lengths {
			lengths[n] = 28
		}
		if got, want := costs(0, `{"page":1,"start":6,"end":28}`), guard.LinkPrice(1, lengths); got != want {
			t.Errorf("a link of one of %d pages costs %d, not %d", left, got, want)
		}
		for n := left / 2; n < left; n++ {
			must(methods["end"](t.Context(), jsontext.Value(fmt.Sprintf(`{"conversation":"%d"}`, n))))
		}
	}
}

// Whatever a cell says is answered or refused with a code.
func FuzzServices(f *testing.F) {
	f.Add("model", []byte(request))
	f.Add("fetch", []byte(`{"conversation":"c","ask":{"page":1,"start":6,"end":28}}`))
	f.Add("mcp", []byte(`{"conversation":"c","call":{"tool":"mcp__a__b","arguments":{}}}`))
	f.Add("end", []byte(`{"conversation":"c"}`))
	model, _ := endpoint(0)
	methods := keeper.NewServices(nil, model, pages).Methods()
	f.Fuzz(func(t *testing.T, name string, params []byte) {
		method := methods[name]
		if method == nil {
			return
		}
		if _, err := method(context.Background(), params); err != nil && !errors.As(err, new(*stdio.CallError)) {
			t.Errorf("%s %q: %v", name, params, err)
		}
	})
}

// What a cell was reading when it ended is not read by the next one, and nothing else is set aside.
// covers A-CRASH
func TestInputsThatEndedACell(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(0)
	one, two, old := strings.Repeat("1", 32), strings.Repeat("2", 32), strings.Repeat("3", 32)
	first := keeper.NewServices(nil, model, nil)
	first.SetAside([]string{old})
	tell := func(s *keeper.Services, call, input string) any {
		t.Helper()
		got, err := s.Methods()["reading"](t.Context(), jsontext.Value(fmt.Sprintf(`{"call":%q,"input":%q}`, call, input)))
		if err != nil {
			return code(err)
		}
		return got.(map[string]bool)["aside"]
	}
	for _, step := range []struct {
		call, input string
		want        any
	}{{"1", one, false}, {"1", two, false}, {"2", one, false}, {"2", "", false}, {"3", old, true}, {"4", "../x", "malformed"}, {strings.Repeat("4", 21), one, "malformed"}} {
		if got := tell(first, step.call, step.input); got != step.want {
			t.Errorf("%+v: %v", step, got)
		}
	}
	if got := first.Aside(); len(got) != 2 || got[0] != old || got[1] != two {
		t.Errorf("set aside are %q", got)
	}
	second := keeper.NewServices(nil, model, nil)
	second.SetAside(first.Aside())
	failIf(t, tell(second, "1", two) != true || tell(second, "1", one) != false, "the next cell reads what ended the one before")
	for i := range 1000 {
		if got := tell(second, fmt.Sprint(i), fmt.Sprintf("%032x", i)); got != false {
			t.Fatal(i, got)
		}
	}
	if got := tell(second, "1000", one); got != "rate_limited" {
		t.Errorf("one reading too many: %v", got)
	}
	if got := second.Aside(); len(got) != 1000 {
		t.Errorf("%d are set aside", len(got))
	}
}
