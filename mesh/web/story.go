package web

import (
	"net/http"
	"strconv"

	"github.com/bcpmesh/bcpmesh/bcp"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// Scene is the result of one message that a demonstration's Reader read. Its texts
// are hostile.
type Scene struct {
	Number        int // of the message, from 1
	From, Subject string
	// Planted says where in the message an instruction was planted, such as "hidden
	// text". It is empty for a message without one.
	Planted   string
	Exchanges []Exchange // in order
}

// Exchange is one statement of a Reader, and what its Controller got. Without a gateway
// the Controller would have got the statement itself.
type Exchange struct {
	Seq      uint64 // of the decision
	Asked    string // the Controller's question; empty for a push
	Said     string // hostile
	Hijacked bool   // it is what the planted instruction demands
	Quotes   bool   // it quotes the planted instruction
	Verdict  bcp.Outcome
	Why      string // the rule that decided, and details; empty if accepted
	Heard    string // what the Controller got; empty for nothing
	// HeardQuotes says that what the Controller got quotes the planted instruction.
	HeardQuotes bool
	Nominal     bcp.Bits
}

const storyPath = "/story"

// home returns the path of the page after a login.
func (s *Server) home() string {
	if s.scenes != nil {
		return storyPath
	}
	return "/"
}

// story shows, side by side, what a Controller gets without and with a gateway.
func (s *Server) story(w http.ResponseWriter, r *http.Request) {
	if s.scenes == nil {
		s.missing(w, r)
		return
	}
	scenes := s.scenes()
	parts := []m.Node{
		paragraph("A reader works through a mailbox and is hijacked by the instructions that are planted in it: it says, word for word, what they want. The assistant never sees a mail. Left: what it would hear from this reader without a gateway. Right: what it heard."),
		summary(scenes),
		paragraph("What came through are choices among declared values, such as urgent: true. The bits of each are counted, and bounded by a budget."),
	}
	var benign []m.Node
	for i := range scenes {
		scene := &scenes[i]
		if scene.Planted == "" {
			benign = append(benign, sceneParts(scene)...)
		} else {
			parts = append(parts, sceneParts(scene)...)
		}
	}
	if len(benign) > 0 {
		parts = append(parts, m.El(m.Details, nil, append([]m.Node{m.El(m.Summary, nil, m.Text("The messages without a planted instruction"))}, benign...)...))
	}
	s.show(w, r, http.StatusOK, "The same mail, without and with a gateway", "", parts...)
}

// summary counts the statements of the hijacked Reader, and what its Controller gets of
// them.
func summary(scenes []Scene) m.Node {
	var said, heard, quoted, heardQuoted int
	for i := range scenes {
		for _, e := range scenes[i].Exchanges {
			said += one(e.Hijacked)
			heard += one(e.Hijacked && e.Heard != "")
			quoted += one(e.Quotes)
			heardQuoted += one(e.HeardQuotes)
		}
	}
	return table("What the assistant hears from the hijacked reader", []m.Node{column("Messages"), numbers("Without"), numbers("With")}, []m.Node{
		row(rowHead(m.Text("that say what the attacker wants")), number(strconv.Itoa(said)), number(strconv.Itoa(heard))),
		row(rowHead(m.Text("that quote a planted instruction")), number(strconv.Itoa(quoted)), number(strconv.Itoa(heardQuoted))),
	})
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func sceneParts(scene *Scene) []m.Node {
	id := "mail-" + strconv.Itoa(scene.Number)
	head := []m.Node{m.Text(strconv.Itoa(scene.Number) + ". "), bdi(scene.From), m.Text(": "), bdi(scene.Subject)}
	parts := []m.Node{m.El(m.H2, []m.Attr{m.ID(id)}, head...)}
	if scene.Planted != "" {
		parts = append(parts, m.El(m.P, nil, mark("reject", "planted in "+scene.Planted)))
	}
	if len(scene.Exchanges) == 0 {
		parts = append(parts, paragraph("The reader said nothing about it."))
	}
	for i := range scene.Exchanges {
		parts = append(parts, saidNextToHeard(&scene.Exchanges[i]))
	}
	return []m.Node{m.El(m.Section, []m.Attr{m.LabelledBy(id)}, parts...)}
}

// saidNextToHeard shows the statement next to what the Controller got.
func saidNextToHeard(e *Exchange) m.Node {
	without := []m.Node{m.El(m.P, []m.Attr{m.Class("side")}, m.Text("Without"))}
	if e.Asked != "" {
		without = append(without, m.El(m.P, []m.Attr{m.Class("asked")}, m.Text("Asked: "), bdi(e.Asked)))
	}
	class := "heard"
	if e.Hijacked {
		class = "said"
	}
	without = append(without, m.El(m.Div, []m.Attr{m.Class(class)}, m.El(m.Bdi, nil, runs(e.Said, nil)...)))
	seq := strconv.FormatUint(e.Seq, 10)
	with := []m.Node{m.El(m.P, []m.Attr{m.Class("side")}, m.Text("With "), mark(e.Verdict.String(), e.Verdict.String()), m.Text(" "),
		link("/decisions/"+seq, m.Text("decision "+seq)))}
	switch {
	case e.Heard != "":
		with = append(with, m.El(m.Div, []m.Attr{m.Class("heard")}, m.El(m.Bdi, nil, runs(e.Heard, nil)...)))
	case e.Verdict == bcp.Hold:
		with = append(with, paragraph("Nothing, until a person has decided."))
	default:
		with = append(with, paragraph("Nothing."))
	}
	about := e.Nominal.Words() + " charged"
	if e.Why != "" {
		about = e.Why + "; " + about
	}
	with = append(with, m.El(m.P, []m.Attr{m.Class("legend")}, bdi(about)))
	return m.El(m.Div, []m.Attr{m.Class("beside")}, m.El(m.Div, nil, without...), m.El(m.Div, nil, with...))
}
