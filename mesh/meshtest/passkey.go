package meshtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Passkey signs as a browser and an authenticator do together, with ES256.
type Passkey struct {
	Site, Origin string
	PublicKey    []byte // SubjectPublicKeyInfo in DER
	key          *ecdsa.PrivateKey
}

// NewPasskey makes one for a site, whose pages use TLS.
func NewPasskey(t testing.TB, site string) *Passkey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	noError(t, err)
	return &Passkey{Site: site, Origin: "https://" + site, PublicKey: spki, key: key}
}

// Hash names the passkey in creds.
func (p *Passkey) Hash() bcp.Digest { return accounts.PasskeyHash(p.Site, p.PublicKey) }

// Sign makes a verified person sign a challenge.
func (p *Passkey) Sign(t testing.TB, challenge []byte) *bcp.Assertion {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString
	clientData := fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":%q,"crossOrigin":false}`, text(challenge), p.Origin)
	site, said := sha256.Sum256([]byte(p.Site)), sha256.Sum256([]byte(clientData))
	data := append(site[:], 0x1d, 0, 0, 0, 0) // present, verified, synced
	hash := sha256.Sum256(append(append([]byte{}, data...), said[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, p.key, hash[:])
	noError(t, err)
	return &bcp.Assertion{RPID: p.Site, PublicKey: text(p.PublicKey), AuthenticatorData: text(data), ClientData: text([]byte(clientData)), Signature: text(signature)}
}
