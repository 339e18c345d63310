package wires

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// tokenBytes is how many bytes a token of a script has: about as many as one of English text has at most providers.
const tokenBytes = 4

// replyBuilder makes a reply from what a provider sends, whole or in pieces.
type replyBuilder struct {
	usage llm.Usage
	said  [][]byte
	calls []*openCall
	size  int    // bytes of all text and calls
	bad   string // the first protocol violation
}

// openCall is a call with incomplete arguments.
type openCall struct {
	id, name  string
	arguments []byte
	first     []byte // came with the call, and count if no others come
	extra     []byte // is a part of its ID, in Base64
}

// written returns the arguments as the model wrote them, but for the spelling of whole numbers (JSON Schema has one integer
// in 12 and 12.0), for what is no Unicode, and for what some models wrap them in: the fence of a document, or one more text
// of JSON. None are an empty object.
func (c *openCall) written() jsontext.Value {
	arguments := bytes.TrimSpace(c.arguments)
	if fenced, ok := bytes.CutPrefix(arguments, []byte("```")); ok {
		fenced, _ = bytes.CutSuffix(bytes.TrimPrefix(fenced, []byte("json")), []byte("```"))
		arguments = bytes.TrimSpace(fenced)
	}
	if text := ""; jsontext.Value(arguments).Kind() == '"' && decode(arguments, &text) == nil {
		arguments = []byte(text)
	}
	arguments = wire.WholeNumbers(arguments)
	if len(arguments) == 0 {
		arguments = c.first
	}
	if len(arguments) == 0 {
		return jsontext.Value("{}")
	}
	if readable := jsontext.Value(bytes.Clone(arguments)); !jsontext.Value(arguments).IsValid() && readable.Format(jsontext.AllowInvalidUTF8(true)) == nil {
		return readable
	}
	return arguments
}

// begun reports whether part of the reply has come.
func (b *replyBuilder) begun() bool { return len(b.said)+len(b.calls) > 0 }

// paragraph begins a new text.
func (b *replyBuilder) paragraph() { b.said = append(b.said, nil) }

// say adds to the newest text.
func (b *replyBuilder) say(text string) {
	if text == "" || !b.fits(len(text)) {
		return
	}
	if len(b.said) == 0 {
		b.paragraph()
	}
	last := len(b.said) - 1
	b.said[last] = append(b.said[last], text...)
}

// call begins a call. Its arguments are kept as the model wrote them; if there are
// none, they are an empty object.
func (b *replyBuilder) call(id, name, arguments string) *openCall {
	c := &openCall{id: id, name: name}
	if len(b.calls) == maxCalls {
		b.breaks("the reply has more than 64 calls")
		return c
	}
	b.calls = append(b.calls, c)
	if b.fits(len(id) + len(name)) {
		b.addArguments(c, arguments)
	}
	return c
}

// addArguments adds to the arguments of a call.
func (b *replyBuilder) addArguments(c *openCall, arguments string) {
	if b.fits(len(arguments)) {
		c.arguments = append(c.arguments, arguments...)
	}
}

func (b *replyBuilder) fits(n int) bool {
	if b.size += n; b.size > maxReply {
		b.breaks(tooMuch)
	}
	return b.bad == ""
}

func (b *replyBuilder) breaks(what string) {
	if b.bad == "" {
		b.bad = what
	}
}

// end returns the reply, or how it breaks the protocol.
func (b *replyBuilder) end(cut bool) (*llm.Reply, error) {
	reply := &llm.Reply{Usage: b.usage}
	for _, text := range b.said {
		if len(text) > 0 {
			reply.Said = append(reply.Said, llm.NewSaid(string(text)))
		}
	}
	ids := map[string]bool{}
	for i, c := range b.calls {
		if c.id == "" {
			c.id = "call-" + strconv.Itoa(i+1)
		}
		// A model that writes calls as text may name its namespace too: functions.f,
		// default_api:f. No tool's name has these characters.
		c.name = strings.TrimSpace(c.name)
		c.name = c.name[strings.LastIndexAny(c.name, ".:")+1:]
		if i := strings.Index(c.name, "<|"); i > 0 { // vLLM leaves gpt-oss's marks there: f<|channel|>commentary
			c.name = c.name[:i]
		}
		if c.name == "" {
			b.breaks("a call names no tool")
		}
		for ids[c.id] { // some endpoints number the calls of each reply anew
			c.id += "-" + strconv.Itoa(i+1)
		}
		ids[c.id] = true
		if c.extra != nil {
			c.id += extraMark + base64.RawURLEncoding.EncodeToString(c.extra)
		}
		reply.Calls = append(reply.Calls, llm.Call{ID: c.id, Name: c.name, Arguments: c.written()})
	}
	if b.bad != "" {
		return nil, llm.Protocol{What: b.bad}
	}
	switch {
	case cut:
		reply.Stop = llm.StopLength
	case len(reply.Calls) > 0:
		reply.Stop = llm.StopCalls
	default:
		reply.Stop = llm.StopEnd
	}
	return reply, nil
}

// counted ends a reply of a model without tokens; it estimates them from the bytes of
// the reply and the request.
func (b *replyBuilder) counted(r *llm.Request) (*llm.Reply, error) {
	request, err := r.MarshalJSON()
	if err != nil {
		return nil, llm.Protocol{What: "the request cannot be encoded"}
	}
	b.usage = llm.Usage{Input: tokens(len(request)), Output: tokens(b.size)}
	return b.end(false)
}

func tokens(bytes int) int64 { return int64(bytes+tokenBytes-1) / tokenBytes }
