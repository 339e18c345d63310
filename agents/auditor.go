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
type Auditor struct {
	conn *Connection
}

// NewAuditor returns the Auditor of a connection.
func NewAuditor(c *Connection) *Auditor { return &Auditor{conn: c} }

// Record is one message of a stream.
type Record struct {
	Sequence uint64    // in its stream, from 1
	Subject  string    // which package subjects parses
	Time     time.Time // when it was stored; what it tells has the journal's time
	Data     []byte    // MessagePack
	Pending  uint64    // records after this one, when it was read
}

// AuditRecord is one record of the audit.
type AuditRecord struct {
	Record
	// Decision is the decoded decision of the journal, without spec and
	// payload.
	Decision bcp.Decision
}

// ErrNoRecords: the stream is not there, or these creds may not read it.
var ErrNoRecords = errors.New("agents: no stream of records to read")

// Selection selects records of the audit. The zero value selects all.
type Selection struct {
	From       uint64 // sequence number, 0 for the first
	Controller bcp.AgentName
	Reader     bcp.AgentName // both or none, of a channel
	Kind       bcp.DecisionKind
	// Follow continues with new records, polled four times a second, until the
	// context ends: then the loop ends without an error.
	Follow bool
}

// pattern returns the subjects to match, empty for all: without a pattern the
// server finds records faster.
func (s *Selection) pattern() (string, error) {
	if s.Controller == "" && s.Reader == "" && s.Kind == 0 {
		return "", nil
	}
	kind := ""
	if s.Kind != 0 {
		kind = s.Kind.String()
	}
	pattern := subjects.AuditOf(s.Controller, s.Reader, kind)
	if pattern == "" {
		return "", errors.New("agents: a selection without a valid channel")
	}
	return pattern, nil
}

// Select returns the selected records of the audit in order. The server leaves
// out the others. The error, always the last value, is [ErrNoRecords], an
// [*UnansweredError] when ctx ended, or why a record could not be read.
func (a *Auditor) Select(ctx context.Context, s Selection) iter.Seq2[AuditRecord, error] {
	pattern, err := s.pattern()
	if err != nil {
		return func(yield func(AuditRecord, error) bool) { yield(AuditRecord{}, err) }
	}
	return decoded(a.read(ctx, subjects.AuditStream, s.From, pattern, s.Follow))
}

// From returns the sequence number of the first record of a decision that was
// made at or after at, or one past the last record. It reads few records, since
// they are in the order of journal time.
func (a *Auditor) From(ctx context.Context, at time.Time) (uint64, error) {
	last, err := a.Last(ctx)
	if errors.Is(err, ErrNoRecords) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	low, high := uint64(1), last.Sequence+1
	for low < high {
		middle := low + (high-low)/2
		r, ok, err := a.At(ctx, middle)
		switch {
		case err != nil:
			return 0, err
		case ok && r.Decision.At().Before(at):
			low = r.Sequence + 1
		default:
			high = middle
		}
	}
	return low, nil
}

// At returns the record at a sequence number, or the next one after it; false if there
// is none.
func (a *Auditor) At(ctx context.Context, sequence uint64) (r AuditRecord, ok bool, err error) {
	p, err := a.page(ctx, subjects.AuditStream, getRequest{Seq: max(sequence, 1), Batch: 1})
	if err != nil || len(p.records) == 0 {
		return AuditRecord{}, false, err
	}
	r, err = decode(p.records[0])
	return r, err == nil, err
}

func decode(record Record) (r AuditRecord, err error) {
	r.Record = record
	if r.Decision, err = bcp.DecodeDecision(record.Data); err != nil {
		err = fmt.Errorf("agents: record %d: %w", record.Sequence, err)
	}
	return r, err
}

func decoded(records iter.Seq2[Record, error]) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		for r, err := range records {
			d := AuditRecord{Record: r}
			if err == nil {
				d, err = decode(r)
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
	for r, err := range a.read(ctx, subjects.LedgerStream, 0, "", false) {
		if err != nil {
			return nil, err
		}
		newest[r.Subject] = r
	}
	return slices.SortedFunc(maps.Values(newest), bySubject), nil
}

// read returns the records of a stream that match a pattern, page by page.
func (a *Auditor) read(ctx context.Context, stream string, next uint64, pattern string, follow bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		request := getRequest{Seq: max(next, 1), Batch: auditBatch, MaxBytes: auditBytes, Next: pattern}
		for {
			p, err := a.page(ctx, stream, request)
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
			for _, r := range p.records {
				if !yield(r, nil) {
					return
				}
				request.Seq = r.Sequence + 1
			}
			if len(p.records) > 0 && p.pending > 0 {
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
	Next      string   `json:"next_by_subj,omitzero"`
	MaxBytes  int      `json:"max_bytes,omitzero"`
	MultiLast []string `json:"multi_last,omitempty"`
	Last      string   `json:"last_by_subj,omitzero"`
}

type page struct {
	records []Record
	pending uint64 // records after these
}

var (
	errTooMany    = errors.New("agents: too many subjects for one request")
	errIncomplete = errors.New("agents: a page of records came incomplete")
)

// page makes one request until it is answered in full.
func (a *Auditor) page(ctx context.Context, stream string, request getRequest) (p page, err error) {
	err = a.ask(ctx, stream, request, func(subject string, body []byte) (err error) {
		p, err = a.pageOnce(ctx, subject, body)
		return err
	})
	return p, err
}

// ask retries attempt until it succeeds or fails permanently. A missing reply is
// final if an attempt could have taken that long: a stream that is being created, or
// elects its leader, answers a moment later.
func (a *Auditor) ask(ctx context.Context, stream string, request getRequest, attempt func(subject string, body []byte) error) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	subject := subjects.AuditPrefix + ".DIRECT.GET." + stream
	begun := time.Now()
	return a.conn.persist(ctx, subject, "", func() (again bool, err error) {
		if err = attempt(subject, body); errors.Is(err, nats.ErrNoResponders) {
			return ctx.Err() != nil || time.Since(begun) < a.conn.options.Attempt, fmt.Errorf("%w: %w", ErrNoRecords, nats.ErrNoResponders)
		}
		passes := isAny(err, errIncomplete, errReconnected, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrReconnectBufExceeded)
		return ctx.Err() != nil || passes, err
	})
}

// pageOnce reads the replies to one request. Each contains the sequence number
// of the one before, so a lost reply is noticed.
func (a *Auditor) pageOnce(ctx context.Context, subject string, body []byte) (page, error) {
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
		p.pending = number(h, numPending)
		return p, nil
	case "404":
		return p, nil
	case "413":
		return page{}, errTooMany
	default:
		return page{}, fmt.Errorf("agents: the server refused to read records, status %.3s", status)
	}
}

// numPending is the server's header for the number of records that follow.
const numPending = "Nats-Num-Pending"

func record(m *nats.Msg) (Record, error) {
	r := Record{Sequence: number(m.Header, nats.JSSequence), Subject: m.Header.Get(nats.JSSubject), Data: m.Data, Pending: number(m.Header, numPending)}
	stored, err := time.Parse(time.RFC3339Nano, m.Header.Get(nats.JSTimeStamp))
	if err != nil || r.Sequence == 0 {
		return r, ErrMessage
	}
	r.Time = stored
	return r, nil
}

// number returns 0 for a header that is not a number.
func number(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(h.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Last returns the newest record of the audit, or [ErrNoRecords] if there are
// none yet.
func (a *Auditor) Last(ctx context.Context) (AuditRecord, error) {
	var m *nats.Msg
	err := a.ask(ctx, subjects.AuditStream, getRequest{Last: subjects.All(subjects.KindAudit)}, func(subject string, body []byte) (err error) {
		m, err = a.conn.attempt(ctx, subject, body)
		return err
	})
	switch {
	case err != nil:
		return AuditRecord{}, err
	case m.Header.Get("Status") == "404":
		return AuditRecord{}, ErrNoRecords
	}
	r, err := record(m)
	if err != nil {
		return AuditRecord{}, err
	}
	return decode(r)
}
