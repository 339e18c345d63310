package proof_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// patience bounds a wait for what should come.
const patience = 30 * time.Second

// issuer is a set of claims whose keys the test has: it may change them, sign
// them, and have a real server enforce them.
type issuer struct {
	operator nkeys.KeyPair // signs the rules
	signer   nkeys.KeyPair // signs the accounts, as is due where key usage is strict
	rules    *jwt.OperatorClaims
	names    []string
	accounts map[string]*jwt.AccountClaims
	keys     map[string]nkeys.KeyPair // by public key
	scopes   map[string]string        // public keys, by account and role
	users    []string
	seeds    map[string][2]string // JWT and seed of those users, by name
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{accounts: map[string]*jwt.AccountClaims{}, keys: map[string]nkeys.KeyPair{}, scopes: map[string]string{}, seeds: map[string][2]string{}}
	i.operator = pair(t, nkeys.CreateOperator)
	i.rules = jwt.NewOperatorClaims(public(t, i.operator))
	i.rules.StrictSigningKeyUsage = true
	i.signer = pair(t, nkeys.CreateOperator)
	i.rules.SigningKeys.Add(public(t, i.signer))
	i.account(t, accounts.System)
	i.rules.SystemAccount = i.accounts[accounts.System].Subject
	return i
}

func pair(t testing.TB, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	return must(create())(t)
}

func public(t testing.TB, k nkeys.KeyPair) string {
	t.Helper()
	return must(k.PublicKey())(t)
}

// key makes an account key that the test keeps.
func (i *issuer) key(t testing.TB) string {
	t.Helper()
	k := pair(t, nkeys.CreateAccount)
	i.keys[public(t, k)] = k
	return public(t, k)
}

func (i *issuer) account(t testing.TB, name string) *jwt.AccountClaims {
	t.Helper()
	a := jwt.NewAccountClaims(i.key(t))
	a.Name = name
	i.names = append(i.names, name)
	i.accounts[name] = a
	return a
}

// scope adds a scope, whose permissions the caller sets.
func (i *issuer) scope(t testing.TB, account, role string) *jwt.UserScope {
	t.Helper()
	s := jwt.NewUserScope()
	s.Key, s.Role = i.key(t), role
	i.accounts[account].SigningKeys.AddScopedSigner(s)
	i.scopes[account+" "+role] = s.Key
	return s
}

// template returns the permissions of a scope, to be changed.
func (i *issuer) template(account, role string) *jwt.UserPermissionLimits {
	scope, _ := i.accounts[account].SigningKeys.GetScope(i.scopes[account+" "+role])
	return &scope.(*jwt.UserScope).Template
}

// shipped are the claims that this project compiles, under other keys.
func shipped(t testing.TB, scopes []subjects.Scope) *issuer {
	t.Helper()
	b := compiled(t, scopes)
	i := newIssuer(t)
	renamed := map[string]string{}
	for _, a := range b.Accounts {
		claims := must(jwt.DecodeAccountClaims(a.JWT))(t)
		if a.Name != accounts.System {
			i.account(t, a.Name)
		}
		fresh := i.accounts[a.Name].Subject
		renamed[claims.Subject] = fresh
		claims.Subject = fresh
		old := claims.SigningKeys
		claims.SigningKeys = jwt.SigningKeys{}
		i.accounts[a.Name] = claims
		for _, scope := range old {
			s := scope.(*jwt.UserScope)
			i.scope(t, a.Name, s.Role).Template = s.Template
		}
	}
	for _, a := range i.accounts {
		for _, im := range a.Imports {
			im.Account = renamed[im.Account]
		}
	}
	return i
}

// bundles are those that were compiled, by their scopes: they do not change, and the disk takes its time for their keys.
var bundles sync.Map

func compiled(t testing.TB, scopes []subjects.Scope) accounts.Bundle {
	t.Helper()
	once, _ := bundles.LoadOrStore(fmt.Sprint(scopes), sync.OnceValues(func() (accounts.Bundle, error) {
		store, err := accounts.Create(filepath.Join(t.TempDir(), "state"))
		if err != nil {
			return accounts.Bundle{}, err
		}
		return accounts.Compile(store, scopes, time.Now())
	}))
	return must(once.(func() (accounts.Bundle, error))())(t)
}

// office has every role, twice where that matters.
func office() []subjects.Scope {
	return subjects.Permissions(&bcp.Mesh{
		Approvers: []bcp.AgentName{"alice", "bob"}, Auditors: []bcp.AgentName{"alice", "carol"},
		Agents: []bcp.Agent{
			{Name: "boss", Controller: true}, {Name: "main", Controller: true}, {Name: "relay", Controller: true, Reader: true},
			{Name: "mailer", Reader: true}, {Name: "spy", Reader: true, Egress: bcp.Egress{Hosts: []string{"a.test"}}},
		},
		Channels: []bcp.Channel{
			{ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "mailer"}, QueryTTL: time.Hour, Subscriptions: []bcp.Subscription{{ID: "alerts"}}},
			{ChannelKey: bcp.ChannelKey{Controller: "main", Reader: "relay"}, Subscriptions: []bcp.Subscription{{ID: "digest"}}},
			{ChannelKey: bcp.ChannelKey{Controller: "relay", Reader: "spy"}, Subscriptions: []bcp.Subscription{{ID: "notes"}}},
			{ChannelKey: bcp.ChannelKey{Controller: "boss", Reader: "spy"}},
		},
	})
}

// tokens signs everything.
func (i *issuer) tokens(t testing.TB) (operator string, accounts []string) {
	t.Helper()
	operator = must(i.rules.Encode(i.operator))(t)
	for _, name := range i.names {
		token := must(i.accounts[name].Encode(i.signer))(t)
		accounts = append(accounts, token)
	}
	return operator, accounts
}

func (i *issuer) mustToken(t testing.TB, account string) string {
	t.Helper()
	return must(i.accounts[account].Encode(i.signer))(t)
}

func (i *issuer) claims(t testing.TB) proof.Claims {
	t.Helper()
	operator, accounts := i.tokens(t)
	return claimsOf(t, append(append(accounts, i.users...), operator)...)
}

func claimsOf(t testing.TB, tokens ...string) proof.Claims {
	t.Helper()
	var c proof.Claims
	for _, token := range tokens {
		noError(t, c.Add(token))
	}
	return c
}

func (i *issuer) prove(t testing.TB) proof.Report {
	t.Helper()
	return must(proof.Prove(i.claims(t), proof.Policy{}))(t)
}

// user makes a user that a key signs, with permissions of its own unless the
// key has a scope.
func (i *issuer) user(t testing.TB, account, key, name string, change func(*jwt.UserClaims)) (token string, seed []byte) {
	t.Helper()
	k := pair(t, nkeys.CreateUser)
	u := jwt.NewUserClaims(public(t, k))
	u.Name, u.IssuerAccount = name, i.accounts[account].Subject
	if key == u.IssuerAccount {
		u.IssuerAccount = ""
	}
	if scope, ok := i.accounts[account].SigningKeys.GetScope(key); ok && scope != nil {
		u.SetScoped(true)
	}
	if change != nil {
		change(u)
	}
	token, err := u.Encode(i.keys[key])
	noError(t, err)
	seed = must(k.Seed())(t)
	return token, seed
}

// world is a real server that enforces an issuer's claims.
type world struct {
	*issuer
	server  *server.Server
	watched map[string]string // a key of each account that signs anybody, which the proof was not given
}

func (i *issuer) serve(t testing.TB) *world {
	t.Helper()
	w := &world{issuer: i, watched: map[string]string{}}
	for _, name := range i.names {
		w.watched[name] = i.key(t)
		i.accounts[name].SigningKeys.Add(w.watched[name])
	}
	operator, tokens := i.tokens(t)
	resolver := &server.MemAccResolver{}
	for n, name := range i.names {
		noError(t, resolver.Store(i.accounts[name].Subject, tokens[n]))
		delete(i.accounts[name].SigningKeys, w.watched[name])
	}
	rules := must(jwt.DecodeOperatorClaims(operator))(t)
	w.server = must(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		TrustedOperators: []*jwt.OperatorClaims{rules}, SystemAccount: i.rules.SystemAccount, AccountResolver: resolver,
	}))(t)
	w.server.Start()
	t.Cleanup(func() {
		w.server.Shutdown()
		w.server.WaitForShutdown()
	})
	stopIf(t, !w.server.ReadyForConnections(patience), "the server is not ready")
	return w
}

// dial connects inside the process, as every kind of user may.
func (w *world) dial(t testing.TB, token string, seed []byte) *nats.Conn {
	t.Helper()
	k := must(nkeys.FromSeed(seed))(t)
	nc, err := nats.Connect("", nats.InProcessServer(w.server), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX_test"),
		nats.UserJWT(func() (string, error) { return token, nil }, k.Sign), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // denials are expected
	noError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// as connects as a principal of a scope. What connects over TCP in earnest may
// be let in here, since the permissions are the same.
func (w *world) as(t testing.TB, account, role string) *nats.Conn {
	t.Helper()
	key := w.scopes[account+" "+role]
	stopIf(t, key == "", "no scope %s in %s", role, account)
	token, seed := w.user(t, account, key, role, nil)
	if slices.Equal(w.template(account, role).AllowedConnectionTypes, jwt.StringList{jwt.ConnectionTypeInProcess}) {
		return w.dial(t, token, seed)
	}
	return w.dialTCP(t, token, seed)
}

// watch connects to an account with every permission.
func (w *world) watch(t testing.TB, account string) *nats.Conn {
	t.Helper()
	token, seed := w.user(t, account, w.watched[account], "watch", func(u *jwt.UserClaims) { u.Pub.Allow.Add(">"); u.Sub.Allow.Add(">") })
	return w.dial(t, token, seed)
}

func (w *world) dialTCP(t testing.TB, token string, seed []byte) *nats.Conn {
	t.Helper()
	creds := must(jwt.FormatUserConfig(token, seed))(t)
	nc, err := nats.Connect(w.server.ClientURL(), nats.UserCredentialBytes(creds), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX_test"), nats.Timeout(patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // denials are expected
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", token, err))
	}
	t.Cleanup(nc.Close)
	return nc
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
