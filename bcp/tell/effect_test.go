package tell_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

func callItem(args string) *bcp.ItemView {
	content := []byte(`{"args":` + args + `,"key":"00","run_id":"r1","tool":"send"}`)
	return &bcp.ItemView{Item: bcp.Item{ID: "i1", Kind: bcp.ItemEffect, Controller: "desk", Reader: "mail"}, Content: content, SHA256: sha256.Sum256(content), Effect: &bcp.Effect{
		Run: "r1", Requester: "kim", Grant: "reply", Step: "send", Service: "mail", Tool: "send", Level: "write", Rules: []string{"ask-first"},
		Arguments: []bcp.EffectArgument{{Name: "body", Tainted: true, Influence: "12"}, {Name: "to", Influence: "0"}},
	}}
}

// A call is shown with where its arguments come from, each argument in its own place, and
// what follows from a decision.
//
// covers P7.1, P7.2, DUAL-20
func TestCallIsShown(t *testing.T) {
	t.Parallel()
	v := callItem(`{"body":"Pay at once.","to":"kim@example.com"}`)
	var facts strings.Builder
	for _, f := range tell.ItemFacts(v, time.Time{}) {
		fmt.Fprintf(&facts, "%s: %s\n", f.Name, f.Value)
	}
	for _, want := range []string{
		"kind: effect: shall this call be made?", "tool: send of mail, which is a write\n", "run: r1 of desk, for kim with the grant reply, step send\n",
		"rules: ask-first\n", "argument: body: content chose it, up to 12 bits\n", "argument: to: no content chose it\n",
	} {
		if !strings.Contains(facts.String(), want) {
			t.Errorf("no %q in\n%s", want, &facts)
		}
	}
	frames := tell.ItemFrames(v, time.Time{})
	got := fmt.Sprint(frames[0].Parts)
	failIf(t, got != "[{body Pay at once.} {to kim@example.com}]", "the call is %s", got)
	failIf(t, !tell.Intact(v), "it is not intact")
	q := tell.Question(v)
	failIf(t, q != "Have send called, once, exactly like this", "the question is %q", q)
	failIf(t, tell.Consequence(v, bcp.Approve) == tell.Consequence(v, bcp.RejectItem), "both decisions have one consequence")
	v.Kind = bcp.ItemInDoubt
	if q := tell.Question(v); !strings.Contains(q, "It was not done") || !strings.Contains(tell.Consequence(v, bcp.Approve), "again") {
		t.Errorf("the question is %q", q)
	}
}

// Calls that differ never look the same, and one whose facts are of another call is not
// shown as what is signed.
//
// covers P7.2
func TestCallsLookDifferent(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, args := range []string{
		`{"body":"1","to":"x"}`, `{"body":1,"to":"x"}`, `{"body":"true","to":"x"}`, `{"body":true,"to":"x"}`, `{"body":null,"to":"x"}`, `{"body":"null","to":"x"}`, `{"to":"x"}`,
		`{"body":"","to":"x"}`, `{"body":"x","more":1,"to":"x"}`, `{"body":["a"],"to":"x"}`, `{"body":"[\"a\"]","to":"x"}`, `null`, `{}`,
	} {
		shown := fmt.Sprintf("%q", tell.ItemFrames(callItem(args), time.Time{})[0].Parts)
		other, same := seen[shown]
		failIf(t, same, "%s looks like %s", args, other)
		seen[shown] = args
	}
	for name, change := range map[string]func(*bcp.ItemView){
		"another tool":    func(v *bcp.ItemView) { v.Effect.Tool = "look" },
		"another run":     func(v *bcp.ItemView) { v.Effect.Run = "r2" },
		"another content": func(v *bcp.ItemView) { v.Content = []byte(`{}`) },
	} {
		v := callItem(`{"body":"x","to":"y"}`)
		if change(v); tell.Intact(v) {
			t.Errorf("%s is intact", name)
		}
	}
}
