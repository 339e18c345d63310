// Package synadia makes a Reader of an agent that uses the Synadia Agent Protocol for
// NATS, version 0.3. The agent is not trusted: the gateway validates and charges its
// answers like those of any Reader.
//
// The agent is on a separate NATS system or in another account; the mesh's
// subjects and credentials are not used there. A query is one prompt, sent to
// the agent's subject with a new inbox; the answer is the JSON object in the
// text of its chunks. Questions from the agent get no answer: that would be a
// path from the Controller to the agent, and a message to a subject of the
// agent's choice. This package returns and logs no text of the agent or of its
// errors.
package synadia

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

const (
	// maxAnswer bounds the text of an answer, in bytes, and maxChunks the messages of one.
	maxAnswer = 256 << 10
	maxChunks = 10_000
	// silence is how long an agent may send nothing. Working agents send a status.
	silence      = 60 * time.Second
	defaultPause = time.Second
)

// ErrSubject says that a text is not a subject of an agent's prompts.
var ErrSubject = errors.New("synadia: not a subject such as agents.prompt.pi.kim.session")

// Config says which agent to ask.
type Config struct {
	// Conn is a connection to the agent's NATS system. The caller closes it.
	Conn *nats.Conn
	// Subject is the one of the agent's prompts, as [Find] returns it.
	Subject string
	// Timeout is how long an answer may take. Zero is [stdio.DefaultTimeout].
	Timeout time.Duration
	// Logger gets the reasons for missing answers. It never gets any text of the agent.
	Logger hclog.Logger
}

// Agent answers queries by prompting an agent. Its [Agent.Answer] is a handler for
// [agents.Reader.OnQuery], and may be called concurrently.
type Agent struct {
	conn           *nats.Conn
	subject        string
	timeout        time.Duration
	silence, pause time.Duration
	log            hclog.Logger
}

// New returns an Agent. It asks nothing yet. The error is [ErrSubject].
func New(c Config) (*Agent, error) {
	if !isPromptSubject(c.Subject) {
		return nil, ErrSubject
	}
	if c.Timeout == 0 {
		c.Timeout = stdio.DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return &Agent{conn: c.Conn, subject: c.Subject, timeout: c.Timeout, silence: silence, pause: defaultPause, log: c.Logger}, nil
}

// isPromptSubject reports whether a text is agents.prompt.AGENT.OWNER.SESSION, each of
// them letters, digits, hyphens and underscores.
func isPromptSubject(subject string) bool {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 5 || tokens[0] != "agents" || tokens[1] != "prompt" {
		return false
	}
	for _, token := range tokens[2:] {
		if token == "" || len(token) > 63 || strings.ContainsFunc(token, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return true
}

// Answer prompts the agent. If it fails, or its answer cannot be read, it is prompted
// again with the reason, up to three times in all. The error is a [*stdio.RunError], or
// the reason that ctx has ended: then the query stays open until it comes again or
// expires.
func (a *Agent) Answer(ctx context.Context, q agents.Query) (any, error) {
	return stdio.Again(ctx, q, a.log, a.pause, a.ask)
}

// ask prompts the agent once.
func (a *Agent) ask(ctx context.Context, q agents.Query) (any, error) {
	asking, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	text, err := a.prompt(asking, q)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case asking.Err() != nil:
		return nil, &stdio.RunError{Reason: "it took longer than " + a.timeout.String()}
	case err != nil:
		return nil, err
	}
	return stdio.ParseText(text, q.Spec)
}

// prompt returns the text of an agent's answer.
func (a *Agent) prompt(ctx context.Context, q agents.Query) (string, error) {
	query, err := mcp.QueryJSON(q)
	if err != nil {
		return "", err
	}
	envelope, err := json.Marshal(struct {
		Prompt string `json:"prompt"`
	}{mcp.Instruction + "\n\n" + string(query)})
	if err != nil {
		return "", err
	}
	inbox, err := a.conn.SubscribeSync(a.conn.NewInbox())
	if err != nil {
		return "", unreachable(err)
	}
	defer func() { _ = inbox.Unsubscribe() }() // the connection may be gone
	// An agent that sends too much is cut off before it fills the memory.
	if err := inbox.SetPendingLimits(maxChunks, 4*maxAnswer); err != nil {
		return "", unreachable(err)
	}
	if err := a.conn.PublishRequest(a.subject, inbox.Subject, envelope); err != nil {
		return "", unreachable(err)
	}
	return a.read(ctx, inbox)
}

// read joins the chunks of an answer, up to the message that ends it.
func (a *Agent) read(ctx context.Context, inbox *nats.Subscription) (string, error) {
	var text strings.Builder
	for range maxChunks {
		msg, err := nextWithin(ctx, inbox, a.silence)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return "", &stdio.RunError{Reason: "nobody listens on its subject", Again: true}
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return "", &stdio.RunError{Reason: "it said nothing for " + a.silence.String()}
		case errors.Is(err, nats.ErrSlowConsumer):
			return "", errTooLong
		case err != nil:
			return "", unreachable(err)
		case msg.Header.Get("Nats-Service-Error-Code") != "":
			return "", &stdio.RunError{Reason: "it reports an error", Again: true}
		case len(msg.Data) == 0 && len(msg.Header) == 0:
			return text.String(), nil
		}
		said, err := readChunk(msg.Data)
		if err != nil {
			return "", err
		}
		if text.Len()+len(said) > maxAnswer {
			return "", errTooLong
		}
		text.WriteString(said)
	}
	return "", errTooLong
}

var errTooLong = &stdio.RunError{Reason: "its answer is too long"}

// readChunk returns the text of a chunk: nothing for a status, and for future kinds
// of chunks.
func readChunk(data []byte) (string, error) {
	var chunk struct {
		Type string         `json:"type"`
		Data jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(data, &chunk); err != nil {
		return "", errChunk
	}
	switch chunk.Type {
	case "query":
		return "", &stdio.RunError{Reason: "it asks back"}
	case "response":
	default:
		return "", nil
	}
	if bytes.HasPrefix(chunk.Data, []byte("{")) {
		var long struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(chunk.Data, &long); err != nil || long.Text == nil {
			return "", errChunk
		}
		return *long.Text, nil
	}
	var text string
	if err := json.Unmarshal(chunk.Data, &text); err != nil {
		return "", errChunk
	}
	return text, nil
}

var errChunk = &stdio.RunError{Reason: "its answer is not of the protocol", Again: true}

// unreachable hides the text of an error, which a server chose.
func unreachable(error) error {
	return &stdio.RunError{Reason: "its NATS system cannot be reached", Again: true}
}
