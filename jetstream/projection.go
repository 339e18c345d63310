package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// decisionHeader is the number of the decision that a projected message comes
// from: where a projection goes on after a restart.
const decisionHeader = "Bcp-Decision"

// projection makes at most one message of a decision.
type projection struct {
	stream  string
	kind    subjects.Kind
	project func(*bcp.Decision) (subject string, data []byte, err error)
}

func (p projection) filter() string { return subjects.All(p.kind) }

// audit is the last of the projections: see [Projector.project].
var (
	audit       = projection{AuditStream, subjects.KindAudit, projectAudit}
	projections = []projection{
		{LedgerStream, subjects.KindLedger, projectLedger},
		{ValidatedStream, subjects.KindValidated, projectValidated},
		audit,
	}
)

// Projections names the streams that are made of the journal.
func Projections() []string {
	names := make([]string, 0, len(projections))
	for _, p := range projections {
		names = append(names, p.stream)
	}
	return names
}

// projectAudit shows every decision without its payload, spec and salt.
func projectAudit(d *bcp.Decision) (string, []byte, error) {
	public := d.Public()
	data, err := bcp.EncodeDecision(&public)
	controller, reader := d.Controller, d.Reader
	if controller == "" || reader == "" {
		controller, reader = "", ""
	}
	return subjects.Audit(controller, reader, d.Kind.String()), data, err
}

// projectLedger shows the decisions that move bits.
func projectLedger(d *bcp.Decision) (string, []byte, error) {
	line, ok := d.Line()
	if !ok {
		return "", nil, nil
	}
	data, err := bcp.EncodeLedgerLine(line)
	return subjects.Ledger(d.Controller, d.Reader), data, err
}

// projectValidated shows what Controllers are sent, as JSON.
func projectValidated(d *bcp.Decision) (string, []byte, error) {
	message, ok := d.Message()
	if !ok || d.Repeat {
		return "", nil, nil
	}
	data, err := bcp.Encode(message, bcp.JSON)
	return subjects.Validated(d.Controller, d.Reader), data, err
}

// Projector keeps the projections up with the journal.
type Projector struct {
	js  natsjs.JetStream
	log hclog.Logger
}

// NewProjector returns a projector; a nil logger discards.
func NewProjector(js natsjs.JetStream, log hclog.Logger) *Projector {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	return &Projector{js: js, log: log}
}

// Run projects until ctx ends. It retries by itself: the projections are off
// the critical path, and being late harms nobody but the people who look.
func (p *Projector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.run(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("projecting the journal", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (p *Projector) run(ctx context.Context) error {
	done := make([]progress, len(projections))
	for i, projection := range projections {
		var err error
		if done[i], err = projected(ctx, p.js, projection); err != nil {
			return err
		}
	}
	stream, err := p.js.Stream(ctx, CommitStream)
	if err != nil {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, natsjs.OrderedConsumerConfig{DeliverPolicy: natsjs.DeliverAllPolicy})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(readAhead)
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		decisions, err := gather(ctx, messages)
		if err != nil {
			return err
		}
		// What was read is projected also where ctx has ended meanwhile.
		if err := p.project(context.WithoutCancel(ctx), decisions, done); err != nil {
			return err
		}
	}
}

// gatherTime is how late projections may be so that records share their
// acknowledgements: a record that comes alone would cost its messages more than
// the gateway spent on it, while the next one waits for the processor.
const gatherTime = 10 * time.Millisecond

// gather waits for the next record and returns its decisions with those of the
// records that come within gatherTime, up to about MaxRecordDecisions.
func gather(ctx context.Context, messages natsjs.MessagesContext) ([][]byte, error) {
	_, decisions, err := nextRecord(ctx, messages)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	for len(decisions) < MaxRecordDecisions {
		_, more, err := nextRecord(soon, messages)
		if soon.Err() != nil && err != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, more...)
	}
	return decisions, nil
}

// progress is how far a projection is: the number of the newest decision that
// it shows, and the sequence of its stream's newest message.
type progress struct{ decision, sequence uint64 }

// project writes the messages of some decisions and waits for the last of each
// stream. Each expects the one before it, so that where one fails those behind
// it fail too, the last says so for all of them, and a retry of what was stored
// after all is refused: a projection has no gaps and no doubles. The audit comes
// last: what it shows, the others have.
func (p *Projector) project(ctx context.Context, records [][]byte, done []progress) error {
	decisions := make([]bcp.Decision, len(records))
	for i, b := range records {
		d, err := bcp.DecodeDecision(b)
		if err != nil {
			return err
		}
		decisions[i] = d
	}
	for i, projection := range projections {
		var last *nats.Msg
		for k := range decisions {
			d := &decisions[k]
			if d.Seq <= done[i].decision {
				continue
			}
			subject, data, err := projection.project(d)
			if err != nil {
				return err
			}
			done[i].decision = d.Seq
			if subject == "" {
				continue
			}
			if last != nil {
				if err := p.js.Conn().PublishMsg(last); err != nil {
					return err
				}
			}
			last = &nats.Msg{Subject: subject, Data: data, Header: nats.Header{
				decisionHeader:               {strconv.FormatUint(d.Seq, 10)},
				natsjs.ExpectedLastSeqHeader: {strconv.FormatUint(done[i].sequence, 10)},
			}}
			done[i].sequence++
		}
		if last == nil {
			continue
		}
		ack, err := p.js.PublishMsgAsync(last)
		if err != nil {
			return err
		}
		if err := AwaitRaw(ctx, []natsjs.PubAckFuture{ack}); err != nil {
			return err
		}
	}
	return nil
}

// Projected waits until all projections show the decision with this number.
func Projected(ctx context.Context, js natsjs.JetStream, seq uint64) error {
	for {
		last, err := projected(ctx, js, audit)
		if err == nil && last.decision >= seq {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the audit: %w", errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// projected returns how far a projection is.
func projected(ctx context.Context, js natsjs.JetStream, p projection) (progress, error) {
	stream, err := js.Stream(ctx, p.stream)
	if err != nil {
		return progress{}, err
	}
	done := progress{sequence: stream.CachedInfo().State.LastSeq}
	// Not the message at the stream's last sequence: it may have been deleted.
	msg, err := stream.GetLastMsgForSubject(ctx, p.filter())
	if errors.Is(err, natsjs.ErrMsgNotFound) {
		return done, nil
	}
	if err != nil {
		return progress{}, fmt.Errorf("reading %s: %w", p.stream, err)
	}
	if done.decision, err = strconv.ParseUint(msg.Header.Get(decisionHeader), 10, 64); err != nil {
		return progress{}, fmt.Errorf("%w: %s has a message without %s", ErrRecord, p.stream, decisionHeader)
	}
	return done, nil
}
