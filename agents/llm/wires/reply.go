package wires

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// replyBuilder makes a reply of what a provider sent.
type replyBuilder struct {
	reply llm.Reply
	bad   string
	ids   map[string]bool
}

func newReply(usage llm.Usage) *replyBuilder {
	return &replyBuilder{reply: llm.Reply{Usage: usage}, ids: map[string]bool{}}
}

func (b *replyBuilder) say(text string) {
	if text != "" {
		b.reply.Said = append(b.reply.Said, llm.NewSaid(text))
	}
}

// call adds a call. Its arguments are as the model wrote them; none are an empty object.
func (b *replyBuilder) call(id, name, arguments string) {
	if id == "" {
		id = "call-" + strconv.Itoa(len(b.reply.Calls)+1)
	}
	if arguments == "" {
		arguments = "{}"
	}
	switch {
	case name == "":
		b.bad = "a call names no tool"
	case b.ids[id]:
		b.bad = "two calls have one id"
	case len(b.reply.Calls) >= maxCalls:
		b.bad = "the reply has more than 64 calls"
	}
	b.ids[id] = true
	b.reply.Calls = append(b.reply.Calls, llm.Call{ID: id, Name: name, Arguments: jsontext.Value(arguments)})
}

func (b *replyBuilder) end(cut bool, delta func(llm.Delta)) (*llm.Reply, error) {
	if b.bad != "" {
		return nil, llm.Protocol{What: b.bad}
	}
	switch {
	case cut:
		b.reply.Stop = llm.StopLength
	case len(b.reply.Calls) > 0:
		b.reply.Stop = llm.StopCalls
	default:
		b.reply.Stop = llm.StopEnd
	}
	if delta != nil {
		for _, said := range b.reply.Said {
			delta(llm.Delta{Text: said.Text()})
		}
	}
	return &b.reply, nil
}
