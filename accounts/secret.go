package accounts

import (
	"fmt"
	"io"
	"slices"

	"github.com/nats-io/nkeys"
)

const redactedText = "[redacted]"

// redacted, embedded in a type, hides all of it when it is printed or encoded.
type redacted struct{}

// Format writes a constant for every verb.
func (redacted) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redactedText) }

// String returns a constant.
func (redacted) String() string { return redactedText }

// MarshalText returns a constant.
func (redacted) MarshalText() ([]byte, error) { return []byte(redactedText), nil }

// Signer signs with a private key that it never shows. The zero value signs
// nothing. It may be used concurrently.
type Signer struct {
	redacted
	public string
	// A function holds the key, so that even a printer that walks private
	// fields does not see it.
	sign func([]byte) ([]byte, error)
}

func newSigner(pair nkeys.KeyPair) (Signer, error) {
	public, err := pair.PublicKey()
	if err != nil {
		return Signer{}, fmt.Errorf("read a public key: %w", err)
	}
	return Signer{public: public, sign: pair.Sign}, nil
}

// newKey makes a key, and returns its seed too.
func newKey(create func() (nkeys.KeyPair, error)) (Signer, []byte, error) {
	pair, err := create()
	if err != nil {
		return Signer{}, nil, fmt.Errorf("make a key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Signer{}, nil, fmt.Errorf("make a key: %w", err)
	}
	signer, err := newSigner(pair)
	return signer, seed, err
}

// PublicKey returns the public key, or the empty string of the zero value.
func (s Signer) PublicKey() string { return s.public }

// Sign returns the signature of data.
func (s Signer) Sign(data []byte) ([]byte, error) {
	if s.sign == nil {
		return nil, errNoKey
	}
	return s.sign(data)
}

// signFor has the signature that the JWT library needs.
func (s Signer) signFor(public string, data []byte) ([]byte, error) {
	if public != s.public {
		return nil, errNoKey
	}
	return s.Sign(data)
}

// pair returns the public half, which is all that the JWT library needs.
func (s Signer) pair() (nkeys.KeyPair, error) { return nkeys.FromPublicKey(s.public) }

// secret is a text that only reveal returns.
type secret func() []byte

func newSecret(text []byte) secret {
	text = slices.Clone(text)
	return func() []byte { return slices.Clone(text) }
}
