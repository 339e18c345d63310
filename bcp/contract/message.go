package contract

import (
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// MessageKind is the type of a message of a negotiation about roles (PROTOCOL P14).
type MessageKind string

// The types, in their order.
const (
	TypeOpen        MessageKind = "bcp_role_open" // of an agent that wants to be judged
	TypeChallenge   MessageKind = "bcp_role_challenge"
	TypeDeclaration MessageKind = "bcp_role_declaration"
	TypeVerdict     MessageKind = "bcp_role_verdict"
	TypeRevocations MessageKind = "bcp_role_revocations" // a list alone, at any time
)

// Message is a message of a negotiation. Each type has its own fields and no others.
type Message struct {
	Type MessageKind `json:"type"`
	// Name is the requirement that an agent wants to be judged by: of bcp_role_open.
	Name string `json:"name,omitempty"`
	// Nonce has 128 random bits or more, in letters and digits, and is used once; Asker is
	// to whom the answer is proved; Requirement is what is required: of
	// bcp_role_challenge.
	Nonce       string         `json:"nonce,omitempty"`
	Asker       string         `json:"asker,omitempty"`
	Requirement jsontext.Value `json:"requirement,omitzero"`
	// Of bcp_role_declaration, and of bcp_role_revocations the list alone.
	Declaration jsontext.Value `json:"declaration,omitzero"`
	Papers
	Proof *Proof `json:"proof,omitempty"`
	// Of bcp_role_verdict. Code is empty if Accepted, and Until the first moment at which
	// it has to be judged again, in whole seconds.
	Accepted bool        `json:"accepted,omitzero"`
	Code     VerdictCode `json:"code,omitempty"`
	Until    time.Time   `json:"until,omitzero"`
}

// Papers are an organisation's signed statements about its agent, as bcpmesh role attest
// writes them.
type Papers struct {
	// Contracts are those that the attestation refers to, except built-in ones, byte for byte.
	Contracts []string `json:"contracts,omitempty"`
	// Attestation is an envelope that names the user nkey of the agent's creds, and
	// Revocations that of the newest list.
	Attestation jsontext.Value `json:"attestation,omitzero"`
	Revocations jsontext.Value `json:"revocations,omitzero"`
}

const (
	// minNonce has 128 bits in the alphabet of base32.
	minNonce = 26
	// maxContracts of a declaration: it refers to three.
	maxContracts = 8
)

var messageKeys = map[MessageKind]keys{
	TypeOpen:        {required: []string{"type", "name"}},
	TypeChallenge:   {required: []string{"type", "nonce", "asker"}, optional: []string{"requirement"}},
	TypeDeclaration: {required: []string{"type", "attestation"}, optional: []string{"declaration", "contracts", "revocations", "proof"}},
	TypeVerdict:     {required: []string{"type"}, optional: []string{"accepted", "code", "until"}},
	TypeRevocations: {required: []string{"type", "revocations"}},
}

// ParseMessage reads a message of a negotiation, strictly. What it returns refers to b.
// The code is [bcp.Malformed] or [bcp.MessageTooLarge].
func ParseMessage(b []byte) (Message, bcp.Code) {
	if len(b) > bcp.MaxRoleMessage {
		return Message{}, bcp.MessageTooLarge
	}
	var m Message
	if !decode(b, &m) {
		return Message{}, bcp.Malformed
	}
	o := members(b)
	k, known := messageKeys[m.Type]
	if !known || len(k.missing(o)) > 0 || len(k.unknown(o)) > 0 || !m.whole(o) {
		return Message{}, bcp.Malformed
	}
	return m, ""
}

// whole reports whether the fields of a message are what they can be, and go together.
func (m *Message) whole(o map[string]jsontext.Value) bool {
	for key, text := range map[string]string{"name": m.Name, "nonce": m.Nonce, "asker": m.Asker, "code": string(m.Code)} {
		if o[key] != nil && !areLabels(text) {
			return false
		}
	}
	// A signature has one spelling.
	if m.Proof != nil && (!isText(members(o["proof"])["signature"], base64.StdEncoding.EncodeToString(m.Proof.Signature)) || len(m.Proof.Signature) == 0 || !areLabels(m.Proof.Key)) {
		return false
	}
	if len(m.Contracts) > maxContracts || slices.ContainsFunc(m.Contracts, func(c string) bool { return c == "" || len(c) > MaxContract }) {
		return false
	}
	switch m.Type {
	case TypeChallenge:
		return len(m.Nonce) >= minNonce && !slices.ContainsFunc([]byte(m.Nonce), func(c byte) bool {
			return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
		})
	case TypeVerdict:
		return m.Accepted == (m.Code == "") && (m.Accepted || slices.Contains(VerdictCodes(), m.Code)) && (m.Accepted || m.Until.IsZero())
	default:
		return true
	}
}

// isText reports whether a value is a text, and this one.
func isText(v jsontext.Value, want string) bool {
	var text string
	return json.Unmarshal(v, &text) == nil && text == want && len(text) <= maxLabel
}

// WriteMessage returns the bytes of a message. Values come out as they are, but for white
// space: what is signed of an attestation is the digest of its bytes. What no reader would
// take is an error.
func WriteMessage(m *Message) ([]byte, error) {
	b, err := json.Marshal(m, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, err
	}
	if _, code := ParseMessage(b); code != "" {
		return nil, errors.New("the message would be refused by every reader")
	}
	return b, nil
}
