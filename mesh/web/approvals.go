package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

func (s *Server) approvals(w http.ResponseWriter, r *http.Request) {
	person := s.person(r)
	if person == nil {
		s.show(w, r, http.StatusOK, "nobody", page{Title: "Approvals"})
		return
	}
	ctx, p := r.Context(), page{Title: "Approvals"}
	items, err := person.Approver.List(ctx)
	if err != nil {
		p.Fault = "The waiting items are not known now: the mesh does not answer. Check it with bcpmesh doctor, and load the page again."
	}
	slices.SortStableFunc(items, func(a, b bcp.Item) int { return a.Deadline.Compare(b.Deadline) })
	given, more := person.Approver.Endorsements(ctx)
	if more != nil && p.Fault == "" {
		p.Fault = "What is endorsed is not known now: the mesh does not answer. Load the page again."
	}
	p.Of = approvalsData{person.Name, s.waiting(ctx, person, items), endorsedRows(given)}
	s.show(w, r, http.StatusOK, "approvals", p)
}

// approvalsData is what only the list of what waits has.
type approvalsData struct {
	As       bcp.AgentName
	Items    []waiting
	Endorsed []endorsed
}

// maxExcerpts is of how many items the list shows the words.
const maxExcerpts = 50

// waiting is an item in the list.
type waiting struct {
	bcp.Item
	Words, Source, Age, Left, Reasons string
}

func (s *Server) waiting(ctx context.Context, person *Person, items []bcp.Item) (list []waiting) {
	now := s.logins.now()
	for i, it := range items {
		one := waiting{Item: it, Source: string(tell.Said(&it)) + " on " + tell.Channel(it.Controller, it.Reader), Age: tell.Roughly(now.Sub(it.Since)),
			Left: tell.TimeLeft(now, it.Deadline), Reasons: strings.Join(it.Anomalies, ", ")}
		if i < maxExcerpts {
			if view, err := person.Approver.View(ctx, it.ID); err == nil && tell.Intact(&view) {
				one.Words = tell.Excerpt(&view, now)
			}
		}
		list = append(list, one)
	}
	return list
}

func itemPath(id bcp.ItemID) string { return "/approvals/" + string(id) }

// desk is the item of a request, and the person who decides about it.
type desk struct {
	root     string // of the session
	approver *agents.Approver
	passkey  accounts.Passkey // signs the decision; zero: the approver's own key does
	view     bcp.ItemView
}

// look reads the item of a request. If it does not exist or may not be decided, it
// sends the response itself.
func (s *Server) look(w http.ResponseWriter, r *http.Request) (desk, bool) {
	id := bcp.ItemID(r.PathValue("item"))
	if _, err := bcp.ParseItemID(string(id)); err != nil {
		s.missing(w, r)
		return desk{}, false
	}
	person := s.decider(w, r)
	if person == nil {
		return desk{}, false
	}
	d := desk{root: s.visit(r).root(), passkey: person.Passkey, approver: person.Approver}
	var err error
	if d.view, err = d.approver.View(r.Context(), id); err != nil {
		s.showUndecided(w, r, err)
		return desk{}, false
	}
	if !tell.Intact(&d.view) {
		s.show(w, r, http.StatusConflict, "message", page{Title: "Not what its digest says", Of: message{Text: "The content of this item does not match its digest. Do not decide about it, and tell the operator: gateway and program may have different versions."}})
		return desk{}, false
	}
	return d, true
}

// showUndecided says why nothing was decided.
func (s *Server) showUndecided(w http.ResponseWriter, r *http.Request, err error) {
	status, title, text := undecided(err)
	s.showLeft(w, r, status, title, text)
}

// undecided is why nothing was decided, in a few words and in more.
func undecided(err error) (status int, title, text string) {
	var refused *agents.RefusedError
	switch {
	case errors.Is(err, agents.ErrBound):
		return http.StatusForbidden, "Not signed", "You decide with your passkey, and your browser did not sign. Nothing was decided. It needs JavaScript."
	case !errors.As(err, &refused):
		return http.StatusBadGateway, "The mesh does not answer", "The outcome of this is not known. Look at the list again; a decision counts at most once."
	}
	switch refused.Code {
	case bcp.AlreadyDecided:
		return http.StatusConflict, "Already decided", "Somebody has decided about this. The audit says who, and what."
	case bcp.ItemExpired:
		return http.StatusConflict, "Expired", "The deadline of this item has passed. Nothing of it is delivered."
	case bcp.ItemNotFound:
		return http.StatusNotFound, "No such item", "No item of this number waits for you. It may have been decided or have expired."
	case bcp.NotPermitted:
		return http.StatusForbidden, "Not taken", "The mesh does not accept this decision: another passkey signed it, or it is not about what this page shows. Nothing was decided; look at it again."
	case bcp.DigestMismatch:
		return http.StatusConflict, "Changed", "The item has changed since this page was loaded. Nothing was decided; look at it again."
	}
	return http.StatusConflict, string(refused.Code), refused.Detail
}

func (s *Server) item(w http.ResponseWriter, r *http.Request) {
	if d, ok := s.look(w, r); ok {
		s.showItem(w, r, http.StatusOK, d, "")
	}
}

func (s *Server) showItem(w http.ResponseWriter, r *http.Request, status int, d desk, fault string) {
	frames := tell.ItemFrames(&d.view, s.logins.now())
	s.show(w, r, status, "item", s.itemPage(s.framing(r, frames), frames, d, fault))
}

// itemData is what only the page of an item has.
type itemData struct {
	Seen            uint64 // decisions that the page knows
	Approve, Reject act
	Question        string
	Edit            *editData // nil if nothing else may be released
	Endorse         string    // the path where what is like it is let through; empty: it may not be
	Numbers         []fact
}

// editData describes what a person may write in place of an item.
type editData struct{ Title, Label, Text, Path, SHA256 string }

func (s *Server) itemPage(word string, frames []tell.Frame, d desk, fault string) page {
	v := &d.view
	p := page{Title: "Decide: " + string(v.Kind), Fault: fault, Frames: framed(word, frames, &v.Item)}
	of := itemData{Seen: s.history.total(), Question: tell.Question(v), Approve: d.act(bcp.Approve, v.SHA256, shownContent(v)), Reject: d.act(bcp.RejectItem, bcp.Digest{}, nil)}
	for _, f := range tell.ItemFacts(v, s.logins.now()) {
		if f.Name == "item" || f.Name == "sha256" {
			of.Numbers = append(of.Numbers, f)
		} else {
			p.Facts = append(p.Facts, f)
		}
	}
	if _, why := d.endorsing(); why == "" {
		of.Endorse = d.root + itemPath(v.ID) + "/endorse"
	}
	if tell.Editable(v.Kind) {
		of.Edit = &editData{Title: "Release something else in its place", Label: "Your own words. The Controller cannot tell them from an answer.", Path: d.root + itemPath(v.ID) + "/preview", SHA256: digest(v.SHA256)}
		switch v.Kind {
		case bcp.ItemQuestion:
			of.Edit.Title, of.Edit.Label = "Answer", "An answer to each question, between the quotation marks. The run goes on with it."
		case bcp.ItemInDoubt:
			of.Edit.Title, of.Edit.Label = "It was done: say with which result", "What the tool returned, in place of null. The run goes on with it."
		}
		of.Edit.Text, _ = editable(v)
	}
	p.Of = of
	return p
}

// act is a form that decides about an item in one way, over bytes of a digest.
type act struct {
	Path, SHA256 string
	// The rest is what a passkey signs, of which page.js makes the statement.
	Act        bcp.Act
	Item       bcp.ItemID
	Expires    int64
	Credential string // empty: the approver's own key signs
	Digest     string // empty for a rejection, whose digest is of the reason
	Content    *string
}

func (d *desk) act(does bcp.Act, of bcp.Digest, content []byte) act {
	v := &d.view
	a := act{Path: d.root + itemPath(v.ID) + "/" + string(does), SHA256: digest(v.SHA256), Act: does, Item: v.ID, Expires: v.Deadline.Unix(), Credential: d.passkey.ID}
	if does != bcp.RejectItem {
		a.Digest = digest(of)
	}
	if content != nil {
		encoded := base64.RawURLEncoding.EncodeToString(content)
		a.Content = &encoded
	}
	return a
}

// shownContent is what page.js compares with the digest. That of an escalation covers more
// than is shown.
func shownContent(v *bcp.ItemView) []byte {
	if v.Kind == bcp.ItemEscalation {
		return nil
	}
	return v.Content
}

func digest(d bcp.Digest) string { return hex.EncodeToString(d[:]) }

// editable is the content of an item as a person edits it: a summary as text, anything
// else as JSON.
func editable(v *bcp.ItemView) (text string, summary bool) {
	if answers, ok := tell.AnswersOf(v.Content); ok && len(answers) == 1 && answers[0].Name == tell.SummaryName && v.Category == 3 {
		return inert.Text(answers[0].Text), true
	}
	if draft := tell.Draft(v); draft != "" {
		return draft, false
	}
	return inert.Text(string(v.Content)), false
}

// edited parses what a person wrote; nil if it does not have the form of an answer.
func edited(v *bcp.ItemView, text string) any {
	text = strings.TrimSpace(text)
	if _, summary := editable(v); summary {
		if text == "" {
			return nil
		}
		return map[string]string{tell.SummaryName: text}
	}
	if value := jsontext.Value(text); value.IsValid() && value.Kind() == '{' {
		return value
	}
	return nil
}

// decide handles a form about an item, which must be the one that the page showed.
func (s *Server) decide(act func(w http.ResponseWriter, r *http.Request, d desk)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, ok := s.look(w, r)
		if !ok {
			return
		}
		if r.PostFormValue("sha256") != digest(d.view.SHA256) {
			s.showItem(w, r, http.StatusConflict, d, "The item has changed since your page was loaded. Nothing was decided; this is its content now.")
			return
		}
		if p := d.passkey; p != (accounts.Passkey{}) {
			d.approver = d.approver.By(signed(r, p))
		}
		act(w, r, d)
	}
}

func (s *Server) approve(w http.ResponseWriter, r *http.Request, d desk) {
	s.decided(w, r, d, bcp.Approve, d.approver.Approve(r.Context(), d.view))
}

func (s *Server) reject(w http.ResponseWriter, r *http.Request, d desk) {
	reason := strings.TrimSpace(r.PostFormValue("reason"))
	if wrong := wrongReason(reason); wrong != "" {
		s.showItem(w, r, http.StatusUnprocessableEntity, d, wrong)
		return
	}
	s.decided(w, r, d, bcp.RejectItem, d.approver.Reject(r.Context(), d.view, reason))
}

// wrongReason says what is wrong with the reason of a rejection.
func wrongReason(reason string) string {
	switch {
	case reason == "":
		return "A rejection has a reason: say in a line what is wrong."
	case utf8.RuneCountInString(reason) > bcp.MaxReasonChars:
		return "The reason may have " + strconv.Itoa(bcp.MaxReasonChars) + " characters."
	case inert.Line(reason) != reason:
		return "The reason has invisible characters. Write it in one line of plain text."
	}
	return ""
}

// preview shows what an edit would release.
func (s *Server) preview(w http.ResponseWriter, r *http.Request, d desk) {
	preview, ok := s.readPreview(w, r, d, r.PostFormValue("response"))
	if !ok {
		return
	}
	frames := tell.PreviewFrames(&d.view, preview)
	of := previewData{Question: tell.EditQuestion(&d.view), Response: r.PostFormValue("response"), Back: itemPath(d.view.ID)}
	if len(frames) > 1 {
		edit := d.act(bcp.EditItem, preview.SHA256, preview.Content)
		of.Edit = &edit
	}
	s.show(w, r, http.StatusOK, "preview", page{Title: "Your edit", Facts: tell.PreviewFacts(&d.view, preview), Frames: framed(s.framing(r, frames), frames, nil), Of: of})
}

// previewData is what only the page of an edit has.
type previewData struct {
	Edit                     *act // nil if the edit changes nothing
	Question, Response, Back string
}

func (s *Server) readPreview(w http.ResponseWriter, r *http.Request, d desk, text string) (bcp.EditPreview, bool) {
	response := edited(&d.view, text)
	if response == nil {
		s.showItem(w, r, http.StatusUnprocessableEntity, d, "The edit does not have the form of an answer. Change only the values, not the names or punctuation.")
		return bcp.EditPreview{}, false
	}
	preview, err := d.approver.Preview(r.Context(), d.view, response)
	var refused *agents.RefusedError
	if errors.As(err, &refused) && (refused.Code == bcp.ValidationFailed || refused.Code == bcp.Malformed) {
		s.showItem(w, r, http.StatusUnprocessableEntity, d, "The edit does not fit the question: "+inert.Line(cmp.Or(refused.Detail, string(refused.Code)))+". Nothing was decided.")
		return preview, false
	}
	if err != nil {
		s.showUndecided(w, r, err)
		return preview, false
	}
	return preview, true
}

func (s *Server) edit(w http.ResponseWriter, r *http.Request, d desk) {
	preview, ok := s.readPreview(w, r, d, r.PostFormValue("response"))
	if !ok {
		return
	}
	if r.PostFormValue("edit") != digest(preview.SHA256) {
		s.showItem(w, r, http.StatusConflict, d, "The edit is not what your page showed. Nothing was decided.")
		return
	}
	s.decided(w, r, d, bcp.EditItem, d.approver.Edit(r.Context(), d.view, preview))
}

// decided shows the result of a decision that counted.
func (s *Server) decided(w http.ResponseWriter, r *http.Request, d desk, act bcp.Act, err error) {
	if err != nil {
		s.showUndecided(w, r, err)
		return
	}
	word := tell.Decided(act)
	s.show(w, r, http.StatusOK, "message", page{Title: strings.ToUpper(word[:1]) + word[1:], Of: message{Text: "The decision is signed and counts: " + tell.Consequence(&d.view, act) + ".",
		Links: []place{{"/approvals", "What else waits"}, {filter{id: string(d.view.ID)}.path(1), "In the audit"}}}})
}
