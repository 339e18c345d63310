package mailroom

import (
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

// reading is what the Reader makes of one mail.
type reading struct {
	Mail         string     `json:"mail"` // the hash that a mailbox calls it by
	Subject      string     `json:"subject"`
	Kind         string     `json:"kind"`
	Sentiment    string     `json:"sentiment"`
	Urgent       bool       `json:"urgent"`
	NeedsReply   bool       `json:"needs_reply"`
	AsksForMoney bool       `json:"asks_for_money"`
	Gist         string     `json:"gist"`
	Actions      []string   `json:"actions"`
	Injection    *Injection `json:"planted"`
}

// Injection is an instruction that somebody planted in a mail for a model.
type Injection struct {
	// Place is where it stands: subject, display_name, body, hidden or attachment.
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
	return reading{Kind: "other", Sentiment: "neutral"}
}
