package bcp

import (
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// CredentialAct is what was done with the keys and the credentials of a mesh.
// The words are frozen, since journals hold them.
type CredentialAct string

// The acts.
const (
	CredentialIssued   CredentialAct = "issue"           // somebody was given credentials
	CredentialRevoked  CredentialAct = "revoke"          // credentials are refused from then on
	CredentialRotated  CredentialAct = "rotate"          // others take their place
	CredentialScope    CredentialAct = "rotate-scope"    // an agent's signing key was replaced
	CredentialAccount  CredentialAct = "rotate-account"  // all signing keys of an account were: its public key
	CredentialOperator CredentialAct = "rotate-operator" // the operator's signing key was: the new one
	CredentialIdentity CredentialAct = "rotate-identity" // the operator's own key was: the new one
	CredentialInvited  CredentialAct = "invite"          // somebody may join once, with a key of its own
	CredentialJoined   CredentialAct = "join"            // and did
	CredentialRefused  CredentialAct = "refuse-join"     // and was refused
	CredentialSealed   CredentialAct = "seal"            // the keys were sealed with a passphrase
	CredentialUnsealed CredentialAct = "unseal"          // and were not any more
)

// CredentialActs returns every act.
func CredentialActs() []CredentialAct {
	return []CredentialAct{
		CredentialIssued, CredentialRevoked, CredentialRotated, CredentialScope, CredentialAccount, CredentialOperator, CredentialIdentity,
		CredentialInvited, CredentialJoined, CredentialRefused, CredentialSealed, CredentialUnsealed,
	}
}

// Valid reports whether it is one of the acts.
func (a CredentialAct) Valid() bool { return slices.Contains(CredentialActs(), a) }

// CredentialChange is what a decision of [KindCredential] is about, beside its
// agent and its public key.
type CredentialChange struct {
	// Number counts the changes of the key store. One that was recorded twice has
	// one number: a gateway died between the record and its receipt.
	Number uint64 `msgpack:"n" json:"number"`
	// Time is when it was done, which may be while the mesh rested. Unix
	// nanoseconds.
	Time int64 `msgpack:"t" json:"time"`
	// Role of the agent whose credentials they are.
	Role Role `msgpack:"r,omitempty" json:"role,omitzero"`
	// Until ends what was given, or what is left of what was taken; 0 is never.
	// Unix nanoseconds.
	Until int64 `msgpack:"u,omitempty" json:"until,omitzero"`
	// Limits say where and how the credentials are good, a line each.
	Limits []string `msgpack:"l,omitempty" json:"limits,omitempty"`
}

// JoinRequest is what who joins a mesh asks with. Key is the public nkey that it
// has made, and Signature its signature of [JoinStatement], in base64.
type JoinRequest struct {
	Type      string `json:"type"` // TypeJoinRequest
	Key       string `json:"public_key"`
	Signature []byte `json:"signature"`
	// Passkey is the hash of the one that an approver's decisions are to be signed with.
	Passkey Digest `json:"passkey,omitzero"`
}

// Joined is the answer: the credentials, but for the private key, which nobody
// else has.
type Joined struct {
	Type  string    `json:"type"` // TypeJoined
	Agent AgentName `json:"agent"`
	Role  Role      `json:"role"`
	JWT   string    `json:"jwt"`
}

// The types of these messages.
const (
	TypeJoinRequest = "bcp_join_request"
	TypeJoined      = "bcp_joined"
)

// JoinStatement is what who joins signs with the key that it has made, so that
// nobody is given credentials for a key of somebody else, or bound to their passkey.
func JoinStatement(invitation, key string, passkey Digest) []byte {
	text := "bcpmesh join 1\n" + invitation + "\n" + key
	if !passkey.IsZero() {
		text += "\npasskey " + hex.EncodeToString(passkey[:])
	}
	return []byte(text)
}

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
	body, code := parseJSON(b, MaxControllerMessage, func(r *CredentialRecords) bool {
		last := uint64(0)
		for _, c := range r.Changes {
			if c.Number <= last || !c.valid() {
				return false
			}
			last = c.Number
		}
		return len(r.Changes) <= MaxCredentialRecords
	})
	return body.Changes, code
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
