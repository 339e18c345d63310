package tell

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// kind is what people are told of all items of a kind. What is in braces stands for the names of an item.
type kind struct {
	decides string // what a person decides
	approve string // what an approval says; empty for what cannot be approved
	edit    string // what a decision says that has something else in its place; empty for what is decided as it is
	fixed   string // why there is nothing to say in its place
	asks    bool   // it holds words of the Controller
	// What follows from an approval, or from what is said in its place, and from a rejection.
	approved, edited, rejected string
}

const (
	exactly = "Release exactly this to {controller}"
	inPlace = "Release this to {controller} in its place"
	goes    = "it goes to {controller}"
	heard   = "{reader} hears the reason, {controller} hears {heard}"
	alone   = "it waits no more, and no agent hears it"
)

var kinds = map[bcp.ItemKind]kind{
	bcp.ItemEscalation: {asks: true, decides: "may this be asked at all? What comes back is held again", approve: "Let {controller} ask this of {reader}",
		fixed:    "this is a question that waits to be asked: approve or reject it",
		approved: "{reader} is asked; its answer will wait here again", rejected: "{controller} hears escalation_denied"},
	bcp.ItemProposal: {asks: true, decides: "shall this be a subscription? It is one once an operator writes it into the definition",
		approve: "Have {reader} push exactly this to {controller}", fixed: "a subscription is approved as it is, or not",
		approved: "nothing changes until it is in the definition: bcpmesh proposals has its lines", rejected: "nothing changes, and no agent hears it"},
	bcp.ItemHanded: {decides: "for you alone: no agent reads it, and nothing follows from it", approve: "I have seen it", fixed: "it is for you, and goes to no agent",
		approved: alone, rejected: alone},
	bcp.ItemSummary: {decides: "free text, held every time", approve: exactly, edit: inPlace, approved: goes, edited: goes, rejected: heard},
	bcp.ItemAnomaly: {decides: "an answer that looks like instructions, code or an address, or contradicts itself", approve: exactly, edit: inPlace,
		approved: goes, edited: goes, rejected: heard},
	bcp.ItemEffect: {asks: true, decides: "shall this call be made? Once, exactly as it is shown", approve: "Have {tool} called, once, exactly like this",
		fixed: "a call is approved as it is, or not", approved: "{tool} is called, once{turn}", rejected: "{tool} is not called, and the run is blocked"},
	bcp.ItemInDoubt: {asks: true, decides: "was this call made? Its tool did not answer", approve: "It was not done: have {tool} called again, exactly like this",
		edit:     "It was done: let the run go on with this result",
		approved: "{tool} is called again", edited: "the run goes on with what you say that {tool} returned", rejected: "the run ends in doubt"},
	bcp.ItemQuestion: {asks: true, decides: "what should a plan go on with? Its requester or you may answer", edit: "Answer this in the place of {requester}",
		edited: "the run goes on with your answer", rejected: "the run is blocked"},
}

// Consequence tells who hears what.
func Consequence(v *bcp.ItemView, act bcp.Act) string {
	k := kinds[v.Kind]
	switch {
	case act == bcp.Approve:
		return named(k.approved, v)
	case act == bcp.EditItem:
		return named(k.edited, v)
	case v.Effect != nil && v.Effect.Early:
		return "it is held when its turn comes"
	}
	return named(k.rejected, v)
}

// named puts the names of an item into a text about its kind.
func named(text string, v *bcp.ItemView) string {
	var e bcp.Effect
	if v.Effect != nil {
		e = *v.Effect
	}
	turn, hears := "", "nothing"
	if e.Early {
		turn = ", when its turn comes"
	}
	if v.Query != "" {
		hears = "approval_rejected"
	}
	return strings.NewReplacer("{controller}", string(v.Controller), "{reader}", string(v.Reader), "{tool}", e.Tool, "{requester}", string(e.Requester),
		"{turn}", turn, "{heard}", hears).Replace(text)
}

// Question is what an approval of an item says; it is empty for what cannot be approved.
func Question(v *bcp.ItemView) string { return named(kinds[v.Kind].approve, v) }

// NotApproved says why there is nothing to approve about a question.
const NotApproved = "a question is answered: edit it, or reject it"

// EditQuestion is what a decision says that has something else in an item's place.
func EditQuestion(v *bcp.ItemView) string { return named(kinds[v.Kind].edit, v) }

// Editable reports whether a person may say something else in place of an item: another
// answer, or what a call returned that was made after all.
func Editable(kind bcp.ItemKind) bool { return kinds[kind].edit != "" }

// NotEditable says why there is nothing to say in place of an item.
func NotEditable(kind bcp.ItemKind) string { return kinds[kind].fixed }

// Said is the agent whose words an item holds.
func Said(it *bcp.Item) bcp.AgentName {
	if kinds[it.Kind].asks {
		return it.Controller
	}
	return it.Reader
}
