package llm

import (
	"context"
	"errors"
)

// Script is a provider that answers from a list, for tests and for programs that judge
// cases. It belongs to one goroutine.
type Script struct {
	Turns []ScriptTurn
	// Requests are the requests so far, in order.
	Requests []*Request
}

// ScriptTurn is one reply of a [Script], or its error.
type ScriptTurn struct {
	Reply Reply
	Err   error
}

// ErrScriptEnd says that a script has no more turns.
var ErrScriptEnd = errors.New("llm: the script has no more turns")

// Do implements [Provider].
func (s *Script) Do(ctx context.Context, r *Request) (*Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	s.Requests = append(s.Requests, r)
	n := len(s.Requests) - 1
	if n >= len(s.Turns) {
		return nil, ErrScriptEnd
	}
	turn := s.Turns[n]
	if turn.Err != nil {
		return nil, turn.Err
	}
	return &turn.Reply, nil
}
