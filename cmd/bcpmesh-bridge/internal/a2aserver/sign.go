package a2aserver

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-json-experiment/json/jsontext"
)

// Attest adds a reference to an attestation of its agent to a card, as an extension whose
// URI is the type of the attestation's statement: holders of the attestation compare the
// SHA-256 of the statement's bytes, and trust it, not the card.
func Attest(card *a2a.AgentCard, agent, predicateType string, statement [32]byte) {
	card.Name = agent
	card.Capabilities.Extensions = append(card.Capabilities.Extensions, a2a.AgentExtension{
		URI: predicateType, Params: map[string]any{"agent": agent, "sha256": hex.EncodeToString(statement[:])},
	})
}

// Sign returns a card in JSON with one more signature: a JWS (RFC 7515) with EdDSA over
// the canonical form (RFC 8785) of the card without its signatures. sign returns the
// ed25519 signature of a message. Implementations disagree about members with default
// values, which some omit before they verify: a card of [Card] has none.
func Sign(card *a2a.AgentCard, keyID string, sign func(message []byte) ([]byte, error)) ([]byte, error) {
	header, err := canonical(map[string]string{"alg": "EdDSA", "kid": keyID, "typ": "JOSE"})
	if err != nil {
		return nil, err
	}
	signed := *card
	signed.Signatures = nil
	payload, err := canonical(&signed)
	if err != nil {
		return nil, err
	}
	protected := base64.RawURLEncoding.EncodeToString(header)
	signature, err := sign([]byte(protected + "." + base64.RawURLEncoding.EncodeToString(payload)))
	if err != nil {
		return nil, err
	}
	signed.Signatures = append(slices.Clone(card.Signatures), a2a.AgentCardSignature{
		Protected: protected, Signature: base64.RawURLEncoding.EncodeToString(signature),
	})
	return json.MarshalIndent(&signed, "", "  ")
}

func canonical(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text := jsontext.Value(b)
	return text, text.Canonicalize()
}
