package replay

import (
	"cmp"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// Record returns a function for [stdio.Agent] that writes the messages between a keeper
// and its cell to a transcript. An unwritable message fails: a conversation is recorded
// whole, or stops there. A call that is not one of a cell's is not recorded.
func Record(to *Writer) func(stdio.Passage) error {
	return func(p stdio.Passage) error {
		line, recorded := recordLine(p)
		if !recorded {
			return nil
		}
		return to.Write(line)
	}
}

func recordLine(p stdio.Passage) (l Line, recorded bool) {
	var err error
	switch {
	case p.Call != "" && p.Done:
		l = Line{Kind: End, Conversation: p.Call}
	case p.Call != "":
		return Line{Kind: p.Method, Conversation: p.Call, Request: p.Params}, true
	case !p.Done:
		return Line{Kind: p.Method, Request: p.Params}, p.Method == Subscriptions
	case p.Method == "end", p.Method == "reading":
		return l, false
	case p.Method == "done":
		return Line{Kind: End, Conversation: cell.TaskConversation, Response: p.Params}, p.Err == nil
	case p.Method == Configuration:
		l = Line{Kind: p.Method}
	default:
		l, err = OfCall(p.Method, p.Params)
	}
	if p.Err != nil {
		l.Failure, l.Detail = cmp.Or(p.Err.Code, "failed"), p.Err.Message
	} else {
		l.Response = p.Result
	}
	return l, err == nil
}
