package web

import (
	"net/http"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Scene is the result of one message that a demonstration's Reader read. Its texts
// are hostile.
type Scene struct {
	Number  int    `json:"number"` // of the message, from 1
	From    string `json:"from"`
	Subject string `json:"subject"`
	// Planted says where in the message an instruction was planted, such as "hidden
	// text". It is empty for a message without one.
	Planted   string     `json:"planted_in,omitempty"`
	Exchanges []Exchange `json:"-"` // in order
}

// Exchange is one statement of a Reader, and what its Controller got. Without a gateway
// the Controller would have got the statement itself.
type Exchange struct {
	Seq      uint64      `json:"seq"`             // of the decision
	Asked    string      `json:"asked,omitempty"` // the Controller's question; empty for a push
	Said     string      `json:"said,omitempty"`  // hostile
	Hijacked bool        `json:"hijacked"`        // it is what the planted instruction demands
	Quotes   bool        `json:"quotes,omitzero"` // it quotes the planted instruction
	Verdict  bcp.Outcome `json:"verdict,omitzero"`
	Why      string      `json:"why,omitempty"`       // details, and the rule that decided
	Heard    string      `json:"delivered,omitempty"` // what the Controller got; empty for nothing
	// HeardQuotes says that what the Controller got quotes the planted instruction.
	HeardQuotes bool     `json:"delivered_quotes,omitzero"`
	Nominal     bcp.Bits `json:"nominal_bits"`
}

const storyPath = "/story"

// home returns the path of the page after a login.
func (s *Server) home() string {
	if s.scenes != nil {
		return storyPath
	}
	return "/"
}

// storyData is the story with its sums: what the hijacked Reader says, and what its Controller gets of it.
type storyData struct {
	Said, Heard, Quoted, HeardQuoted int
	Hostile, Benign                  []*Scene
}

// story shows, side by side, what a Controller gets without and with a gateway.
func (s *Server) story(w http.ResponseWriter, r *http.Request) {
	if s.scenes == nil {
		s.missing(w, r)
		return
	}
	var d storyData
	scenes := s.scenes()
	for i := range scenes {
		scene := &scenes[i]
		if scene.Planted == "" {
			d.Benign = append(d.Benign, scene)
		} else {
			d.Hostile = append(d.Hostile, scene)
		}
		for _, e := range scene.Exchanges {
			count(&d.Said, e.Hijacked)
			count(&d.Heard, e.Hijacked && e.Heard != "")
			count(&d.Quoted, e.Quotes)
			count(&d.HeardQuoted, e.HeardQuotes)
		}
	}
	s.show(w, r, http.StatusOK, "demo", page{Title: "The same mail, without and with a gateway", Of: d})
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}
