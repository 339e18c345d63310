package accounts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// covers BCP-7, BCP-10, BCP-19, SUB-122, SUB-123, SUB-124, SUB-125
func TestAccountsHaveTheWaysOfTheArchitectureAndNoOthers(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	bundle := compile(t, store, scopes())
	core := claimsOf(t, bundle, accounts.Core)

	exports := map[string]string{}
	for _, e := range core.Exports {
		exports[string(e.Subject)] = e.Type.String() + " " + string(e.ResponseType)
	}
	want := map[string]string{
		"bcp.v1.role.>": "service Singleton", "bcp.v1.approval.>": "service Singleton",
		"bcp.v1.plan.>": "stream ", "bcp.v1.subplan.>": "stream ", "bcp.v1.alert.>": "stream ",
		"bcp.v1.query.>": "stream ", "bcp.v1.deliver.reader.>": "stream ", "bcp.v1.deliver.controller.>": "stream ",
		"bcp.v1.inbox.controller.*.>": "stream ", "bcp.v1.inbox.reader.*.>": "stream ", "bcp.v1.inbox.keeper.*.>": "stream ",
		"bcp.v1.inbox.person.*.>": "stream ", "bcp.v1.inbox.join.*.>": "stream ",
		"$JS.API.DIRECT.GET.BCP_AUDIT": "service Stream", "$JS.API.DIRECT.GET.BCP_AUDIT.>": "service Stream",
		"$JS.API.DIRECT.GET.BCP_COMMIT": "service Stream",
		"$JS.API.DIRECT.GET.BCP_LEDGER": "service Stream", "$JS.API.DIRECT.GET.BCP_LEDGER.>": "service Stream",
		"$JS.API.STREAM.INFO.BCP_AUDIT": "service Singleton", "$JS.API.STREAM.INFO.BCP_LEDGER": "service Singleton",
	}
	equal(t, want, exports)
	imports := map[string][]string{
		accounts.System: nil, accounts.Joiners: {"bcp.v1.inbox.join.*.> stream as _INBOX.*.>"},
		accounts.Core: {
			"bcp.v1.ask.> stream of CONTROLLERS", "bcp.v1.control.> stream of OPERATORS", "bcp.v1.join.* stream of JOIN", "bcp.v1.push.> stream of READERS",
			"bcp.v1.reply.controller.> stream of CONTROLLERS", "bcp.v1.reply.reader.> stream of READERS", "bcp.v1.reply.subplanner.> stream of READERS",
			"bcp.v1.run.> stream of CONTROLLERS", "bcp.v1.session.> stream of CONTROLLERS",
		},
		accounts.Readers: {
			"bcp.v1.deliver.reader.> stream", "bcp.v1.inbox.reader.*.> stream as _INBOX.*.>", "bcp.v1.query.> stream", "bcp.v1.role.> service shared", "bcp.v1.subplan.> stream",
		},
		accounts.Controllers: {"bcp.v1.deliver.controller.> stream", "bcp.v1.inbox.controller.*.> stream as _INBOX.*.>", "bcp.v1.role.> service shared"},
		accounts.Operators: {
			"$JS.API.DIRECT.GET.BCP_AUDIT service as BCPJS.DIRECT.GET.BCP_AUDIT", "$JS.API.DIRECT.GET.BCP_AUDIT.> service as BCPJS.DIRECT.GET.BCP_AUDIT.>",
			"$JS.API.DIRECT.GET.BCP_COMMIT service as BCPJS.DIRECT.GET.BCP_COMMIT",
			"$JS.API.DIRECT.GET.BCP_LEDGER service as BCPJS.DIRECT.GET.BCP_LEDGER", "$JS.API.DIRECT.GET.BCP_LEDGER.> service as BCPJS.DIRECT.GET.BCP_LEDGER.>",
			"$JS.API.STREAM.INFO.BCP_AUDIT service as BCPJS.STREAM.INFO.BCP_AUDIT", "$JS.API.STREAM.INFO.BCP_LEDGER service as BCPJS.STREAM.INFO.BCP_LEDGER",
			"bcp.v1.alert.> stream", "bcp.v1.approval.> service shared", "bcp.v1.inbox.person.*.> stream as _INBOX.*.>",
		},
	}
	names := map[string]string{}
	for name := range imports {
		names[claimsOf(t, bundle, name).Subject] = name
	}
	for name, want := range imports {
		claims := claimsOf(t, bundle, name)
		var got []string
		for _, i := range claims.Imports {
			text := string(i.Subject) + " " + i.Type.String()
			if i.LocalSubject != "" {
				text += " as " + string(i.LocalSubject)
			}
			if i.Share {
				text += " shared"
			}
			if i.Account != core.Subject {
				text += " of " + names[i.Account]
			}
			got = append(got, text)
		}
		expect(t, cmp.Diff(want, got), "", "%s", name)
		var exported []string
		for _, e := range claims.Exports {
			if name != accounts.Core {
				exported = append(exported, string(e.Subject)+" "+e.Type.String()+" of "+name)
			}
		}
		taken := slices.DeleteFunc(slices.Clone(imports[accounts.Core]), func(i string) bool { return !strings.HasSuffix(i, " of "+name) })
		failIf(t, !slices.Equal(exported, taken), "%s exports %v, and the gateway takes %v", name, exported, taken)
		expect(t, claims.Limits.IsJSEnabled(), name == accounts.Core, "%s: JetStream", name)
		failIf(t, claims.Limits.LeafNodeConn != 0 || !claims.Limits.DisallowBearer, "%s: %+v", name, claims.Limits)
		refuse := jwt.Permission{Deny: jwt.StringList{">"}}
		expect(t, cmp.Diff(jwt.Permissions{Pub: refuse, Sub: refuse}, claims.DefaultPermissions), "",
			"%s lets in users without permissions", name)
	}
}

// covers A-WILD, BCP-7, SUB-9, P9.5
func TestScopesAreWrittenExactly(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	bundle := compile(t, store, scopes())
	found := 0
	for _, name := range []string{accounts.Readers, accounts.Controllers, accounts.Operators} {
		claims := claimsOf(t, bundle, name)
		for key, scope := range claims.SigningKeys {
			agent, role, ok := bundle.ScopeOf(key)
			stopIf(t, !ok, "%s: a key without a scope", name)
			found++
			for _, want := range scopes() {
				if want.Agent == agent && want.Role == role {
					checkTemplate(t, want, scope.(*jwt.UserScope).Template)
				}
			}
		}
	}
	expect(t, found, len(scopes()), "scopes")
	for name, own := range map[string]accounts.Login{accounts.Core: bundle.Gateway, accounts.System: bundle.Monitor} {
		user := must(jwt.DecodeUserClaims(own.JWT))(t)
		scope := claimsOf(t, bundle, name).SigningKeys[user.Issuer].(*jwt.UserScope)
		expect(t, cmp.Diff(jwt.StringList{jwt.ConnectionTypeInProcess}, scope.Template.AllowedConnectionTypes), "", "%s", name)
		failIf(t, len(claimsOf(t, bundle, name).SigningKeys) != 1 || user.Subject != own.Signer.PublicKey(),
			"%s lets in others", name)
	}
}

func checkTemplate(t *testing.T, want subjects.Scope, got jwt.UserPermissionLimits) {
	t.Helper()
	publish := jwt.Permission{Allow: want.PubAllow}
	if len(want.PubAllow) == 0 {
		publish = jwt.Permission{Deny: jwt.StringList{">"}}
	}
	permissions := jwt.Permissions{Pub: publish, Sub: jwt.Permission{Allow: want.SubAllow}}
	if want.Respond {
		permissions.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: want.RespondFor}
	}
	expected := jwt.UserPermissionLimits{
		Permissions:            permissions,
		Limits:                 jwt.Limits{NatsLimits: jwt.NatsLimits{Subs: int64(want.MaxSubscriptions), Data: -1, Payload: -1}},
		AllowedConnectionTypes: jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket, jwt.ConnectionTypeInProcess},
	}
	if want.MaxPayload > 0 {
		expected.Payload = int64(want.MaxPayload)
	}
	expect(t, cmp.Diff(expected, got), "", "%s as %s", want.Agent, want.Role)
}

// covers P1.5
func TestCompileKeepsKeysAndGoesForwardInTime(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	first := compile(t, store, scopes())
	creds := must(store.Issue("main", 0, 0))(t)
	user, _ := userOf(t, creds)

	again := openStore(t, folder)
	changed := scopes()
	for i := range changed {
		if changed[i].Agent == "main" {
			changed[i].PubAllow = append(changed[i].PubAllow, subjects.Ask("main", "zoe"))
		}
	}
	iat := claimsOf(t, first, accounts.Readers).IssuedAt
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(time.Minute), now.Add(time.Minute)} {
		bundle := must(accounts.Compile(again, changed, at))(t)
		for _, account := range bundle.Accounts {
			claims := claimsOf(t, bundle, account.Name)
			failIf(t, claims.IssuedAt <= iat || claims.IssuedAt < at.Unix(),
				"%s at %v: issued at %d after %d", account.Name, at, claims.IssuedAt, iat)
			before, _ := first.Account(account.Name)
			expect(t, before.Digest == account.Digest, account.Name != accounts.Controllers, "%s is the same", account.Name)
			expect(t, before.PublicKey, account.PublicKey, "%s has a new key", account.Name)
		}
		iat = claimsOf(t, bundle, accounts.Readers).IssuedAt
		_, ok := claimsOf(t, bundle, accounts.Controllers).SigningKeys[user.Issuer]
		failIf(t, !ok, "creds did not outlive an edit")
	}
}

func manyScopes(n int, list func(i int) []string) []subjects.Scope {
	scopes := make([]subjects.Scope, n)
	for i := range scopes {
		name := bcp.AgentName(fmt.Sprintf("agent-%d", i))
		scopes[i] = subjects.Scope{Agent: name, Role: bcp.RoleReader, PubAllow: list(i), SubAllow: []string{subjects.InboxesOf(name)}, MaxSubscriptions: 1}
	}
	return scopes
}

// An account takes 256 agents, and the next has another one of the same kind. Who
// has a place keeps it, and comes back to it.
//
// covers P1.5, BCP-19
func TestAgentsHaveAccountsOf256(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	none := func(int) []string { return nil }
	full := compile(t, store, manyScopes(accounts.AgentsPerAccount, none))
	if _, more := full.Account("READERS-2"); more || len(claimsOf(t, full, accounts.Readers).SigningKeys) != accounts.AgentsPerAccount {
		t.Errorf("%d agents do not fit in one account", accounts.AgentsPerAccount)
	}
	all := manyScopes(accounts.AgentsPerAccount+2, none)
	over := compile(t, store, all)
	first, second := claimsOf(t, over, accounts.Readers), claimsOf(t, over, "READERS-2")
	failIf(t, len(first.SigningKeys) != accounts.AgentsPerAccount || len(second.SigningKeys) != 2,
		"%d and %d agents", len(first.SigningKeys), len(second.SigningKeys))
	second.Name, first.Name = "", ""
	ignore := cmpopts.IgnoreFields(jwt.Account{}, "SigningKeys")
	expect(t, cmp.Diff(first.Account, second.Account, ignore), "", "the second account is another")
	_, ok := over.Account("CONTROLLERS-2")
	failIf(t, ok, "and there is one of another kind")
	last := must(store.Issue(all[len(all)-1].Agent, 0, 0))(t)
	user, _ := userOf(t, last)
	failIf(t, user.IssuerAccount != second.Subject || second.SigningKeys[user.Issuer] == nil,
		"the last agent's creds are of another account")
	again := openStore(t, folder)
	compile(t, again, all[:1])
	back := compile(t, again, all)
	claims := claimsOf(t, back, "READERS-2")
	failIf(t, claims.SigningKeys[user.Issuer] == nil, "an agent that was gone came back elsewhere")
}

// New agents fill less than half of what an account's claims may take, and the next have another
// account: one that has more channels than others does not push out those that were
// there. An agent that needs more than half by itself still has a place.
//
// covers P1.5
func TestAgentsHaveAccountsOfBoundedClaims(t *testing.T) {
	t.Parallel()
	channels := func(n int) func(int) []string {
		return func(i int) []string {
			list := make([]string, n)
			for j := range list {
				list[j] = subjects.Push("agent", bcp.AgentName(fmt.Sprintf("controller-%d-%d", i, j)), "alerts")
			}
			slices.Sort(list)
			return list
		}
	}
	store, _ := newStore(t)
	bundle := compile(t, store, manyScopes(40, channels(400)))
	seen := 0
	for _, name := range []string{"READERS", "READERS-2", "READERS-3"} {
		account, ok := bundle.Account(name)
		stopIf(t, !ok, "there is no account %s", name)
		agents := len(claimsOf(t, bundle, name).SigningKeys)
		seen += agents
		// The next one would have been too many; what was counted is about what it takes.
		const room = 400 << 10
		if each := len(account.JWT) / agents; len(account.JWT) > room*21/20 || seen < 40 && len(account.JWT)+each < room*19/20 {
			t.Errorf("%s takes %d bytes with %d agents", name, len(account.JWT), agents)
		}
	}
	expect(t, seen, 40, "of 40 agents have a place")
	large, _ := newStore(t)
	bundle = compile(t, large, manyScopes(2, channels(8_000)))
	if first, ok := bundle.Account("READERS"); !ok || len(first.JWT) <= accounts.MaxAccountJWT/2 || len(claimsOf(t, bundle, "READERS-2").SigningKeys) != 1 {
		t.Error("two agents of many channels do not have an account each")
	}
}

// covers P1.5
func TestCompileRefusesAnAccountBeforeTheServerWould(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	compile(t, store, manyScopes(40, func(int) []string { return nil }))
	long := func(i int) []string {
		var list []string
		for j := range 400 {
			list = append(list, subjects.Push("agent", "controller-with-a-long-name-of-its-own", bcp.SubscriptionID(fmt.Sprintf("subscription-%d-%d", i, j))))
		}
		return list
	}
	fails(t, errorOf(accounts.Compile(store, manyScopes(40, long), now)), accounts.ErrTooManyScopes, "too many bytes")
	// What was refused changed nothing: the last agents are still there.
	must(store.Issue("agent-39", 0, 0))(t)
}

// covers A-WILD, A-SUBJTOK
func TestCompileRefusesScopesThatGrantTooMuch(t *testing.T) {
	t.Parallel()
	good := func() subjects.Scope {
		return subjects.Scope{Agent: "a", Role: bcp.RoleReader, PubAllow: []string{"p"}, SubAllow: []string{"s.>"}, MaxSubscriptions: 1}
	}
	store, _ := newStore(t)
	must(accounts.Compile(store, []subjects.Scope{good()}, now))(t)
	for name, spoil := range map[string]func(s *subjects.Scope){
		"zero":                  func(s *subjects.Scope) { *s = subjects.Scope{} },
		"no role":               func(s *subjects.Scope) { s.Role = 0 },
		"unknown role":          func(s *subjects.Scope) { s.Role = 99 },
		"wildcard name":         func(s *subjects.Scope) { s.Agent = "*" },
		"path in a name":        func(s *subjects.Scope) { s.Agent = "../a" },
		"gateway":               func(s *subjects.Scope) { s.Agent = "gateway" },
		"publish everything":    func(s *subjects.Scope) { s.PubAllow = []string{">"} },
		"publish any first":     func(s *subjects.Scope) { s.PubAllow = []string{"*.b"} },
		"publish nothing named": func(s *subjects.Scope) { s.PubAllow = []string{""} },
		"publish a template":    func(s *subjects.Scope) { s.PubAllow = []string{"a.{{name()}}"} },
		"subscribe everything":  func(s *subjects.Scope) { s.SubAllow = []string{">"} },
		"subscribe to a queue":  func(s *subjects.Scope) { s.SubAllow = []string{"a.> q"} },
		"subscribe nothing":     func(s *subjects.Scope) { s.SubAllow = nil },
		"no bound":              func(s *subjects.Scope) { s.MaxSubscriptions = 0 },
		"negative payload":      func(s *subjects.Scope) { s.MaxPayload = -1 },
		"respond without time":  func(s *subjects.Scope) { s.Respond = true },
		"time without respond":  func(s *subjects.Scope) { s.RespondFor = time.Second },
		"negative time":         func(s *subjects.Scope) { s.Respond, s.RespondFor = true, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			spoil(&s)
			fails(t, errorOf(accounts.Compile(store, []subjects.Scope{s}, now)), nil, "compiled")
		})
	}
	fails(t, errorOf(accounts.Compile(store, []subjects.Scope{good(), good()}, now)), nil, "compiled one scope twice")
}
