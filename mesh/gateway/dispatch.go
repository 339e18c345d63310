package gateway

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// dispatcher makes the calls of one kernel. Only it has the connections for that: the
// gateway's own user may not publish a call. Before each call it asks the gate, whatever
// was recorded. It is not safe for concurrent use.
type dispatcher struct {
	kernel  *kernel.Kernel
	gate    kernel.Judge
	connect ConnectTool
	refused func(tool string)
	unheard func(subject string) bool // see Config.Unheard
	handles map[string]*nats.Conn     // by tool
}

var (
	errNoGate = errors.New("a dispatcher needs a kernel, its gate and connections")
	// errDenied says that the gate does not allow the call, and errNoHandle that the
	// grant of its run has no connection for it.
	errDenied   = errors.New("the gate does not allow the call")
	errNoHandle = errors.New("the grant has no connection for the tool")
	// errAway says that nobody would get the call.
	errAway = errors.New("nobody serves the tool")
)

// newDispatcher returns the dispatcher of a kernel. It connects at the first call of
// each tool. refused is called with a tool whose calls the server refuses.
func newDispatcher(k *kernel.Kernel, gate kernel.Judge, connect ConnectTool, refused func(tool string)) (*dispatcher, error) {
	if k == nil || gate == nil || connect == nil || refused == nil {
		return nil, errNoGate
	}
	return &dispatcher{kernel: k, gate: gate, connect: connect, refused: refused, handles: make(map[string]*nats.Conn)}, nil
}

// Call sends a recorded call to its tool, whose outcome comes to the reply subject.
// After an error nothing was sent.
func (d *dispatcher) Call(r *kernel.Release) error {
	if !r.Allowed(d.gate) {
		return errDenied
	}
	tool := d.grantedTool(r)
	if tool == nil {
		return errNoHandle
	}
	subject := subjects.Call(bcp.AgentName(tool.Service), tool.Name, d.kernel.Name())
	reply := subjects.Reply(bcp.RoleTool, bcp.AgentName(tool.Service), r.Wait.ID, r.Wait.Attempt)
	if subject == "" || reply == "" {
		return fmt.Errorf("calling %s: %w", tool.Name, subjects.ErrSubject)
	}
	if d.unheard != nil && d.unheard(subject) {
		return errAway
	}
	conn, err := d.handle(tool)
	if err != nil {
		return err
	}
	return conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: r.Body})
}

// grantedTool returns the tool of a call if the grant of the run covers it: regardless of
// the gate, there is no way to another.
func (d *dispatcher) grantedTool(r *kernel.Release) *kernel.Tool {
	for i := range d.kernel.Definition().Tools {
		t := &d.kernel.Definition().Tools[i]
		if t.Name == r.Call.Tool && r.Tool != nil && t.Name == r.Tool.Name && r.Call.Grant.HoldsAll(t.RequiredCaps) {
			return t
		}
	}
	return nil
}

func (d *dispatcher) handle(t *kernel.Tool) (*nats.Conn, error) {
	if conn := d.handles[t.Name]; conn != nil && !conn.IsClosed() {
		return conn, nil
	}
	name := t.Name
	conn, err := d.connect(d.kernel.Name(), bcp.AgentName(t.Service), t.Name, func() { d.refused(name) })
	if err != nil {
		return nil, fmt.Errorf("connecting to call %s: %w", t.Name, err)
	}
	d.handles[t.Name] = conn
	return conn, nil
}

// Close closes the connections.
func (d *dispatcher) Close() {
	for _, conn := range d.handles {
		conn.Close()
	}
	clear(d.handles)
}
