package agents

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/subjects"
)

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
