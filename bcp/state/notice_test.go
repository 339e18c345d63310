package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Prompts and final results wait, bounded: beyond the most the oldest goes. Each
// is acknowledged once, by its agent in its role and by nobody else.
//
// covers P7.6, P9.4, A-LOGFILL
func TestNotices(t *testing.T) {
	t.Parallel()
	var lines []string
	for n := range maxNotices + 1 {
		lines = append(lines, fmt.Sprintf("relay 1h p%03d", n))
	}
	w := newWorld(t, scheduled(lines...)).play("start\nwait 1h\n" + strings.Repeat("due => notice\n", maxNotices))
	waiting := w.state.Notices("relay", bcp.RoleController)
	oldest := waiting[0]
	stopIf(t, len(waiting) != maxNotices || oldest.Message.(bcp.Prompt).Message != "p000" || len(w.state.noticed) != maxNotices,
		"%d notices wait, the oldest %+v", len(waiting), oldest)
	w.play("due => notice")
	waiting = w.state.Notices("relay", bcp.RoleController)
	stopIf(t, len(waiting) != maxNotices || waiting[0].Message.(bcp.Prompt).Message != "p001" || w.state.Waits(oldest.ID) || len(w.state.noticed) != maxNotices,
		"%d notices wait, the oldest %+v", len(waiting), waiting[0])
	id := waiting[3].ID
	for _, who := range []agentRole{{"relay", bcp.RoleReader}, {"planner", bcp.RoleController}, {"mail", bcp.RoleReader}, {"mia", bcp.RoleApprover}, {"", 0}, {"relay", 0}} {
		expect(t, errorOf(w.state.DecideAcknowledge(w.moment(), who.agent, who.role, id)), false, "%v acknowledges", who)
	}
	expect(t, errorOf(w.state.DecideAcknowledge(w.moment(), "relay", bcp.RoleController, oldest.ID)), false, "what was dropped is acknowledged")
	d, ok := w.state.DecideAcknowledge(w.moment(), "relay", bcp.RoleController, id)
	stopIf(t, !ok || d.Notice != id || d.Delivery != "" || !w.state.Waits(id), "an acknowledgement is %+v, %v", d, ok)
	w.commit(d)
	if _, again := w.state.DecideAcknowledge(w.moment(), "relay", bcp.RoleController, id); again || w.state.Waits(id) || len(w.state.Notices("relay", bcp.RoleController)) != maxNotices-1 {
		t.Error("acknowledged, it waits still")
	}
	failIf(t, w.state.Notices("nobody", bcp.RoleReader) != nil || w.state.Waits(""), "notices of nobody")
	w.play("")
}

// A notice is no delivery: it begins no session, waits in no outbox, and a
// Controller's acknowledgement of a delivery is none of it.
//
// covers P7.6, P9.1
func TestNoticesAreNoDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(`
		push relay planner alarm {"ok":true}     => delivers
		push mail planner memo {"summary":"a_b"} => hold
		reject 1 no                              => notice !begins
		ack planner                              => acknowledge !notice
		ack planner                              => nothing`)
	n := w.state.Notices("mail", bcp.RoleReader)
	failIf(t, len(n) != 1 || n[0].Peer != "planner" || len(w.state.Notices("mail", bcp.RoleController)) != 0, "notices %+v", n)
	w.play(`
		notice mail => acknowledge silent
		notice mail => nothing`)
}
