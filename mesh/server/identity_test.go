package server_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// must returns the value of a call that cannot fail here.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// key reads a private key of the store, as a thief would.
func (b *bench) key(name string) nkeys.KeyPair {
	b.t.Helper()
	seed, err := os.ReadFile(filepath.Join(b.state, "keys", name+".nk"))
	if err != nil {
		b.t.Fatal(err)
	}
	return must(nkeys.FromSeed(seed))
}

// tryConnect connects with a token and a key, and returns why not.
func tryConnect(url, token string, user nkeys.KeyPair, options ...nats.Option) error {
	options = append([]nats.Option{
		nats.UserJWT(func() (string, error) { return token, nil }, user.Sign), nats.NoReconnect(), nats.Timeout(patience),
	}, options...)
	nc, err := nats.Connect(url, options...)
	if err == nil {
		nc.Close()
	}
	return err
}

// widen is what an attacker would like to have.
func widen(claims *jwt.UserClaims) {
	claims.Pub.Allow.Add(">")
	claims.Sub.Allow.Add(">")
}

// covers A-JWTSELF, BCP-7, BCP-19
func TestForgedUsersAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	creds := b.issue("researcher", bcp.RoleReader)
	good := must(jwt.ParseDecoratedJWT(creds.Text()))
	user := must(jwt.ParseDecoratedUserNKey(creds.Text()))
	if err := tryConnect(b.URL(), good, user); err != nil {
		t.Fatal(err)
	}
	account := func(name string) string {
		a, _ := b.bundle.Account(name)
		return a.PublicKey
	}
	// forge signs the claims of the good user, changed, with another key.
	forge := func(signer nkeys.KeyPair, change func(*jwt.UserClaims)) string {
		claims := must(jwt.DecodeUserClaims(good))
		change(claims)
		return must(claims.Encode(signer))
	}
	scope := b.key("scope-reader-researcher")
	keep := func(*jwt.UserClaims) {}
	others := start(t)
	for name, token := range map[string]string{
		"nothing":                             "",
		"not a token":                         "x.y.z",
		"widened under a key of its own":      forge(must(nkeys.CreateAccount()), widen),
		"the same under a key of its own":     forge(must(nkeys.CreateAccount()), keep),
		"widened under its own scope":         forge(scope, widen),
		"limits under its own scope":          forge(scope, func(c *jwt.UserClaims) { c.Limits.Subs = -1 }),
		"bearer under its own scope":          forge(scope, func(c *jwt.UserClaims) { c.BearerToken = true }),
		"its scope in the gateway's account":  forge(scope, func(c *jwt.UserClaims) { c.IssuerAccount = account(accounts.Core) }),
		"its scope in the server's account":   forge(scope, func(c *jwt.UserClaims) { c.IssuerAccount = account(accounts.System) }),
		"its scope in the other account":      forge(scope, func(c *jwt.UserClaims) { c.IssuerAccount = account(accounts.Controllers) }),
		"its scope in no account":             forge(scope, func(c *jwt.UserClaims) { c.IssuerAccount = "" }),
		"the account's identity key":          forge(b.key("account-READERS"), keep),
		"the account's identity key, widened": forge(b.key("account-READERS"), func(c *jwt.UserClaims) { widen(c); c.IssuerAccount = "" }),
		"CORE's identity key":                 forge(b.key("account-CORE"), func(c *jwt.UserClaims) { widen(c); c.IssuerAccount = account(accounts.Core) }),
		"expired":                             forge(scope, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Second).Unix() }),
		"not yet valid":                       forge(scope, func(c *jwt.UserClaims) { c.NotBefore = time.Now().Add(time.Hour).Unix() }),
		"of another mesh":                     must(jwt.ParseDecoratedJWT(others.issue("researcher", bcp.RoleReader).Text())),
		"edited":                              edit(t, good, func(m map[string]any) { m["nats"].(map[string]any)["pub"] = map[string]any{"allow": []string{">"}} }),
		"edited to another user":              edit(t, good, func(m map[string]any) { m["sub"] = creds.PublicKey; m["name"] = "controller-main" }),
	} {
		if err := tryConnect(b.URL(), token, user); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthExpired) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tryConnect(b.URL(), good, must(nkeys.CreateUser())); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stolen token without its key: %v", err)
	}
	for name, option := range map[string]nats.Option{
		"nobody": nats.Name("x"), "a password": nats.UserInfo("main", "x"), "a token": nats.Token("x"),
		"a bare key": nats.Nkey(creds.PublicKey, user.Sign),
	} {
		if nc, err := nats.Connect(b.URL(), option, nats.NoReconnect()); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
			nc.Close()
		}
	}
}

// covers A-NONCE
func TestSignatureOfAnotherConnectionIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	creds := b.issue("main", bcp.RoleController)
	token, user := must(jwt.ParseDecoratedJWT(creds.Text())), must(jwt.ParseDecoratedUserNKey(creds.Text()))
	var seen []byte
	connect := func(sign nats.SignatureHandler) error {
		nc, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return token, nil }, sign), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		return err
	}
	if err := connect(func(nonce []byte) ([]byte, error) {
		signature, err := user.Sign(nonce)
		seen = signature
		return signature, err
	}); err != nil {
		t.Fatal(err)
	}
	if err := connect(func([]byte) ([]byte, error) { return seen, nil }); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("replayed: %v", err)
	}
}

// edit changes the claims of a token and leaves its signature.
func edit(t *testing.T, token string, change func(map[string]any)) string {
	t.Helper()
	parts := strings.Split(token, ".")
	var claims map[string]any
	if err := json.Unmarshal(must(base64.RawURLEncoding.DecodeString(parts[1])), &claims); err != nil {
		t.Fatal(err)
	}
	change(claims)
	parts[1] = base64.RawURLEncoding.EncodeToString(must(json.Marshal(claims)))
	return strings.Join(parts, ".")
}

// covers A-JWTSELF, BCP-19
func TestOwnLoginsAreOfThisProcessOnly(t *testing.T) {
	t.Parallel()
	b := start(t)
	gateway := b.gateway()
	for name, login := range map[string]accounts.Login{"gateway": b.bundle.Gateway, "monitor": b.bundle.Monitor} {
		nc, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return login.JWT, nil }, login.Signer.Sign), nats.NoReconnect())
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("the %s connected from outside: %v", name, err)
			nc.Close()
		}
	}
	// A stolen key of the running gateway does not rewrite the journal.
	for _, subject := range []string{
		"$JS.API.STREAM.DELETE.BCP_COMMIT", "$JS.API.STREAM.PURGE.BCP_COMMIT", "$JS.API.STREAM.MSG.DELETE.BCP_COMMIT",
		"$JS.API.STREAM.RESTORE.BCP_COMMIT", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING",
	} {
		refused := make(chan error, 1)
		gateway.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })
		publish(t, gateway, subject, "{}")
		flush(t, gateway)
		if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// covers A-REVOKED
func TestCredsEnd(t *testing.T) {
	t.Parallel()
	b := start(t)
	creds, err := b.store.Issue("main", bcp.RoleController, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 4)
	nc, err := nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { ended <- err }),
		nats.ClosedHandler(func(*nats.Conn) { ended <- nats.ErrConnectionClosed }))
	if errors.Is(err, nats.ErrAuthorization) {
		return // a second is short on a busy machine, and it is over
	}
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for closed := false; !closed; {
		select {
		case err := <-ended:
			closed = errors.Is(err, nats.ErrConnectionClosed)
		case <-time.After(patience):
			t.Fatal("it is still connected")
		}
	}
	// The last second itself still counts.
	token, user := must(jwt.ParseDecoratedJWT(creds.Text())), must(jwt.ParseDecoratedUserNKey(creds.Text()))
	for deadline := time.Now().Add(patience); tryConnect(b.URL(), token, user) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("it comes back")
		}
	}
}

// covers BCP-19
func TestNetworkNeedsTLS(t *testing.T) {
	t.Parallel()
	for listen, loopback := range map[string]bool{
		"127.0.0.1:0": true, "127.1.2.3:0": true, "[::1]:0": true, "localhost:0": true, "[::ffff:127.0.0.1]:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "10.0.0.1:0": false, "localhost.example:0": false, "127.0.0.1.example:0": false,
	} {
		_, err := server.Start(t.Context(), server.Config{Listen: listen, StateDir: t.TempDir(), Bundle: accounts.Bundle{Operator: "x"}})
		if err == nil || errors.Is(err, server.ErrPlaintext) == loopback {
			t.Errorf("%s: %v", listen, err)
		}
	}
	alarmed := &lines{}
	b := start(t, func(c *server.Config) {
		c.Listen, c.AllowNetworkWithoutTLS, c.Logger = "0.0.0.0:0", true, alarmed.logger()
	})
	if !strings.Contains(alarmed.text(), "WITHOUT TLS") {
		t.Error("no alarm")
	}
	stop(t, b.Server)
}

// covers BCP-19
func TestTLSIsRequiredOfClients(t *testing.T) {
	t.Parallel()
	certificate, roots := certificateFor(t, "127.0.0.1")
	b := start(t, func(c *server.Config) {
		c.Listen, c.TLS = "0.0.0.0:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(b.URL(), "tls://"), ":")
	creds := b.issue("main", bcp.RoleController)
	secure, err := nats.Connect("tls://127.0.0.1:"+port, nats.UserCredentialBytes(creds.Text()), nats.Secure(&tls.Config{RootCAs: roots}))
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	arrived := listen(t, b.gateway(), subjects.Session("main"))
	publish(t, secure, subjects.Session("main"), "x")
	flush(t, secure)
	if len(arrived()) != 1 {
		t.Error("it did not arrive")
	}
	if nc, err := nats.Connect("nats://127.0.0.1:"+port, nats.UserCredentialBytes(creds.Text()), nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("connected without knowing the certificate")
	}
}
