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
	"encoding/binary"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// PasskeyFault is an error that says what is wrong with a passkey's assertion.
type PasskeyFault string

// The faults, in the order of the checks.
const (
	PasskeyKey          PasskeyFault = "key"                // not the passkey of the tag
	PasskeyClientData   PasskeyFault = "client_data"        // not one JSON object as WebAuthn has it
	PasskeyType         PasskeyFault = "type"               // not made for signing in
	PasskeyChallenge    PasskeyFault = "challenge"          // of another statement
	PasskeyCrossOrigin  PasskeyFault = "cross_origin"       // made in a page within a page
	PasskeyOrigin       PasskeyFault = "origin"             // made in a page of another site
	PasskeyData         PasskeyFault = "authenticator_data" // not as WebAuthn has it
	PasskeyRP           PasskeyFault = "rp_id"              // made for another site
	PasskeyAbsent       PasskeyFault = "user_present"       // nobody touched the authenticator
	PasskeyUnverified   PasskeyFault = "user_verified"      // no PIN, no finger, no face
	PasskeyAlgorithm    PasskeyFault = "algorithm"          // not ES256, EdDSA or RS256 with enough bits
	PasskeyBadSignature PasskeyFault = "signature"
)

func (f PasskeyFault) Error() string { return "passkey: " + string(f) }

const (
	// maxClientData, maxAuthenticatorData and maxPasskey bound the parts of an assertion,
	// in bytes.
	maxClientData        = 2048
	maxAuthenticatorData = 1024
	maxPasskey           = 1024
	// authenticatorData is the length without extensions: a hash, flags, a counter.
	authenticatorData = sha256.Size + 1 + 4
	minRSABits        = 2048
	maxRSABits        = 4096
	// maxRPID bounds the name of a host.
	maxRPID = 253

	passkeyWords = 6
)

// The flags of authenticator data (WebAuthn Level 3, 6.1).
const (
	flagUserPresent  = 1 << 0
	flagUserVerified = 1 << 2
	flagAttested     = 1 << 6
	flagExtensions   = 1 << 7
)

// PasskeyHash identifies a passkey: SHA-256 of its site and its public key as a
// SubjectPublicKeyInfo in DER.
func PasskeyHash(rpID string, publicKey []byte) bcp.Digest {
	return sha256.Sum256(append([]byte("bcpmesh passkey 1\n"+rpID+"\n"), publicKey...))
}

// Passkey is the content of a file for "creds issue --passkey": the site of a
// passkey, its public key as a SubjectPublicKeyInfo, and the id by which a browser
// finds it, both in base64url without padding. The id is for pages that have the
// file.
type Passkey struct {
	RPID      string `json:"rp_id"`
	PublicKey string `json:"public_key"`
	ID        string `json:"id,omitempty"`
}

const (
	// maxPasskeyFile bounds such a file, in bytes.
	maxPasskeyFile = 4096
	// maxPasskeyID bounds an id (WebAuthn Level 3, 4), in bytes.
	maxPasskeyID = 1023
)

// ParsePasskey reads such a file. An error is [PasskeyKey], or [PasskeyAlgorithm] for a
// key that cannot sign decisions.
func ParsePasskey(b []byte) (Passkey, error) {
	var p Passkey
	if len(b) > maxPasskeyFile || json.Unmarshal(b, &p, json.RejectUnknownMembers(true)) != nil {
		return Passkey{}, PasskeyKey
	}
	if _, err := p.Hash(); err != nil {
		return Passkey{}, err
	}
	return p, nil
}

// Hash names the passkey, see [PasskeyHash]. Errors are those of [ParsePasskey].
func (p Passkey) Hash() (bcp.Digest, error) {
	publicKey, ok := decodePart(p.PublicKey, maxPasskey)
	if _, good := decodePart(p.ID, maxPasskeyID); !ok || !validRPID(p.RPID) || p.ID != "" && !good {
		return bcp.Digest{}, PasskeyKey
	}
	if _, err := parsePasskey(publicKey); err != nil {
		return bcp.Digest{}, err
	}
	return PasskeyHash(p.RPID, publicKey), nil
}

// PasskeySite returns the site (RP ID) of pages with an origin: https://HOST or
// https://HOST:PORT with a host name, or http://localhost with a port. It returns false
// if passkeys do not work there.
func PasskeySite(origin string) (rpID string, ok bool) {
	_, rest, _ := strings.Cut(origin, "://")
	host, _, _ := strings.Cut(rest, ":")
	return host, validRPID(host) && matchesSite(origin, host)
}

// PasskeyWords returns six words with which two people can compare a passkey: its first
// 96 bits, as proquints (arXiv:0901.4016).
func PasskeyWords(passkey bcp.Digest) string {
	const consonants, vowels = "bdfghjklmnprstvz", "aiou"
	var words []string
	for i := 0; i < 2*passkeyWords; i += 2 {
		n := binary.BigEndian.Uint16(passkey[i:])
		words = append(words, string([]byte{consonants[n>>12], vowels[n>>10&3], consonants[n>>6&15], vowels[n>>4&3], consonants[n&15]}))
	}
	return strings.Join(words, " ")
}

// VerifyDecision checks that a person signed the content of a decision with the key or
// passkey that it names: its item, act, bytes and time. The decision must be opened,
// and be an approver's that counted.
func VerifyDecision(d *bcp.Decision) error {
	own := bcp.Statement(d.Item, bcp.Act(d.Event), d.Released, time.Unix(0, d.SignedUntil))
	if d.Kind == bcp.KindEndorse {
		own = d.EndorseStatement()
	}
	statement, ok := d.Batch.Signed(own)
	if !ok || (len(d.Batch) > 0) == d.Statement.IsZero() || len(d.Batch) > 0 && sha256.Sum256(statement) != d.Statement {
		return errSignature
	}
	if d.Passkey.IsZero() {
		if !Verify(d.Key, statement, d.Signature) {
			return errSignature
		}
		return nil
	}
	var a bcp.Assertion
	if json.Unmarshal(d.Signature, &a, json.RejectUnknownMembers(true)) != nil {
		return errSignature
	}
	if a.Synced() != d.Synced {
		return PasskeyData
	}
	return VerifyPasskey(d.Passkey, &a, statement)
}

var errSignature = errors.New("the signature is not of this decision")

// VerifyPasskey checks that a person signed a statement with the passkey of a hash
// ([PasskeyHash]), in a page of its site, and was verified by the authenticator. An error
// is a [PasskeyFault], of the first check that fails. The authenticator's counter is
// ignored: synced passkeys have none.
func VerifyPasskey(passkey bcp.Digest, a *bcp.Assertion, statement []byte) error {
	return verifyAssertion(passkey, a, sha256.Sum256(statement))
}

// VerifyPasskeyAt is [VerifyPasskey] for pages of one origin: a site has all ports of its
// host.
func VerifyPasskeyAt(origin string, passkey bcp.Digest, a *bcp.Assertion, statement []byte) error {
	if err := VerifyPasskey(passkey, a, statement); err != nil {
		return err
	}
	var said struct {
		Origin string `json:"origin"`
	}
	if text, ok := decodePart(a.ClientData, maxClientData); !ok || json.Unmarshal(text, &said) != nil || said.Origin != origin {
		return PasskeyOrigin
	}
	return nil
}

// VerifiesPasskey is [VerifyPasskey] as the gateway's state takes it.
func VerifiesPasskey(passkey bcp.Digest, a *bcp.Assertion, statement []byte) bool {
	return VerifyPasskey(passkey, a, statement) == nil
}

func verifyAssertion(passkey bcp.Digest, a *bcp.Assertion, challenge [sha256.Size]byte) error {
	publicKey, ok := decodePart(a.PublicKey, maxPasskey)
	if !ok || !validRPID(a.RPID) || PasskeyHash(a.RPID, publicKey) != passkey {
		return PasskeyKey
	}
	clientData, ok := decodePart(a.ClientData, maxClientData)
	if !ok {
		return PasskeyClientData
	}
	if err := checkClientData(clientData, a.RPID, challenge); err != nil {
		return err
	}
	data, ok := decodePart(a.AuthenticatorData, maxAuthenticatorData)
	if !ok {
		return PasskeyData
	}
	if err := checkAuthenticatorData(data, a.RPID); err != nil {
		return err
	}
	signature, ok := decodePart(a.Signature, maxPasskey)
	if !ok {
		return PasskeyBadSignature
	}
	hash := sha256.Sum256(clientData)
	return checkPasskeySignature(publicKey, append(data, hash[:]...), signature)
}

// decodePart accepts only the canonical base64url.
func decodePart(text string, most int) ([]byte, bool) {
	if len(text) > base64.RawURLEncoding.EncodedLen(most) || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return b, err == nil && len(b) > 0
}

const rpLabel = `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?`

var (
	hostNames = regexp.MustCompile(`^(?:` + rpLabel + `\.)*` + rpLabel + `$`)
	addresses = regexp.MustCompile(`(?:^|\.)[0-9]+$`)
)

// validRPID reports whether it is the name of a host in small letters: no address, no
// port, no final dot.
func validRPID(name string) bool {
	return len(name) <= maxRPID && hostNames.MatchString(name) && !addresses.MatchString(name)
}

// checkClientData checks what the browser says about the page. Additional members are
// ignored.
func checkClientData(text []byte, rpID string, challenge [sha256.Size]byte) error {
	var said struct {
		Type        string         `json:"type"`
		Challenge   string         `json:"challenge"`
		Origin      string         `json:"origin"`
		CrossOrigin bool           `json:"crossOrigin"`
		TopOrigin   jsontext.Value `json:"topOrigin"`
	}
	switch {
	case json.Unmarshal(text, &said) != nil:
		return PasskeyClientData
	case said.Type != "webauthn.get":
		return PasskeyType
	case said.Challenge != base64.RawURLEncoding.EncodeToString(challenge[:]):
		return PasskeyChallenge
	case said.CrossOrigin || said.TopOrigin != nil:
		return PasskeyCrossOrigin
	case !matchesSite(said.Origin, rpID):
		return PasskeyOrigin
	}
	return nil
}

// matchesSite reports whether an origin belongs to a site: https, on any port. Pages on
// localhost may also come without TLS.
func matchesSite(origin, rpID string) bool {
	rest, ok := strings.CutPrefix(origin, "https://"+rpID)
	if !ok && rpID == "localhost" {
		rest, ok = strings.CutPrefix(origin, "http://localhost")
	}
	if !ok || rest == "" {
		return ok
	}
	port, err := strconv.ParseUint(rest[1:], 10, 16)
	return err == nil && rest == ":"+strconv.FormatUint(port, 10)
}

func checkAuthenticatorData(data []byte, rpID string) error {
	if len(data) < authenticatorData {
		return PasskeyData
	}
	flags := data[sha256.Size]
	hash := sha256.Sum256([]byte(rpID))
	switch {
	case len(data) > authenticatorData && flags&(flagAttested|flagExtensions) == 0:
		return PasskeyData
	case string(data[:sha256.Size]) != string(hash[:]):
		return PasskeyRP
	case flags&flagUserPresent == 0:
		return PasskeyAbsent
	case flags&flagUserVerified == 0:
		return PasskeyUnverified
	}
	return nil
}

func checkPasskeySignature(publicKey, message, signature []byte) error {
	parsed, err := parsePasskey(publicKey)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(message)
	signed := false
	switch key := parsed.(type) {
	case *ecdsa.PublicKey:
		signed = ecdsa.VerifyASN1(key, hash[:], signature)
	case ed25519.PublicKey:
		signed = ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		signed = rsa.VerifyPKCS1v15(key, crypto.SHA256, hash[:], signature) == nil
	}
	if !signed {
		return PasskeyBadSignature
	}
	return nil
}

// parsePasskey reads a public key that may sign: ES256, EdDSA, or RS256 with enough
// bits.
func parsePasskey(publicKey []byte) (crypto.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(publicKey)
	if err != nil {
		return nil, PasskeyAlgorithm
	}
	fits := false
	switch key := parsed.(type) {
	case *ecdsa.PublicKey:
		fits = key.Curve == elliptic.P256()
	case ed25519.PublicKey:
		fits = true
	case *rsa.PublicKey:
		bits := key.N.BitLen()
		fits = bits >= minRSABits && bits <= maxRSABits
	}
	if !fits {
		return nil, PasskeyAlgorithm
	}
	return parsed, nil
}
