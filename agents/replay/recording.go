package replay

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
)

// Recording is a transcript, by its conversations.
type Recording struct {
	// Configuration is that of the cell; nil in a transcript of only a model.
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
}

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
	for _, l := range lines {
		c := byID[l.Conversation]
		switch l.Kind {
		case Configuration:
			if r.Configuration, err = ConfigurationOf(&l); err != nil {
				return nil, err
			}
			if r.Configuration.Task != "" {
				begin(&Conversation{ID: cell.TaskConversation, Kind: cell.TaskConversation})
			}
		case Subscriptions: // of no conversation
		case Query, Prompt, Delivery:
			if c != nil || l.Conversation == "" {
				return nil, ErrFormat
			}
			begin(&Conversation{ID: l.Conversation, Kind: l.Kind, Asked: l.Request})
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

// ConfigurationOf decodes a line of the kind configuration.
func ConfigurationOf(l *Line) (*cell.Configuration, error) {
	c := new(cell.Configuration)
	if l.Response == nil || json.Unmarshal(l.Response, c) != nil {
		return nil, ErrFormat
	}
	return c, nil
}
