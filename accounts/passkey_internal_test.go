package accounts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"slices"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// The authentications of WebAuthn Level 3, 16 ("Test Vectors"), are what they are said to be:
// each signature is good, that of a person who was verified counts, and that of one who was
// not does not, nor does any with a bit changed.
//
// covers P7.3
func TestVectorsOfTheStandard(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Name       string
		ES256      []string // the coordinates, as COSE has them
		RS256      string   // the modulus
		Ed25519    string
		Challenge  string
		Flags      string
		ClientData string `json:"client_data"`
		Signature  string
		Verified   bool // the person was
	}
	content, err := os.ReadFile("testdata/webauthn.json")
	bcptest.NoError(t, errors.Join(err, json.Unmarshal(content, &vectors)))
	failIf(t, len(vectors) != 5, "%d vectors", len(vectors))
	unhex := func(text string) []byte { return bcptest.MustIn(hex.DecodeString(text))(t) }
	text := base64.RawURLEncoding.EncodeToString
	site := sha256.Sum256([]byte("example.org"))
	for _, v := range vectors {
		var key crypto.PublicKey = ed25519.PublicKey(unhex(v.Ed25519))
		switch {
		case v.ES256 != nil:
			key = bcptest.MustIn(ecdsa.ParseUncompressedPublicKey(elliptic.P256(), unhex("04"+v.ES256[0]+v.ES256[1])))(t)
		case v.RS256 != "":
			key = &rsa.PublicKey{N: new(big.Int).SetBytes(unhex(v.RS256)), E: 65537}
		}
		spki := bcptest.MustIn(x509.MarshalPKIXPublicKey(key))(t)
		data, signature := slices.Concat(site[:], unhex(v.Flags), make([]byte, 4)), unhex(v.Signature)
		a := &bcp.Assertion{RPID: "example.org", PublicKey: text(spki), AuthenticatorData: text(data), ClientData: text([]byte(v.ClientData)), Signature: text(signature)}
		challenge, hash := [32]byte(unhex(v.Challenge)), PasskeyHash("example.org", spki)
		err := verifyAssertion(hash, a, challenge)
		failIf(t, (err == nil) != v.Verified || err != nil && !errors.Is(err, PasskeyUnverified), "%s: %v", v.Name, err)
		said := sha256.Sum256([]byte(v.ClientData))
		message := slices.Concat(data, said[:])
		bcptest.NoError(t, checkPasskeySignature(spki, message, signature))
		for i := range message {
			message[i] ^= 1
			failIf(t, checkPasskeySignature(spki, message, signature) == nil, "%s: signed is also another byte %d", v.Name, i)
			message[i] ^= 1
		}
		challenge[0]++
		err = verifyAssertion(hash, a, challenge)
		failIf(t, !errors.Is(err, PasskeyChallenge), "%s: it counts for another challenge: %v", v.Name, err)
	}
}

var failIf = bcptest.FailIf
