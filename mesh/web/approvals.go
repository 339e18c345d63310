package web

import (
	"cmp"
	"context"
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
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// maxReason is how long the reason of a rejection may be, as the gateway has it.
const maxReason = 500

func (s *Server) approvals(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	mesh, person := s.mesh.Load(), s.person(r)
	if mesh == nil || person == nil {
		s.show(w, r, http.StatusOK, "Approvals", "", nobodyDecides()...)
		return
	}
	fault := ""
	items, err := person.Approver.List(ctx)
	if err != nil {
		fault = "The waiting items are not known now: the mesh does not answer. Check it with bcpmesh doctor, and load the page again."
	}
	slices.SortStableFunc(items, func(a, b bcp.Item) int { return a.Deadline.Compare(b.Deadline) })
	s.show(w, r, http.StatusOK, "Approvals", fault, s.itemList(ctx, person, items)...)
}

func nobodyDecides() []m.Node {
	return []m.Node{paragraph("These pages decide nothing: they were started without an approver's right. In the folder of a mesh with one approver they have it; with several, name yourself:"),
		m.El(m.P, nil, m.El(m.Code, nil, m.Text("bcpmesh web --approver NAME"))), paragraph("On a terminal:"), m.El(m.P, nil, m.El(m.Code, nil, m.Text("bcpmesh approvals watch")))}
}

// maxExcerpts is of how many items the list shows the words.
const maxExcerpts = 50

func (s *Server) itemList(ctx context.Context, person *Person, items []bcp.Item) []m.Node {
	you := paragraph("You decide as " + inert.Line(string(person.Name)) + ".")
	if len(items) == 0 {
		return []m.Node{you, paragraph("Nothing waits for you.")}
	}
	var rows []m.Node
	now := s.logins.now()
	for i, it := range items {
		words := ""
		if i < maxExcerpts {
			if view, err := person.Approver.View(ctx, it.ID); err == nil && tell.Intact(&view) {
				words = tell.Excerpt(&view, now)
			}
		}
		rows = append(rows, row(rowHead(link(itemPath(it.ID), bdi(string(it.Kind)))), cell(words), cell(string(tell.Said(&it))+" on "+tell.Channel(it.Controller, it.Reader)),
			cell(tell.Roughly(now.Sub(it.Since))), cell(tell.TimeLeft(now, it.Deadline)), cell(strings.Join(it.Anomalies, ", ")), number(it.Nominal.Rounded())))
	}
	return []m.Node{you, table("Waiting items, next deadline first", []m.Node{column("Kind"), column("Untrusted words"), column("Of"), column("Age"), column("Deadline"), column("Anomalies"), numbers("Nominal bits")}, rows)}
}

func itemPath(id bcp.ItemID) string { return "/approvals/" + string(id) }

// desk is the item of a request, and the person who decides about it.
type desk struct {
	approver *agents.Approver
	passkey  accounts.Passkey // signs the decision; zero: the approver's own key does
	view     bcp.ItemView
}

// look reads the item of a request. If it does not exist or may not be decided, it
// sends the response itself.
func (s *Server) look(w http.ResponseWriter, r *http.Request, ctx context.Context) (desk, bool) {
	mesh, person := s.mesh.Load(), s.person(r)
	id := bcp.ItemID(r.PathValue("item"))
	if _, err := bcp.ParseItemID(string(id)); err != nil {
		s.missing(w, r)
		return desk{}, false
	}
	if mesh == nil || person == nil {
		s.show(w, r, http.StatusForbidden, "Approvals", "", nobodyDecides()...)
		return desk{}, false
	}
	d := desk{passkey: person.Passkey, approver: person.Approver}
	var err error
	if d.view, err = d.approver.View(ctx, id); err != nil {
		s.showUndecided(w, r, err)
		return desk{}, false
	}
	if !tell.Intact(&d.view) {
		s.show(w, r, http.StatusConflict, "Not what its digest says", "", paragraph("The content of this item does not match its digest. Do not decide about it, and tell the operator: gateway and program may have different versions."))
		return desk{}, false
	}
	return d, true
}

// showUndecided says why nothing was decided.
func (s *Server) showUndecided(w http.ResponseWriter, r *http.Request, err error) {
	status, title, text := http.StatusBadGateway, "The mesh does not answer", "The outcome of this is not known. Look at the list again; a decision counts at most once."
	var refused *agents.RefusedError
	if errors.Is(err, agents.ErrBound) {
		status, title, text = http.StatusForbidden, "Not signed", "You decide with your passkey, and your browser did not sign. Nothing was decided. It needs JavaScript."
	} else if errors.As(err, &refused) {
		status, title, text = http.StatusConflict, string(refused.Code), refused.Detail
		switch refused.Code {
		case bcp.AlreadyDecided:
			title, text = "Already decided", "Somebody has decided about this item. The audit says who, and what."
		case bcp.ItemExpired:
			title, text = "Expired", "The deadline of this item has passed. Nothing of it is delivered."
		case bcp.ItemNotFound:
			status, title, text = http.StatusNotFound, "No such item", "No item of this number waits for you. It may have been decided or have expired."
		case bcp.NotPermitted:
			status, title, text = http.StatusForbidden, "Not taken", "The mesh does not accept this decision: another passkey signed it, or it is not about what this page shows. Nothing was decided; look at it again."
		case bcp.DigestMismatch:
			title, text = "Changed", "The item has changed since this page was loaded. Nothing was decided; look at it again."
		}
	}
	s.show(w, r, status, title, "", paragraph(inert.Line(text)), m.El(m.P, nil, link("/approvals", m.Text("What waits"))))
}

func (s *Server) item(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTime)
	defer cancel()
	if d, ok := s.look(w, r, ctx); ok {
		s.showItem(w, r, http.StatusOK, d, "")
	}
}

func (s *Server) showItem(w http.ResponseWriter, r *http.Request, status int, d desk, fault string) {
	frames := tell.ItemFrames(&d.view, s.logins.now())
	s.show(w, r, status, "Decide: "+string(d.view.Kind), fault, s.itemParts(s.framing(r, frames), frames, d)...)
}

func (s *Server) itemParts(word string, frames []tell.Frame, d desk) []m.Node {
	v := &d.view
	var facts, numbers []fact
	for _, f := range tell.ItemFacts(v, s.logins.now()) {
		if f.Name == "item" || f.Name == "sha256" {
			numbers = append(numbers, fact{f.Name, f.Value})
		} else {
			facts = append(facts, fact{f.Name, f.Value})
		}
	}
	parts := []m.Node{framed(word, frames[0], &v.Item), factRows(facts)} // what it is about first
	path := itemPath(v.ID)
	var content []byte
	if v.Kind != bcp.ItemEscalation { // whose digest covers more than is shown
		content = v.Content
	}
	actions := []m.Node{
		d.form(bcp.Approve, v.SHA256, content, m.El(m.Button, []m.Attr{m.Class("yes")}, bdi(tell.Question(v)))),
		d.form(bcp.RejectItem, bcp.Digest{}, nil,
			m.El(m.Div, nil, m.El(m.Label, []m.Attr{m.For("reason")}, m.Text("Reason, for the Reader and the audit")), m.El(m.Input, []m.Attr{m.ID("reason"), m.Name("reason"), m.Required(), m.NoAutocomplete()})),
			m.El(m.Button, []m.Attr{m.Class("no")}, m.Text("Reject"))),
	}
	parts = append(parts, section("decide", "Decide", m.El(m.P, []m.Attr{m.Class("over"), m.Role("status")}), m.El(m.Div, []m.Attr{m.Class("decide"), m.Seen(s.history.total())}, actions...)))
	if tell.Editable(v.Kind) {
		text, _ := editable(v)
		parts = append(parts, m.El(m.Details, nil, m.El(m.Summary, nil, m.Text(editTitle(v))),
			m.El(m.Form, []m.Attr{m.Post(), m.Action(path + "/preview"), m.Class("edit")}, hidden("sha256", digest(v.SHA256)),
				m.El(m.Label, []m.Attr{m.For("response")}, m.Text(editLabel(v))),
				m.El(m.Textarea, []m.Attr{m.ID("response"), m.Name("response"), m.Required()}, m.Text(text)),
				m.El(m.Button, nil, m.Text("Look at it first")))))
	}
	for _, f := range frames[1:] {
		parts = append(parts, framed(word, f, nil))
	}
	return append(parts, section("numbers", "What the audit calls it", factRows(numbers)))
}

// form decides about the item in one way, over bytes of a digest.
func (d *desk) form(act bcp.Act, of bcp.Digest, content []byte, parts ...m.Node) m.Node {
	attrs := []m.Attr{m.Post(), m.Action(itemPath(d.view.ID) + "/" + string(act))}
	parts = append([]m.Node{hidden("sha256", digest(d.view.SHA256))}, parts...)
	if d.passkey != (accounts.Passkey{}) {
		attrs, parts = append(attrs, d.toSign(act, of, content)...), append(parts, signing()...)
	}
	return m.El(m.Form, attrs, parts...)
}

// framed shows hostile text: a label and an end with the word of the session, which no
// agent knows, and bars at every line between them. Of an item, the words are marked for
// which it was held.
func framed(word string, f tell.Frame, of *bcp.Item) m.Node {
	var parts []m.Node
	for _, part := range f.Parts {
		if part.Asked != "" {
			parts = append(parts, m.El(m.P, []m.Attr{m.Class("asked")}, m.El(m.Bdi, nil, runs(part.Asked, nil)...)))
		}
		parts = append(parts, m.El(m.Div, []m.Attr{m.Class("said")}, m.El(m.Bdi, nil, runs(part.Text, of)...)))
	}
	label := f.Label
	if f.Length != "" {
		label += ": " + f.Length + ", next to the double bar"
	}
	edge := func(text string) m.Node {
		return m.El(m.P, []m.Attr{m.Class("edge")}, m.El(m.Strong, nil, m.Text(word)), m.Text(" "), bdi(text))
	}
	return m.El(m.Figure, []m.Attr{m.Class("frame"), m.Role("group"), m.Spoken(label)}, edge(label), m.El(m.Div, []m.Attr{m.Class("bars")}, parts...), edge(f.End))
}

// runs are plain text and marks, with the words marked for which an item was held, if it is one.
func runs(text string, of *bcp.Item) []m.Node {
	var parts []m.Node
	for _, run := range inert.Runs(text) {
		if run.Mark {
			parts = append(parts, m.El(m.Mark, nil, m.Text(run.Text)))
			continue
		}
		at := 0
		if of != nil {
			for _, sign := range tell.Signs(of, run.Text) {
				parts = append(parts, m.Text(run.Text[at:sign[0]]), m.El(m.Mark, []m.Attr{m.Class("sign")}, m.Text(run.Text[sign[0]:sign[1]])))
				at = sign[1]
			}
		}
		parts = append(parts, m.Text(run.Text[at:]))
	}
	return parts
}

func hidden(name, value string) m.Node {
	return m.El(m.Input, []m.Attr{m.Hidden(), m.Name(name), m.Value(value)})
}

func digest(d bcp.Digest) string { return hex.EncodeToString(d[:]) }

// editable is the content of an item as a person edits it: a summary as text, anything
// else as JSON.
func editable(v *bcp.ItemView) (text string, summary bool) {
	if answers, ok := tell.AnswersOf(v.Content); ok && len(answers) == 1 && answers[0].Name == tell.SummaryName && v.Category == 3 {
		return inert.Text(answers[0].Text), true
	}
	if v.Kind == bcp.ItemInDoubt {
		return tell.NoResult, false
	}
	return inert.Text(string(v.Content)), false
}

// editTitle and editLabel describe what a person may write in place of an item.
func editTitle(v *bcp.ItemView) string {
	if v.Kind == bcp.ItemInDoubt {
		return "It was done: say with which result"
	}
	return "Release something else in its place"
}

func editLabel(v *bcp.ItemView) string {
	if v.Kind == bcp.ItemInDoubt {
		return "What the tool returned, in place of null. The run goes on with it."
	}
	return "Your own words. The Controller cannot tell them from an answer."
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
func (s *Server) decide(act func(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readTime)
		defer cancel()
		d, ok := s.look(w, r, ctx)
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
		act(w, r, ctx, d)
	}
}

func (s *Server) approve(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk) {
	s.decided(w, r, d, bcp.Approve, d.approver.Approve(ctx, d.view))
}

func (s *Server) reject(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk) {
	reason := strings.TrimSpace(r.PostFormValue("reason"))
	wrong := ""
	switch {
	case reason == "":
		wrong = "A rejection has a reason: say in a line what is wrong."
	case utf8.RuneCountInString(reason) > maxReason:
		wrong = "The reason may have " + strconv.Itoa(maxReason) + " characters."
	case inert.Line(reason) != reason:
		wrong = "The reason has invisible characters. Write it in one line of plain text."
	}
	if wrong != "" {
		s.showItem(w, r, http.StatusUnprocessableEntity, d, wrong)
		return
	}
	s.decided(w, r, d, bcp.RejectItem, d.approver.Reject(ctx, d.view, reason))
}

// preview shows what an edit would release.
func (s *Server) preview(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk) {
	preview, ok := s.readPreview(w, r, ctx, d, r.PostFormValue("response"))
	if !ok {
		return
	}
	var facts []fact
	for _, f := range tell.PreviewFacts(&d.view, preview) {
		facts = append(facts, fact{f.Name, f.Value})
	}
	parts := []m.Node{factRows(facts)}
	frames := tell.PreviewFrames(&d.view, preview)
	word := s.framing(r, frames)
	for _, f := range frames {
		parts = append(parts, framed(word, f, nil))
	}
	path := itemPath(d.view.ID)
	if len(frames) == 1 {
		parts = append(parts, paragraph("The edit changes nothing. Approve the item instead."))
	} else {
		parts = append(parts, section("decide", "Decide", d.form(bcp.EditItem, preview.SHA256, preview.Content, hidden("edit", digest(preview.SHA256)),
			hidden("response", r.PostFormValue("response")), m.El(m.Button, []m.Attr{m.Class("yes")}, bdi(tell.EditQuestion(&d.view))))))
	}
	s.show(w, r, http.StatusOK, "Your edit", "", append(parts, m.El(m.P, nil, link(path, m.Text("Back to the item"))))...)
}

func (s *Server) readPreview(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk, text string) (bcp.EditPreview, bool) {
	response := edited(&d.view, text)
	if response == nil {
		s.showItem(w, r, http.StatusUnprocessableEntity, d, "The edit does not have the form of an answer. Change only the values, not the names or punctuation.")
		return bcp.EditPreview{}, false
	}
	preview, err := d.approver.Preview(ctx, d.view, response)
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

func (s *Server) edit(w http.ResponseWriter, r *http.Request, ctx context.Context, d desk) {
	preview, ok := s.readPreview(w, r, ctx, d, r.PostFormValue("response"))
	if !ok {
		return
	}
	if r.PostFormValue("edit") != digest(preview.SHA256) {
		s.showItem(w, r, http.StatusConflict, d, "The edit is not what your page showed. Nothing was decided.")
		return
	}
	s.decided(w, r, d, bcp.EditItem, d.approver.Edit(ctx, d.view, preview))
}

// decided shows the result of a decision that counted.
func (s *Server) decided(w http.ResponseWriter, r *http.Request, d desk, act bcp.Act, err error) {
	if err != nil {
		s.showUndecided(w, r, err)
		return
	}
	word := tell.Decided(act)
	s.show(w, r, http.StatusOK, strings.ToUpper(word[:1])+word[1:], "", paragraph("The decision is signed and counts: "+inert.Line(tell.Consequence(&d.view, act))+"."),
		m.El(m.P, nil, link("/approvals", m.Text("What else waits")), m.Text(" · "), link(filter{id: string(d.view.ID)}.path(1), m.Text("In the audit"))))
}
