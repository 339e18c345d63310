package synadia

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// version is the version of the protocol in this package, without its patch level.
const version = "0.3"

// ErrVersion says that the agent exists but uses another version of the protocol.
var ErrVersion = errors.New("synadia: the agent does not speak version " + version + " of the protocol")

// ErrAbsent says that there is no such agent.
var ErrAbsent = errors.New("synadia: no agent serves this subject")

const (
	// maxFound bounds how many answers to a search are read.
	maxFound = 1_000
	// quiet is the time without an answer that ends a search.
	quiet = 500 * time.Millisecond
)

// Found is an agent in the result of a search. Its texts are the agent's own.
type Found struct {
	Subject               string // of its prompts
	Agent, Owner, Session string
	Version, Description  string
	Speaks                bool // it uses this package's version of the protocol
}

// Find returns the agents that answer, at most 1,000. It ends when no answer has come for
// half a second, or with ctx.
func Find(ctx context.Context, conn *nats.Conn) ([]Found, error) {
	inbox, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, unreachable(err)
	}
	defer func() { _ = inbox.Unsubscribe() }() // the connection may be gone
	if err := conn.PublishRequest(micro.APIPrefix+".INFO.agents", inbox.Subject, nil); err != nil {
		return nil, unreachable(err)
	}
	var all []Found
	for range maxFound {
		msg, err := nextWithin(ctx, inbox, quiet)
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return all, nil
		case ctx.Err() != nil:
			return all, context.Cause(ctx)
		case err != nil:
			return nil, unreachable(err)
		}
		if f, ok := foundIn(msg.Data); ok {
			all = append(all, f)
		}
	}
	return all, nil
}

func nextWithin(ctx context.Context, inbox *nats.Subscription, d time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return inbox.NextMsgWithContext(ctx)
}

// foundIn parses one answer to a search. It returns false if it is not from an agent.
func foundIn(data []byte) (Found, bool) {
	var info micro.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return Found{}, false
	}
	for _, endpoint := range info.Endpoints {
		if endpoint.Name != "prompt" || !isPromptSubject(endpoint.Subject) {
			continue
		}
		speaks := info.Metadata["protocol_version"]
		return Found{
			Subject: endpoint.Subject, Agent: info.Metadata["agent"], Owner: info.Metadata["owner"], Session: info.Metadata["session"],
			Version: speaks, Description: info.Description, Speaks: speaks == version || strings.HasPrefix(speaks, version+"."),
		}, true
	}
	return Found{}, false
}

// Check checks that an agent exists and uses this version of the protocol. Errors are
// [ErrAbsent], [ErrVersion] and [*stdio.RunError].
func (a *Agent) Check(ctx context.Context) error {
	all, err := Find(ctx, a.conn)
	if err != nil {
		return err
	}
	missing := ErrAbsent
	for _, f := range all {
		if f.Subject != a.subject {
			continue
		}
		if f.Speaks {
			return nil
		}
		missing = ErrVersion
	}
	return missing
}
