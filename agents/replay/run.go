package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// Options are the options of a replay.
type Options struct {
	// Start starts a cell, and returns its output and its input, which is closed at the
	// end. The caller stops it.
	Start func(ctx context.Context) (from io.Reader, to io.WriteCloser, err error)
	// Confined says that the started cell is confined, which it checks.
	Confined bool
	// Model, unless it is nil, replaces the recorded model. Tools return only the
	// recorded content of the conversation, and only the model is sent anything.
	Model *llm.Endpoint
}

// Outcome is the result of a replayed conversation.
type Outcome struct {
	// Difference is the first difference from the recording. It is nil if there is
	// none, or with another model.
	Difference *Difference
	Answer     jsontext.Value // nil if it failed
	Failure    string         // why it did
	Calls      int            // of the model
	Usage      llm.Usage      // as the model's provider counted it
	Unfinished bool           // the recording has no end of it, so it was not replayed
}

// Difference is a difference from the recorded conversation.
type Difference struct {
	Turn int    `json:"turn"` // of the model, from 1
	Kind string `json:"kind"` // of the call, or end: of the answer
	// Byte is the first different byte, from 1, and Recorded and Now are the text
	// around it.
	Byte     int    `json:"byte"`
	Recorded string `json:"recorded"`
	Now      string `json:"now"`
}

// ErrCell says that the cell ended, or did not answer.
var ErrCell = errors.New("replay: the cell has ended")

// Run replays the conversations, one after the other, and returns their outcomes in
// that order.
func (r *Recording) Run(ctx context.Context, o Options) ([]Outcome, error) {
	if r.Configuration == nil {
		return nil, ErrModelOnly
	}
	outcomes := make([]Outcome, len(r.Conversations))
	finished := 0
	for i, c := range r.Conversations {
		if outcomes[i].Unfinished = c.End == nil; c.End != nil {
			finished++
		}
	}
	if finished == 0 {
		return outcomes, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from, to, err := o.Start(ctx)
	if err != nil {
		return nil, err
	}
	config := *r.Configuration
	config.Replayed, config.Confined, config.Files, config.Mailbox = true, o.Confined, nil, ""
	if o.Model != nil {
		config.Model = o.Model.Model
	}
	p := &player{other: o.Model, done: make(chan jsontext.Value, 1)}
	client := stdio.NewClient(to, p.methods(&config))
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer func() { _ = to.Close() }()
	if config.Task != "" { // it begins at once
		p.begin(r.Conversations[0])
	}
	go func() {
		defer close(ended)
		_ = client.Run(ctx, from, maxLine)
		cancel(ErrCell)
	}()
	for i, c := range r.Conversations {
		if c.End == nil {
			continue
		}
		if outcomes[i], err = p.play(ctx, client, c); err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// play runs one conversation.
func (p *player) play(ctx context.Context, client *stdio.Client, c *Conversation) (Outcome, error) {
	var o Outcome
	var err error
	if c.Kind == taskKind {
		select {
		case o.Answer = <-p.done:
		case <-ctx.Done():
			return o, context.Cause(ctx)
		}
	} else {
		if c.subscriptions != nil {
			if err := client.Call(ctx, Subscriptions, c.subscriptions, new(jsontext.Value)); err != nil {
				return o, fmt.Errorf("%w: %w", ErrCell, err)
			}
		}
		p.begin(c)
		err = client.Call(ctx, c.Kind, c.Asked, &o.Answer)
	}
	played := p.take()
	o.Difference, o.Calls, o.Usage = played.difference, played.turn, played.usage
	refused, isRefused := errors.AsType[*stdio.CallError](err)
	switch {
	case isRefused:
		o.Answer, o.Failure = nil, refused.Message
	case err != nil && ctx.Err() != nil:
		return o, context.Cause(ctx)
	case err != nil:
		return o, fmt.Errorf("%w: %w", ErrCell, err)
	}
	if p.other == nil && o.Difference == nil {
		o.Difference = played.ending(&o)
	}
	return o, nil
}

// ending compares how a conversation ended.
func (g *playing) ending(o *Outcome) *Difference {
	if g.next < len(g.of.Calls) {
		l := g.of.Calls[g.next]
		return &Difference{Turn: g.turn, Kind: l.Kind, Byte: 1, Recorded: excerpt(l.Request, 0)}
	}
	recorded, now := []byte(g.of.End.Response), []byte(o.Answer)
	if g.of.End.Response == nil {
		recorded = []byte(g.of.End.Detail)
	}
	if o.Answer == nil {
		now = []byte(o.Failure)
	}
	return compare(g.turn, End, recorded, now)
}

// compare returns the first difference of two texts, or nil.
func compare(turn int, kind string, recorded, now []byte) *Difference {
	if bytes.Equal(recorded, now) {
		return nil
	}
	at := 0
	for at < min(len(recorded), len(now)) && recorded[at] == now[at] {
		at++
	}
	return &Difference{Turn: turn, Kind: kind, Byte: at + 1, Recorded: excerpt(recorded, at), Now: excerpt(now, at)}
}

// excerpt returns the text around a byte.
func excerpt(text []byte, at int) string {
	const before, after = 20, 60
	if at > len(text) {
		return ""
	}
	return strings.ToValidUTF8(string(text[max(0, at-before):min(len(text), at+after)]), "")
}

// parseUsage returns the usage in a reply; zero if there is no reply.
func parseUsage(reply jsontext.Value) llm.Usage {
	r, err := llm.ParseReply(reply)
	if err != nil {
		return llm.Usage{}
	}
	return r.Usage
}

// member returns one member of a request.
func member(request jsontext.Value, name string, into any) error {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(request, &members); err != nil {
		return err
	}
	return json.Unmarshal(members[name], into)
}
