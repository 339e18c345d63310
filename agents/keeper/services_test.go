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
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
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
func pages() (*fetch.Desk, error) { return pagesFor(new(spent)) }

func pagesFor(ledger fetch.Ledger, start ...string) (*fetch.Desk, error) {
	world := &fetch.Scripted{Routes: map[string]fetch.Route{"https://good.test/": {Status: 200, ContentType: "text/plain", Body: []byte("hello https://good.test/next")}}}
	return fetch.NewDesk(fetch.Options{
		Ledger: ledger, Resolver: world, Transport: world, StartURLs: start,
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

// says is the code with which a call is refused.
func says(t *testing.T, method stdio.Method, params string) string {
	t.Helper()
	_, err := method(t.Context(), jsontext.Value(params))
	return code(err)
}

// A cell gets the model and the tokens of the definition, whatever it asks for, and no error of a provider.
func TestACellsModelIsTheDefinitions(t *testing.T) {
	t.Parallel()
	model, script := endpoint(1)
	methods := keeper.NewServices("configured", model, nil).Methods()
	got, err := methods["configuration"](t.Context(), nil)
	failIf(t, got != "configured" || err != nil, "%v %v", got, err)
	must(methods["model"](t.Context(), jsontext.Value(request)))
	r := script.Requests[0]
	failIf(t, r.Model != "pinned" || r.MaxTokens != 100, "%+v", r)
	_, err = methods["model"](t.Context(), jsontext.Value(request))
	failIf(t, code(err) != "protocol" || strings.Contains(err.Error(), "script"), "%v", err)
	long := strings.Replace(request, `"x"`, `"`+strings.Repeat("x", 4<<20)+`"`, 1)
	bcptest.Expect(t, says(t, methods["model"], long), "too_long", "a call")
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
		_, has := methods[method]
		failIf(t, has != slices.Contains([]string{"model", "fetch", "end"}, method), "%s: %t", method, has)
	}
	if _, err := methods["model"](t.Context(), jsontext.Value(request)); err != nil || script.Requests[0].Model != "pinned" || script.Requests[0].MaxTokens != 100 {
		t.Errorf("%+v, %v", script.Requests, err)
	}
	nothing := keeper.NewServices(nil, llm.Endpoint{}, nil).ProgramMethods()
	for method, params := range map[string]string{"model": request, "fetch": `{"conversation":"c","ask":{"url":"https://good.test/"}}`} {
		bcptest.Expect(t, says(t, nothing[method], params), "not_permitted", "%s", method)
	}
}

// What is no call of a cell is refused, and so is one conversation too many, until another ends.
func TestServicesRefuse(t *testing.T) {
	t.Parallel()
	model, _ := endpoint(1000)
	methods := keeper.NewServices(nil, model, pages).Methods()
	for _, params := range []string{``, `{}`, `[]`, `{"conversation":""}`, `{"conversation":"` + strings.Repeat("c", 65) + `"}`, `{"conversation":"c","more":1}`} {
		for _, method := range []string{"model", "fetch", "mcp", "end"} {
			bcptest.Expect(t, says(t, methods[method], params), "malformed", "%s %s", method, params)
		}
	}
	for _, r := range []string{`{"conversation":"c"}`, `{"conversation":"c","request":{"model":"m","turns":[{"role":3}]}}`} {
		bcptest.Expect(t, says(t, methods["model"], r), "malformed", "%s", r)
	}
	open := func(n int, want, what string) {
		t.Helper()
		bcptest.Expect(t, says(t, methods["model"], strings.Replace(request, `"c"`, fmt.Sprintf(`"c%d"`, n), 1)), want, "%s: %d", what, n)
	}
	for n := range 63 { // with "c" of above 64
		open(n, "<nil>", "one of 64")
	}
	open(64, "rate_limited", "the 65th")
	open(5, "<nil>", "one that is open")
	must(methods["end"](t.Context(), jsontext.Value(`{"conversation":"c5"}`)))
	open(64, "<nil>", "after an end")
	bcptest.Expect(t, says(t, methods["mcp"], `{"conversation":"c","call":{"tool":"mcp__a__b","arguments":{}}}`), "not_permitted", "without MCP servers")
	alone := keeper.NewServices(nil, model, nil).Methods()
	bcptest.Expect(t, says(t, alone["fetch"], `{"conversation":"c","ask":{"url":"https://good.test/"}}`), "not_permitted", "without a network")
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
	f := fetched("a", `{"url":"https://good.test/"}`)
	stopIf(t, f.Error != "" || f.Page != 1 || string(f.Bytes) != "hello https://good.test/next", "%+v", f)
	const link = `{"page":1,"start":6,"end":28}`
	if f := fetched("a", link); f.Error != guard.BadStatus || f.Status != 404 { // there is no such page, and it was asked for
		t.Errorf("%+v", f)
	}
	for conversation, ask := range map[string]string{"b": link, "a": `{"page":2,"start":0,"end":1}`} {
		f := fetched(conversation, ask)
		failIf(t, f.Error != guard.Malformed, "%s %s: %+v", conversation, ask, f)
	}
	for _, ask := range []string{`{}`, `{"page":1}`, `{"page":1,"start":6,"end":29}`, `{"page":1,"start":-1,"end":5}`, `{"page":1,"start":9,"end":8}`, `{"page":-9223372036854775808,"start":0,"end":1}`, `{"url":"https://evil.test/"}`} {
		f := fetched("a", ask)
		failIf(t, f.Error == "" || f.Bytes != nil, "%s: %+v", ask, f)
	}
}

// A link costs as much as the choice between all links that a cell can name, in whichever conversation it was served.
//
// covers ALF-84
func TestTheConversationIsChosen(t *testing.T) {
	t.Parallel()
	var meter spent
	model, _ := endpoint(0)
	methods := keeper.NewServices(nil, model, func() (*fetch.Desk, error) { return pagesFor(&meter, "https://good.test/") }).Methods()
	costs := func(conversation int, ask string) guard.NanoBits {
		before := meter.bits
		must(methods["fetch"](t.Context(), jsontext.Value(fmt.Sprintf(`{"conversation":"%d","ask":%s}`, conversation, ask))))
		return meter.bits - before
	}
	for n := range 64 {
		bcptest.Expect(t, costs(n, `{"url":"https://good.test/"}`), guard.LinkPrice(1, slices.Repeat([]uint64{28}, n)), "a start URL beside %d pages", n)
	}
	for left := 64; left > 1; left /= 2 {
		bcptest.Expect(t, costs(0, `{"page":1,"start":6,"end":28}`), guard.LinkPrice(1, slices.Repeat([]uint64{28}, left)), "a link of one of %d pages", left)
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
		_, err := method(context.Background(), params)
		failIf(t, err != nil && !errors.As(err, new(*stdio.CallError)), "%s %q: %v", name, params, err)
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
		bcptest.Expect(t, tell(first, step.call, step.input), step.want, "%+v", step)
	}
	got := first.Aside()
	failIf(t, len(got) != 2 || got[0] != old || got[1] != two, "set aside are %q", got)
	second := keeper.NewServices(nil, model, nil)
	second.SetAside(first.Aside())
	failIf(t, tell(second, "1", two) != true || tell(second, "1", one) != false, "the next cell reads what ended the one before")
	for i := range 1000 {
		bcptest.Expect[any](t, tell(second, fmt.Sprint(i), fmt.Sprintf("%032x", i)), false, "%d", i)
	}
	bcptest.Expect[any](t, tell(second, "1000", one), "rate_limited", "one reading too many")
	bcptest.Expect(t, len(second.Aside()), 1000, "set aside")
}
