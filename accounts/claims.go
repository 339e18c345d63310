package accounts

import (
	"maps"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// everything is the pattern for refusing everything: NATS takes an empty list
// of permissions as permission for everything.
const everything = ">"

// newAccount makes an account without users, whose users, if any ever came
// without permissions, could do nothing. It has no leaf nodes, since answers do
// not pass them, and no bearer tokens.
func newAccount(name, key string) *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(key)
	claims.Name = name
	claims.Limits.LeafNodeConn = 0
	claims.Limits.DisallowBearer = true
	claims.Revocations = jwt.RevocationList{}
	claims.DefaultPermissions.Pub.Deny.Add(everything)
	claims.DefaultPermissions.Sub.Deny.Add(everything)
	if kind, _ := kindOf(name); kind == Core {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
			Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	}
	return claims
}

// draft makes accounts, by name and public key, with their imports and exports
// but without users.
func draft(keys map[string]string) map[string]*jwt.AccountClaims {
	claims := map[string]*jwt.AccountClaims{}
	for name, key := range keys {
		claims[name] = newAccount(name, key)
	}
	addExports(claims)
	return claims
}

// addExports adds the ways that package subjects lists, between the gateway's account
// and the accounts of the roles, always in the same order.
func addExports(claims map[string]*jwt.AccountClaims) {
	names := slices.Sorted(maps.Keys(claims))
	for _, from := range names {
		of, _ := kindOf(from)
		for _, e := range subjects.Exports() {
			if of != Core && !e.Dispatched || of != Dispatchers && e.Dispatched {
				continue
			}
			if e.Way != subjects.ToGateway {
				export(claims[from], e) // also to accounts that come later
			}
			for _, to := range names {
				kind, _ := kindOf(to)
				if slices.ContainsFunc(e.Roles, func(r bcp.Role) bool { return roleAccounts[r] == kind }) {
					join(claims[from], claims[to], e)
				}
			}
		}
	}
	for _, e := range subjects.JoinExports() {
		join(claims[Core], claims[Joiners], e)
	}
}

// join adds a way between the gateway's account, or that of dispatchers, and one of agents.
func join(gateway, agents *jwt.AccountClaims, e subjects.Export) {
	from, to := gateway, agents
	if e.Way == subjects.ToGateway {
		from, to = agents, gateway
	}
	export(from, e)
	i := &jwt.Import{Name: e.Local, Account: from.Subject, Subject: jwt.Subject(e.Subject), Type: exportType(e), Share: e.Identify}
	if e.Local != e.Subject {
		i.LocalSubject = jwt.RenamingSubject(e.Local)
	}
	to.Imports.Add(i)
}

func exportType(e subjects.Export) jwt.ExportType {
	if e.Way == subjects.Service {
		return jwt.Service
	}
	return jwt.Stream
}

// export adds an export to an account once.
func export(account *jwt.AccountClaims, e subjects.Export) {
	if slices.ContainsFunc(account.Exports, func(old *jwt.Export) bool { return string(old.Subject) == e.Subject }) {
		return
	}
	out := &jwt.Export{Name: e.Subject, Subject: jwt.Subject(e.Subject), Type: exportType(e)}
	if e.ManyReplies {
		out.ResponseType = jwt.ResponseTypeStream
	} else if e.Way == subjects.Service {
		out.ResponseType = jwt.ResponseTypeSingleton
	}
	if e.Identify {
		out.ResponseThreshold = unanswered
	}
	account.Exports.Add(out)
}

// unanswered is how long the server keeps a reply subject that nobody answers on.
const unanswered = time.Second

// agentScope writes a scope down as claims, for one of its keys. A dispatcher connects to a
// mesh's own server inside of the process, and to a cluster as everybody does.
func agentScope(s subjects.Scope, record scopeRecord, cluster bool) *jwt.UserScope {
	scope := newScope(record.Key, userName(record.party()), s.PubAllow, s.SubAllow)
	record.Restriction.write(&scope.Template)
	scope.Template.Subs = int64(s.MaxSubscriptions)
	if s.MaxPayload > 0 {
		scope.Template.Payload = int64(s.MaxPayload)
	}
	if s.Role == bcp.RoleDispatcher && !cluster {
		scope.Template.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeInProcess}
	}
	if s.Respond {
		// RespondFor is not zero, which would mean two minutes.
		scope.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: s.RespondFor}
	}
	return scope
}

// gatewayScope grants what the gateway needs in its own account, with only one
// type of connection.
func gatewayScope(key, connection string) *jwt.UserScope {
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = key, gatewayKey
	scope.Template.Pub.Deny.Add(subjects.GatewayRefusals()...)
	scope.Template.AllowedConnectionTypes.Add(connection)
	return scope
}

func embeddedGatewayScope(key string) *jwt.UserScope {
	return gatewayScope(key, jwt.ConnectionTypeInProcess)
}

func embeddedMonitorScope(key string) *jwt.UserScope {
	publish, subscribe := subjects.MonitorPermissions()
	scope := newScope(key, monitorKey, publish, subscribe)
	scope.Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	return scope
}

// joinScope is the scope of all invitations: to ask, each on its own subject.
func joinScope(key string) *jwt.UserScope {
	publish, subscribe := subjects.JoinPermissions()
	scope := newScope(key, subjects.Joiner, publish, subscribe)
	scope.Template.Subs, scope.Template.Payload = 2, maxJoinRequest
	Restriction{}.write(&scope.Template)
	return scope
}

// newScope allows the two lists. For an empty list it denies everything; it
// never sets allow and deny together, since deny would win.
func newScope(key, role string, publish, subscribe []string) *jwt.UserScope {
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = key, role
	grant(&scope.Template.Pub, publish)
	grant(&scope.Template.Sub, subscribe)
	return scope
}

func grant(p *jwt.Permission, list []string) {
	if len(list) == 0 {
		p.Deny.Add(everything)
		return
	}
	p.Allow.Add(list...)
}
