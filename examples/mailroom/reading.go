package mailroom

import (
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// reading is what the Reader makes of one mail.
type reading struct {
	Mail      string     `json:"mail"` // the hash that a mailbox calls it by
	Subject   string     `json:"subject"`
	Pushes    []push     `json:"pushes"`
	Answers   answer     `json:"answers"` // to what the assistant asks about it
	Injection *Injection `json:"planted"`
}

// push is an answer that the Reader gives unasked. Where an attacker talks, it says what it wants where a word of a closed
// list belongs, then where text does, then in as many words as may be, and at last it lies within the rules.
type push struct {
	Subscription bcp.SubscriptionID `json:"subscription"`
	Answer       answer             `json:"answer"` // but for the number of the message
}

// answer is what the Reader says: names to values, as JSON objects.
type answer map[string]any

// Injection is an instruction that somebody planted in a mail for a model.
type Injection struct {
	// Place is where it stands, in words: the subject, the sender's name, the body, hidden text or the attachment.
	Place string `json:"in"`
	// Text is the instruction as its author wrote it, with invisible characters and
	// look-alikes, and Plain as a model understands it; empty: the same.
	Text  string `json:"text"`
	Plain string `json:"plain"`
}

// The Reader has no model: what one would make of the shipped mail is written down.
//
//go:embed readings.json
var readingsFile []byte

// parseReadings reads the file, by the hash of the mail.
func parseReadings(file []byte) (map[string]reading, error) {
	var list []reading
	if err := json.Unmarshal(file, &list, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("mailroom: readings.json: %w", err)
	}
	byMail := make(map[string]reading, len(list))
	for _, r := range list {
		if i := r.Injection; i != nil && i.Plain == "" {
			i.Plain = i.Text
		}
		byMail[r.Mail] = r
	}
	return byMail, nil
}

// of returns the reading of a mail. One that is not among the shipped ones tells the Reader nothing.
func (r *reader) of(m *mailbox.Message) reading {
	if known, ok := r.readings[m.ID]; ok {
		return known
	}
	return reading{Pushes: []push{{newMail, answer{"kind": "other", "urgent": false, "needs_reply": false, "sentiment": "neutral"}}}}
}
