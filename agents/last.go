package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Last returns the newest record of the audit. [ErrNoRecords] says that there
// is none yet.
func (a *Auditor) Last(ctx context.Context) (AuditRecord, error) {
	body, err := json.Marshal(struct {
		LastBySubject string `json:"last_by_subj"`
	}{subjects.All(subjects.KindAudit)})
	if err != nil {
		return AuditRecord{}, fmt.Errorf("agents: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.conn.options.Attempt, nats.ErrTimeout)
	defer cancel()
	m, err := a.conn.nc.RequestWithContext(ctx, subjects.AuditPrefix+".DIRECT.GET."+subjects.AuditStream, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return AuditRecord{}, fmt.Errorf("%w: %w", ErrNoRecords, err)
	case err != nil:
		return AuditRecord{}, &UnansweredError{Err: ended(ctx), Last: err}
	case m.Header.Get("Status") == "404":
		return AuditRecord{}, ErrNoRecords
	}
	r, err := record(m)
	if err != nil {
		return AuditRecord{}, err
	}
	d, err := bcp.DecodeDecision(r.Data)
	if err != nil {
		return AuditRecord{}, fmt.Errorf("agents: record %d: %w", r.Sequence, err)
	}
	return AuditRecord{Record: r, Decision: d}, nil
}
