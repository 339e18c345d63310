package agents_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// prompted is a client that takes prompts.
type prompted interface {
	Start(context.Context) error
	Stop(context.Context) error
	Stats() agents.Stats
	OnPrompt(func(context.Context, bcp.Prompt))
}

// promptCase plays the gateway to one of them.
type promptCase struct {
	*gateway
	agent prompted
	conn  *agents.Connection
	role  bcp.Role
	acks  <-chan *nats.Msg
}

// eachPrompted runs f for both roles.
func eachPrompted(t *testing.T, f func(t *testing.T, c promptCase)) {
	for _, role := range []bcp.Role{bcp.RoleController, bcp.RoleReader} {
		t.Run(role.String(), func(t *testing.T) {
			t.Parallel()
			s, g := startBoth(t, bcp.JSON)
			conn := connect(t, s.ClientURL(), agents.Options{Name: main})
			c := promptCase{gateway: g, conn: conn, role: role, acks: g.listen(subjects.RepliesOf(role, main))}
			if c.agent = agents.NewController(conn); role == bcp.RoleReader {
				c.agent = agents.NewReader(conn)
			}
			t.Cleanup(func() { _ = c.agent.Stop(context.Background()) })
			f(t, c)
		})
	}
}

func (c promptCase) start() {
	c.t.Helper()
	noError(c.t, c.agent.Start(c.t.Context()))
}

func (c promptCase) prompt(id bcp.DeliveryID, sending int) {
	c.t.Helper()
	c.send(subjects.Deliver(c.role, main, bcp.Gateway), subjects.Reply(c.role, main, id, sending),
		bcp.Prompt{Type: bcp.TypePrompt, PromptID: id, Time: time.Unix(0, 0).UTC(), Message: "look for mail"})
}

// heard returns when the agent has taken everything that was sent, and what it
// sent has come.
func (c promptCase) heard() {
	c.t.Helper()
	before := c.agent.Stats().Malformed
	c.send(subjects.Deliver(c.role, main, bcp.Gateway), subjects.Reply(c.role, main, "n0", 0), "text")
	eventually(c.t, "what is no prompt", func() bool { return c.agent.Stats().Malformed > before })
	noError(c.t, c.conn.NATS().FlushTimeout(patience))
	c.flush()
}

func (c promptCase) acknowledged(id bcp.DeliveryID, sending int) {
	c.t.Helper()
	repliedOn(c.t, c.acks, subjects.Reply(c.role, main, id, sending))
}

// A prompt that comes again while its handler is at work is acknowledged when
// the handler has returned, and not before: it would be lost with the process.
//
// covers P9.4
func TestPromptIsAcknowledgedAfterItsHandler(t *testing.T) {
	t.Parallel()
	eachPrompted(t, func(t *testing.T, c promptCase) {
		entered, release := make(chan bcp.DeliveryID, 9), make(chan struct{})
		c.agent.OnPrompt(func(_ context.Context, p bcp.Prompt) {
			entered <- p.PromptID
			<-release
		})
		c.start()
		c.prompt("n1", 0)
		next(t, entered, "the handler")
		c.prompt("n2", 0) // waits for the handler
		c.prompt("n1", 1)
		c.prompt("n2", 1)
		c.heard()
		none(t, c.acks, "an acknowledgement before the end of the handler")
		close(release)
		c.acknowledged("n1", 1)
		c.acknowledged("n2", 1)
		nextIs(t, entered, "n2", "the second prompt")
		c.prompt("n1", 2) // its acknowledgement was lost
		c.acknowledged("n1", 2)
		none(t, entered, "a prompt that was handled twice")
	})
}

// A prompt whose handler was cut off, and one that waited for it, come again and
// are handled in the next run.
//
// covers P9.4
func TestPromptIsHandledInTheNextRun(t *testing.T) {
	t.Parallel()
	eachPrompted(t, func(t *testing.T, c promptCase) {
		entered := make(chan bcp.DeliveryID, 9)
		cut := true
		c.agent.OnPrompt(func(ctx context.Context, p bcp.Prompt) {
			entered <- p.PromptID
			if cut {
				<-ctx.Done()
			}
		})
		c.start()
		c.prompt("n1", 0)
		next(t, entered, "the handler")
		c.prompt("n2", 0)
		c.prompt("n1", 1)
		c.heard()
		ended, end := context.WithCancel(t.Context())
		end()
		fails(t, c.agent.Stop(ended), nil, "the handler ended by itself")
		cut = false
		c.start()
		for _, id := range []bcp.DeliveryID{"n1", "n2"} {
			c.prompt(id, 2)
			nextIs(t, entered, id, "the handler again")
			c.acknowledged(id, 2)
		}
		none(t, c.acks, "an acknowledgement of what was not handled")
	})
}
