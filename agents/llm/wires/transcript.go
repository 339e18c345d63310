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

// A transcript has the calls of a model, a line of JSON each, behind one that names the format. It is as hostile as what the
// model read, and in cleartext: make it inert before you show it. It has no creds and no keys.

const (
	transcriptFormat = `{"format":"BCPTRANS1"}`
	transcriptKind   = "model"

	// maxTranscript bounds a transcript, in bytes. What would make it longer is not written, and fails. The longest line has a
	// request of 4 MiB, fully escaped.
	maxTranscript     = 256 << 20
	maxTranscriptLine = 24 << 20
)

// transcribed is one call, with its reply or the code of its failure.
type transcribed struct {
	N      int    `json:"n"` // from 1
	Kind   string `json:"kind"`
	Model  string `json:"model,omitzero"`
	Digest string `json:"request_sha256"`
	// Request has no name of a model: another one may be asked the same.
	Request  jsontext.Value `json:"request"`
	Response jsontext.Value `json:"response,omitzero"`
	Failure  string         `json:"failure,omitzero"`
}

// transcribe returns the line of a call, without its outcome.
func transcribe(r *llm.Request) (transcribed, error) {
	c := *r
	c.Model = ""
	request, err := c.MarshalJSON()
	return transcribed{Kind: transcriptKind, Model: r.Model, Request: request, Digest: digestOf(request)}, err
}

func digestOf(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:])
}

var (
	errTranscript     = errors.New("this is no transcript of a model")
	errTranscriptFull = errors.New("the transcript is full")
)

// Recorder writes each call of a model and its reply to a transcript, for the provider replay. It may be used by several
// goroutines.
type Recorder struct {
	provider llm.Provider

	mu   sync.Mutex // guards what follows
	w    io.Writer
	n    int
	left int
	err  error // why nothing more is written
}

// NewRecorder begins a transcript.
func NewRecorder(p llm.Provider, w io.Writer) (*Recorder, error) {
	t := &Recorder{provider: p, w: w, left: maxTranscript}
	return t, t.writeLine(transcriptFormat)
}

// Do implements [llm.Provider]. A reply that cannot be written is an error, and so is each call after it, which is not made; a
// call cancelled by its context is not written.
func (t *Recorder) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	t.mu.Lock()
	err := t.err
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	reply, failure := t.provider.Do(ctx, r)
	if ctx.Err() != nil {
		return reply, failure
	}
	line, err := transcribe(r)
	if failure != nil {
		line.Failure = llm.ErrorCode(failure)
	} else if err == nil {
		line.Response, err = reply.MarshalJSON()
	}
	if err == nil {
		err = t.write(line)
	}
	if err != nil {
		return nil, err
	}
	return reply, failure
}

func (t *Recorder) write(l transcribed) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.N = t.n + 1
	text, err := json.Marshal(l, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("the transcript: %w", err)
	}
	if t.err == nil && t.writeLine(string(text)) == nil {
		t.n++
	}
	return t.err
}

func (t *Recorder) writeLine(line string) error {
	if t.left -= len(line) + 1; t.left < 0 {
		t.err = errTranscriptFull
	} else if _, err := io.WriteString(t.w, line+"\n"); err != nil {
		t.err = fmt.Errorf("the transcript: %w", err)
	}
	return t.err
}

// readTranscript reads a transcript, in which every reply must be valid. The error is errTranscript, with the line number.
func readTranscript(content []byte) (list []transcribed, err error) {
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxTranscriptLine)
	if !lines.Scan() || lines.Text() != transcriptFormat {
		return nil, errTranscript
	}
	for n := 2; lines.Scan(); n++ {
		var l transcribed
		switch {
		case json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true)) != nil || l.Kind != transcriptKind || (l.Response == nil) == (l.Failure == ""):
			return nil, fmt.Errorf("%w: line %d", errTranscript, n)
		case l.Digest != digestOf(l.Request):
			return nil, fmt.Errorf("%w: line %d: the digest of its request is another one", errTranscript, n)
		}
		if l.Response != nil {
			if _, err := llm.ParseReply(l.Response); err != nil {
				return nil, fmt.Errorf("%w: line %d", errTranscript, n)
			}
		}
		list = append(list, l)
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("%w: a line is too long", errTranscript)
	}
	return list, nil
}

// replay is a model that answers from a transcript.
type replay struct {
	mu    sync.Mutex
	lines map[string][]transcribed // by the digest of the request: those that are left
	all   []transcribed
}

// NewReplay returns the model of a transcript: the same request gets the same reply, however conversations are interleaved.
// Equal requests get their replies in the order of the transcript, and then the last one.
func NewReplay(content []byte) (llm.Provider, error) {
	all, err := readTranscript(content)
	if err != nil {
		return nil, err
	}
	p := &replay{lines: map[string][]transcribed{}, all: all}
	for _, l := range all {
		p.lines[l.Digest] = append(p.lines[l.Digest], l)
	}
	return p, nil
}

// Do implements [llm.Provider].
func (p *replay) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	asked, err := transcribe(r)
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

// difference describes how a request differs from the most similar one in the transcript. It quotes neither.
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
