package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// Several items are looked at on one page and decided with one signature (PROTOCOL P7.7).

const markedPath = "/approvals/marked"

// markedData is what only the page of several items has.
type markedData struct {
	Items           []markedItem
	Approve, Reject manyAct
}

type markedItem struct {
	Name  string
	Path  string
	Facts []fact
	Frame frame
}

// manyAct is a form that decides about several items in one way.
type manyAct struct {
	Path       string
	Act        bcp.Act
	Credential string // of the passkey that signs; empty: the approver's own key does
	Each       []act
}

// marked is the page of the items that a person has marked, or of all.
func (s *Server) marked(w http.ResponseWriter, r *http.Request) {
	person := s.decider(w, r)
	if person == nil {
		return
	}
	ids := r.URL.Query()["item"]
	if len(ids) == 0 { // all, as many as can be
		items, err := person.Approver.List(r.Context())
		if err != nil {
			s.showUndecided(w, r, err)
			return
		}
		for _, it := range items[:min(len(items), bcp.MaxBatch)] {
			ids = append(ids, string(it.ID))
		}
	}
	if len(ids) > bcp.MaxBatch {
		s.showLeft(w, r, http.StatusUnprocessableEntity, "Mark at most "+strconv.Itoa(bcp.MaxBatch)+" items", "")
		return
	}
	root, credential := s.visit(r).root(), person.Passkey.ID
	of := markedData{Approve: manyAct{Path: root + markedPath + "/approve", Act: bcp.Approve, Credential: credential},
		Reject: manyAct{Path: root + markedPath + "/reject", Act: bcp.RejectItem, Credential: credential}}
	var frames, earlier []tell.Frame
	fault, seen, told := "", map[bcp.ItemID]bool{}, map[bcp.AgentName]bool{}
	for _, id := range ids {
		id := bcp.ItemID(id)
		if _, err := bcp.ParseItemID(string(id)); err != nil || seen[id] {
			continue
		}
		seen[id] = true
		d := desk{root: root, passkey: person.Passkey, approver: person.Approver}
		var err error
		if d.view, err = d.approver.View(r.Context(), id); err != nil || !tell.Intact(&d.view) {
			fault += " " + string(id) + ": " + left(err) + "."
			continue
		}
		v := &d.view
		shown := tell.ItemFrames(v, s.logins.now())
		frames = append(frames, shown[0])
		if !told[v.Controller] { // what its session heard is the same for all of its items
			told[v.Controller], earlier = true, append(earlier, shown[1:]...)
		}
		one := markedItem{Name: string(v.Kind) + " of " + string(tell.Said(&v.Item)), Path: itemPath(id)}
		for _, f := range tell.ItemFacts(v, s.logins.now()) {
			if f.Name != "item" && f.Name != "sha256" && f.Name != "kind" {
				one.Facts = append(one.Facts, f)
			}
		}
		of.Items = append(of.Items, one)
		of.Approve.Each = append(of.Approve.Each, d.act(bcp.Approve, v.SHA256, shownContent(v)))
		of.Reject.Each = append(of.Reject.Each, d.act(bcp.RejectItem, bcp.Digest{}, nil))
	}
	switch len(of.Items) {
	case 0:
		s.showLeft(w, r, http.StatusNotFound, "Nothing of it waits", fault)
		return
	case 1:
		http.Redirect(w, r, root+of.Items[0].Path, http.StatusSeeOther)
		return
	}
	if fault != "" {
		fault = "Left out:" + fault
	}
	word := s.framing(r, append(frames, earlier...))
	for i := range of.Items {
		of.Items[i].Frame = framed(word, frames[i:i+1], nil)[0]
	}
	s.show(w, r, http.StatusOK, "marked", page{Title: "Decide: " + strconv.Itoa(len(of.Items)) + " items", Fault: fault, Frames: framed(word, earlier, nil), Of: of})
}

// left says in a few words why an item is not decided.
func left(err error) string {
	if err == nil {
		return "Not what its digest says: tell the operator"
	}
	_, title, _ := undecided(err)
	return title
}

// decideMarked handles a form about several items. The form has all that is signed, so that
// one which does not wait any more is left out and the others count.
func (s *Server) decideMarked(act bcp.Act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person := s.decider(w, r)
		if person == nil {
			return
		}
		reason := ""
		if act == bcp.RejectItem {
			reason = strings.TrimSpace(r.PostFormValue("reason"))
			if wrong := wrongReason(reason); wrong != "" {
				s.showLeft(w, r, http.StatusUnprocessableEntity, "Nothing was decided", wrong)
				return
			}
		}
		decisions, salts, ok := readMarked(r, act, reason)
		if !ok {
			s.showLeft(w, r, http.StatusUnprocessableEntity, "Nothing was decided", "That is not the form of a page of these.")
			return
		}
		approver := person.Approver
		if p := person.Passkey; p != (accounts.Passkey{}) {
			assertion := signed(r, p)
			if assertion == nil {
				s.showUndecided(w, r, agents.ErrBound)
				return
			}
			approver = approver.By(assertion)
		} else {
			salts = nil // the browser makes them for a passkey alone
		}
		why, err := approver.DecideTogether(r.Context(), act, decisions, salts)
		if err != nil {
			s.showUndecided(w, r, err)
			return
		}
		counted, out := 0, ""
		for i, err := range why {
			if err == nil {
				counted++
			} else {
				out += " " + string(decisions[i].Item) + ": " + left(err) + "."
			}
		}
		title, status := strconv.Itoa(counted)+" of "+strconv.Itoa(len(why))+" "+tell.Decided(act), http.StatusOK
		if out != "" {
			out, status = "Left out:"+out, http.StatusConflict
		}
		s.showLeft(w, r, status, title, out)
	}
}

func (s *Server) showLeft(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	s.show(w, r, status, "message", page{Title: title, Of: message{Text: text, Links: []place{{"/approvals", "What waits"}}}})
}

// readMarked reads what a form is about: as many salts, digests and ends as items.
func readMarked(r *http.Request, act bcp.Act, reason string) (decisions []bcp.Approval, salts [][]byte, ok bool) {
	if r.ParseForm() != nil {
		return nil, nil, false
	}
	f := r.PostForm
	n := len(f["item"])
	if n == 0 || n > bcp.MaxBatch || len(f["sha256"]) != n || len(f["expires"]) != n || len(f["salt"]) != n {
		return nil, nil, false
	}
	for i, id := range f["item"] {
		d := bcp.Approval{Item: bcp.ItemID(id), Reason: reason}
		_, wrong := bcp.ParseItemID(id)
		end, notTime := strconv.ParseInt(f["expires"][i], 10, 64)
		salt, notHex := hex.DecodeString(f["salt"][i])
		if errors.Join(wrong, notTime, notHex, d.SHA256.UnmarshalText([]byte(f["sha256"][i]))) != nil || len(salt) > 0 && len(salt) != bcp.BatchSalt {
			return nil, nil, false
		}
		if act == bcp.RejectItem {
			d.SHA256 = sha256.Sum256([]byte(reason))
		}
		d.Expires = time.Unix(end, 0).UTC()
		decisions, salts = append(decisions, d), append(salts, salt)
	}
	return decisions, salts, true
}
