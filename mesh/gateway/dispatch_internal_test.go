package gateway

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

type judgeAll kernel.Ruling

func (j judgeAll) Judge(*kernel.Call) kernel.Verdict { return kernel.Verdict{Ruling: kernel.Ruling(j)} }

func dispatchKernel(t *testing.T) *kernel.Kernel {
	t.Helper()
	typ := must(kernel.ParseType([]byte(`{"type":"object","properties":{}}`)))
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "ann", Limits: kernel.DefaultLimits(),
		Tools: []kernel.Tool{
			{Service: "mail", Name: "read", Level: kernel.Read, RequiredCaps: []kernel.Capability{"mail.read"}, Input: typ, Output: typ},
			{Service: "mail", Name: "send", Level: kernel.Write, RequiredCaps: []kernel.Capability{"mail.send"}, Input: typ, Output: typ},
		},
	})
	stopIf(t, len(defects) > 0, "%v", defects)
	return k
}

// There is no dispatcher without a gate.
//
// covers KER-27, KER-62
func TestDispatcherNeedsItsGate(t *testing.T) {
	t.Parallel()
	k := dispatchKernel(t)
	connect := func(bcp.AgentName, bcp.AgentName, string, func()) (*nats.Conn, error) { return nil, errStopped }
	refused := func(string) {}
	must(newDispatcher(k, k.Gate(), connect, refused))
	for name, make := range map[string]func() (*dispatcher, error){
		"no gate":       func() (*dispatcher, error) { return newDispatcher(k, nil, connect, refused) },
		"no kernel":     func() (*dispatcher, error) { return newDispatcher(nil, k.Gate(), connect, refused) },
		"no connection": func() (*dispatcher, error) { return newDispatcher(k, k.Gate(), nil, refused) },
		"nobody to ask": func() (*dispatcher, error) { return newDispatcher(k, k.Gate(), connect, nil) },
	} {
		d, err := make()
		failIf(t, err == nil || d != nil, "%s: there is a dispatcher", name)
	}
}

// The dispatcher asks the gate whatever was recorded, and has no connection for a tool
// that the run's grant does not cover, whatever the gate says. What it refuses opens no
// connection.
//
// covers KER-26, KER-28, KER-62
func TestDispatcherAsksTheGate(t *testing.T) {
	t.Parallel()
	k := dispatchKernel(t)
	tools := k.Definition().Tools
	connected := 0
	connect := func(bcp.AgentName, bcp.AgentName, string, func()) (*nats.Conn, error) {
		connected++
		return nil, errStopped
	}
	release := func(tool *kernel.Tool, called string, held ...kernel.Capability) *kernel.Release {
		return &kernel.Release{Kind: kernel.ReleaseCall, Tool: tool, Wait: kernel.Wait{ID: "c1", Attempt: 1},
			Call: &kernel.Call{Tool: called, Grant: kernel.NewGrant(held...), Control: kernel.Trusted()}}
	}
	both := []kernel.Capability{"mail.read", "mail.send"}
	parse := release(&tools[1], "send", both...)
	parse.Kind = kernel.ReleaseParse
	uncalled := release(&tools[1], "send", both...)
	uncalled.Call = nil
	for name, c := range map[string]struct {
		gate    kernel.Judge
		release *kernel.Release
		want    error
	}{
		"allowed":                      {k.Gate(), release(&tools[1], "send", both...), errStopped},
		"denied by the gate":           {k.Gate(), release(&tools[1], "send", "mail.read"), errDenied},
		"zero gate":                    {kernel.Gate{}, release(&tools[1], "send", both...), errDenied},
		"zero verdict":                 {judgeAll(""), release(&tools[1], "send", both...), errDenied},
		"nobody approved":              {judgeAll(kernel.NeedPerson), release(&tools[1], "send", both...), errDenied},
		"no call":                      {judgeAll(kernel.Allow), uncalled, errDenied},
		"no release of a call":         {judgeAll(kernel.Allow), parse, errDenied},
		"allow all, not granted":       {judgeAll(kernel.Allow), release(&tools[1], "send", "mail.read"), errNoHandle},
		"allow all, all granted":       {judgeAll(kernel.Allow), release(&tools[0], "read", "*", ">", "mail", "mail.*", "Mail.read"), errNoHandle},
		"allow all, nothing granted":   {judgeAll(kernel.Allow), release(&tools[0], "read"), errNoHandle},
		"allow all, another tool":      {judgeAll(kernel.Allow), release(&tools[1], "read", both...), errNoHandle},
		"allow all, no tool":           {judgeAll(kernel.Allow), release(nil, "read", both...), errNoHandle},
		"allow all, one not defined":   {judgeAll(kernel.Allow), release(&kernel.Tool{Name: "other"}, "other", both...), errNoHandle},
		"allow all, and it is granted": {judgeAll(kernel.Allow), release(&tools[0], "read", "mail.read"), errStopped},
	} {
		connected = 0
		d := must(newDispatcher(k, c.gate, connect, func(string) {}))
		err := d.Call(c.release)
		failIf(t, !errors.Is(err, c.want), "%s: got %v", name, err)
		want := errors.Is(c.want, errStopped)
		failIf(t, (connected == 1) != want, "%s: %d connections", name, connected)
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var failIf, fails, noError, stopIf = bcptest.FailIf, bcptest.Fails, bcptest.NoError, bcptest.StopIf

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
