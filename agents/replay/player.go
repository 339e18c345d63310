package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// player is the keeper of a cell that is replayed.
type player struct {
	other *llm.Endpoint // nil: the recorded model
	done  chan jsontext.Value

	mu      sync.Mutex
	current *playing // nil between conversations
}

// playing is a conversation that is being replayed. The player's mutex guards it.
type playing struct {
	of         *Conversation
	next       int // of the recorded calls
	turn       int // calls of the model so far
	used       map[int]bool
	difference *Difference
	usage      llm.Usage
	content    *content // for another model
}

func (p *player) begin(c *Conversation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = &playing{of: c, used: map[int]bool{}}
	if p.other != nil {
		p.current.content = collectContent(c)
	}
}

// take ends a conversation.
func (p *player) take() *playing {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.current
	p.current = nil
	return g
}

var (
	errNothing     = &stdio.CallError{Code: "unrecorded", Message: "nothing was recorded of it"}
	errDifferent   = &stdio.CallError{Code: "different", Message: "it differs from what was recorded"}
	errNotReplayed = &stdio.CallError{Code: "not_permitted", Message: "there is no conversation"}
)

// methods returns the methods for the cell.
func (p *player) methods(config *cell.Configuration) map[string]stdio.Method {
	methods := map[string]stdio.Method{
		"configuration": func(context.Context, jsontext.Value) (any, error) { return config, nil },
		"end":           func(context.Context, jsontext.Value) (any, error) { return struct{}{}, nil },
		"reading":       func(context.Context, jsontext.Value) (any, error) { return struct{}{}, nil },
		"done": func(_ context.Context, params jsontext.Value) (any, error) {
			select {
			case p.done <- params.Clone():
			default: // it was done before
			}
			return struct{}{}, nil
		},
	}
	for _, kind := range []string{Model, fetchCall, readCall, toolCall, channelsCall, askCall, pushCall} {
		methods[kind] = func(ctx context.Context, params jsontext.Value) (any, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.current == nil {
				return nil, errNotReplayed
			}
			line, err := OfCall(kind, params)
			switch {
			case err != nil:
				return nil, errNotReplayed
			case kind == Model:
				p.current.turn++
			}
			if p.other != nil {
				return p.current.answerAnother(ctx, p.other, &line)
			}
			return p.current.answer(&line)
		}
	}
	return methods
}

// answer answers a call with the recorded result, if it is the recorded call.
func (g *playing) answer(asked *Line) (any, error) {
	switch {
	case g.difference != nil:
		return nil, errDifferent
	case asked.Kind == readCall:
		return g.read(asked.Request)
	case g.next == len(g.of.Calls):
		g.difference = &Difference{Turn: g.turn, Kind: asked.Kind, Byte: 1, Now: excerpt(asked.Request, 0)}
		return nil, errDifferent
	}
	was := &g.of.Calls[g.next]
	if was.Kind != asked.Kind {
		g.difference = &Difference{Turn: g.turn, Kind: was.Kind, Byte: 1, Recorded: excerpt(was.Request, 0), Now: asked.Kind + " " + excerpt(asked.Request, 0)}
		return nil, errDifferent
	}
	if g.difference = compare(g.turn, was.Kind, was.Request, asked.Request); g.difference != nil {
		return nil, errDifferent
	}
	g.next++
	if was.Kind == Model {
		clear(g.used)
		g.usage = add(g.usage, parseUsage(was.Response))
	}
	return outcome(was)
}

// outcome is how a recorded call ended.
func outcome(l *Line) (any, error) {
	if l.Response == nil {
		return nil, &stdio.CallError{Code: l.Failure, Message: l.Detail}
	}
	return l.Response, nil
}

// read returns the output of a tool that reads files or mail, from the next recorded
// request to the model.
func (g *playing) read(request jsontext.Value) (any, error) {
	var r cell.Read
	if err := member(request, "read", &r); err != nil || g.next == 0 {
		return nil, errNothing
	}
	reply, results := g.of.after(g.next)
	for i, call := range reply {
		if i < len(results) && !g.used[i] && call.Name == r.Tool && string(call.Arguments) == r.Arguments {
			g.used[i] = true
			return parseReading(results[i])
		}
	}
	if results != nil {
		g.difference = &Difference{Turn: g.turn, Kind: readCall, Byte: 1, Now: r.Tool + " " + excerpt([]byte(r.Arguments), 0)}
	}
	return nil, errNothing // after the last turn there is no such request
}

// after returns the calls of the newest reply before the call with a number, and their results, if there is a turn after it.
func (c *Conversation) after(number int) (calls []llm.Call, results []llm.Result) {
	for i := number - 1; i >= 0; i-- {
		if c.Calls[i].Kind == Model {
			if reply, err := llm.ParseReply(c.Calls[i].Response); err == nil {
				calls = reply.Calls
			}
			break
		}
	}
	for i := number; i < len(c.Calls); i++ {
		if c.Calls[i].Kind == Model {
			if r, err := c.Calls[i].ModelRequest(); err == nil && len(r.Turns) > 0 {
				results = r.Turns[len(r.Turns)-1].Results
			}
			break
		}
	}
	return calls, results
}

func parseReading(result llm.Result) (any, error) {
	if len(result.Parts) != 1 {
		return nil, errNothing
	}
	if data, fenced := result.Parts[0].(llm.Data); fenced {
		return cell.Reading{Source: data.Source(), Text: data.Body(), Failed: result.Failed}, nil
	}
	return cell.Reading{Text: result.Parts[0].Text(), Failed: result.Failed}, nil
}

// answerAnother answers a call of a conversation with another model.
func (g *playing) answerAnother(ctx context.Context, model *llm.Endpoint, asked *Line) (any, error) {
	switch asked.Kind {
	case Model:
		r, err := asked.ModelRequest()
		if err != nil {
			return nil, errNotReplayed
		}
		r.Model = model.Model
		if model.MaxTokens > 0 && (r.MaxTokens <= 0 || r.MaxTokens > model.MaxTokens) {
			r.MaxTokens = model.MaxTokens
		}
		reply, err := model.Provider.Do(ctx, r, nil)
		if err != nil {
			return nil, &stdio.CallError{Code: llm.ErrorCode(err), Message: fmt.Sprint(err)}
		}
		g.usage = add(g.usage, reply.Usage)
		return reply, nil
	case fetchCall:
		return g.content.fetch(asked.Request)
	case readCall:
		return g.content.read(asked.Request)
	}
	return g.content.call(asked)
}
