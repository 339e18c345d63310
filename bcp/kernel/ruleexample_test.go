package kernel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

func parseExample(b []byte) (e kernel.Example, err error) { return e, e.UnmarshalJSON(b) }

// An example says what a rule can ask, in each of its spellings, and nothing else.
//
// covers C-23, KER-105
func TestParseExample(t *testing.T) {
	t.Parallel()
	alone, err := parseExample([]byte(`{"to": "kim", "body": {"value": "hi", "tainted": true, "third_party": true, "influence": 3}}`))
	stopIf(t, err != nil || len(alone.Arguments) != 2, "got %+v, %v", alone, err)
	to := alone.Arguments["to"]
	failIf(t, to.Label.Tainted() || to.Value == nil, "a bare value is %+v, want the requester's", to)
	body := alone.Arguments["body"]
	failIf(t, !body.Label.Tainted() || !body.Label.ThirdParty() || body.Label.Width().String() != "3", "got %+v", body)
	whole, err := parseExample([]byte(`{"args": {"to": {"label": {"sources": ["q_llm"]}}}, "requester": {"name": "ann", "address": "a@b"}, "run": {"depth": 1, "grant": ["mail.read"]}, "grant": ["mail.send"]}`))
	noError(t, err)
	want := kernel.NewGrant("mail.read", "mail.send")
	failIf(t, whole.Asker.Requester != (kernel.Requester{Name: "ann", Address: "a@b"}) || whole.Depth != 1 || !cmp.Equal(whole.Grant.Capabilities(), want.Capabilities()),
		"got %+v", whole)
	to = whole.Arguments["to"]
	failIf(t, to.Value != nil || !to.Label.Tainted(), "an argument without a value is %+v", to)
	for _, wrong := range []string{
		``, `[]`, `7`, `{"args": 7}`, `{"args": {}, "requester": 7}`, `{"args": {}, "requester": {"mail": "x"}}`, `{"args": {}, "run": {"depth": 1, "kernel": "x"}}`,
		`{"args": {}, "grant": "mail.read"}`, `{"args": {"to": {"label": 7}}}`, `{"args": {"to": {"influence": "many"}}}`, `{"args": {}, "run": {"grant": 7}}`,
	} {
		e, err := parseExample([]byte(wrong))
		failIf(t, err == nil, "%s is read as %+v", wrong, e)
	}
}
