package simulate

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// roleCase is one line of the input of role simulate.
type roleCase struct {
	ID     jsontext.Value            `json:"id"`
	Kind   string                    `json:"kind"`
	Input  jsontext.Value            `json:"input"`
	Expect map[string]jsontext.Value `json:"expect"`
}

func parseRoleCase(line []byte) (roleCase, error) {
	c := roleCase{ID: jsontext.Value("null")}
	// A contract with a repeated key is a case too: its own parser refuses it.
	if err := json.Unmarshal(line, &c, jsontext.AllowDuplicateNames(true)); err != nil || c.Input.Kind() != '{' {
		return c, errors.New("expected an object with id, kind, input and perhaps expect, as docs/contracts.md says")
	}
	return c, nil
}

// read reads the input of a case. Keys that a kind does not have are left out.
func (c *roleCase) read(into any) error {
	if err := json.Unmarshal(c.Input, into, jsontext.AllowDuplicateNames(true)); err != nil {
		return errors.New("input: a value has the wrong type; docs/contracts.md shows each kind")
	}
	return nil
}

// document returns the bytes of a document that is in a case as JSON, or as a
// text.
func document(v jsontext.Value) []byte {
	var text string
	if v.Kind() == '"' && json.Unmarshal(v, &text) == nil {
		return []byte(text)
	}
	return v
}

// attestInput is an attestation, and everything that a verdict about it depends on.
type attestInput struct {
	Envelope    jsontext.Value   `json:"envelope"`
	Trust       []caseTrust      `json:"trust"`
	Revocations jsontext.Value   `json:"revocations"`
	LastNumber  int64            `json:"last_revocation_number"`
	Now         string           `json:"now"`
	Requirement jsontext.Value   `json:"requirement"`
	Contracts   []jsontext.Value `json:"contracts"`
	Agent       string           `json:"agent"`
	Challenge   *caseChallenge   `json:"challenge"`
	Proof       caseProof        `json:"proof"`
}

type caseTrust struct {
	Organisation string `json:"organisation"`
	Key          string `json:"key"`
	Until        string `json:"until"`
}

type caseChallenge struct {
	Nonce string `json:"nonce"`
	Asker string `json:"asker"`
}

type caseProof struct {
	Key       string `json:"key"`
	Signature []byte `json:"signature"`
}

// examination returns what is to be judged. A key that cannot be read is not trusted,
// and a revocation list that cannot be read is not current.
func (in *attestInput) examination() (contract.Examination, error) {
	e := contract.Examination{
		Envelope: document(in.Envelope), Agent: in.Agent, LastNumber: in.LastNumber, Proof: contract.Proof(in.Proof), Verify: VerifyEd25519,
	}
	var err error
	if e.Now, err = time.Parse(time.RFC3339, in.Now); err != nil {
		return e, errors.New("input.now: expected a time such as 2026-03-01T06:00:00Z")
	}
	for i, t := range in.Trust {
		trusted := contract.Trusted{Organisation: t.Organisation}
		if t.Until != "" {
			if trusted.Until, err = time.Parse(time.RFC3339, t.Until); err != nil {
				return e, fmt.Errorf("input.trust[%d].until: expected a time such as 2026-03-01T06:00:00Z", i)
			}
		}
		if key, ok := ParsePublicKey([]byte(t.Key)); ok {
			trusted.Key = key
			e.Trust = append(e.Trust, trusted)
		}
	}
	if list, ok := contract.ParseRevocations(in.Revocations); ok {
		e.Revocations = list
	}
	if e.Requirement, err = ParseRequirement(in.Requirement); err != nil {
		return e, fmt.Errorf("input.requirement: %w", err)
	}
	for _, c := range in.Contracts {
		e.Contracts = append(e.Contracts, document(c))
	}
	if in.Challenge != nil {
		e.Challenge = &contract.Challenge{Nonce: in.Challenge.Nonce, Asker: in.Challenge.Asker, Verify: accounts.Verify}
	}
	return e, nil
}

// ParseRequirement reads a requirement, or the name of the built-in one, which is
// also what holds if there is none.
func ParseRequirement(raw jsontext.Value) (contract.Requirement, error) {
	if raw == nil || string(raw) == `"dual-llm"` {
		return contract.DualLLMRequirement(), nil
	}
	r, ok := contract.ParseRequirement(raw)
	if !ok {
		return r, errors.New("expected architectures, orchestrators, invariants and evidence, as docs/contracts.md says")
	}
	return r, nil
}

// ParsePublicKey reads an ed25519 key in PEM, as openssl pkey -pubout writes it.
func ParsePublicKey(b []byte) (key [32]byte, ok bool) {
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PUBLIC KEY" {
		return key, false
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return key, false
	}
	edwards, ok := public.(ed25519.PublicKey)
	copy(key[:], edwards)
	return key, ok
}

func VerifyEd25519(key [32]byte, message, signature []byte) bool {
	return ed25519.Verify(key[:], message, signature)
}
