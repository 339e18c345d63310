package onecall

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Content returns the text that a query is about. It is read again for each query.
type Content func(ctx context.Context, q agents.Query) (text string, source guard.Source, err error)

// Reader answers queries. Its [Reader.Answer] is a handler for [agents.Reader.OnQuery], and may be called concurrently.
type Reader struct {
	// Model returns the model of one query: nothing is carried from one to another.
	Model func() llm.Endpoint
	// Content is required.
	Content Content
}

// attempts is how often the model may try to return a valid object.
const attempts = 3

// ErrRefused says that the model returned no valid object: it answered with text, called
// something else, or failed at all its attempts. If the query may not be answered with
// not_enough_information, it stays open.
var ErrRefused = errors.New("onecall: the model returned no object that fits")

const instruction = `Fill in the object's properties from the document alone. The description of a property says what is asked. `

// Answer has the model answer a query.
func (r *Reader) Answer(ctx context.Context, q agents.Query) (any, error) {
	text, source, err := r.Content(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("onecall: %w", err)
	}
	schema, mayDecline, err := answerSchema(q.Spec)
	if err != nil {
		return nil, fmt.Errorf("onecall: %w", err)
	}
	asked := llm.Constant(instruction)
	if mayDecline {
		asked = llm.Constant(instruction + `If the document does not say all of it, return {"not_enough_information": true} alone.`)
	}
	data, refused, err := llm.Extract(ctx, r.Model(), text, asked, llm.ExtractOptions{Schema: schema, Source: source, MaxTurns: attempts})
	switch {
	case err != nil:
		return nil, fmt.Errorf("onecall: %w", err)
	case refused && mayDecline:
		return agents.NotEnoughInformation{}, nil
	case refused:
		return nil, ErrRefused
	case mayDecline && declines(data):
		return agents.NotEnoughInformation{}, nil
	}
	return data, nil
}

// answerSchema returns the schema of an answer to a spec. If it may be declined, no
// property is required, and one more declines; a spec with a field of that name cannot be
// declined.
func answerSchema(spec bcp.Spec) (schema jsontext.Value, mayDecline bool, err error) {
	s := mcp.SpecSchema(spec)
	mayDecline = (spec.AllowNotEnoughInformation == nil || *spec.AllowNotEnoughInformation) && s.Declinable()
	schema, err = json.Marshal(s)
	return schema, mayDecline, err
}

// declines reports whether an object says that the document does not have the answer.
// Its other fields are then dropped.
func declines(data jsontext.Value) bool {
	var object struct {
		NotEnough bool `json:"not_enough_information"`
	}
	return json.Unmarshal(data, &object) == nil && object.NotEnough
}
