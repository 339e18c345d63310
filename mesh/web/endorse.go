package web

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// What is like a held item may be let through without a person from here on (PROTOCOL P7.8).

const endorsedPath = "/approvals/endorsed"

// What the form begins with, where the mesh allows as much.
const (
	firstUses = 5
	firstTime = 24 * time.Hour
)

// endorsing begins an endorsement of what is like an item, of which the mesh says how much
// its person may give; why says that there can be none.
func (d *desk) endorsing() (e bcp.Endorsement, why string) {
	if e, why = bcp.EndorsementOf(&d.view, bcp.EndorsementID("e"+strings.ToLower(rand.Text()))); why != "" {
		return e, "That cannot be endorsed: " + why + "."
	}
	if d.view.Endorse == nil {
		return e, "You may not endorse what is like this: endorse of mesh.yaml does not name you for it."
	}
	return e, ""
}

// endorseData is what only the page has that lets answers through.
type endorseData struct {
	Path, SHA256, Back string
	// The rest is signed, with the fields that the person fills in; of it page.js makes
	// what a passkey signs.
	Credential       string // empty: the approver's own key signs
	Endorsement      bcp.Endorsement
	Spec, Codes      string
	Kind             string // answer or call
	From             int64  // Unix seconds, from which the time counts
	Unit             int64  // of the time, in seconds
	UnitName         string
	Uses, Time, Bits bound
}

// bound is a number that the person may give, and what the form begins with.
type bound struct{ First, Most int64 }

func (s *Server) endorseForm(w http.ResponseWriter, r *http.Request) {
	if d, ok := s.look(w, r); ok {
		s.showEndorse(w, r, http.StatusOK, d, "")
	}
}

func (s *Server) showEndorse(w http.ResponseWriter, r *http.Request, status int, d desk, fault string) {
	e, why := d.endorsing()
	if why != "" {
		s.showLeft(w, r, http.StatusForbidden, "Not endorsed", why)
		return
	}
	v := &d.view
	most := time.Duration(v.Endorse.Seconds) * time.Second
	unit, name := time.Hour, "Hours"
	if most < unit {
		unit, name = time.Minute, "Minutes"
	}
	cost := v.Capacity
	if v.Effect != nil {
		cost = v.Effect.Bits
	}
	each := int64((cost + bcp.Bit - 1) / bcp.Bit)
	channel, what, signs := tell.Endorsed(&e)
	of := endorseData{Kind: tell.EndorsedKind(&e), Path: d.root + itemPath(v.ID) + "/endorse", SHA256: digest(v.SHA256), Back: itemPath(v.ID), Credential: d.passkey.ID, Endorsement: e,
		Spec: digest(e.Spec), Codes: strings.Join(e.Codes, " "), From: s.logins.now().Unix(), Unit: int64(unit / time.Second), UnitName: name,
		Uses: bound{firstUses, int64(v.Endorse.Uses)}, Time: bound{int64(firstTime / unit), int64(most / unit)}, Bits: bound{max(firstUses*each, 1), int64(v.Endorse.Bits)}}
	for _, b := range []*bound{&of.Uses, &of.Time, &of.Bits} {
		b.First = min(b.First, b.Most)
	}
	switch {
	case e.Kernel != "":
		what = "calls of " + what
	case what == "":
		what = "answers to exactly this question"
	default:
		what = "pushes of the subscription " + what
	}
	facts := []fact{{Name: "channel", Value: channel}, {Name: "released", Value: what}, {Name: "signs", Value: signs + ", and no other"}, {Name: "bits", Value: tell.Count(int(each), "bit") + " for each one"}}
	if before := s.decidedAlike(&e); before != "" {
		facts = append(facts, fact{Name: "before", Value: before})
	}
	frames := tell.ItemFrames(v, s.logins.now())[:1]
	s.show(w, r, status, "endorse", page{Title: "Let what is like this through", Fault: fault, Facts: facts, Frames: framed(s.framing(r, frames), frames, &v.Item), Of: of})
}

// decidedAlike says what people did, in the decisions that are kept, with what was held on
// the channel with the same signs; empty if they did nothing.
func (s *Server) decidedAlike(e *bcp.Endorsement) string {
	alike, acts := map[bcp.ItemID]bool{}, map[bcp.Act]int{}
	entries, _ := s.history.all()
	for _, d := range entries {
		if key, ok := d.Channel(); !ok || key != e.Channel() {
			continue
		}
		switch {
		case d.Verdict == bcp.Hold && d.Category != 3 && slices.Equal(d.Anomalies, e.Codes):
			alike[d.Item] = true
		case d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && alike[d.Item]:
			acts[bcp.Act(d.Event)]++
		}
	}
	if len(acts) == 0 {
		return ""
	}
	return fmt.Sprintf("of what was held here with these signs people approved %d, edited %d and rejected %d", acts[bcp.Approve], acts[bcp.EditItem], acts[bcp.RejectItem])
}

// endorse handles the form that lets answers through. What it says is signed: the end too,
// which counts from when the page was shown.
func (s *Server) endorse(w http.ResponseWriter, r *http.Request, d desk) {
	e, why := d.endorsing()
	if why != "" {
		s.showLeft(w, r, http.StatusForbidden, "Not endorsed", why)
		return
	}
	limit := d.view.Endorse
	number := func(name string, most int64) int64 {
		n, err := strconv.ParseInt(r.PostFormValue(name), 10, 64)
		if err != nil || n < 1 || n > most {
			return 0
		}
		return n
	}
	now := s.logins.now()
	uses, bits := number("uses", int64(limit.Uses)), number("bits", int64(limit.Bits))
	unit, from := number("unit", int64(time.Hour/time.Second)), number("from", now.Unix())
	length := number("time", limit.Seconds/max(unit, 1)) * unit
	until := time.Unix(from+length, 0).UTC()
	switch {
	case uses == 0 || bits == 0 || length == 0:
		s.showEndorse(w, r, http.StatusUnprocessableEntity, d, "Nothing was endorsed: give whole numbers, from 1 to what the form says.")
		return
	case !now.Before(until):
		s.showEndorse(w, r, http.StatusUnprocessableEntity, d, "Nothing was endorsed: your page was so old that it would be over already.")
		return
	}
	e.ID, e.Uses, e.Bits, e.Until = bcp.EndorsementID(r.PostFormValue("endorsement")), int(uses), int(bits), until
	if err := d.approver.Endorse(r.Context(), e); err != nil {
		s.showUndecided(w, r, err)
		return
	}
	s.showLeft(w, r, http.StatusOK, "Endorsed", fmt.Sprintf("It is signed and counts: up to %s like it, will be let through without a person until %s. The list of what waits has it, and ends it. This item itself still waits.",
		tell.Count(e.Uses, tell.EndorsedKind(&e)), tell.Moment(until)))
}

// endorsed is an endorsement in the list.
type endorsed struct {
	bcp.EndorsementView
	Channel, What, Signs, Left, State string
}

func endorsedRows(list []bcp.EndorsementView) (rows []endorsed) {
	for i := range list {
		e := &list[i]
		channel, what, signs := tell.Endorsed(&e.Endorsement)
		rows = append(rows, endorsed{*e, channel, what, signs, tell.UsesLeft(e), tell.EndorsementState(e)})
	}
	return rows
}

// revoke ends an endorsement. That gives nobody anything, and is not signed.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	person := s.decider(w, r)
	if person == nil {
		return
	}
	list, err := person.Approver.Endorsements(r.Context())
	if err != nil {
		s.showUndecided(w, r, err)
		return
	}
	i := slices.IndexFunc(list, func(e bcp.EndorsementView) bool { return string(e.ID) == r.PostFormValue("endorsement") })
	if i < 0 {
		s.showLeft(w, r, http.StatusNotFound, "No such endorsement", "None of this number is known on your channels. It may be over.")
		return
	}
	if err := person.Approver.Revoke(r.Context(), list[i]); err != nil {
		s.showUndecided(w, r, err)
		return
	}
	s.showLeft(w, r, http.StatusOK, "Ended", "What is like it is held again.")
}
