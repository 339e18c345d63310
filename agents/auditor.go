package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Auditor reads the audit and the ledger: the projections of the journal for
// people. It needs no Start, and can change nothing. Whether the chain of
// records is whole is for the offline verifier to say, not for this client.
type Auditor struct{ conn *Connection }

// NewAuditor returns the Auditor of a connection.
func NewAuditor(c *Connection) *Auditor { return &Auditor{conn: c} }

// Record is one message of a stream.
type Record struct {
	Sequence uint64    // in its stream, from 1
	Subject  string    // which package subjects parses
	Time     time.Time // when it was stored; what it tells has the journal's time
	Data     []byte    // MessagePack
}

// AuditRecord is one record of the audit.
type AuditRecord struct {
	Record
	// Decision is what the data says: the journal's decision without spec and
	// payload.
	Decision bcp.Decision
}

// ErrNoRecords: the stream is not there, or these creds may not read it.
var ErrNoRecords = errors.New("agents: no stream of records to read")

// Audit returns the records of the audit in order, from the sequence number
// from (0: the first) to the last one that there is. The error, always the last
// value, is [ErrNoRecords], an [*UnansweredError] when ctx ended, or why a
// record could not be read.
func (a *Auditor) Audit(ctx context.Context, from uint64) iter.Seq2[AuditRecord, error] {
	return decoded(a.read(ctx, subjects.AuditStream, from, false))
}

// Follow is Audit that goes on with new records, which it looks for four times
// a second, until ctx ends: then the loop ends without an error.
func (a *Auditor) Follow(ctx context.Context, from uint64) iter.Seq2[AuditRecord, error] {
	return decoded(a.read(ctx, subjects.AuditStream, from, true))
}

func decoded(records iter.Seq2[Record, error]) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		for r, err := range records {
			d := AuditRecord{Record: r}
			if err == nil {
				if d.Decision, err = bcp.DecodeDecision(r.Data); err != nil {
					err = fmt.Errorf("agents: record %d: %w", r.Sequence, err)
				}
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// Ledger returns the newest line of every channel, sorted by subject. The data
// is for bcp.DecodeLedgerLine.
func (a *Auditor) Ledger(ctx context.Context) ([]Record, error) {
	page, err := a.page(ctx, subjects.LedgerStream, getRequest{MultiLast: []string{subjects.All(subjects.KindLedger)}})
	if errors.Is(err, errTooMany) {
		return a.newest(ctx)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(page.records, bySubject)
	return page.records, nil
}

func bySubject(a, b Record) int { return cmp.Compare(a.Subject, b.Subject) }

// newest reads the whole ledger: the server gives the last records of 1,024
// subjects at most.
func (a *Auditor) newest(ctx context.Context) ([]Record, error) {
	newest := make(map[string]Record)
	for r, err := range a.read(ctx, subjects.LedgerStream, 0, false) {
		if err != nil {
			return nil, err
		}
		newest[r.Subject] = r
	}
	return slices.SortedFunc(maps.Values(newest), bySubject), nil
}

// read returns the records of a stream, page by page.
func (a *Auditor) read(ctx context.Context, stream string, next uint64, follow bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		next := max(next, 1)
		for {
			page, err := a.page(ctx, stream, getRequest{Seq: next, Batch: auditBatch})
			if follow && (errors.Is(err, ErrNoRecords) || ctx.Err() != nil) {
				// The server may be starting; its streams come later.
				if !sleep(ctx, nil, followEvery) {
					return
				}
				continue
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range page.records {
				if !yield(r, nil) {
					return
				}
				next = r.Sequence + 1
			}
			if page.pending > 0 && len(page.records) > 0 {
				continue
			}
			if !follow || !sleep(ctx, nil, followEvery) {
				return
			}
		}
	}
}

// getRequest is a request of the server's direct-get interface.
type getRequest struct {
	Seq       uint64   `json:"seq,omitzero"`
	Batch     int      `json:"batch,omitzero"`
	MultiLast []string `json:"multi_last,omitempty"`
}

type page struct {
	records []Record
	pending uint64 // records behind these
}

var (
	errTooMany    = errors.New("agents: too many subjects for one request")
	errIncomplete = errors.New("agents: a page of records came incomplete")
)

// page makes one request, again and again until it is answered in full. That
// nobody answers is final: the server itself does, if it may.
func (a *Auditor) page(ctx context.Context, stream string, request getRequest) (page, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return page{}, fmt.Errorf("agents: %w", err)
	}
	subject := subjects.AuditPrefix + ".DIRECT.GET." + stream
	var last error
	for n := 1; ; n++ {
		p, err := a.attempt(ctx, subject, body)
		if err == nil || ctx.Err() == nil && !errors.Is(err, errIncomplete) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, nats.ErrReconnectBufExceeded) {
			return p, err
		}
		if denied := a.conn.denied("Publish", subject); denied != nil {
			return page{}, fmt.Errorf("agents: %w", denied)
		}
		if ctx.Err() == nil {
			last = err
			sleep(ctx, nil, pauseBefore(n, firstWait, a.conn.options.MaxWait))
		}
		if ctx.Err() != nil {
			return page{}, &UnansweredError{Err: ended(ctx), Last: last}
		}
	}
}

// attempt reads the replies to one request. Each names the sequence of the one
// before it, so that a lost one is noticed.
func (a *Auditor) attempt(ctx context.Context, subject string, body []byte) (page, error) {
	nc := a.conn.nc
	inbox := nc.NewInbox()
	replies, err := nc.SubscribeSync(inbox)
	if err != nil {
		return page{}, fmt.Errorf("agents: %w", err)
	}
	defer func() { _ = replies.Unsubscribe() }()
	ctx, cancel := context.WithTimeoutCause(ctx, a.conn.options.Attempt, nats.ErrTimeout)
	defer cancel()
	if err := nc.PublishRequest(subject, inbox, body); err != nil {
		return page{}, fmt.Errorf("agents: %w", err)
	}
	var p page
	var before uint64
	for {
		m, err := replies.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return page{}, fmt.Errorf("%w: %w", ErrNoRecords, err)
		case err != nil && ctx.Err() != nil:
			return page{}, ended(ctx)
		case err != nil:
			return page{}, fmt.Errorf("agents: %w", err)
		}
		if status := m.Header.Get("Status"); status != "" {
			return p.end(m.Header, status, before)
		}
		r, err := record(m)
		if err != nil {
			return page{}, err
		}
		if number(m.Header, nats.JSLastSequence) != before {
			return page{}, errIncomplete
		}
		p.records, before = append(p.records, r), r.Sequence
	}
}

// end judges the message that ends a page.
func (p page) end(h nats.Header, status string, before uint64) (page, error) {
	switch status {
	case "204":
		if number(h, nats.JSLastSequence) != before {
			return page{}, errIncomplete
		}
		p.pending = number(h, "Nats-Num-Pending")
		return p, nil
	case "404":
		return p, nil
	case "413":
		return page{}, errTooMany
	default:
		return page{}, fmt.Errorf("agents: the server refused to read records, status %.3s", status)
	}
}

func record(m *nats.Msg) (Record, error) {
	r := Record{Sequence: number(m.Header, nats.JSSequence), Subject: m.Header.Get(nats.JSSubject), Data: m.Data}
	stored, err := time.Parse(time.RFC3339Nano, m.Header.Get(nats.JSTimeStamp))
	if err != nil || r.Sequence == 0 {
		return r, ErrMessage
	}
	r.Time = stored
	return r, nil
}

// number returns 0 for what is no number.
func number(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(h.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
