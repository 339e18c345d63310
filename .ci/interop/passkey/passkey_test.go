// Package passkey compares how assertions of passkeys are verified with go-webauthn.
package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	site   = "mesh.example.org"
	origin = "https://" + site
)

var (
	statement = bcp.Statement("i1", bcp.Approve, sha256.Sum256([]byte("said")), time.Unix(1_800_000_000, 0))
	challenge = sha256.Sum256(statement)
	encode    = base64.RawURLEncoding.EncodeToString
)

// parts are those of an assertion, as bytes.
type parts struct{ data, clientData, signature []byte }

// signed are parts that a key signs.
func signed(t *testing.T, key crypto.Signer, flags byte, clientData string, more ...byte) parts {
	t.Helper()
	rp := sha256.Sum256([]byte(site))
	p := parts{data: append(append(rp[:], flags, 0, 0, 0, 1), more...), clientData: []byte(clientData)}
	hash := sha256.Sum256(p.clientData)
	message := slices.Concat(p.data, hash[:])
	var err error
	if _, ok := key.(ed25519.PrivateKey); ok {
		p.signature, err = key.Sign(rand.Reader, message, crypto.Hash(0))
	} else {
		digest := sha256.Sum256(message)
		p.signature, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ours and theirs say whether a person signed the statement.
func ours(t *testing.T, key crypto.PublicKey, p parts) error {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a := bcp.Assertion{RPID: site, PublicKey: encode(spki), AuthenticatorData: encode(p.data), ClientData: encode(p.clientData), Signature: encode(p.signature)}
	return accounts.VerifyPasskey(accounts.PasskeyHash(site, spki), &a, statement)
}

func theirs(t *testing.T, key crypto.PublicKey, p parts) error {
	t.Helper()
	body, err := json.Marshal(map[string]any{"id": "aWQ", "rawId": "aWQ", "type": "public-key", "response": map[string]string{
		"authenticatorData": encode(p.data), "clientDataJSON": encode(p.clientData), "signature": encode(p.signature)}})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(body)
	if err != nil {
		return err
	}
	return parsed.Verify(encode(challenge[:]), site, "", []string{origin}, nil, nil, protocol.TopOriginExplicitVerificationMode, false, true, true, coseOf(t, key), protocol.SignaturePolicy{})
}

// coseOf is a public key as authenticators give it.
func coseOf(t *testing.T, public crypto.PublicKey) []byte {
	t.Helper()
	var key any
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		key = webauthncose.EC2PublicKeyData{PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.EllipticKey), Algorithm: int64(webauthncose.AlgES256)},
			Curve: int64(webauthncose.P256), XCoord: point[1:33], YCoord: point[33:]}
	case ed25519.PublicKey:
		key = webauthncose.OKPPublicKeyData{PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.OctetKey), Algorithm: int64(webauthncose.AlgEdDSA)},
			Curve: int64(webauthncose.Ed25519), XCoord: k}
	case *rsa.PublicKey:
		key = webauthncose.RSAPublicKeyData{PublicKeyData: webauthncose.PublicKeyData{KeyType: int64(webauthncose.RSAKey), Algorithm: int64(webauthncose.AlgRS256)},
			Modulus: k.N.Bytes(), Exponent: big.NewInt(int64(k.E)).Bytes()}
	}
	b, err := webauthncbor.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Both take and refuse the same assertions, of each kind of key: as they are, with each
// thing in them changed and signed, and with bytes changed after they were signed. In what
// follows WebAuthn leaves a choice, and ours is the stricter one.
func TestTheSameAssertionsCount(t *testing.T) {
	t.Parallel()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	good := `{"type":"webauthn.get","challenge":"` + encode(challenge[:]) + `","origin":"` + origin + `","crossOrigin":false}`
	changed := func(was, is string) string {
		if !strings.Contains(good, was) {
			t.Fatalf("no %s", was)
		}
		return strings.Replace(good, was, is, 1)
	}
	other := sha256.Sum256([]byte("another statement"))
	for _, key := range []crypto.Signer{edwards, curve, large} {
		for _, c := range []struct {
			name  string
			parts parts
			takes bool
		}{
			{"as it is", signed(t, key, 0x05, good), true},
			{"synced", signed(t, key, 0x1d, good), true},
			{"more members", signed(t, key, 0x05, changed("}", `,"later":"x"}`)), true},
			{"nobody there", signed(t, key, 0x04, good), false},
			{"not verified", signed(t, key, 0x01, good), false},
			{"another challenge", signed(t, key, 0x05, changed(encode(challenge[:]), encode(other[:]))), false},
			{"another type", signed(t, key, 0x05, changed("webauthn.get", "webauthn.create")), false},
			{"another origin", signed(t, key, 0x05, changed(origin, "https://evil.example")), false},
			{"no TLS", signed(t, key, 0x05, changed(origin, "http://"+site)), false},
			{"a page within a page", signed(t, key, 0x05, changed("false", "true")), false},
			{"no JSON", signed(t, key, 0x05, good+"x"), false},
			{"data behind the data", signed(t, key, 0x05, good, 1, 2, 3), false},
		} {
			a, b := ours(t, key.Public(), c.parts), theirs(t, key.Public(), c.parts)
			if (a == nil) != c.takes || (b == nil) != c.takes {
				t.Errorf("%T, %s: ours %v, theirs %v", key, c.name, a, b)
			}
		}
		p := signed(t, key, 0x05, good)
		for range 500 {
			q := parts{bytes.Clone(p.data), bytes.Clone(p.clientData), bytes.Clone(p.signature)}
			part := [][]byte{q.data, q.clientData, q.signature}[mathrand.IntN(3)]
			part[mathrand.IntN(len(part))] ^= byte(1 + mathrand.IntN(255))
			if a, b := ours(t, key.Public(), q), theirs(t, key.Public(), q); a == nil || b == nil {
				t.Errorf("%T, %q of %q, %q of %q, %x of %x: ours %v, theirs %v", key, q.data, p.data, q.clientData, p.clientData, q.signature, p.signature, a, b)
			}
		}
	}
}
