package state

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Arguments of a query reach its Reader in one spelling, up to the limit of the channel, and
// no further; they cost nothing and are in the sealed spec. A subscription has none.
//
// covers P2.8
func TestArguments(t *testing.T) {
	t.Parallel()
	ask := func(arguments string) []byte {
		return []byte(`{"category":1,"fields":[{"name":"urgent","type":"boolean"}],"arguments":` + arguments + `}`)
	}
	sized := func(n int) string { return `{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}` }
	allows := func(most int) *world { return newWorld(t, edited(func(c *bcp.Channel) { c.MaxArgumentBytes = most })) }

	w := allows(64)
	for _, tt := range []struct {
		arguments, want string // what the Reader gets; empty where it is refused
	}{
		{` { "b" : 2, "a": [true, "\u0041"] } `, `{"a":[true,"A"],"b":2}`},
		{`{}`, `{}`},
		{`{"n":9007199254740993}`, `{"n":9007199254740993}`},
		{sized(64), sized(64)},
		{sized(65), ""},
		{`"text"`, ""}, {`[1]`, ""}, {`7`, ""}, {`true`, ""},
		{`null`, ""}, {`{"a":1.5}`, ""}, {`{"a":1,"a":2}`, ""}, {`{"a":null}`, ""},
		{strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9), ""},
	} {
		d := w.state.DecideAsk(w.moment(), "planner", "mail", ask(tt.arguments))
		if (d.Verdict == bcp.Accept) != (tt.want != "") || d.Verdict == bcp.Reject && d.Code != bcp.InvalidQuery && d.Code != bcp.Malformed {
			t.Errorf("%.40s: %s %s", tt.arguments, d.Verdict, d.Code)
			continue
		}
		if d.Verdict != bcp.Accept {
			continue
		}
		expect(t, d.Nominal, bcp.Bit, "%s costs", tt.arguments)
		w.commit(d)
		query, _, _, _ := w.state.Open(d.Query)
		replayed, _, _, _ := w.replay().Open(d.Query)
		failIf(t, string(query.Arguments) != tt.want || string(replayed.Arguments) != tt.want,
			"%s reaches the Reader as %s, and after a replay as %s", tt.arguments, query.Arguments, replayed.Arguments)
		public := d.Public()
		failIf(t, strings.Contains(string(public.Spec), "arguments"), "the audit shows %s", public.Spec)
		for _, encoding := range []bcp.Encoding{bcp.JSON, bcp.MessagePack} {
			var read bcp.Query
			b, err := bcp.Encode(query, encoding)
			if err == nil {
				err = bcp.Decode(b, encoding, &read)
			}
			failIf(t, err != nil || string(read.Arguments) != tt.want, "%s is read as %s: %v", tt.want, read.Arguments, err)
		}
	}
	expect(t, allows(0).state.DecideAsk(w.moment(), "planner", "mail", ask(`{}`)).Code, bcp.InvalidQuery, "a channel that allows none")
	d := allows(1<<20).state.DecideAsk(w.moment(), "planner", "mail", ask(sized(bcp.MaxArgumentBytes+1)))
	failIf(t, d.Code != bcp.InvalidQuery, "more than any channel can allow: %s %s", d.Verdict, d.Code)
	proposed := `{"id":"s","category":1,"fields":[{"name":"urgent","type":"boolean"}],"arguments":{}}`
	fails(t, errorOf(bcp.ParseProposedSubscription([]byte(proposed))), nil, "a subscription with arguments is proposed")
}
