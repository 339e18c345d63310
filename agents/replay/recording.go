package replay

import (
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Recording is a transcript, by its conversations.
type Recording struct {
	// Configuration is that of the cell; nil in a transcript of only a model, which
	// cannot be replayed.
	Configuration *cell.Configuration `json:"configuration,omitempty"`
	// Conversations are in the order in which they began. Calls of only a model are a
	// conversation without a kind.
	Conversations []*Conversation `json:"conversations"`
}

// Conversation is one of a recording.
type Conversation struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // query, prompt, delivery or task
	// Asked is the keeper's request; that of a task is in the configuration.
	Asked jsontext.Value `json:"asked,omitzero"`
	// Calls are those of the cell, in order.
	Calls []Line `json:"calls"`
	// End is nil if the conversation was cut off.
	End *Line `json:"end,omitempty"`

	subscriptions jsontext.Value // at the beginning
}

// taskKind is the kind of a conversation about a task.
const taskKind = cell.TaskConversation

// ErrModelOnly says that a transcript has the calls of a model but not the requests to
// the cell.
var ErrModelOnly = errors.New("replay: the transcript has calls of a model alone")

// Read reads a transcript. The error is [ErrFormat].
func Read(content []byte) (*Recording, error) {
	lines, err := Parse(content)
	if err != nil {
		return nil, err
	}
	r := &Recording{}
	byID := map[string]*Conversation{}
	begin := func(c *Conversation) *Conversation {
		byID[c.ID] = c
		r.Conversations = append(r.Conversations, c)
		return c
	}
	var subscriptions jsontext.Value
	for _, l := range lines {
		c := byID[l.Conversation]
		switch l.Kind {
		case Configuration:
			if r.Configuration, err = ConfigurationOf(&l); err != nil {
				return nil, err
			}
			if r.Configuration.Task != "" {
				begin(&Conversation{ID: cell.TaskConversation, Kind: taskKind})
			}
		case Subscriptions:
			subscriptions = l.Request
		case Query, Prompt, Delivery:
			if c != nil || l.Conversation == "" {
				return nil, ErrFormat
			}
			begin(&Conversation{ID: l.Conversation, Kind: l.Kind, Asked: l.Request, subscriptions: subscriptions})
		case End:
			if c == nil || c.End != nil {
				return nil, ErrFormat
			}
			c.End = &l
		default:
			if c == nil && l.Conversation != "" { // the cell named another
				return nil, ErrFormat
			}
			if c == nil {
				c = begin(&Conversation{})
			}
			c.Calls = append(c.Calls, l)
		}
	}
	return r, nil
}

// Model returns the model of a conversation and its usage.
func (c *Conversation) Model() (name string, usage llm.Usage, calls int) {
	for i := range c.Calls {
		l := &c.Calls[i]
		if l.Kind != Model {
			continue
		}
		name = l.Model
		calls++
		usage = add(usage, parseUsage(l.Response))
	}
	return name, usage, calls
}

func add(a, b llm.Usage) llm.Usage {
	return llm.Usage{Input: a.Input + b.Input, CacheRead: a.CacheRead + b.CacheRead, CacheWrite: a.CacheWrite + b.CacheWrite, Output: a.Output + b.Output}
}

// Judgement is the verdict on an answer of a gateway without its own rules.
type Judgement struct {
	Verdict string   `json:"verdict"` // accept, hold, reject, not_enough_information; none without an answer
	Reason  string   `json:"reason,omitzero"`
	Bits    bcp.Bits `json:"nominal_bits"`
}

// Judge judges an answer to the query of a conversation. Without an answer or a query
// the verdict is none.
func (c *Conversation) Judge(answer jsontext.Value) Judgement {
	var q bcp.Query
	if c.Kind != Query || answer == nil || json.Unmarshal(c.Asked, &q) != nil {
		return Judgement{Verdict: "none"}
	}
	v, err := bcp.Compile(q.Spec, bcp.Settings{Sealed: true})
	if err != nil {
		return Judgement{Verdict: "none"}
	}
	var declined struct {
		NotEnough bool `json:"not_enough_information"`
	}
	if json.Unmarshal(answer, &declined) == nil && declined.NotEnough {
		return Judgement{Verdict: "not_enough_information", Bits: v.Prices().FailedNominal}
	}
	got := v.Validate(answer, bcp.JSON)
	if got.Outcome == bcp.Reject {
		return Judgement{Verdict: got.Outcome.String(), Reason: got.Reason.String(), Bits: v.Prices().FailedNominal}
	}
	return Judgement{Verdict: got.Outcome.String(), Bits: v.Prices().Nominal}
}

// ConfigurationOf decodes a line of the kind configuration.
func ConfigurationOf(l *Line) (*cell.Configuration, error) {
	c := new(cell.Configuration)
	if l.Response == nil || json.Unmarshal(l.Response, c) != nil {
		return nil, ErrFormat
	}
	return c, nil
}
