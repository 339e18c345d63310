package llm

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// A request can be made in one process and sent by another. The encoding keeps the kinds
// of its parts: the receiver fences data again, so that both sides have a real fence.

// partJSON is one part; exactly one member is there.
type partJSON struct {
	Instruction *string   `json:"instruction,omitzero"`
	Data        *dataJSON `json:"data,omitzero"`
	Said        *string   `json:"said,omitzero"`
}

type dataJSON struct {
	Source guard.Source `json:"source"`
	Text   string       `json:"text"`
}

type toolJSON struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
}

type callJSON struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is text, since a model's output may be invalid JSON.
	Arguments string `json:"arguments"`
}

type resultJSON struct {
	Call   string     `json:"call"`
	Parts  []partJSON `json:"parts"`
	Failed bool       `json:"failed,omitzero"`
}

type turnJSON struct {
	Role    Role         `json:"role"`
	Parts   []partJSON   `json:"parts,omitempty"`
	Calls   []callJSON   `json:"calls,omitempty"`
	Results []resultJSON `json:"results,omitempty"`
}

type requestJSON struct {
	Model     string     `json:"model"`
	System    []partJSON `json:"system,omitempty"`
	Tools     []toolJSON `json:"tools,omitempty"`
	Turns     []turnJSON `json:"turns"`
	Force     string     `json:"force,omitzero"`
	MaxTokens int        `json:"max_tokens,omitzero"`
}

type replyJSON struct {
	Said  []string   `json:"said,omitempty"`
	Calls []callJSON `json:"calls,omitempty"`
	Stop  Stop       `json:"stop"`
	Usage Usage      `json:"usage"`
}

var errWire = errors.New("llm: this is no request or reply of a model")

// MarshalJSON writes the request for [ParseRequest].
func (r *Request) MarshalJSON() ([]byte, error) {
	w := requestJSON{Model: r.Model, System: partsOut(r.System), Force: r.Force, MaxTokens: r.MaxTokens}
	for _, t := range r.Tools {
		w.Tools = append(w.Tools, toolJSON{t.Name, t.Description.text, t.Schema})
	}
	for _, t := range r.Turns {
		turn := turnJSON{Role: t.Role, Parts: partsOut(t.Parts), Calls: callsOut(t.Calls)}
		for _, result := range t.Results {
			turn.Results = append(turn.Results, resultJSON{result.Call, partsOut(result.Parts), result.Failed})
		}
		w.Turns = append(w.Turns, turn)
	}
	return json.Marshal(w, json.Deterministic(true))
}

func partsOut(parts []Part) (list []partJSON) {
	for _, p := range parts {
		switch p := p.(type) {
		case Instruction:
			list = append(list, partJSON{Instruction: &p.text})
		case Data:
			list = append(list, partJSON{Data: &dataJSON{p.Source(), p.Body()}})
		case Said:
			list = append(list, partJSON{Said: &p.text})
		}
	}
	return list
}

func callsOut(calls []Call) (list []callJSON) {
	for _, c := range calls {
		list = append(list, callJSON{c.ID, c.Name, string(c.Arguments)})
	}
	return list
}

// ParseRequest reads a request that another process made, and checks it. What that process calls an instruction is not
// believed any more than the process is.
func ParseRequest(b []byte) (*Request, error) {
	if wire.Crowded(b) {
		return nil, errWire
	}
	var w requestJSON
	if err := json.Unmarshal(b, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, errWire
	}
	r := &Request{Model: w.Model, Force: w.Force, MaxTokens: w.MaxTokens}
	ok := true
	partsIn := func(list []partJSON) (parts []Part) {
		for _, p := range list {
			part, known := p.part()
			ok = ok && known
			parts = append(parts, part)
		}
		return parts
	}
	r.System = partsIn(w.System)
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, Tool{t.Name, Instruction{t.Description}, t.Schema})
	}
	for _, t := range w.Turns {
		turn := Turn{Role: t.Role, Parts: partsIn(t.Parts), Calls: callsIn(t.Calls)}
		for _, result := range t.Results {
			turn.Results = append(turn.Results, Result{result.Call, partsIn(result.Parts), result.Failed})
		}
		r.Turns = append(r.Turns, turn)
	}
	if !ok || r.Check() != nil {
		return nil, errWire
	}
	return r, nil
}

func (p partJSON) part() (Part, bool) {
	switch {
	case p.Instruction != nil && p.Data == nil && p.Said == nil:
		return Instruction{*p.Instruction}, true
	case p.Data != nil && p.Instruction == nil && p.Said == nil:
		fenced, err := guard.Fence(p.Data.Text, p.Data.Source)
		return Data{fenced}, err == nil
	case p.Said != nil && p.Instruction == nil && p.Data == nil:
		return Said{*p.Said}, true
	}
	return Said{}, false
}

func callsIn(list []callJSON) (calls []Call) {
	for _, c := range list {
		calls = append(calls, Call{c.ID, c.Name, jsontext.Value(c.Arguments)})
	}
	return calls
}

// MarshalJSON writes the reply for [ParseReply].
func (r *Reply) MarshalJSON() ([]byte, error) {
	w := replyJSON{Calls: callsOut(r.Calls), Stop: r.Stop, Usage: r.Usage}
	for _, s := range r.Said {
		w.Said = append(w.Said, s.text)
	}
	return json.Marshal(w, json.Deterministic(true))
}

// ParseReply reads a reply that another process got.
func ParseReply(b []byte) (*Reply, error) {
	var w replyJSON
	if err := json.Unmarshal(b, &w, json.RejectUnknownMembers(true)); err != nil {
		return nil, errWire
	}
	r := &Reply{Calls: callsIn(w.Calls), Stop: w.Stop, Usage: w.Usage}
	for _, s := range w.Said {
		r.Said = append(r.Said, Said{s})
	}
	return r, nil
}

// The codes of errors between processes.
const (
	codeRateLimited = "rate_limited"
	codeOverloaded  = "overloaded"
	codeTooLong     = "too_long"
	codeFiltered    = "filtered"
	codeAuth        = "auth"
	codeBudget      = "budget"
	codeProtocol    = "protocol"
	codeUnrecorded  = "unrecorded"
	codeTimeout     = "timeout"
	codeGarbled     = "garbled" // a protocol error that may pass
)

// ErrorCode returns the code of a provider's error, for [ErrorOf]. For an error of
// another package it is protocol.
func ErrorCode(err error) string {
	switch {
	case errors.As(err, new(RateLimited)):
		return codeRateLimited
	case errors.As(err, new(Overloaded)):
		return codeOverloaded
	case errors.As(err, new(TooLong)):
		return codeTooLong
	case errors.As(err, new(Filtered)):
		return codeFiltered
	case errors.As(err, new(Auth)):
		return codeAuth
	case errors.As(err, new(Budget)):
		return codeBudget
	case errors.As(err, new(Unrecorded)):
		return codeUnrecorded
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return codeTimeout
	case MayPass(err):
		return codeGarbled
	}
	return codeProtocol
}

// ErrorOf returns the error for a code.
func ErrorOf(code string) error {
	switch code {
	case codeRateLimited:
		return RateLimited{RetryAfter: time.Duration(0)}
	case codeOverloaded:
		return Overloaded{}
	case codeTooLong:
		return TooLong{}
	case codeFiltered:
		return Filtered{}
	case codeAuth:
		return Auth{}
	case codeBudget:
		return Budget{}
	case codeUnrecorded:
		return Unrecorded{}
	case codeTimeout:
		return context.DeadlineExceeded
	case codeGarbled:
		return &Answered{Err: Protocol{What: "its reply was not understood"}}
	}
	return Protocol{What: "the call failed"}
}
