package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// journalOf is the journal as the operator reads it.
func journalOf(o *agents.Operator) jetstream.Records {
	return func(ctx context.Context, from, _ uint64, each func(jetstream.Record) error) error {
		for r, err := range o.Journal(ctx, from) {
			if err != nil {
				return err
			}
			decisions, err := jetstream.DecodeRecord(r.Data)
			if err == nil {
				err = each(jetstream.Record{Sequence: r.Sequence, Left: r.Pending, Decisions: decisions})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func redecideRunning(t *testing.T, m *meshtest.Mesh, def *bcp.Mesh) *compared {
	t.Helper()
	c := &compared{count: map[state.Comparison]int{}}
	o := operator(t, m)
	_, err := mesh.Dial(m.State, def, operatorOf(o)).Redecide(t.Context(), mesh.RedecideOptions{Definition: def, Version: "test", Each: c.each})
	noError(t, err)
	return c
}

// Sealing keys are the operator's. It hears of one that was destroyed, of one that
// never was, and nothing else is given out.
//
// covers P11.4, P11.5
func TestKeysAreGivenToTheOperator(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	reader(t, m, "mailer").Push(t, "main", "notes", `{"note":"two words"}`, "")
	day := time.Now().UTC().Format(time.DateOnly)
	if d := m.Wait(t, meshtest.Of(bcp.KindPush)); d.At().Format(time.DateOnly) != day {
		day = d.At().Format(time.DateOnly) // of a midnight
	}
	o := operator(t, m)
	for _, sealed := range []subjects.Sealed{subjects.SealedPayload, subjects.SealedRaw} {
		k, err := o.Key(t.Context(), subjects.Key("main", "mailer", sealed, day))
		failIf(t, err != nil || len(k.Key) != 32 || k.Destroyed, "%s: %d bytes, %v", sealed, len(k.Key), err)
	}
	k, err := o.Key(t.Context(), subjects.Key("main", "mailer", subjects.SealedRaw, "2120-01-01"))
	failIf(t, err != nil || len(k.Key) != 0 || k.Destroyed, "a key that never was: %v, %v", k, err)
	for _, subject := range []string{"", "nonsense", subjects.All(subjects.KindKey), subjects.Expiry(subjects.SealedRaw), subjects.Commit(), subjects.Audit("main", "mailer", "push")} {
		_, err := o.Key(t.Context(), subject)
		failIf(t, !refusedWith(err, bcp.Malformed), "%q: %v", subject, err)
	}
	// The raw key is destroyed: it is told, and nothing else.
	m.Stop(t)
	js, end := m.Streams(t)
	noError(t, jetstream.NewSealingKeys(js).ExpireRaw(t.Context(), time.Now().AddDate(0, 0, 40), 30*24*time.Hour))
	end()
	m.Start(t)
	k, err = operator(t, m).Key(t.Context(), subjects.Key("main", "mailer", subjects.SealedRaw, day))
	failIf(t, err != nil || len(k.Key) != 0 || !k.Destroyed, "a destroyed key: %v, %v", k, err)

	// Nobody else gets any.
	subject := subjects.Control(bcp.ControlKey)
	for name, role := range map[bcp.AgentName]bcp.Role{"main": bcp.RoleController, "mailer": bcp.RoleReader, "operator": bcp.RoleAuditor} {
		other := m.Connect(t, name, role)
		before := m.Count(meshtest.Of(bcp.KindViolation))
		if reply, err := other.Conn.Request(subject, []byte(`{"key":"`+subjects.Key("main", "mailer", subjects.SealedPayload, day)+`"}`), 100*time.Millisecond); err == nil {
			t.Errorf("%s as %s gets %s", name, role, reply.Data)
		}
		m.WaitCount(t, before+1, meshtest.Of(bcp.KindViolation))
	}
}

func refusedWith(err error, code bcp.Code) bool {
	var refused *agents.RefusedError
	return errors.As(err, &refused) && refused.Code == code
}
