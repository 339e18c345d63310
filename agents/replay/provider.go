package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// Recorder writes each call of a model and its reply to a transcript, for the provider
// replay. It may be used by several goroutines. A transcript contains the model's input
// in cleartext.
type Recorder struct {
	provider llm.Provider
	to       *Writer
}

// NewRecorder begins a transcript.
func NewRecorder(p llm.Provider, w io.Writer) (*Recorder, error) {
	to, err := NewWriter(w)
	if err != nil {
		return nil, err
	}
	return &Recorder{provider: p, to: to}, nil
}

// Do implements [llm.Provider]. A reply that cannot be written is an error; a call
// cancelled by its context is not written.
func (t *Recorder) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	reply, failure := t.provider.Do(ctx, r)
	if ctx.Err() != nil {
		return reply, failure
	}
	line, err := OfModel(r)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		line.Failure = llm.ErrorCode(failure)
	} else if line.Response, err = reply.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("replay: the transcript: %w", err)
	}
	if err := t.to.Write(line); err != nil {
		return nil, err
	}
	return reply, failure
}

// recorded is a model that answers from a transcript.
type recorded struct {
	mu    sync.Mutex
	lines map[string][]Line
	all   []Line
}

// NewProvider returns the model of a transcript: the same request gets the same reply, however
// conversations are interleaved. Equal requests get their replies in the order of the
// transcript, and then the last one. The error is [ErrFormat].
func NewProvider(content []byte) (llm.Provider, error) {
	lines, err := Parse(content)
	if err != nil {
		return nil, err
	}
	p := &recorded{lines: map[string][]Line{}}
	for _, l := range lines {
		if l.Kind == Model {
			p.lines[l.Digest] = append(p.lines[l.Digest], l)
			p.all = append(p.all, l)
		}
	}
	return p, nil
}

// Do implements [llm.Provider].
func (p *recorded) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	asked, err := OfModel(r)
	if err != nil {
		return nil, llm.Protocol{What: "the request cannot be encoded"}
	}
	p.mu.Lock()
	answers := p.lines[asked.Digest]
	if len(answers) > 1 {
		p.lines[asked.Digest] = answers[1:]
	}
	p.mu.Unlock()
	if len(answers) == 0 {
		return nil, llm.Protocol{What: p.difference(asked.Request, len(r.Turns))}
	}
	if answers[0].Failure != "" {
		return nil, llm.ErrorOf(answers[0].Failure)
	}
	return llm.ParseReply(answers[0].Response)
}

// difference describes how a request differs from the most similar one in the
// transcript. It quotes neither.
func (p *recorded) difference(request []byte, turns int) string {
	nearest, most := 0, 0
	for _, l := range p.all {
		same := 0
		for same < min(len(request), len(l.Request)) && request[same] == l.Request[same] {
			same++
		}
		if same >= most {
			nearest, most = l.N, same
		}
	}
	return fmt.Sprintf("turn %d was not recorded: call %d of the transcript is nearest, and differs from byte %d on", turns, nearest, most+1)
}
