package accounts_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const passkeySite = "mesh.example.org"

var passkeyStatement = bcp.Statement("i1", bcp.Approve, sha256.Sum256([]byte("said")), time.Unix(1700000000, 0))

// authenticator makes assertions as a browser and what it asks do.
type authenticator struct {
	key                      crypto.Signer
	site, origin, kind, more string
	statement                []byte
	flags                    byte
	data                     func([]byte) []byte
	clientData               func(string) string
	publicKey, signature     func(string) string
}

func newAuthenticator(key crypto.Signer) authenticator {
	same := func(text string) string { return text }
	return authenticator{key: key, site: passkeySite, origin: "https://" + passkeySite, kind: "webauthn.get", statement: passkeyStatement, flags: 0x05,
		data: func(b []byte) []byte { return b }, clientData: same, publicKey: same, signature: same}
}

func (p *authenticator) hash(t testing.TB) bcp.Digest {
	t.Helper()
	spki := must(x509.MarshalPKIXPublicKey(p.key.Public()))(t)
	return accounts.PasskeyHash(p.site, spki)
}

func (p *authenticator) assertion(t testing.TB) *bcp.Assertion {
	t.Helper()
	spki, err := x509.MarshalPKIXPublicKey(p.key.Public())
	noError(t, err)
	text := base64.RawURLEncoding.EncodeToString
	challenge, rp := sha256.Sum256(p.statement), sha256.Sum256([]byte(p.site))
	clientData := p.clientData(fmt.Sprintf(`{"type":%q,"challenge":%q,"origin":%q%s}`, p.kind, text(challenge[:]), p.origin, p.more))
	data := p.data(append(rp[:], p.flags, 0, 0, 0, 0))
	hash := sha256.Sum256([]byte(clientData))
	message := append(append([]byte{}, data...), hash[:]...)
	var signature []byte
	if _, ok := p.key.(ed25519.PrivateKey); ok {
		signature, err = p.key.Sign(rand.Reader, message, crypto.Hash(0))
	} else {
		digest := sha256.Sum256(message)
		signature, err = p.key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	noError(t, err)
	return &bcp.Assertion{RPID: p.site, PublicKey: p.publicKey(text(spki)), AuthenticatorData: text(data), ClientData: text([]byte(clientData)), Signature: p.signature(text(signature))}
}

func p256(t testing.TB) crypto.Signer {
	t.Helper()
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// Each kind of key that browsers make passkeys with signs a statement. Some are synced,
// which the record says.
//
// covers P7.3
func TestPasskeysSign(t *testing.T) {
	t.Parallel()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	noError(t, err)
	for name, key := range map[string]crypto.Signer{
		"ES256": p256(t), "EdDSA": edwards, "RS256": must(rsa.GenerateKey(rand.Reader, 2048))(t),
	} {
		p := newAuthenticator(key)
		a := p.assertion(t)
		err := accounts.VerifyPasskey(p.hash(t), a, passkeyStatement)
		failIf(t, err != nil || a.Synced(), "%s: %v, synced %t", name, err, a.Synced())
		p.flags |= 0x18
		a = p.assertion(t)
		failIf(t, accounts.VerifyPasskey(p.hash(t), a, passkeyStatement) != nil || !a.Synced(), "%s, synced: %+v", name, a)
	}
}

// An assertion fits one statement, one site and one key, and whatever else it may be is
// refused by the check that it is for.
//
// covers P7.3
func TestPasskeysRefuse(t *testing.T) {
	t.Parallel()
	own, other := p256(t), p256(t)
	digest := sha256.Sum256([]byte("said"))
	about := func(item bcp.ItemID, act bcp.Act, digest bcp.Digest, until int64) func(*authenticator) {
		return func(p *authenticator) { p.statement = bcp.Statement(item, act, digest, time.Unix(until, 0)) }
	}
	longer := func(n int) func([]byte) []byte {
		return func(b []byte) []byte { return append(b, make([]byte, n-len(b))...) }
	}
	for name, c := range map[string]struct {
		change func(*authenticator)
		want   accounts.PasskeyFault
	}{
		"another item":   {about("i2", bcp.Approve, digest, 1700000000), accounts.PasskeyChallenge},
		"another act":    {about("i1", bcp.RejectItem, digest, 1700000000), accounts.PasskeyChallenge},
		"other bytes":    {about("i1", bcp.Approve, sha256.Sum256([]byte("else")), 1700000000), accounts.PasskeyChallenge},
		"another expiry": {about("i1", bcp.Approve, digest, 1700000001), accounts.PasskeyChallenge},

		"another key":                {func(p *authenticator) { p.key = other }, accounts.PasskeyKey},
		"another site":               {func(p *authenticator) { p.site, p.origin = "evil.example", "https://evil.example" }, accounts.PasskeyKey},
		"a site below":               {func(p *authenticator) { p.origin = "https://a.mesh.example.org" }, accounts.PasskeyOrigin},
		"the origin of another site": {func(p *authenticator) { p.origin = "https://evil.example" }, accounts.PasskeyOrigin},
		"no TLS":                     {func(p *authenticator) { p.origin = "http://" + passkeySite }, accounts.PasskeyOrigin},
		"a name that goes on":        {func(p *authenticator) { p.origin += ".evil.example" }, accounts.PasskeyOrigin},
		"a path":                     {func(p *authenticator) { p.origin += "/" }, accounts.PasskeyOrigin},
		"a user":                     {func(p *authenticator) { p.origin += ":x@evil.example" }, accounts.PasskeyOrigin},
		"no port":                    {func(p *authenticator) { p.origin += ":" }, accounts.PasskeyOrigin},
		"a port one past the last":   {func(p *authenticator) { p.origin += ":65536" }, accounts.PasskeyOrigin},
		"a port in two spellings":    {func(p *authenticator) { p.origin += ":0443" }, accounts.PasskeyOrigin},
		"the last port":              {func(p *authenticator) { p.origin += ":65535" }, ""},

		"a page within a page":  {func(p *authenticator) { p.more = `,"crossOrigin":true` }, accounts.PasskeyCrossOrigin},
		"a page at the top":     {func(p *authenticator) { p.more = `,"crossOrigin":false` }, ""},
		"a page within another": {func(p *authenticator) { p.more = `,"topOrigin":"https://evil.example"` }, accounts.PasskeyCrossOrigin},
		"a registration":        {func(p *authenticator) { p.kind = "webauthn.create" }, accounts.PasskeyType},
		"what browsers may add": {func(p *authenticator) { p.more = `,"other_keys_can_be_added_here":"yes"` }, ""},
		"a member twice":        {func(p *authenticator) { p.more = `,"origin":"https://mesh.example.org"` }, accounts.PasskeyClientData},
		"a member in capitals": {func(p *authenticator) {
			p.clientData = func(s string) string { return strings.Replace(s, "origin", "Origin", 1) }
		}, accounts.PasskeyOrigin},
		"not UTF-8":              {func(p *authenticator) { p.more = ",\"x\":\"\xff\"" }, accounts.PasskeyClientData},
		"more behind it":         {func(p *authenticator) { p.clientData = func(s string) string { return s + "{}" } }, accounts.PasskeyClientData},
		"a number for an origin": {func(p *authenticator) { p.clientData = func(string) string { return `{"type":1}` } }, accounts.PasskeyClientData},
		"no client data":         {func(p *authenticator) { p.clientData = func(string) string { return "" } }, accounts.PasskeyClientData},
		"as long as client data is": {func(p *authenticator) {
			p.clientData = func(s string) string { return s + strings.Repeat(" ", 2048-len(s)) }
		}, ""},
		"client data one byte longer": {func(p *authenticator) {
			p.clientData = func(s string) string { return s + strings.Repeat(" ", 2049-len(s)) }
		}, accounts.PasskeyClientData},

		"data of another site":        {func(p *authenticator) { p.data = func(b []byte) []byte { b[0]++; return b } }, accounts.PasskeyRP},
		"nobody there":                {func(p *authenticator) { p.flags = 0x04 }, accounts.PasskeyAbsent},
		"somebody, not known who":     {func(p *authenticator) { p.flags = 0x01 }, accounts.PasskeyUnverified},
		"36 bytes of data":            {func(p *authenticator) { p.data = func(b []byte) []byte { return b[:36] } }, accounts.PasskeyData},
		"38 bytes without extensions": {func(p *authenticator) { p.data = longer(38) }, accounts.PasskeyData},
		"extensions":                  {func(p *authenticator) { p.flags, p.data = 0x85, longer(1024) }, ""},
		"extensions one byte longer":  {func(p *authenticator) { p.flags, p.data = 0x85, longer(1025) }, accounts.PasskeyData},
		"no data":                     {func(p *authenticator) { p.data = func([]byte) []byte { return nil } }, accounts.PasskeyData},

		"another signature": {func(p *authenticator) { p.signature = func(string) string { return "MAYCAQECAQE" } }, accounts.PasskeyBadSignature},
		"no signature":      {func(p *authenticator) { p.signature = func(string) string { return "" } }, accounts.PasskeyBadSignature},
		"padding":           {func(p *authenticator) { p.publicKey = func(s string) string { return s + "=" } }, accounts.PasskeyKey},
		"another spelling": {func(p *authenticator) {
			p.publicKey = func(s string) string { return s[:len(s)-1] + string(s[len(s)-1]+1) }
		}, accounts.PasskeyKey},
		"a line feed":             {func(p *authenticator) { p.publicKey = func(s string) string { return s[:8] + "\n" + s[8:] } }, accounts.PasskeyKey},
		"the standard's alphabet": {func(p *authenticator) { p.publicKey = func(string) string { return "++//" } }, accounts.PasskeyKey},
		"no key":                  {func(p *authenticator) { p.publicKey = func(string) string { return "" } }, accounts.PasskeyKey},
	} {
		p := newAuthenticator(own)
		c.change(&p)
		right := newAuthenticator(own)
		err := accounts.VerifyPasskey(right.hash(t), p.assertion(t), passkeyStatement)
		failIf(t, c.want == "" && err != nil || c.want != "" && !errors.Is(err, c.want), "%s: %v, want %q", name, err, c.want)
	}
}

// Keys that are too weak, or of a kind that browsers were not asked for, count for
// nothing, also where the tag names them.
//
// covers P7.3
func TestWeakPasskeys(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint]accounts.PasskeyFault{
		2047: accounts.PasskeyAlgorithm, 2048: accounts.PasskeyBadSignature, 4096: accounts.PasskeyBadSignature, 4097: accounts.PasskeyAlgorithm,
	} {
		modulus := new(big.Int).Lsh(big.NewInt(1), bits-1)
		spki := must(x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}))(t)
		p := newAuthenticator(p256(t))
		p.publicKey = func(string) string { return base64.RawURLEncoding.EncodeToString(spki) }
		err := accounts.VerifyPasskey(accounts.PasskeyHash(p.site, spki), p.assertion(t), passkeyStatement)
		failIf(t, !errors.Is(err, want), "a key of %d bits: %v, want %v", bits, err, want)
	}
	larger := newAuthenticator(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t))
	err := accounts.VerifyPasskey(larger.hash(t), larger.assertion(t), passkeyStatement)
	failIf(t, !errors.Is(err, accounts.PasskeyAlgorithm), "another curve: %v", err)
	p := newAuthenticator(p256(t))
	p.publicKey = func(string) string { return "AAAA" }
	err = accounts.VerifyPasskey(accounts.PasskeyHash(p.site, []byte{0, 0, 0}), p.assertion(t), passkeyStatement)
	failIf(t, !errors.Is(err, accounts.PasskeyAlgorithm), "a key that is none: %v", err)
}

// A site is the name of a host. Its pages come over TLS, but for those of the own machine.
//
// covers P7.3
func TestPasskeySites(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for _, c := range []struct {
		site, origin string
		want         accounts.PasskeyFault
	}{
		{"localhost", "http://localhost", ""},
		{"localhost", "http://localhost:4280", ""},
		{"localhost", "https://localhost", ""},
		{"localhost", "http://localhost.evil.example", accounts.PasskeyOrigin},
		{passkeySite, "http://localhost", accounts.PasskeyOrigin},
		{"localhost", "http://127.0.0.1", accounts.PasskeyOrigin},
		{"127.0.0.1", "https://127.0.0.1", accounts.PasskeyKey},
		{"1", "https://1", accounts.PasskeyKey},
		{"[::1]", "https://[::1]", accounts.PasskeyKey},
		{"", "https://", accounts.PasskeyKey},
		{"Mesh.example", "https://Mesh.example", accounts.PasskeyKey},
		{"mesh.example.", "https://mesh.example.", accounts.PasskeyKey},
		{"mesh..example", "https://mesh..example", accounts.PasskeyKey},
		{"-mesh.example", "https://-mesh.example", accounts.PasskeyKey},
		{"mesh-.example", "https://mesh-.example", accounts.PasskeyKey},
		{"mesh.example:443", "https://mesh.example:443", accounts.PasskeyKey},
		{"mesh\nexample", "https://mesh\nexample", accounts.PasskeyKey},
		{label, "https://" + label, ""},
		{label + "a", "https://" + label + "a", accounts.PasskeyKey},
		{strings.Repeat(label+".", 3) + label[:61], "https://" + strings.Repeat(label+".", 3) + label[:61], ""},
		{strings.Repeat(label+".", 3) + label[:62], "https://" + strings.Repeat(label+".", 3) + label[:62], accounts.PasskeyKey},
	} {
		p := newAuthenticator(p256(t))
		p.site, p.origin = c.site, c.origin
		err := accounts.VerifyPasskey(p.hash(t), p.assertion(t), passkeyStatement)
		failIf(t, c.want == "" && err != nil || c.want != "" && !errors.Is(err, c.want),
			"%q in %q: %v, want %q", c.site, c.origin, err, c.want)
	}
}

// A file for "creds issue" names a passkey that can sign, or is refused.
//
// covers P7.3, P7.5
func TestParsePasskey(t *testing.T) {
	t.Parallel()
	p := newAuthenticator(p256(t))
	file := func(site, publicKey string) string {
		return fmt.Sprintf(`{"rp_id":%q,"public_key":%q}`, site, publicKey)
	}
	key := p.assertion(t).PublicKey
	good := file(passkeySite, key)
	larger := newAuthenticator(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t))
	for text, want := range map[string]accounts.PasskeyFault{
		good: "",
		good + strings.Repeat(" ", 4096-len(good)): "",
		good + strings.Repeat(" ", 4097-len(good)): accounts.PasskeyKey,
		good + "{}": accounts.PasskeyKey,
		strings.Replace(good, "}", `,"id":"AAAA"}`, 1):                              "",
		strings.Replace(good, "}", `,"id":"`+strings.Repeat("AAAA", 341)+`"}`, 1):   "",
		strings.Replace(good, "}", `,"id":"`+strings.Repeat("AAAA", 341)+`AA"}`, 1): accounts.PasskeyKey,
		strings.Replace(good, "}", `,"id":"AA=="}`, 1):                              accounts.PasskeyKey,
		"":   accounts.PasskeyKey,
		"{}": accounts.PasskeyKey,
		strings.Replace(good, "rp_id", "RP_ID", 1):           accounts.PasskeyKey,
		file("127.0.0.1", key):                               accounts.PasskeyKey,
		file(passkeySite, key+"="):                           accounts.PasskeyKey,
		file(passkeySite, "AAAA"):                            accounts.PasskeyAlgorithm,
		file(passkeySite, larger.assertion(t).PublicKey):     accounts.PasskeyAlgorithm,
		strings.Replace(good, "}", `,"private_key":"x"}`, 1): accounts.PasskeyKey,
	} {
		read, err := accounts.ParsePasskey([]byte(text))
		if want != "" {
			failIf(t, !errors.Is(err, want) || read != (accounts.Passkey{}), "%.200q: %+v, %v, want %q", text, read, err, want)
			continue
		}
		hash, wrong := read.Hash()
		failIf(t, err != nil || wrong != nil || hash != p.hash(t), "%.200q: %x, %v, %v", text, hash, err, wrong)
	}
}

// Passkeys work in pages that come over TLS under a name, and on localhost.
//
// covers P7.3
func TestPasskeySite(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]string{
		"https://mesh.example.org": "mesh.example.org", "https://mesh.example.org:8443": "mesh.example.org", "http://localhost:4280": "localhost", "https://localhost": "localhost",
		"http://mesh.example.org": "", "https://127.0.0.1": "", "https://[::1]:4280": "", "https://Mesh.example.org": "", "https://mesh.example.org/": "", "https://mesh.example.org:0443": "",
		"https://mesh.example.org:65536": "", "https://": "", "mesh.example.org": "", "": "", "wss://mesh.example.org": "", "https://a@mesh.example.org": "",
	} {
		site, ok := accounts.PasskeySite(origin)
		failIf(t, ok != (want != "") || ok && site != want, "%q: %q, %t", origin, site, ok)
	}
}

// Whatever a message holds, nothing but the assertion that was made counts.
//
// covers P7.3, P2.2
func FuzzPasskey(f *testing.F) {
	p := newAuthenticator(p256(f))
	good, hash := p.assertion(f), p.hash(f)
	f.Add(good.RPID, good.PublicKey, good.AuthenticatorData, good.ClientData, good.Signature)
	f.Add("", "", "", "", "")
	f.Fuzz(func(t *testing.T, rpID, publicKey, data, clientData, signature string) {
		a := bcp.Assertion{RPID: rpID, PublicKey: publicKey, AuthenticatorData: data, ClientData: clientData, Signature: signature}
		_ = a.Synced()
		err := accounts.VerifyPasskey(hash, &a, passkeyStatement)
		failIf(t, err == nil && a != *good, "%+v counts as %+v", a, *good)
	})
}
