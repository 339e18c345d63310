package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Output is the result of a tool: a text from outside, with its source, or an instruction
// of the program, which is not fenced. The zero value says that the call failed.
type Output struct {
	Untrusted string
	Source    guard.Source // of Untrusted; a constant of the tool
	Trusted   Instruction  // if there is no source
	Failed    bool
}

// Executable is a tool that a program runs for a model.
type Executable struct {
	Tool
	// Run is given the arguments as the model wrote them.
	Run func(ctx context.Context, arguments jsontext.Value) Output
}

// Conversation is a model with tools.
type Conversation struct {
	Model    Endpoint
	System   []Part // only instructions
	Tools    []Executable
	MaxTurns int // of the model; 0 means 16
	// Finish, if set, ends the conversation: text does not.
	Finish *Finish
}

// Finish are the tools by which a model ends a conversation with a result. Calling one
// runs nothing.
type Finish struct {
	Tools []Tool
	// Judge gets each call of these tools. If it returns true, the conversation has
	// ended; otherwise the model is told why not, and may try again.
	Judge func(call Call) (ended bool, why Instruction)
	// Repairs is how often it may try again.
	Repairs int
}

func (f *Finish) has(name string) bool {
	return f != nil && slices.ContainsFunc(f.Tools, func(t Tool) bool { return t.Name == name })
}

const (
	maxTurns = 16
	maxCalls = 64 // of a conversation
)

var (
	// ErrTurns says that a model did not end within its turns or its calls.
	ErrTurns = errors.New("llm: the conversation has no end")
	// ErrCut says that a reply was too long.
	ErrCut = errors.New("llm: the reply was cut")
	// ErrUnfit says that no result of a model was accepted.
	ErrUnfit = errors.New("llm: the model gave no result that fits")
)

const finishNow = "End by calling one of your tools. Text alone is no result."

// Run prompts the model until it calls no more tools, and returns its last text; or, with
// Finish, until it has given a result. All tool outputs pass through this function: text
// from outside is cleaned, redacted and fenced, whatever it claims to be; an instruction
// of the program is not.
func (c Conversation) Run(ctx context.Context, asked ...Part) ([]Said, error) {
	request := &Request{Model: c.Model.Model, System: c.System, MaxTokens: cmp.Or(c.Model.MaxTokens, defaultTokens), Turns: []Turn{{Role: User, Parts: asked}}}
	for _, t := range c.Tools {
		request.Tools = append(request.Tools, t.Tool)
	}
	if c.Finish != nil {
		request.Tools = append(request.Tools, c.Finish.Tools...)
	}
	calls, unfit, prose := 0, 0, 0 // prose: replies without a call, in a row
	for left := cmp.Or(c.MaxTurns, maxTurns); left > 0; left-- {
		if left == 1 && c.Finish != nil { // nothing else is of use any more
			request.Tools = c.Finish.Tools
			if len(request.Tools) == 1 {
				request.Force = request.Tools[0].Name
			}
		}
		if err := request.Check(); err != nil {
			return nil, err
		}
		reply, err := c.Model.Provider.Do(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("llm: %w", err)
		}
		switch calls += len(reply.Calls); {
		case reply.Stop == StopLength:
			return nil, ErrCut
		case len(reply.Calls) == 0 && c.Finish == nil:
			return reply.Said, nil
		case len(reply.Calls) == 0 && len(reply.Said) == 0: // some models do so now and then: it is asked again
			if unfit++; unfit > c.Finish.Repairs {
				return nil, ErrUnfit
			}
			continue
		case len(reply.Calls) == 0 && prose == c.Finish.Repairs: // text is no result, and each reply of it is paid
			return nil, ErrUnfit
		case len(reply.Calls) == 0:
			prose++
		case calls > maxCalls:
			return nil, ErrTurns
		default:
			prose = 0
		}
		said := Turn{Role: Model, Calls: reply.Calls}
		for _, s := range reply.Said {
			said.Parts = append(said.Parts, s)
		}
		results := Turn{Role: User}
		for _, call := range reply.Calls {
			if !c.Finish.has(call.Name) {
				results.Results = append(results.Results, c.run(ctx, call))
				continue
			}
			ended, why := c.Finish.Judge(call)
			if ended {
				return reply.Said, nil
			}
			if unfit++; unfit > c.Finish.Repairs {
				return nil, ErrUnfit
			}
			results.Results = append(results.Results, Result{Call: call.ID, Parts: []Part{why}, Failed: true})
		}
		if len(reply.Calls) == 0 {
			results.Parts = []Part{Constant(finishNow)}
		}
		next := *request
		next.Turns = append(next.Turns[:len(next.Turns):len(next.Turns)], said, results)
		request = &next
	}
	return nil, ErrTurns
}

// Insists reports whether a request asks for a call of a tool after a reply that was only text.
func (r *Request) Insists() bool {
	if len(r.Turns) == 0 {
		return false
	}
	parts := r.Turns[len(r.Turns)-1].Parts
	return len(parts) == 1 && parts[0] == Part(Constant(finishNow))
}

// run runs one call.
func (c Conversation) run(ctx context.Context, call Call) Result {
	for _, t := range c.Tools {
		if t.Name == call.Name {
			output := t.Run(ctx, call.Arguments)
			part, failed := part(output)
			return Result{Call: call.ID, Parts: []Part{part}, Failed: failed}
		}
	}
	return Result{Call: call.ID, Parts: []Part{Constant("There is no such tool.")}, Failed: true}
}

// part converts an output to a part of a prompt.
func part(o Output) (part Part, failed bool) {
	if o.Source == "" {
		if o.Trusted.text == "" || o.Untrusted != "" {
			return Failure("", 0), true
		}
		return o.Trusted, o.Failed
	}
	fenced, err := guard.Prepare(o.Untrusted, o.Source)
	if err != nil {
		return Failure("", 0), true
	}
	return Data{fenced}, o.Failed
}
