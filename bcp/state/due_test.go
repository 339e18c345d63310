package state

import (
	"container/heap"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A deadline that cannot be decided, or is passed over, keeps nobody else's from being
// decided, in their order, nor an alert.
//
// covers P4.5, P9.5, A-CRASH
func TestStuckDeadlineStarvesNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		ask planner mail yes => accept
		ask planner mail num => accept`)
	w.now = w.now.Add(100 * 24 * time.Hour)
	// One that was not dropped when it ended.
	heap.Push(&w.state.deadline, timer{at: 1, query: "gone"})
	d, ok := w.state.DecideDue(w.moment())
	stopIf(t, !ok || d.Query != w.queries[0], "behind a deadline that cannot be decided: %+v, %v", d, ok)
	var asked []Due
	stuck := func(which Due) bool {
		asked = append(asked, which)
		return len(asked) == 1
	}
	if d, ok = w.state.DecideDueBut(w.moment(), stuck); !ok || d.Query != w.queries[1] || len(asked) != 2 {
		t.Errorf("behind one that is passed over: %+v, %v, after %d", d, ok, len(asked))
	}
	w.state.alerts = []alert{{channel: plannerMail, kind: bcp.AlertThreshold, epoch: 1}, {channel: plannerMail, kind: bcp.AlertSpending, epoch: 1}}
	all := func(which Due) bool { return which.alert.kind != bcp.AlertSpending }
	d, ok = w.state.DecideDueBut(w.moment(), all)
	failIf(t, !ok || d.Event != string(bcp.AlertSpending), "an alert behind one that is passed over: %+v, %v", d, ok)
	d, ok = w.state.DecideDueBut(w.moment(), func(Due) bool { return true })
	failIf(t, ok, "all are passed over: %+v", d)
}

// To ask whether a refusal is excused changes nothing: the state counts further answers
// when it applies their refusals, each once.
//
// covers P4.7, P9.5
func TestExcusedAnswersAreCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`ask planner mail yes => accept`)
	id := w.queries[0]
	d := bcp.Decision{Kind: bcp.KindAnswer, Verdict: bcp.Reject, Code: bcp.AlreadyAnswered, Agent: "mail", Role: bcp.RoleReader, Query: id}
	for range 3 * maxRepeats {
		q := w.state.answeredAgain(&d)
		stopIf(t, q == nil || !w.state.excused(&d) || q.others != 0, "asking counts")
	}
	for n := range maxRepeats + 2 {
		d := w.state.next(w.moment(), bcp.KindAnswer)
		d.Verdict, d.Code, d.Agent, d.Role, d.Query = bcp.Reject, bcp.AlreadyAnswered, "mail", bcp.RoleReader, id
		d.Excused = w.state.excused(&d)
		noError(t, w.state.Apply(&d, bcp.Digest{byte(n + 1)}))
		expect(t, w.state.agents["mail"].refusals.count, max(0, n+1-maxRepeats), "after %d further answers", n+1)
	}
}
