package accounts

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

const (
	// AttestKeyFile is the file with the ed25519 key that signs an organisation's
	// attestations and lists of revocations: PKCS #8 in PEM, which standard tools read,
	// sealed if the store is. It is among the keys, and no gateway needs it.
	AttestKeyFile = "attest.key"
	// maxAttested is how many attestations may be current at one time.
	maxAttested = 1000
)

// ErrNotAttested says that there is no current attestation of that agent or serial.
var ErrNotAttested = errors.New("no current attestation")

// Attester signs for an organisation, and never shows its key. The zero value signs
// nothing. It may be used concurrently.
type Attester struct {
	Signer
	spki []byte // the public key as a SubjectPublicKeyInfo
}

// attested is what the store remembers of an attestation until it expires.
type attested struct {
	Agent   string    `json:"agent"`
	Serial  string    `json:"serial"`
	Keys    []string  `json:"keys"`
	Expires time.Time `json:"expires"`
	Revoked bool      `json:"revoked,omitzero"`
}

// attestations are the current ones, and the revocations.
type attestations struct {
	Current []attested `json:"current,omitempty"`
	// Keys are user nkeys that were revoked by hand.
	Keys   []string `json:"revoked_keys,omitempty"`
	Number int64    `json:"number,omitzero"` // of the newest list
}

// Attester returns the organisation's signer. Its key is made at the first call.
func (s *Store) Attester() (Attester, error) {
	content, err := s.secretOrNew(AttestKeyFile, newAttestKey)
	if err != nil {
		return Attester{}, fmt.Errorf("the key of the attestations: %w", err)
	}
	return parseAttestKey(content)
}

func newAttestKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseAttestKey(content []byte) (Attester, error) {
	block, rest := pem.Decode(content)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		return Attester{}, fmt.Errorf("%s holds no key", AttestKeyFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return Attester{}, fmt.Errorf("%s holds no ed25519 key", AttestKeyFile)
	}
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	sign := func(message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil }
	return Attester{Signer{sign: sign}, spki}, err
}

// PublicPEM returns the public key as peers trust it: PKIX in PEM. That of the zero value
// is empty.
func (a Attester) PublicPEM() []byte {
	if a.spki == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: a.spki})
}

// KeyID is SHA-256 of the public key's SPKI in hexadecimal digits. It is a hint: nothing
// is decided by it.
func (a Attester) KeyID() string {
	if a.spki == nil {
		return ""
	}
	sum := sha256.Sum256(a.spki)
	return hex.EncodeToString(sum[:])
}

func (a Attester) envelope(payload []byte) ([]byte, error) {
	signature, err := a.Sign(contract.PAE(contract.PayloadType, payload))
	if err != nil {
		return nil, err
	}
	return contract.WriteEnvelope(payload, a.KeyID(), signature), nil
}

// Attest signs an organisation's statement about an agent: its Declaration and Keys,
// valid for a time from now, at most [contract.MaxValidity]. It sets the other fields
// of the statement. Earlier attestations stay valid.
func (s *Store) Attest(statement *contract.Statement, evidence contract.AttestedEvidence, validity time.Duration) ([]byte, error) {
	if validity < time.Second || validity > contract.MaxValidity {
		return nil, fmt.Errorf("attest: an attestation is good for 1 second to %s", contract.MaxValidity)
	}
	signer, err := s.Attester()
	if err != nil {
		return nil, fmt.Errorf("attest: %w", err)
	}
	return changed(s, "attest", func(st *state, now time.Time) ([]byte, error) {
		a := st.attestations(now)
		if len(a.Current) >= maxAttested {
			return nil, fmt.Errorf("%w: %d attestations are current", ErrFull, maxAttested)
		}
		statement.Issued, statement.Expires = now, now.Add(validity.Truncate(time.Second))
		statement.Serial = strings.ToLower(rand.Text())
		payload, err := contract.WriteStatement(statement, evidence)
		if err != nil {
			return nil, err
		}
		envelope, err := signer.envelope(payload)
		if err != nil {
			return nil, err
		}
		a.Current = append(a.Current, attested{statement.Declaration.Agent.String(), statement.Serial, slices.Clone(statement.Keys), statement.Expires, false})
		return envelope, nil
	})
}

// attestations drops expired ones, which nobody accepts any more.
func (st *state) attestations(now time.Time) *attestations {
	if st.Attestations == nil {
		st.Attestations = new(attestations)
	}
	a := st.Attestations
	a.Current = slices.DeleteFunc(a.Current, func(x attested) bool { return hasEnded(x.Expires, now) })
	return a
}

// RevokeAttestations revokes the current attestations of an agent, such as
// agent-a@org1.example, or the one with a serial. Peers get this with the next list of
// [Store.Revocations]. It returns the serials, or [ErrNotAttested] if there are none.
func (s *Store) RevokeAttestations(agentOrSerial string) ([]string, error) {
	return changed(s, "revoke", func(st *state, now time.Time) (serials []string, err error) {
		current := st.attestations(now).Current
		for i := range current {
			if x := &current[i]; x.Agent == agentOrSerial || x.Serial == agentOrSerial {
				x.Revoked = true
				serials = append(serials, x.Serial)
			}
		}
		if len(serials) == 0 {
			return nil, ErrNotAttested
		}
		return serials, nil
	})
}

// RevokeAttestedKey revokes a user nkey for ever: its holder cannot prove to be an agent
// any more.
func (s *Store) RevokeAttestedKey(key string) error {
	return s.change("revoke", func(st *state, now time.Time) error {
		a := st.attestations(now)
		if slices.Contains(a.Keys, key) {
			return errUnchanged
		}
		if len(a.Keys) >= maxAttested {
			return fmt.Errorf("%w: %d keys are revoked", ErrFull, maxAttested)
		}
		a.Keys = append(a.Keys, key)
		return nil
	})
}

// Revocations signs the list of revocations: revoked serials and keys, and the keys of
// attestations whose user this store has revoked. The next list is due after next, at
// most [contract.MaxValidity]. The numbers of lists increase: each is at least the time
// in Unix seconds, so that a store restored from a backup does not go back.
func (s *Store) Revocations(organisation string, next time.Duration) (envelope []byte, list contract.Revocations, err error) {
	if next < time.Second || next > contract.MaxValidity {
		return nil, list, fmt.Errorf("the list of revocations: the next one is due after 1 second to %s", contract.MaxValidity)
	}
	signer, err := s.Attester()
	if err != nil {
		return nil, list, fmt.Errorf("the list of revocations: %w", err)
	}
	err = s.change("the list of revocations", func(st *state, now time.Time) error {
		a := st.attestations(now)
		a.Number = max(a.Number+1, now.Unix())
		list = contract.Revocations{Number: a.Number, Issued: now, Next: now.Add(next.Truncate(time.Second)), Keys: slices.Clone(a.Keys)}
		for _, x := range a.Current {
			if x.Revoked {
				list.Serials = append(list.Serials, x.Serial)
			}
			for _, key := range x.Keys {
				if u := st.user(key); u != nil && !u.Valid(now) && !slices.Contains(list.Keys, key) {
					list.Keys = append(list.Keys, key)
				}
			}
		}
		payload, err := contract.WriteRevocations(organisation, &list)
		if err != nil {
			return err
		}
		envelope, err = signer.envelope(payload)
		return err
	})
	if err != nil {
		return nil, contract.Revocations{}, err
	}
	return envelope, list, nil
}
