package gateway

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// A mistake of ours that one message finds refuses that message, and the log
// does not repeat it.
//
// covers A-CRASH, P2.5
func TestPanicIsARefusal(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	g := &Gateway{config: Config{Now: time.Now}, log: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})} // without a state, deciding panics
	for _, kind := range []subjects.Kind{subjects.KindAsk, subjects.KindPush, subjects.KindSession} {
		in := &input{subject: subjects.Subject{Kind: kind, Controller: "main", Reader: "mailer", Subscription: "alerts"}, body: []byte("canary")}
		d, recorded := g.decideSafely(in)
		if recorded || d.Code != bcp.Internal || !in.dropped {
			t.Errorf("%s: %v, recorded %v", kind, d.Code, recorded)
		}
	}
	if n := strings.Count(log.String(), "made a mistake"); n != 3 || strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "state.(*State).DecidePush decide.go:") {
		t.Errorf("the log says: %s", &log)
	}
	if len(g.mistakes) != 3 {
		t.Errorf("%d alerts", len(g.mistakes))
	}
}
