package bcp

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

const (
	// MaxCredentialRecords bounds the changes of one [CredentialRecords].
	MaxCredentialRecords = 128
	// maxCredentialLimits bounds the lines that say how credentials are good, and
	// maxCredentialLimit one of them, in code points.
	maxCredentialLimits = 32
	maxCredentialLimit  = 128
)

// CredentialRecord is one thing that was done with keys or credentials, as the key
// store keeps it until it is recorded.
type CredentialRecord struct {
	CredentialChange
	Act   CredentialAct `json:"act"`
	Agent AgentName     `json:"agent,omitempty"`
	Key   string        `json:"key,omitempty"` // the public key that it is about
}

// CredentialRecords is the body of the act [ControlCredentials] where the key store
// is the operator's alone: what is to be recorded, oldest first.
type CredentialRecords struct {
	Changes []CredentialRecord `json:"changes"`
}

// ParseCredentialRecords reads such a body strictly: what it says is what an audit can
// show. Without changes, as {} is, whoever asks only wants to see who is connected.
func ParseCredentialRecords(b []byte) ([]CredentialRecord, Code) {
	var body CredentialRecords
	if len(b) > MaxControllerMessage {
		return nil, MessageTooLarge
	}
	if wire.Check(b) != nil || json.Unmarshal(b, &body, json.RejectUnknownMembers(true)) != nil {
		return nil, Malformed
	}
	if len(body.Changes) > MaxCredentialRecords {
		return nil, Malformed
	}
	last := uint64(0)
	for _, c := range body.Changes {
		if c.Number <= last || !c.valid() {
			return nil, Malformed
		}
		last = c.Number
	}
	return body.Changes, ""
}

func (c *CredentialRecord) valid() bool {
	if !c.Act.Valid() || c.Time <= 0 || c.Until < 0 || len(c.Limits) > maxCredentialLimits {
		return false
	}
	if _, err := ParseAgentName(string(c.Agent)); err != nil && c.Agent != "" && c.Agent != Gateway {
		return false
	}
	for _, line := range c.Limits {
		if line == "" || utf8.RuneCountInString(line) > maxCredentialLimit || strings.IndexFunc(line, invisible) >= 0 {
			return false
		}
	}
	return c.Key == "" || isToken(c.Key, false)
}

// CredentialRecordsOf writes the body for as many of the changes as go into one,
// and returns how many those are. It is at least one, if there are any.
func CredentialRecordsOf(changes []CredentialRecord) (CredentialRecords, int) {
	size := len(`{"changes":[]}`)
	for n, c := range changes {
		text, err := json.Marshal(c)
		if size += len(text) + len(","); err != nil || n > 0 && size > MaxControllerMessage || n == MaxCredentialRecords {
			return CredentialRecords{changes[:n]}, n
		}
	}
	return CredentialRecords{changes}, len(changes)
}
