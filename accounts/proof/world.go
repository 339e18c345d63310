package proof

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
)

// world is a set of claims as a graph.
type world struct {
	accounts   map[string]*account // by public key
	order      []*account          // by name
	principals []*principal        // the untrusted ones, by name
	trusted    []*principal
	keys       []key
	refused    int // users that no account accepts
}

type account struct {
	name, key string
	operator  string // who has signed it: its public key, if it is known
	system    bool
	jetStream bool
	unknown   bool // it is named by an import, and not in the set
	guarded   bool // it has a trusted party: what arrives is the gateway's
	services  []link
	mappings  []mapping
	streams   []link // from this account into others
	users     []*principal
}

// link is one way into another account.
type link struct {
	to      *account
	by      mapping
	service bool
	trace   bool // senders may trace their messages
}

func (l *link) how() string {
	if l.service {
		return "service"
	}
	return "stream"
}

// principal is a set of permissions with which clients may connect: all users
// of a scope are one, since whoever can be one can be the other.
type principal struct {
	name      string
	account   *account
	agent     identity
	entrances []pattern // of its identity
	outlets   []pattern
	publish   []region
	subscribe []region
}

// key is a key that can make users with any permissions.
type key struct {
	account *account
	public  string
	what    string
}

// shape builds the graph. If a server may refuse something for a reason not
// checked here, it counts as allowed.
func shape(c Claims, p Policy) *world {
	w := &world{accounts: map[string]*account{}}
	// Any of them may be the one whose system account the servers have.
	system, strict, exporters := map[string]bool{}, map[string]bool{}, map[string]*jwt.AccountClaims{}
	for _, o := range c.Operators {
		system[o.SystemAccount], strict[o.Subject] = true, o.StrictSigningKeyUsage
	}
	for _, a := range c.Accounts {
		n := &account{name: cmp.Or(a.Name, a.Subject), key: a.Subject, system: system[a.Subject], jetStream: a.Limits.IsJSEnabled()}
		if i := slices.IndexFunc(c.Operators, func(o *jwt.OperatorClaims) bool { return o.DidSign(a) }); i >= 0 {
			n.operator = c.Operators[i].Subject
		}
		w.accounts[a.Subject], exporters[a.Subject] = n, a
		w.order = append(w.order, n)
	}
	for _, a := range c.Accounts {
		n := w.accounts[a.Subject]
		w.addUsers(a, n, c.Users, strict[n.operator], p)
		w.ways(a, exporters)
	}
	for _, u := range c.Users {
		if a := w.accounts[cmp.Or(u.IssuerAccount, u.Issuer)]; a == nil {
			w.refused++
		}
	}
	for _, a := range w.order {
		a.guarded = a.guarded || a.system
	}
	slices.SortStableFunc(w.order, func(a, b *account) int { return strings.Compare(a.name, b.name) })
	byName := func(a, b *principal) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.account.name, b.account.name))
	}
	slices.SortStableFunc(w.principals, byName)
	slices.SortStableFunc(w.trusted, byName)
	return w
}

// addUsers finds who may connect to an account.
func (w *world) addUsers(claims *jwt.AccountClaims, a *account, users []*jwt.UserClaims, strict bool, p Policy) {
	free := map[string]bool{} // keys that may sign any permissions
	if !strict {
		free[claims.Subject] = true
		w.keys = append(w.keys, key{a, claims.Subject, "the account's own key"})
	}
	for _, public := range slices.Sorted(maps.Keys(claims.SigningKeys)) {
		scope, ok := claims.SigningKeys[public].(*jwt.UserScope)
		if !ok || scope == nil {
			free[public] = true
			w.keys = append(w.keys, key{a, public, "a signing key without a scope"})
			continue
		}
		w.admit(a, cmp.Or(scope.Role, public), scope.Template, claims, p)
	}
	if claims.HasExternalAuthorization() {
		w.keys = append(w.keys, key{a, strings.Join(claims.Authorization.AuthUsers, " "), "a service that lets users in"})
	}
	for _, u := range users {
		if cmp.Or(u.IssuerAccount, u.Issuer) != claims.Subject {
			continue
		}
		_, scoped := claims.SigningKeys.GetScope(u.Issuer)
		switch {
		case claims.IsClaimRevoked(u):
		case free[u.Issuer]:
			w.admit(a, cmp.Or(u.Name, u.Subject), u.UserPermissionLimits, claims, p)
		case scoped: // it has the permissions of its scope
			if u.BearerToken && !claims.Limits.DisallowBearer {
				w.keys = append(w.keys, key{a, cmp.Or(u.Name, u.Subject), bearer})
			}
		default:
			w.refused++
		}
	}
}

const bearer = "a bearer token: whoever reads it is"

// admit adds a principal, or adds permissions to an existing one.
func (w *world) admit(a *account, name string, limits jwt.UserPermissionLimits, claims *jwt.AccountClaims, p Policy) {
	if limits.BearerToken && !claims.Limits.DisallowBearer {
		w.keys = append(w.keys, key{a, name, bearer})
	}
	permissions := limits.Permissions
	if p := permissions; len(p.Pub.Allow)+len(p.Pub.Deny)+len(p.Sub.Allow)+len(p.Sub.Deny) == 0 && p.Resp == nil {
		permissions = claims.DefaultPermissions
	}
	n := &principal{name: name, account: a, agent: parseIdentity(name)}
	n.entrances, n.outlets = n.agent.entrances(), n.agent.gatewaySubjects()
	n.publish, n.subscribe = regions(permissions.Pub, permissions.Resp != nil), receivable(permissions.Sub)
	if permissions.Resp != nil {
		n.publish = append(n.publish, n.agent.answers()...)
	}
	if local(limits) || slices.Contains(p.Trusted, name) || slices.Contains(p.Trusted, a.name) || slices.Contains(p.Trusted, a.key) {
		a.guarded = true
		w.trusted = append(w.trusted, n)
		return
	}
	for _, other := range a.users {
		if other.agent == n.agent && n.agent != (identity{}) {
			other.publish = append(other.publish, n.publish...)
			other.subscribe = append(other.subscribe, n.subscribe...)
			return
		}
	}
	a.users = append(a.users, n)
	w.principals = append(w.principals, n)
}

// local reports whether a user connects only inside the server's process.
func local(limits jwt.UserPermissionLimits) bool {
	types := limits.AllowedConnectionTypes
	return len(types) > 0 && !slices.ContainsFunc(types, func(t string) bool { return t != jwt.ConnectionTypeInProcess })
}

// regions is what may be published. An empty list allows all, unless there is
// permission to reply.
func regions(p jwt.Permission, answers bool) []region {
	allow := parsePatterns(untemplated(p.Allow))
	if len(p.Allow) == 0 && !answers {
		allow = []pattern{everything}
	}
	return allowed(allow, parsePatterns(templateless(p.Deny)))
}

// receivable is what a subscription may receive. An entry may name a queue: its
// subject is received through that queue, and denied only to that queue. A "*"
// at the end lets a client subscribe to ">" there: the server compares the
// subscription with it as if it were a subject.
func receivable(p jwt.Permission) []region {
	var allow, deny []pattern
	for _, s := range untemplated(p.Allow) {
		words := strings.Fields(s)
		if len(words) == 0 || len(words) > 2 {
			continue
		}
		if q := parsePattern(words[0]); q != nil {
			if last := len(q) - 1; q[last] == anyToken {
				q[last] = anyTail
			}
			allow = append(allow, q)
		}
	}
	if len(p.Allow) == 0 {
		allow = []pattern{everything}
	}
	for _, s := range templateless(p.Deny) {
		if words := strings.Fields(s); len(words) == 1 && words[0] == s {
			deny = append(deny, parsePatterns(words)...)
		}
	}
	return allowed(allow, deny)
}

func allowed(allow, deny []pattern) []region {
	var list []region
	for _, p := range allow {
		if r := (region{pattern: p}).without(deny); !r.empty() {
			list = append(list, r)
		}
	}
	return list
}

// untemplated returns everything that a template may become: the maker of a
// user chooses its name and tags, dots and wildcards included.
func untemplated(list []string) []string {
	var plain []string
	for _, s := range list {
		if before, _, ok := strings.Cut(s, "{{"); ok {
			s = before[:strings.LastIndexByte(before, '.')+1] + anyTail
		}
		plain = append(plain, s)
	}
	return plain
}

// templateless removes entries that may become anything.
func templateless(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.Contains(s, "{{") })
}

// ways adds an account's imports and mappings.
func (w *world) ways(claims *jwt.AccountClaims, exporters map[string]*jwt.AccountClaims) {
	a := w.accounts[claims.Subject]
	for _, i := range claims.Imports {
		if i == nil {
			continue
		}
		from := w.accounts[i.Account]
		if from == nil {
			from = &account{name: i.Account, key: i.Account, unknown: true}
		}
		service := i.Type == jwt.Service
		subject, near := string(i.Subject), string(i.LocalSubject)
		switch {
		case near != "":
		case i.GetTo() == "":
			near = subject
		case service: // the old form names them the other way round
			subject, near = i.GetTo(), subject
		default:
			near = strings.TrimSuffix(i.GetTo(), ".") + "." + subject
		}
		granted, trace := true, i.AllowTrace
		if exporter := exporters[i.Account]; exporter != nil {
			var traced bool
			granted, traced = grants(exporter, i, subject, claims.Subject)
			trace = trace && !service || traced && service
		}
		m, ok := imported(subject, near, !service)
		if !ok || !granted {
			continue
		}
		if service {
			a.services = append(a.services, link{to: from, by: m, service: true, trace: trace})
		} else {
			from.streams = append(from.streams, link{to: a, by: m, trace: trace})
		}
	}
	for _, source := range slices.Sorted(maps.Keys(claims.Mappings)) {
		from := loose(string(source))
		if from == nil {
			continue
		}
		for _, to := range claims.Mappings[source] {
			if m, ok := newMapping(from, string(to.Subject)); ok {
				a.mappings = append(a.mappings, m)
			}
		}
	}
}

// loose parses a pattern as the server does when it compares patterns with each
// other: a token that begins with "*" then matches any.
func loose(s string) pattern {
	p := parsePattern(s)
	for i, token := range p {
		if strings.HasPrefix(token, anyToken) {
			p[i] = anyToken
		}
	}
	return p
}

// grants reports whether an account exports what another imports, and whether
// it may be traced. Any activation token counts as valid.
func grants(exporter *jwt.AccountClaims, i *jwt.Import, subject, importer string) (granted, trace bool) {
	tokens := parsePattern(subject)
	for _, e := range exporter.Exports {
		if e == nil || e.Type != i.Type {
			continue
		}
		exported := loose(string(e.Subject))
		if !exported.covers(tokens) || e.TokenReq && e.AccountTokenPosition == 0 && i.Token == "" {
			continue
		}
		if at := e.AccountTokenPosition; at > 0 && (at > uint(len(tokens)) || tokens[at-1] != importer) {
			continue
		}
		granted, trace = true, trace || e.AllowTrace
	}
	return granted, trace
}
