package state

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// roleMesh is one whose Reader mail has to show its roles on the channel of planner.
func roleMesh() *bcp.Mesh {
	m := testMesh()
	channelIn(m, plannerMail).ReaderRole = "strict"
	m.Trust = []bcp.Trust{{Organisation: "org2.example", Key: [32]byte{2}}, {Organisation: "org2.example", Key: [32]byte{22}}, {Organisation: "org3.example", Key: [32]byte{3}}}
	m.RoleRequirements = []bcp.RoleRequirement{{Name: "strict", Document: jsontext.Value(`{"architectures":["dual_llm"]}`)}}
	return m
}

func (w *world) verdict(serial string, number int64, lasts time.Duration) RoleVerdict {
	return RoleVerdict{Acceptance: contract.Acceptance{Accepted: true, Until: w.now.Add(lasts), Signer: [32]byte{2}, Statement: contract.Statement{Serial: serial}},
		Organisation: "org2.example", List: RoleRevocations{"org2.example", contract.Revocations{Number: number}}}
}

func (w *world) judged(requirement string, v RoleVerdict) bcp.Decision {
	w.t.Helper()
	return w.commit(w.state.DecideDeclare(w.moment(), "mail", bcp.RoleReader, requirement, "UMAIL", []byte("declared"), v))
}

// asks asks mail, and returns the code of the refusal.
func (w *world) asks() bcp.Code {
	w.t.Helper()
	w.play("ask planner mail yes")
	return w.last.Code
}

// Until an agent is accepted, asks and pushes of its channel are role_required and cost
// nothing; then they are decided as ever, until the acceptance ends.
//
// covers P14.2, DUAL-91, DUAL-93
func TestRoleRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleMesh())
	push := "push mail planner alarm {\"ok\":true}"
	if code := w.asks(); code != bcp.RoleRequired || w.last.Nominal != 0 || w.last.Check != bcp.CheckRole {
		t.Errorf("an ask: %q by %s", code, w.last.Check)
	}
	failIf(t, !w.last.Excused, "an agent's refusals count for what the other end has not shown")
	if w.play(push); w.last.Code != bcp.RoleRequired || w.last.Capacity != 0 || w.last.Excused {
		t.Errorf("a push: %q, excused %t", w.last.Code, w.last.Excused)
	}
	d := w.judged("strict", w.verdict("a-1", 7, time.Hour))
	stopIf(t, d.Verdict != bcp.Accept || d.Declare.Organisation != "org2.example" || strings.Contains(fmt.Sprint(d.Declare), "a-1"),
		"%+v", d.Declare)
	expect(t, w.asks(), "", "an ask of an accepted agent")
	w.play(push)
	failIf(t, w.last.Code != "", "a push of an accepted agent: %q", w.last.Code)
	w.play("wait 59m59s")
	expect(t, w.asks(), "", "in the last second")
	w.play("wait 1s")
	expect(t, w.asks(), bcp.RoleRequired, "after its end")
}

// With release slots a Controller does not hear whether its Reader has shown its roles: a
// Reader that has not is one that does not answer, heard in a slot and paid for. Else a
// Reader could say a bit with each ask that nobody counts.
//
// covers P14.2, P4.7
func TestRolesInSlots(t *testing.T) {
	t.Parallel()
	slots := roleMesh()
	ch := channelIn(slots, plannerMail)
	ch.ReleaseInterval, ch.Budget, ch.PushBudget = time.Minute, 1000*bcp.Bit, 1000*bcp.Bit
	silent, missing := newWorld(t, slots), newWorld(t, slots)
	silent.judged("strict", silent.verdict("a-1", 7, 24*time.Hour))
	for _, w := range []*world{silent, missing} {
		code := w.asks()
		failIf(t, code != "" || w.last.Verdict != bcp.Accept, "an ask: %q", code)
	}
	failIf(t, silent.last.Nominal != missing.last.Nominal || silent.last.Capacity != missing.last.Capacity || silent.last.Remaining != missing.last.Remaining,
		"%v and %v", silent.last, missing.last)
	missing.play("answer mail 1 {\"ok\":true} => query_expired")
	missing.play("push mail planner alarm {\"ok\":true}")
	failIf(t, missing.last.Code != bcp.RoleRequired, "a push: %q", missing.last.Code)
	ch.ControllerRole = bcp.DualLLMRole
	expect(t, newWorld(t, slots).asks(), bcp.RoleRequired, "a Controller that has not shown its own")
}

// An acceptance is of one agent, one requirement as it is, and one key as long as that is
// trusted; whatever is not all of that is refused, and takes what was accepted before.
//
// covers P14.2, DUAL-92, DUAL-105
func TestAcceptanceIsBound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(requirement *string, v *RoleVerdict){
		"refused":                    func(_ *string, v *RoleVerdict) { v.Accepted, v.Code = false, "revoked" },
		"accepted with a code":       func(_ *string, v *RoleVerdict) { v.Code = "revoked" },
		"neither":                    func(_ *string, v *RoleVerdict) { v.Accepted = false },
		"another organisation":       func(_ *string, v *RoleVerdict) { v.Organisation = "org4.example" },
		"no organisation":            func(_ *string, v *RoleVerdict) { v.Organisation = "" },
		"a key that is not trusted":  func(_ *string, v *RoleVerdict) { v.Signer = [32]byte{9} },
		"the key of another":         func(_ *string, v *RoleVerdict) { v.Signer = [32]byte{3} },
		"an end that has passed":     func(_ *string, v *RoleVerdict) { v.Until = v.Until.Add(-time.Hour) },
		"a list that goes back":      func(_ *string, v *RoleVerdict) { v.List.Number = 6 },
		"a requirement that is none": func(r *string, _ *RoleVerdict) { *r = "none" },
		"another requirement":        func(r *string, _ *RoleVerdict) { *r = bcp.DualLLMRole },
	} {
		w := newWorld(t, roleMesh())
		requirement, v := "strict", w.verdict("a-1", 7, time.Hour)
		d := w.judged(requirement, v)
		stopIf(t, d.Verdict != bcp.Accept, "%v", d.Declare)
		again := w.verdict("a-2", 7, time.Hour)
		change(&requirement, &again)
		w.judged(requirement, again)
		code := w.asks()
		failIf(t, (code == bcp.RoleRequired) != (requirement == "strict"), "%s: %q", name, code)
	}
	for name, edit := range map[string]func(m *bcp.Mesh){
		"trust ends now":              func(m *bcp.Mesh) { m.Trust[0].Until = time.Unix(1, 0) },
		"trust is taken":              func(m *bcp.Mesh) { m.Trust = m.Trust[1:] },
		"the requirement is another":  func(m *bcp.Mesh) { m.RoleRequirements[0].Document = jsontext.Value(`{}`) },
		"the requirement is gone":     func(m *bcp.Mesh) { m.RoleRequirements = nil },
		"the channel wants something": func(m *bcp.Mesh) { channelIn(m, plannerMail).ControllerRole = bcp.DualLLMRole },
	} {
		w := newWorld(t, roleMesh())
		w.judged("strict", w.verdict("a-1", 7, time.Hour))
		m := roleMesh()
		edit(m)
		w.reload(m)
		expect(t, w.asks(), bcp.RoleRequired, "%s", name)
	}
}

// A list of revocations ends what it names, of its own organisation alone; an older list
// is refused, and the same one again leaves no record.
//
// covers P14.3, DUAL-93
func TestRevocationsEndAcceptance(t *testing.T) {
	t.Parallel()
	list := func(organisation string, number int64, serials, keys string) RoleRevocations {
		return RoleRevocations{organisation, contract.Revocations{Number: number, Serials: strings.Fields(serials), Keys: strings.Fields(keys)}}
	}
	for _, c := range []struct {
		list    RoleRevocations
		verdict bcp.Outcome
		records bool
		ends    bool
	}{
		{list("org2.example", 8, "a-1", ""), bcp.Accept, true, true},
		{list("org2.example", 8, "", "UMAIL"), bcp.Accept, true, true},
		{list("org2.example", 8, "a-2", "UOTHER"), bcp.Accept, true, false},
		{list("org2.example", 7, "a-1", "UMAIL"), bcp.Accept, false, false},
		{list("org2.example", 6, "a-1", ""), bcp.Reject, true, false},
		{list("org3.example", 9, "a-1", "UMAIL"), bcp.Accept, true, false},
		{list("org4.example", 9, "a-1", ""), bcp.Reject, true, false},
		{list("", 9, "a-1", ""), bcp.Reject, true, false},
	} {
		w := newWorld(t, roleMesh())
		w.judged("strict", w.verdict("a-1", 7, time.Hour))
		d, records := w.state.DecideRevocations(w.moment(), bcp.Operator, bcp.RoleOperator, nil, c.list)
		failIf(t, d.Verdict != c.verdict || records != c.records || (len(d.Declare.Ended) > 0) != c.ends,
			"%+v: %v, %t, %+v", c.list, d.Verdict, records, d.Declare)
		if records {
			w.commit(d)
		}
		code := w.asks()
		failIf(t, (code == bcp.RoleRequired) != c.ends, "%+v: an ask hears %q", c.list, code)
	}
	// A list that comes with a declaration ends what it names, too, whatever becomes of the
	// declaration: nobody needs to bring it again.
	for _, accepted := range []bool{true, false} {
		w := newWorld(t, roleMesh())
		w.judged("strict", w.verdict("a-1", 7, time.Hour))
		v := w.verdict("b-1", 8, time.Hour)
		v.List.Serials, v.Accepted = []string{"a-1"}, accepted
		w.commit(w.state.DecideDeclare(w.moment(), "web", bcp.RoleReader, "strict", "UWEB", []byte("declared"), v))
		if code := w.asks(); code != bcp.RoleRequired || w.state.LastRevocations("org2.example") != 8 {
			t.Errorf("accepted %t: an ask hears %q", accepted, code)
		}
		v.List.Organisation = "org3.example"
		if v.List.Number = 9; w.judged("strict", v).Declare.Number != 0 || w.state.LastRevocations("org3.example") != 0 {
			t.Error("a list of another organisation is taken")
		}
	}
	w := newWorld(t, roleMesh())
	d, _ := w.state.DecideRevocations(w.moment(), "mail", bcp.RoleReader, []byte("a list"), list("org2.example", 8, "", ""))
	w.commit(d)
	if d := w.judged("strict", w.verdict("a-1", 7, time.Hour)); d.Verdict == bcp.Accept {
		t.Error("a list that goes back is accepted with a declaration")
	}
	expect(t, w.state.LastRevocations("org2.example"), 8, "the newest list")
}

// What agents told about agents of the mesh is recorded, and changes nothing; a run of
// somebody who has not shown its roles is refused with a record.
//
// covers P14.4
func TestHeardAndMissingRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roleMesh())
	d := w.commit(w.state.DecideHeard(w.moment(), "mail", bcp.RoleReader, "planner", []byte("x"), contract.Acceptance{Accepted: true, Until: w.now.Add(time.Hour)}))
	failIf(t, d.Verdict != bcp.Accept || d.Target != "planner" || w.asks() != bcp.RoleRequired, "%+v", d.Declare)
	d = w.commit(w.state.DecideRoleMissing(w.moment(), "planner", []byte("a task")))
	failIf(t, d.Code != bcp.RoleRequired || d.Check != bcp.CheckRole || d.RawCommitment == (bcp.Digest{}), "%+v", d)
	failIf(t, sha256.Sum256([]byte("strict\x00{\"architectures\":[\"dual_llm\"]}")) != w.state.mesh.RoleRequirements[0].Digest(),
		"the digest of a requirement is not of its name and its document")
}
