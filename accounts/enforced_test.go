package accounts_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func compileCluster(t *testing.T, store *accounts.Store, scopes []subjects.Scope) accounts.Bundle {
	t.Helper()
	return must(accounts.CompileCluster(store, scopes, now))(t)
}

func tokensOf(b accounts.Bundle) []string {
	var tokens []string
	for _, a := range b.Accounts {
		tokens = append(tokens, a.JWT)
	}
	return tokens
}

func enforced(t *testing.T, b accounts.Bundle) accounts.Bundle {
	t.Helper()
	return must(accounts.Enforced(b.Operator, tokensOf(b)))(t)
}

// What a cluster enforces says what was compiled for it, whose scope each key is,
// and nothing different from the definitions: also with users that have a
// restriction, while a signing key that was replaced is still good, and with the
// accounts of another mesh on the same servers.
//
// covers BCP-19, SUB-9, P1.4, A-JWTSELF, A-WILD
func TestEnforcedIsWhatWasCompiled(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compileCluster(t, store, scopes())
	_, err := store.Issue("researcher", 0, 0, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	noError(t, err)
	_, err = store.Issue("main", 0, 0, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	noError(t, err)
	must(store.RotateAccounts(time.Hour))(t)
	must(store.RevokeAll("relay", bcp.RoleReader))(t)
	b := must(accounts.CompileCluster(store, scopes(), time.Now()))(t)
	other, _ := newStore(t)
	theirs := compileCluster(t, other, scopes())
	both := append(tokensOf(b), tokensOf(theirs)...)
	equal(t, theirs.Accounts, must(accounts.Enforced(theirs.Operator, both))(t).Accounts)
	read := must(accounts.Enforced(b.Operator, both))(t)
	equal(t, b.Accounts, read.Accounts)
	keys := 0
	for _, a := range b.Accounts {
		for key := range claimsOf(t, b, a.Name).SigningKeys {
			agent, role, ok := read.ScopeOf(key)
			a, r, known := b.ScopeOf(key)
			failIf(t, a != agent || r != role || ok != known, "key %s is of %q as %s, %t", key, agent, role, ok)
			if ok {
				keys++
			}
		}
	}
	// One for each scope, two for restrictions, and what "main" had before.
	want := len(scopes()) + 2 + 1
	failIf(t, keys < want, "%d keys of agents, want at least %d", keys, want)
	lines := read.Differences(scopes())
	failIf(t, len(lines) > 0, "differences: %q", lines)
}

// rewrite signs an account of the bundle again, changed, with the operator's key.
func rewrite(t *testing.T, folder string, b accounts.Bundle, name string, change func(*jwt.AccountClaims)) []string {
	t.Helper()
	return resign(t, operatorOf(t, folder), b, name, change)
}

func resign(t *testing.T, operator nkeys.KeyPair, b accounts.Bundle, name string, change func(*jwt.AccountClaims)) []string {
	t.Helper()
	tokens := tokensOf(b)
	for i, a := range b.Accounts {
		if a.Name != name {
			continue
		}
		claims := claimsOf(t, b, name)
		change(claims)
		var err error
		tokens[i], err = claims.Encode(operator)
		noError(t, err)
	}
	return tokens
}

func scopeNamed(t *testing.T, claims *jwt.AccountClaims, role string) *jwt.UserScope {
	t.Helper()
	for _, s := range claims.SigningKeys {
		if s := s.(*jwt.UserScope); s.Role == role {
			return s
		}
	}
	t.Fatalf("%s has no scope %s", claims.Name, role)
	return nil
}

// Whatever is wider or narrower in the claims than in the definitions is told.
//
// covers A-WILD, BCP-7, SUB-9
func TestDifferencesTellWhatClaimsGrantBeyondTheDefinitions(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	b := compileCluster(t, store, scopes())
	template := func(role string, change func(*jwt.UserPermissionLimits)) func(*jwt.AccountClaims) {
		return func(c *jwt.AccountClaims) { change(&scopeNamed(t, c, role).Template) }
	}
	for name, tt := range map[string]struct {
		account string
		change  func(*jwt.AccountClaims)
		want    string
	}{
		"publishes more":       {accounts.Readers, template("reader-researcher", func(l *jwt.UserPermissionLimits) { l.Pub = jwt.Permission{Allow: jwt.StringList{"x.y"}} }), `researcher (reader): pub allow "x.y", and the definitions do not say so`},
		"publishes everything": {accounts.Readers, template("reader-researcher", func(l *jwt.UserPermissionLimits) { l.Pub = jwt.Permission{} }), `researcher (reader) should: pub deny ">"`},
		"publishes less":       {accounts.Controllers, template("controller-main", func(l *jwt.UserPermissionLimits) { l.Pub.Allow = l.Pub.Allow[1:] }), `main (controller) should: pub allow "bcp.v1.ask.main.relay"`},
		"subscribes to more":   {accounts.Operators, template("approver-alice", func(l *jwt.UserPermissionLimits) { l.Sub.Allow.Add("secret") }), `alice (approver): sub allow "secret"`},
		"is refused more":      {accounts.Operators, template("approver-alice", func(l *jwt.UserPermissionLimits) { l.Sub.Deny.Add("secret") }), `alice (approver): sub deny "secret"`},
		"answers twice":        {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.Resp.MaxMsgs = 2 }), "relay (reader): resp max 2"},
		"answers for ever":     {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.Resp.Expires = -1 }), "relay (reader): resp ttl -1"},
		"any payload":          {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.Payload = -1 }), "relay (reader): payload -1"},
		"any subscriptions":    {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.Subs = -1 }), "relay (reader): subs -1"},
		"bearer":               {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.BearerToken = true }), "relay (reader): bearer_token true"},
		"leaf node":            {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.AllowedConnectionTypes.Add(jwt.ConnectionTypeLeafnode) }), "LEAFNODE"},
		"any way":              {accounts.Readers, template("reader-relay", func(l *jwt.UserPermissionLimits) { l.AllowedConnectionTypes = nil }), "relay (reader) should: allowed_connection_types"},
		"gateway purges":       {accounts.Core, template("gateway", func(l *jwt.UserPermissionLimits) { l.Pub.Deny = l.Pub.Deny[:1] }), `CORE: gateway should: pub deny "$JS.API.STREAM.PURGE.>"`},
		"gateway everywhere":   {accounts.Core, template("gateway", func(l *jwt.UserPermissionLimits) { l.AllowedConnectionTypes.Add(jwt.ConnectionTypeLeafnode) }), `CORE: gateway: allowed_connection_types "LEAFNODE"`},
		"monitor pushes":       {accounts.System, template("monitor", func(l *jwt.UserPermissionLimits) { l.Pub.Allow.Add(subjects.UpdateClaims) }), `SYS: monitor: pub allow "$SYS.REQ.CLAIMS.UPDATE"`},
		"another agent": {accounts.Readers, func(c *jwt.AccountClaims) {
			s := jwt.NewUserScope()
			s.Key, s.Role = publicKey(t, nkeys.CreateAccount), "reader-zoe"
			s.Template.Pub.Allow.Add("z")
			c.SigningKeys.AddScopedSigner(s)
		}, `zoe (reader): pub allow "z"`},
		"no monitor":     {accounts.System, func(c *jwt.AccountClaims) { c.SigningKeys.Remove(scopeNamed(t, c, "monitor").Key) }, "SYS: monitor is not in the claims"},
		"an agent less":  {accounts.Readers, func(c *jwt.AccountClaims) { c.SigningKeys.Remove(scopeNamed(t, c, "reader-relay").Key) }, "relay (reader) is not in the claims"},
		"an export":      {accounts.Core, func(c *jwt.AccountClaims) { c.Exports.Add(&jwt.Export{Subject: "bcp.v1.commit.*", Type: jwt.Stream}) }, `CORE: exports {"subject":"bcp.v1.commit.*"`},
		"an export less": {accounts.Core, func(c *jwt.AccountClaims) { c.Exports = c.Exports[1:] }, "CORE should: exports "},
		"an import": {accounts.Readers, func(c *jwt.AccountClaims) {
			c.Imports.Add(&jwt.Import{Subject: "bcp.v1.ask.>", Account: accountKeyOf(b, accounts.Core), Type: jwt.Service})
		}, `READERS: imports {"subject":"bcp.v1.ask.>"`},
		"an import renamed": {accounts.Operators, func(c *jwt.AccountClaims) { c.Imports[0].LocalSubject = "x" }, "OPERATORS: imports"},
		"unknown to whom":   {accounts.Readers, func(c *jwt.AccountClaims) { c.Imports[1].Share = !c.Imports[1].Share }, "READERS should: imports"},
		"JetStream":         {accounts.Readers, func(c *jwt.AccountClaims) { c.Limits.DiskStorage, c.Limits.MemoryStorage = -1, -1 }, "READERS: limits"},
		"leaf nodes":        {accounts.Readers, func(c *jwt.AccountClaims) { c.Limits.LeafNodeConn = 1 }, "READERS: limits"},
		"default":           {accounts.Readers, func(c *jwt.AccountClaims) { c.DefaultPermissions = jwt.Permissions{} }, "READERS should: default_permissions"},
		"a mapping": {accounts.Core, func(c *jwt.AccountClaims) {
			c.Mappings = jwt.Mapping{}
			c.AddMapping("bcp.v1.deliver.reader.researcher.main", jwt.WeightedMapping{Subject: "bcp.v1.deliver.controller.main.relay", Weight: 100})
		}, "CORE: mappings"},
		"a trace":    {accounts.Readers, func(c *jwt.AccountClaims) { c.Trace = &jwt.MsgTrace{Destination: "trace.me", Sampling: 100} }, "READERS: trace"},
		"an auditor": {accounts.Core, func(c *jwt.AccountClaims) { c.Authorization.AuthUsers.Add(publicKey(t, nkeys.CreateUser)) }, "CORE: authorization"},
		"an end":     {accounts.Core, func(c *jwt.AccountClaims) { c.Expires = now.Add(1 << 50).Unix() }, "CORE: exp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := must(accounts.Enforced(b.Operator, rewrite(t, folder, b, tt.account, tt.change)))(t)
			lines := read.Differences(scopes())
			failIf(t, !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, tt.want) }),
				"%q is not in %q", tt.want, lines)
		})
	}
	// A key that stands for the agent beside another is held to the same.
	_, err := store.Issue("researcher", 0, 0, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}))
	noError(t, err)
	restricted := compileCluster(t, store, scopes())
	read := must(accounts.Enforced(restricted.Operator, rewrite(t, folder, restricted, accounts.Readers, func(c *jwt.AccountClaims) {
		for _, s := range c.SigningKeys {
			if s := s.(*jwt.UserScope); s.Role == "reader-researcher" && len(s.Template.AllowedConnectionTypes) == 1 {
				s.Template.Sub.Allow.Add("secret")
			}
		}
	})))(t)
	equal(t, []string{`researcher (reader): sub allow "secret", and the definitions do not say so`}, read.Differences(scopes()))
	// The other way round: definitions that changed since.
	fewer := slices.DeleteFunc(scopes(), func(s subjects.Scope) bool { return s.Agent == "researcher" })
	if lines := enforced(t, b).Differences(fewer); !slices.Contains(lines, `researcher (reader): sub allow "bcp.v1.query.researcher.>", and the definitions do not say so`) {
		t.Errorf("%q", lines)
	}
	failIf(t, len((accounts.Bundle{}).Differences(nil)) == 0, "no claims at all have no differences")
	// A mesh with a server of its own lets in nobody from outside, and so does not
	// what a cluster's claims have to.
	failIf(t, len(compile(t, store, scopes()).Differences(scopes())) == 0,
		"the claims of an embedded server pass for those of a cluster")
}

// Claims that no mesh has written are not read at all.
//
// covers A-JWTSELF, A-WILD
func TestEnforcedRefusesWhatIsNotOfThisMesh(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	b := compileCluster(t, store, scopes())
	foreign := must(nkeys.CreateOperator())(t)
	other, _ := newStore(t)
	otherBundle := compileCluster(t, other, scopes())
	none := func(*jwt.AccountClaims) {}
	with := func(account string, change func(*jwt.AccountClaims)) []string {
		return rewrite(t, folder, b, account, change)
	}
	renamed := func(role string) []string {
		return with(accounts.Readers, func(c *jwt.AccountClaims) { scopeNamed(t, c, "reader-researcher").Role = role })
	}
	for name, tt := range map[string]struct {
		operator string
		tokens   []string
	}{
		"nothing":            {b.Operator, nil},
		"no operator":        {"", tokensOf(b)},
		"another operator":   {otherBundle.Operator, tokensOf(b)},
		"a foreign signer":   {b.Operator, resign(t, foreign, b, accounts.Readers, none)},
		"the identity key":   {b.Operator, resign(t, keyOf(t, folder, "operator"), b, accounts.Readers, none)},
		"no JWT":             {b.Operator, append(tokensOf(b), "x")},
		"a broken signature": {b.Operator, broken(tokensOf(b))},
		"twice":              {b.Operator, append(tokensOf(b), tokensOf(b)[0])},
		"another mesh":       {b.Operator, tokensOf(otherBundle)},
		"one is missing":     {b.Operator, tokensOf(b)[1:]},
		"a key without a scope": {b.Operator, with(accounts.Readers, func(c *jwt.AccountClaims) {
			c.SigningKeys.Add(publicKey(t, nkeys.CreateAccount))
		})},
		"a key in two accounts": {b.Operator, with(accounts.Controllers, func(c *jwt.AccountClaims) {
			s := *scopeNamed(t, c, "controller-main")
			s.Key = scopeNamed(t, claimsOf(t, b, accounts.Readers), "reader-researcher").Key
			c.SigningKeys.AddScopedSigner(&s)
		})},
		"no role":                    {b.Operator, renamed("researcher")},
		"a wildcard":                 {b.Operator, renamed("reader-*")},
		"another account":            {b.Operator, renamed("controller-researcher")},
		"a gateway elsewhere":        {b.Operator, renamed("gateway")},
		"an unknown account of ours": {b.Operator, with(accounts.Readers, func(c *jwt.AccountClaims) { c.Name = accounts.Controllers })},
		"unknown words":              {b.Operator, unknownWords(t, folder, b)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := accounts.Enforced(tt.operator, tt.tokens)
			failIf(t, !errors.Is(err, accounts.ErrNotOurs) || len(read.Accounts) > 0, "%v", err)
		})
	}
}

// covers A-JWTSELF
func TestEnforcedReadsSoManyAccounts(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	b := compileCluster(t, store, scopes())
	for n, want := range map[int]string{100_000: "not valid", 100_001: "more than"} {
		_, err := accounts.Enforced(b.Operator, make([]string, n))
		failIf(t, !errors.Is(err, accounts.ErrNotOurs) || !strings.Contains(err.Error(), want), "%d accounts: %v", n, err)
	}
}

// A cluster serves others too. Theirs are theirs, unless one reaches into ours: to
// import what CORE exports takes nobody's leave.
//
// covers A-JWTSELF, SUB-8
func TestEnforcedLeavesOthersAloneUnlessTheyReachIn(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	b := compileCluster(t, store, scopes())
	operator := must(nkeys.CreateOperator())(t)
	others := jwt.NewAccountClaims(publicKey(t, nkeys.CreateAccount))
	others.Name = "BILLING"
	token := func() string {
		return must(others.Encode(operator))(t)
	}
	read, err := accounts.Enforced(b.Operator, append(tokensOf(b), token()))
	stopIf(t, err != nil || len(read.Accounts) != len(b.Accounts) || len(read.Differences(scopes())) > 0,
		"%v: %q", err, read.Differences(scopes()))
	others.Imports.Add(&jwt.Import{Subject: "bcp.v1.ask.>", Account: accountKeyOf(b, accounts.Core), Type: jwt.Service})
	read = must(accounts.Enforced(b.Operator, append(tokensOf(b), token())))(t)
	want := []string{"account " + others.Subject + " imports bcp.v1.ask.> from CORE, and is none of this mesh"}
	equal(t, want, read.Differences(scopes()))
}

func broken(tokens []string) []string {
	at := strings.LastIndex(tokens[0], ".") + 1
	other := "A"
	if tokens[0][at:at+1] == other {
		other = "B"
	}
	tokens[0] = tokens[0][:at] + other + tokens[0][at+1:]
	return tokens
}

// unknownWords has an account say something that the library does not decode.
func unknownWords(t *testing.T, folder string, b accounts.Bundle) []string {
	t.Helper()
	tokens := tokensOf(b)
	parts := strings.Split(tokens[0], ".")
	content := must(base64.RawURLEncoding.DecodeString(parts[1]))(t)
	var says map[string]any
	noError(t, json.Unmarshal(content, &says))
	maps.Copy(says["nats"].(map[string]any), map[string]any{"open_to_all": true})
	content = must(json.Marshal(says))(t)
	text := parts[0] + "." + base64.RawURLEncoding.EncodeToString(content)
	signature := must(operatorOf(t, folder).Sign([]byte(text)))(t)
	tokens[0] = text + "." + base64.RawURLEncoding.EncodeToString(signature)
	must(jwt.DecodeAccountClaims(tokens[0]))(t)
	return tokens
}
