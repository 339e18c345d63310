package mailroom

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

// Options say where the mesh is and what to read.
type Options struct {
	URL               string
	Reader, Assistant agents.Credentials
	Mail              fs.FS            // a Maildir
	Said              func(Said)       // hears everything that the Reader sends
	Did               func(string)     // hears what the assistant does
	After             func(Done) error // called after each message
}

// Done says that the Reader has pushed what it had to say about a message.
type Done struct {
	Number    int
	Message   *mailbox.Message
	Injection *Injection // set on hostile mail
}

// Run connects both agents and works through the mail, one message at a time.
// It returns when the Reader has read everything.
func Run(ctx context.Context, o Options) (err error) {
	readings, err := parseReadings(readingsFile)
	if err != nil {
		return err
	}
	// A hijacked reader is refused again and again, as the audit shows. Without a logger
	// agents would say so on stderr.
	silent := hclog.NewNullLogger()
	tainted, err := agents.Connect(ctx, o.URL, o.Reader, agents.Options{Name: ReaderAgent, Logger: silent})
	if err != nil {
		return err
	}
	defer tainted.Close()
	clean, err := agents.Connect(ctx, o.URL, o.Assistant, agents.Options{Name: AssistantAgent, Logger: silent})
	if err != nil {
		return err
	}
	defer clean.Close()

	r := &reader{client: agents.NewReader(tainted), said: o.Said, readings: readings}
	r.client.OnQuery(r.query)
	if err := r.client.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.client.Stop(context.WithoutCancel(ctx))) }()

	a := &assistant{client: agents.NewController(clean), did: o.Did}
	a.client.OnDelivery(a.handleDelivery)
	if err := a.client.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.client.Stop(context.WithoutCancel(ctx))) }()

	number := 0
	for m, err := range mailbox.Messages(o.Mail) {
		if number++; err == nil {
			err = r.handleMail(ctx, m)
		}
		if err != nil {
			return fmt.Errorf("mailroom: message %d: %w", number, err)
		}
		if err := o.After(Done{Number: number, Message: m, Injection: r.of(m).Injection}); err != nil {
			return err
		}
	}
	return nil
}
