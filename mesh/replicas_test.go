package mesh_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// replica is one of several processes of a Reader. Each call of its handler is told, and
// waits for what to return.
type replica struct {
	number int
	conn   *agents.Connection
	listed chan struct{} // a list of subscriptions has come
}

type handled struct {
	replica int
	query   agents.Query
	answer  chan<- func() (any, error)
}

var urgentAnswer = func() (any, error) { return map[string]bool{"urgent": true}, nil }

// replicasOf starts n replicas of the Reader mailer with one handler each.
func replicasOf(t *testing.T, m *meshtest.Mesh, n int) ([]replica, <-chan handled) {
	t.Helper()
	calls := make(chan handled)
	all := make([]replica, n)
	for i := range all {
		conn := client(t, m, "mailer", bcp.RoleReader, agents.Options{Handlers: 1})
		all[i] = replica{i, conn, make(chan struct{}, 16)}
		r := agents.NewReader(conn)
		r.OnSubscriptions(func([]bcp.ActiveSubscription) { all[i].listed <- struct{}{} })
		r.OnQuery(func(ctx context.Context, q agents.Query) (any, error) {
			answer := make(chan func() (any, error), 1)
			select {
			case calls <- handled{i, q, answer}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			select {
			case f := <-answer:
				return f()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		noError(t, r.Start(t.Context()))
		wait(t, all[i].listed)
	}
	return all, calls
}

func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	return bcptest.Next(t, c, "what has to come")
}

// replicated is a mesh whose Reader has up to eight connections.
func replicated(share string) map[string]string {
	files := pair(1_000_000)
	files["mailer.md"] = agentFile("mailer", "max_connections: 8\nshare_queries: "+share+"\n", reads("main"))
	return files
}

// Eight replicas of a Reader work at eight queries at a time, and each query is handled
// once: what finds none free waits for one.
//
// covers P9.5
func TestReplicasShareQueries(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, replicated("true"))
	main := m.Connect(t, "main", bcp.RoleController)
	const replicas, queries = 8, 40
	_, calls := replicasOf(t, m, replicas)
	for range queries {
		main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
	}
	times := map[bcp.QueryID]int{}
	var first [replicas]handled
	for range replicas {
		c := wait(t, calls)
		holds(t, first[c.replica].answer == nil, "replica %d works at two queries", c.replica)
		first[c.replica] = c
		times[c.query.QueryID]++
	}
	for _, c := range first {
		c.answer <- urgentAnswer
	}
	for range queries - replicas {
		c := wait(t, calls)
		times[c.query.QueryID]++
		c.answer <- urgentAnswer
	}
	m.WaitCount(t, queries, of(bcp.KindAnswer, ""))
	failIf(t, len(times) != queries || m.Count(of(bcp.KindAnswer, bcp.AlreadyAnswered)) > 0,
		"%d queries were handled, %d answers came again", len(times), m.Count(of(bcp.KindAnswer, bcp.AlreadyAnswered)))
	for id, n := range times {
		expect(t, n, 1, "how often %s was handled", id)
	}
}

// What a replica had in its hands when it died is handled by another, and what a handler
// fails at holds nothing up.
//
// covers P9.5
func TestReplicaDies(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, replicated("true"))
	main := m.Connect(t, "main", bcp.RoleController)
	all, calls := replicasOf(t, m, 2)
	main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
	dying := wait(t, calls)
	all[dying.replica].conn.Close()
	next := wait(t, calls)
	failIf(t, next.replica == dying.replica || next.query.QueryID != dying.query.QueryID,
		"%d handles %s, and %d died over %s", next.replica, next.query.QueryID, dying.replica, dying.query.QueryID)
	main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
	next.answer <- func() (any, error) { return nil, errors.New("cannot be read") }
	second := wait(t, calls)
	if second.query.QueryID == next.query.QueryID {
		second.answer <- urgentAnswer
		second = wait(t, calls)
	}
	second.answer <- urgentAnswer
	m.Wait(t, of(bcp.KindAnswer, ""))
}

// Whoever gets a query again hears why the answer of another was refused.
//
// covers P9.5
func TestReplicasHearWhyAnAnswerWasRefused(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, replicated("true"))
	main := m.Connect(t, "main", bcp.RoleController)
	_, calls := replicasOf(t, m, 2)
	both := map[int]bool{}
	for range 2 { // while one of them holds a query, the other gets all
		main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
		held := wait(t, calls)
		main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
		other := wait(t, calls)
		other.answer <- func() (any, error) { return map[string]string{"urgent": "very"}, nil }
		again := wait(t, calls)
		failIf(t, again.query.Attempt != 1 || again.query.LastDetail == "" || again.replica != other.replica,
			"attempt %d, %q", again.query.Attempt, again.query.LastDetail)
		again.answer <- func() (any, error) { return map[string]string{"urgent": "extremely"}, nil }
		third := wait(t, calls)
		held.answer <- urgentAnswer
		both[held.replica] = true
		third.answer <- urgentAnswer
		m.WaitCount(t, 2*len(both), of(bcp.KindAnswer, ""))
	}
}

// Replicas follow the definition when it changes: they share, or each gets every query.
//
// covers P1.5, P9.5
func TestReloadChangesWhoGetsQueries(t *testing.T) {
	t.Parallel()
	m := startEdited(t, replicated("true"))
	main := m.Connect(t, "main", bcp.RoleController)
	all, calls := replicasOf(t, m.Mesh, 2)
	for _, share := range []string{"false", "true"} {
		r := m.edit(t, replicated(share))
		stopIf(t, len(r.Errors) > 0 || r.Error != "", "%+v", r)
		for _, replica := range all {
			wait(t, replica.listed)
		}
		main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
		c := wait(t, calls)
		if share == "false" {
			if d := wait(t, calls); d.query.QueryID != c.query.QueryID || d.replica == c.replica {
				t.Errorf("replica %d got %s, and replica %d %s", c.replica, c.query.QueryID, d.replica, d.query.QueryID)
			} else {
				d.answer <- urgentAnswer
			}
			c.answer <- urgentAnswer
			continue
		}
		main.Request(t, subjects.Ask("main", "mailer"), askUrgent)
		if d := wait(t, calls); d.query.QueryID == c.query.QueryID {
			t.Errorf("%s is handled twice", d.query.QueryID)
		} else {
			d.answer <- urgentAnswer
		}
		c.answer <- urgentAnswer
	}
}
