package wires

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// A transcript is lines of JSON: its format, and then each call of a model with its answer.
const transcriptFormat = `{"format":"BCPTRANS1"}`

const (
	modelCall      = "model" // a kind
	maxTranscript  = 256 << 20
	maxRequestLine = 2*maxRequest + 2*maxReply
)

// transcriptLine is one call.
type transcriptLine struct {
	N        int            `json:"n"` // from 1
	Kind     string         `json:"kind"`
	Model    string         `json:"model"`
	Digest   string         `json:"request_sha256"`
	Request  jsontext.Value `json:"request"` // without the model: another one may be asked the same
	Response jsontext.Value `json:"response,omitzero"`
	Failure  string         `json:"failure,omitzero"` // the code of an error, in place of a response
}

// Recorder writes each call of a model and its answer to a transcript, which the provider replay answers from. It may be used
// by several goroutines. A transcript has what the model read in the clear.
type Recorder struct {
	provider llm.Provider
	mu       sync.Mutex
	w        io.Writer
	n        int
}

// NewRecorder begins a transcript.
func NewRecorder(p llm.Provider, w io.Writer) (*Recorder, error) {
	if _, err := io.WriteString(w, transcriptFormat+"\n"); err != nil {
		return nil, fmt.Errorf("wires: the transcript: %w", err)
	}
	return &Recorder{provider: p, w: w}, nil
}

// Do implements [llm.Provider]. An answer that cannot be written is an error; a call that its context ended is not written.
func (t *Recorder) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	reply, failure := t.provider.Do(ctx, r, delta)
	if ctx.Err() != nil {
		return reply, failure
	}
	request, err := encoded(r)
	if err != nil {
		return nil, fmt.Errorf("wires: the transcript: %w", err)
	}
	line := transcriptLine{Kind: modelCall, Model: r.Model, Digest: digestOf(request), Request: request}
	if failure != nil {
		line.Failure = llm.ErrorCode(failure)
	} else if line.Response, err = reply.MarshalJSON(); err != nil {
		return nil, fmt.Errorf("wires: the transcript: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	line.N = t.n
	text, err := json.Marshal(line, json.Deterministic(true))
	if err == nil {
		_, err = t.w.Write(append(text, '\n'))
	}
	if err != nil {
		return nil, fmt.Errorf("wires: the transcript: %w", err)
	}
	return reply, failure
}

func encoded(r *llm.Request) ([]byte, error) {
	c := *r
	c.Model = ""
	return c.MarshalJSON()
}

func digestOf(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:])
}

// replay answers from a transcript: the same request gets what it got then, however the conversations come to lie side by
// side. Equal requests get their answers in the order of the transcript, and the last one from then on.
type replay struct {
	mu    sync.Mutex
	lines map[string][]transcriptLine
	all   []transcriptLine
}

func readTranscript(path string) (*replay, error) {
	content, err := readRegular(path, "transcript", maxTranscript)
	if err != nil {
		return nil, err
	}
	return parseTranscript(content)
}

var errTranscript = errors.New("wires: this is no transcript of a model")

func parseTranscript(content []byte) (*replay, error) {
	p := &replay{lines: map[string][]transcriptLine{}}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxRequestLine)
	if !lines.Scan() || lines.Text() != transcriptFormat {
		return nil, errTranscript
	}
	for n := 2; lines.Scan(); n++ {
		var l transcriptLine
		if json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true)) != nil || (l.Response == nil) == (l.Failure == "") {
			return nil, fmt.Errorf("%w: line %d", errTranscript, n)
		}
		if l.Kind != modelCall {
			continue
		}
		if l.Digest != digestOf(l.Request) {
			return nil, fmt.Errorf("%w: line %d: the digest of its request is another one", errTranscript, n)
		}
		if l.Response != nil {
			if _, err := llm.ParseReply(l.Response); err != nil {
				return nil, fmt.Errorf("%w: line %d", errTranscript, n)
			}
		}
		p.lines[l.Digest] = append(p.lines[l.Digest], l)
		p.all = append(p.all, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: a line is too long", errTranscript)
	}
	return p, nil
}

// Do implements [llm.Provider].
func (p *replay) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	request, err := encoded(r)
	if err != nil {
		return nil, llm.Protocol{What: "the request cannot be encoded"}
	}
	digest := digestOf(request)
	p.mu.Lock()
	answers := p.lines[digest]
	if len(answers) > 1 {
		p.lines[digest] = answers[1:]
	}
	p.mu.Unlock()
	if len(answers) == 0 {
		return nil, llm.Protocol{What: p.difference(request, len(r.Turns))}
	}
	if answers[0].Failure != "" {
		return nil, llm.ErrorOf(answers[0].Failure)
	}
	reply, err := llm.ParseReply(answers[0].Response)
	if err == nil && delta != nil {
		for _, said := range reply.Said {
			delta(llm.Delta{Text: said.Text()})
		}
	}
	return reply, err
}

// difference says how a request differs from the one of the transcript that it has most in common with. It quotes neither.
func (p *replay) difference(request []byte, turns int) string {
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
