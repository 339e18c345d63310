package llm

import (
	"context"
	"errors"

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

type callJSON struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is text, since a model's output may be invalid JSON.
	Arguments string `json:"arguments"`
}

var errWire = errors.New("llm: this is no request or reply of a model")

// encoded is how requests and replies are written. An instruction and what a model said are texts where nothing else can
// stand.
var encoded = json.JoinOptions(json.Deterministic(true), json.WithMarshalers(json.JoinMarshalers(
	json.MarshalToFunc(func(e *jsontext.Encoder, i Instruction) error { return e.WriteToken(jsontext.String(i.text)) }),
	json.MarshalToFunc(func(e *jsontext.Encoder, s Said) error { return e.WriteToken(jsontext.String(s.text)) }),
	json.MarshalToFunc(func(e *jsontext.Encoder, c Call) error {
		return json.MarshalEncode(e, callJSON{c.ID, c.Name, string(c.Arguments)})
	}),
	json.MarshalToFunc(func(e *jsontext.Encoder, parts []Part) error {
		list := make([]partJSON, len(parts))
		for i, p := range parts {
			switch p := p.(type) {
			case Instruction:
				list[i].Instruction = &p.text
			case Data:
				list[i].Data = &dataJSON{p.Source(), p.Body()}
			case Said:
				list[i].Said = &p.text
			}
		}
		return json.MarshalEncode(e, list)
	}),
)))

// decoded is how they are read. What another process calls an instruction is not believed any more than the process is.
var decoded = json.JoinOptions(json.RejectUnknownMembers(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, i *Instruction) error { return json.UnmarshalDecode(d, &i.text) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, s *Said) error { return json.UnmarshalDecode(d, &s.text) }),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, c *Call) error {
		var in callJSON
		err := json.UnmarshalDecode(d, &in)
		*c = Call{in.ID, in.Name, jsontext.Value(in.Arguments)}
		return err
	}),
	json.UnmarshalFromFunc(func(d *jsontext.Decoder, parts *[]Part) error {
		var list []partJSON
		if err := json.UnmarshalDecode(d, &list); err != nil {
			return err
		}
		for _, p := range list {
			switch {
			case p.Instruction != nil && p.Data == nil && p.Said == nil:
				*parts = append(*parts, Instruction{*p.Instruction})
			case p.Data != nil && p.Instruction == nil && p.Said == nil:
				fenced, err := guard.Fence(p.Data.Text, p.Data.Source)
				if err != nil {
					return err
				}
				*parts = append(*parts, Data{fenced})
			case p.Said != nil && p.Instruction == nil && p.Data == nil:
				*parts = append(*parts, Said{*p.Said})
			default:
				return errWire
			}
		}
		return nil
	}),
)))

// MarshalJSON writes the request for [ParseRequest].
func (r *Request) MarshalJSON() ([]byte, error) {
	type request Request
	return json.Marshal((*request)(r), encoded)
}

// ParseRequest reads a request that another process made, and checks it.
func ParseRequest(b []byte) (*Request, error) {
	r := &Request{}
	if wire.Crowded(b) || json.Unmarshal(b, r, decoded) != nil || r.Check() != nil {
		return nil, errWire
	}
	return r, nil
}

// MarshalJSON writes the reply for [ParseReply].
func (r *Reply) MarshalJSON() ([]byte, error) {
	type reply Reply
	return json.Marshal((*reply)(r), encoded)
}

// ParseReply reads a reply that another process got.
func ParseReply(b []byte) (*Reply, error) {
	r := &Reply{}
	if json.Unmarshal(b, r, decoded) != nil {
		return nil, errWire
	}
	return r, nil
}

// codes are the codes of errors between processes, with how an error is recognised and what
// it is at the other end. The first that fits counts.
var codes = []struct {
	code string
	is   func(error) bool
	at   error
}{
	{"rate_limited", isError[RateLimited], RateLimited{}},
	{"overloaded", isError[Overloaded], Overloaded{}},
	{"too_long", isError[TooLong], TooLong{}},
	{"filtered", isError[Filtered], Filtered{}},
	{"auth", isError[Auth], Auth{}},
	{"budget", isError[Budget], Budget{}},
	{"unrecorded", isError[Unrecorded], Unrecorded{}},
	{"timeout", func(err error) bool {
		return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	}, context.DeadlineExceeded},
	{"garbled", MayPass, &Answered{Err: Protocol{What: "its reply was not understood"}}}, // a protocol error that may pass
	{"protocol", func(error) bool { return true }, Protocol{What: "the call failed"}},
}

func isError[E error](err error) bool { return errors.As(err, new(E)) }

// ErrorCode returns the code of a provider's error, for [ErrorOf]. For an error of
// another package it is protocol.
func ErrorCode(err error) string {
	for _, c := range codes {
		if c.is(err) {
			return c.code
		}
	}
	return ""
}

// ErrorOf returns the error for a code.
func ErrorOf(code string) error {
	for _, c := range codes {
		if c.code == code {
			return c.at
		}
	}
	return codes[len(codes)-1].at
}
