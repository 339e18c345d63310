package keeper_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// slowly answers after a time.
type slowly struct{ after time.Duration }

func (s slowly) Do(ctx context.Context, _ *llm.Request) (*llm.Reply, error) {
	select {
	case <-time.After(s.after):
		return &llm.Reply{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// health tells the faults of a model, each with what the provider said.
func health(model llm.Provider) (h *keeper.Health, told *[]string) {
	told = new([]string)
	return keeper.NewHealth(func(_ context.Context, f bcp.ModelFault, said string) error {
		if said != "" {
			said = ": " + said
		}
		*told = append(*told, f.String()+said)
		return nil
	}, hclog.NewNullLogger(), model), told
}

// People hear once that a model fails, and once that it works: not of a single call that found the provider busy, and not of
// what says nothing of the provider.
//
// covers P15.6
func TestHealth(t *testing.T) {
	t.Parallel()
	busy := &llm.Answered{Err: llm.Overloaded{}, Status: 529}
	refused := &llm.Answered{Err: llm.Protocol{What: "x"}, Status: 404, Said: "no such model"}
	text := llm.ScriptTurn{Reply: llm.Reply{Stop: llm.StopEnd}}
	call := llm.ScriptTurn{Reply: llm.Reply{Calls: []llm.Call{{ID: "a", Name: "answer"}}, Stop: llm.StopCalls}}
	failed := func(err error) llm.ScriptTurn { return llm.ScriptTurn{Err: err} }
	for name, c := range map[string]struct {
		turns []llm.ScriptTurn
		want  []string
	}{
		"it works":           {[]llm.ScriptTurn{call, text, call}, []string{""}},
		"busy once":          {[]llm.ScriptTurn{failed(busy), call}, []string{""}},
		"busy":               {[]llm.ScriptTurn{failed(busy), failed(busy), failed(busy), call}, []string{"the provider is overloaded (529)", ""}},
		"unreached":          {[]llm.ScriptTurn{failed(llm.Overloaded{}), failed(llm.Overloaded{})}, []string{"the provider cannot be reached"}},
		"silent":             {[]llm.ScriptTurn{failed(llm.Overloaded{Unknown: true})}, []string{"the provider does not answer"}},
		"a key":              {[]llm.ScriptTurn{call, failed(&llm.Answered{Err: llm.Auth{}, Status: 403}), call, failed(llm.Auth{})}, []string{"", "the provider does not accept the key (403)", "", "the provider does not accept the key"}},
		"refused, then busy": {[]llm.ScriptTurn{failed(refused), failed(refused), failed(busy), failed(busy), text}, []string{"the provider refuses the request (404): no such model", "the provider is overloaded (529)", ""}},
		"of one request":     {[]llm.ScriptTurn{failed(llm.TooLong{}), failed(llm.Filtered{}), failed(llm.Budget{}), failed(llm.Unrecorded{})}, nil},
		"no JSON":            {[]llm.ScriptTurn{failed(&llm.Answered{Err: llm.Protocol{What: "x"}, Status: 200})}, []string{"the provider's answer is not of its protocol"}},
	} {
		h, told := health(&llm.Script{Turns: c.turns})
		for range c.turns {
			_, _ = h.Do(t.Context(), &llm.Request{Model: "m"}) // its errors are the script's
		}
		failIf(t, !slices.Equal(*told, c.want), "%s: %q", name, *told)
	}
}

// A conversation with a model that calls no tool ends after its third text, and people hear of it.
//
// covers P15.6
func TestHealthOfProse(t *testing.T) {
	t.Parallel()
	model := &llm.Script{Turns: make([]llm.ScriptTurn, 20)}
	for i := range model.Turns {
		model.Turns[i] = llm.ScriptTurn{Reply: llm.Reply{Said: []llm.Said{{}}, Stop: llm.StopEnd}}
	}
	h, told := health(model)
	for range 2 {
		c := llm.Conversation{Model: llm.Endpoint{Provider: h, Model: "m"}, Finish: &llm.Finish{Tools: []llm.Tool{{Name: "answer"}}, Repairs: 2}}
		_, err := c.Run(t.Context(), llm.Constant("Answer."))
		failIf(t, !errors.Is(err, llm.ErrUnfit), "%v", err)
	}
	want := []string{"", "it answers with text, and calls no tool"}
	failIf(t, !slices.Equal(*told, want) || len(model.Requests) != 6, "%q after %d requests", *told, len(model.Requests))
}

// A call that brings no byte for half a minute is told before it ends, and not a moment earlier.
//
// covers P15.6
func TestHealthOfSilence(t *testing.T) {
	for after, want := range map[time.Duration][]string{30*time.Second - 1: {""}, 31 * time.Second: {"the provider does not answer", ""}} {
		synctest.Test(t, func(t *testing.T) {
			h, told := health(slowly{after})
			_, err := h.Do(t.Context(), &llm.Request{Model: "m"})
			failIf(t, err != nil || !slices.Equal(*told, want), "%s: %q, %v", after, *told, err)
		})
	}
}

// What the mesh did not hear is told with the next call.
func TestHealthIsToldAgain(t *testing.T) {
	t.Parallel()
	tries := 0
	h := keeper.NewHealth(func(context.Context, bcp.ModelFault, string) error {
		if tries++; tries < 3 {
			return errors.New("the mesh is away")
		}
		return nil
	}, hclog.NewNullLogger(), &llm.Script{Turns: make([]llm.ScriptTurn, 5)})
	for range 5 {
		_, _ = h.Do(t.Context(), &llm.Request{Model: "m"})
	}
	failIf(t, tries != 3, "told %d times", tries)
}
