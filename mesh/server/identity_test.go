package server_test

import (
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
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

// key reads a private key of the store, as a thief would.
func (b *bench) key(name string) nkeys.KeyPair {
	b.t.Helper()
	seed := must(os.ReadFile(filepath.Join(b.state, "keys", name+".nk")))
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

// refuses reports whether an error is the server's refusal of creds.
func refuses(err error) bool {
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return err != nil && strings.Contains(err.Error(), "maximum control line exceeded") // as by an account's token
}

// widen is what an attacker would like to have.
func widen(claims *jwt.UserClaims) {
	claims.Pub.Allow.Add(">")
	claims.Sub.Allow.Add(">")
}

// Who is refused, on every way: a token that is not the mesh's, that says more
// than the mesh gave, that has ended or was taken back, or that its key does not
// prove, also by what it signed for another connection.
//
// covers A-JWTSELF, A-NONCE, A-REVOKED, BCP-7, BCP-19
func TestForgedUsersAreRefused(t *testing.T) {
	everyWay(t, func(t *testing.T, w way) {
		b := start(t, w)
		try := func(token string, user nkeys.KeyPair) error {
			return tryConnect(b.URL(), token, user, w.options(b)...)
		}
		creds := b.issue("researcher", bcp.RoleReader)
		good := must(jwt.ParseDecoratedJWT(creds.Text()))
		user := must(jwt.ParseDecoratedUserNKey(creds.Text()))
		noError(t, try(good, user))
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
		operator := must(jwt.DecodeOperatorClaims(b.bundle.Operator))
		for name, token := range map[string]string{
			"nothing":                             "",
			"not a token":                         "x.y.z",
			"the account's token":                 b.accountToken(accounts.Readers),
			"the operator's token":                b.bundle.Operator,
			"widened under a key of its own":      forge(must(nkeys.CreateAccount()), widen),
			"the same under a key of its own":     forge(must(nkeys.CreateAccount()), keep),
			"signed by itself":                    edit(t, good, func(m map[string]any) { m["iss"] = creds.PublicKey }),
			"widened under its own scope":         forge(scope, widen),
			"limits under its own scope":          forge(scope, func(c *jwt.UserClaims) { c.Limits.Subs = -1 }),
			"networks under its own scope":        forge(scope, func(c *jwt.UserClaims) { c.Src.Add("0.0.0.0/0") }),
			"in-process under its own scope":      forge(scope, func(c *jwt.UserClaims) { c.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess) }),
			"answers under its own scope":         forge(scope, func(c *jwt.UserClaims) { c.Resp = &jwt.ResponsePermission{MaxMsgs: -1, Expires: time.Hour} }),
			"bearer under its own scope":          forge(scope, func(c *jwt.UserClaims) { c.BearerToken = true }),
			"bearer under the account's key":      forge(b.key("account-READERS"), func(c *jwt.UserClaims) { c.BearerToken = true; c.IssuerAccount = "" }),
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
			"by a key of another mesh":            forge(others.key("scope-reader-researcher"), keep),
			"in an account of another mesh": forge(others.key("scope-reader-researcher"), func(c *jwt.UserClaims) {
				a, _ := others.bundle.Account(accounts.Readers)
				c.IssuerAccount = a.PublicKey
			}),
			"edited":                 edit(t, good, func(m map[string]any) { m["nats"].(map[string]any)["pub"] = map[string]any{"allow": []string{">"}} }),
			"edited to live on":      edit(t, good, func(m map[string]any) { m["exp"] = time.Now().Add(time.Hour).Unix() }),
			"edited to another user": edit(t, good, func(m map[string]any) { m["sub"] = operator.Subject; m["name"] = "controller-main" }),
			"without its signature":  good[:strings.LastIndexByte(good, '.')+1],
			"of no algorithm":        "eyJ0eXAiOiJKV1QiLCJhbGciOiJub25lIn0" + good[strings.IndexByte(good, '.'):],
		} {
			err := try(token, user)
			failIf(t, !refuses(err), "%s: %v", name, err)
		}
		err := try(good, must(nkeys.CreateUser()))
		failIf(t, !refuses(err), "a stolen token without its key: %v", err)
		for name, option := range map[string]nats.Option{
			"nobody": nats.Name("x"), "a password": nats.UserInfo("main", "x"), "a token": nats.Token("x"),
			"a bare key": nats.Nkey(creds.PublicKey, user.Sign),
		} {
			if nc, err := nats.Connect(b.URL(), append(w.options(b), option, nats.NoReconnect(), nats.Timeout(patience))...); !refuses(err) {
				t.Errorf("%s: %v", name, err)
				nc.Close()
			}
		}
		var seen []byte
		signed := func(sign nats.SignatureHandler) error {
			nc, err := nats.Connect(b.URL(), append(w.options(b), nats.UserJWT(func() (string, error) { return good, nil }, sign), nats.NoReconnect(), nats.Timeout(patience))...)
			if err == nil {
				nc.Close()
			}
			return err
		}
		err = signed(func(nonce []byte) (_ []byte, err error) { seen, err = user.Sign(nonce); return seen, err })
		stopIf(t, err != nil, "the good ones in between: %v", err)
		err = signed(func([]byte) ([]byte, error) { return seen, nil })
		failIf(t, !refuses(err), "replayed: %v", err)
		noError(t, b.store.Revoke(creds.PublicKey))
		noError(t, b.UpdateAccounts(t.Context(), b.compile(b.scopes)))
		for name, token := range map[string]string{
			"revoked":                        good,
			"revoked, and signed again":      forge(scope, keep),
			"revoked, and signed for longer": forge(scope, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(time.Hour).Unix() }),
			"revoked, as of later":           as(t, scope, good, func(m map[string]any) { m["iat"] = time.Now().Add(time.Hour).Unix() }),
		} {
			err := try(token, user)
			failIf(t, !refuses(err), "%s: %v", name, err)
		}
	})
}

// accountToken is the JWT of an account.
func (b *bench) accountToken(name string) string {
	a, _ := b.bundle.Account(name)
	return a.JWT
}

// as edits the claims of a token and signs them, with a time of issue too.
func as(t *testing.T, signer nkeys.KeyPair, token string, change func(map[string]any)) string {
	t.Helper()
	edited := edit(t, token, change)
	text := edited[:strings.LastIndexByte(edited, '.')]
	return text + "." + base64.RawURLEncoding.EncodeToString(must(signer.Sign([]byte(text))))
}

// edit changes the claims of a token and leaves its signature.
func edit(t *testing.T, token string, change func(map[string]any)) string {
	t.Helper()
	parts := strings.Split(token, ".")
	var claims map[string]any
	noError(t, json.Unmarshal(must(base64.RawURLEncoding.DecodeString(parts[1])), &claims))
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
		nc, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return login.JWT, nil }, login.Signer.Sign), nats.NoReconnect(),
			nats.Timeout(patience))
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("the %s connected from outside: %v", name, err)
			nc.Close()
		}
	}
	// A stolen key of the running gateway does not rewrite the journal.
	for _, subject := range []string{
		"$JS.API.STREAM.DELETE.BCP_COMMIT", "$JS.API.STREAM.PURGE.BCP_COMMIT", "$JS.API.STREAM.MSG.DELETE.BCP_COMMIT",
		"$JS.API.STREAM.MSG.DELETE.BCP_AUDIT", "$JS.API.STREAM.MSG.DELETE.BCP_LEDGER", "$JS.API.STREAM.DELETE.BCP_KEYS", "$JS.API.STREAM.PURGE.BCP_KEYS",
		"$JS.API.STREAM.RESTORE.BCP_COMMIT", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING",
	} {
		refused := make(chan error, 1)
		gateway.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })
		publish(t, gateway, subject, "{}")
		flush(t, gateway)
		fails(t, <-refused, nats.ErrPermissionViolation, "%s", subject)
	}
}

// covers A-REVOKED
func TestCredsEnd(t *testing.T) {
	t.Parallel()
	b := start(t)
	var ended chan error
	var creds accounts.Creds
	var nc *nats.Conn
	for life := time.Second; ; life *= 2 { // a second is short on a busy machine: it may end on the way
		var err error
		ended = make(chan error, 4)
		if creds, err = b.store.Issue("main", bcp.RoleController, life); err != nil {
			t.Fatal(err)
		}
		nc, err = nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.NoReconnect(),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { ended <- err }),
			nats.ClosedHandler(func(*nats.Conn) { ended <- nats.ErrConnectionClosed }))
		if err == nil {
			break
		}
		stopIf(t, life > patience, "%v", err)
	}
	defer nc.Close()
	for closed := false; !closed; {
		closed = errors.Is(bcptest.Next(t, ended, "its connection ends"), nats.ErrConnectionClosed)
	}
	// The last second itself still counts.
	token, user := must(jwt.ParseDecoratedJWT(creds.Text())), must(jwt.ParseDecoratedUserNKey(creds.Text()))
	eventually(t, "it stays away", func() bool { return tryConnect(b.URL(), token, user) != nil })
}

// covers BCP-19
func TestNetworkNeedsTLS(t *testing.T) {
	t.Parallel()
	for listen, loopback := range map[string]bool{
		"127.0.0.1:0": true, "127.1.2.3:0": true, "[::1]:0": true, "localhost:0": true, "[::ffff:127.0.0.1]:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "10.0.0.1:0": false, "localhost.example:0": false, "127.0.0.1.example:0": false,
	} {
		_, err := server.Start(t.Context(), server.Config{Listen: listen, StateDir: t.TempDir(), Bundle: accounts.Bundle{Operator: "x"}})
		failIf(t, err == nil || errors.Is(err, server.ErrPlaintext) == loopback, "%s: %v", listen, err)
	}
}
