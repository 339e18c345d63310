package replay

import (
	"bufio"
	"bytes"
	"cmp"
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

const format = `{"format":"BCPTRANS1"}`

const (
	// MaxBytes bounds a transcript. What would make it longer is not written, and fails.
	MaxBytes = 256 << 20
	maxLine  = 24 << 20 // of a transcript or of a cell: a page of 8 MiB in base64, or a fully escaped request of 4 MiB
)

// The kinds of lines with a meaning here. Any other is named after a call of the cell:
// fetch, push, channels, ask_and_wait.
const (
	Configuration = "configuration"
	Subscriptions = "subscriptions"
	Query         = "query"
	Prompt        = "prompt"
	Delivery      = "delivery"
	Model         = "model"
	End           = "end" // of a conversation, with its answer
)

// Line is one line. What has ended has a response or the code of a failure.
type Line struct {
	N            int    `json:"n"` // from 1
	Kind         string `json:"kind"`
	Conversation string `json:"conversation,omitzero"`
	Model        string `json:"model,omitzero"`
	Digest       string `json:"request_sha256,omitzero"`
	// Request is the request to a model without its name: another model may be asked
	// the same.
	Request  jsontext.Value `json:"request,omitzero"`
	Response jsontext.Value `json:"response,omitzero"`
	Failure  string         `json:"failure,omitzero"` // a code
	Detail   string         `json:"detail,omitzero"`  // the text of a failure
}

// ErrFull says that a transcript has reached its maximum length.
var ErrFull = errors.New("replay: it is full")

// ErrFormat says that something is not a transcript.
var ErrFormat = errors.New("replay: this is no transcript of a model")

// Writer writes a transcript. It may be used concurrently. After an error it writes nothing more.
type Writer struct {
	mu   sync.Mutex
	w    io.Writer
	n    int
	left int
	err  error
}

// NewWriter begins a transcript.
func NewWriter(w io.Writer) (*Writer, error) {
	t := &Writer{w: w, left: MaxBytes}
	t.write([]byte(format))
	return t, t.err
}

// Write writes a line: its number and its digest are made here.
func (t *Writer) Write(l Line) error {
	if len(l.Request) > 0 {
		l.Digest = digest(l.Request)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.N = t.n + 1
	text, err := json.Marshal(l, json.Deterministic(true))
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("replay: %w", err)
	}
	t.write(text)
	if t.err == nil {
		t.n++
	}
	return t.err
}

// Err returns why nothing more is written, or nil.
func (t *Writer) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Writer) write(line []byte) {
	if t.err != nil {
		return
	}
	if len(line) >= t.left {
		t.err = ErrFull
		return
	}
	t.left -= len(line) + 1
	if _, err := t.w.Write(append(line, '\n')); err != nil {
		t.err = fmt.Errorf("replay: %w", err)
	}
}

func digest(request []byte) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:])
}

// OfModel returns the line of a call of a model, without its outcome.
func OfModel(r *llm.Request) (Line, error) {
	c := *r
	c.Model = ""
	request, err := c.MarshalJSON()
	if err != nil {
		return Line{}, fmt.Errorf("replay: %w", err)
	}
	return Line{Kind: Model, Model: r.Model, Request: request, Digest: digest(request)}, nil
}

// OfCall returns the line of a call of a cell, by its parameters, without its outcome.
func OfCall(method string, params jsontext.Value) (Line, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(params, &members); err != nil {
		return Line{}, fmt.Errorf("replay: %w", err)
	}
	var conversation string
	if name := members["conversation"]; name != nil {
		if err := json.Unmarshal(name, &conversation); err != nil {
			return Line{}, fmt.Errorf("replay: %w", err)
		}
		delete(members, "conversation")
	}
	if method == Model {
		request, err := llm.ParseRequest(members["request"])
		if err != nil {
			return Line{}, fmt.Errorf("replay: %w", err)
		}
		l, err := OfModel(request)
		l.Conversation = conversation
		return l, err
	}
	request, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return Line{}, fmt.Errorf("replay: %w", err)
	}
	return Line{Kind: method, Conversation: conversation, Request: request, Digest: digest(request)}, nil
}

// ModelRequest returns the request of a line of a model.
func (l *Line) ModelRequest() (*llm.Request, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(l.Request, &members); err != nil {
		return nil, ErrFormat
	}
	name, err := json.Marshal(cmp.Or(l.Model, "model"))
	if err != nil {
		return nil, ErrFormat
	}
	members["model"] = name
	whole, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, ErrFormat
	}
	return llm.ParseRequest(whole)
}

// Parse reads a transcript, in which every model call must be valid. The error is
// [ErrFormat], with the line number.
func Parse(content []byte) (list []Line, err error) {
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxLine)
	if !lines.Scan() || lines.Text() != format {
		return nil, ErrFormat
	}
	for n := 2; lines.Scan(); n++ {
		var l Line
		switch {
		case json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true)) != nil || l.Response != nil && l.Failure != "":
			return nil, fmt.Errorf("%w: line %d", ErrFormat, n)
		case len(l.Request) > 0 && l.Digest != digest(l.Request):
			return nil, fmt.Errorf("%w: line %d: the digest of its request is another one", ErrFormat, n)
		case l.Kind == Model && l.checkModel() != nil:
			return nil, fmt.Errorf("%w: line %d", ErrFormat, n)
		}
		list = append(list, l)
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("%w: a line is too long", ErrFormat)
	}
	return list, nil
}

func (l *Line) checkModel() error {
	if (l.Response == nil) == (l.Failure == "") {
		return ErrFormat
	}
	_, err := l.ModelRequest()
	if err == nil && l.Response != nil {
		_, err = llm.ParseReply(l.Response)
	}
	return err
}
