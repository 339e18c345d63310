package accounts

import (
	"slices"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// everything is the pattern that a refusal needs where there is no permission
// at all: NATS takes an empty list for leave to do anything.
const everything = ">"

// newAccount makes an account that lets in nobody, and whose users, should one
// ever come without permissions, may do nothing. There are no leaf nodes,
// since answers do not pass them, and no bearer tokens.
func newAccount(name, key string) *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(key)
	claims.Name = name
	claims.Limits.LeafNodeConn = 0
	claims.Limits.DisallowBearer = true
	claims.DefaultPermissions.Pub.Deny.Add(everything)
	claims.DefaultPermissions.Sub.Deny.Add(everything)
	if name == Core {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
			Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	}
	return claims
}

// addExports opens the ways that package subjects lists, between CORE and the
// accounts of the roles, and no others.
func addExports(claims map[string]*jwt.AccountClaims) {
	core := claims[Core]
	for _, e := range subjects.Exports() {
		kind, response := jwt.Service, jwt.ResponseType(jwt.ResponseTypeSingleton)
		switch {
		case e.Stream:
			kind, response = jwt.Stream, ""
		case e.ManyReplies:
			response = jwt.ResponseTypeStream
		}
		core.Exports.Add(&jwt.Export{Name: e.Subject, Subject: jwt.Subject(e.Subject), Type: kind, ResponseType: response})
		for _, account := range importers(e.Roles) {
			i := &jwt.Import{
				Name: e.Local, Account: core.Subject, Subject: jwt.Subject(e.Subject),
				Type: kind, Share: e.Identify,
			}
			if e.Local != e.Subject {
				i.LocalSubject = jwt.RenamingSubject(e.Local)
			}
			claims[account].Imports.Add(i)
		}
	}
}

func importers(roles []bcp.Role) []string {
	var names []string
	for _, r := range roles {
		names = append(names, accountOf(r))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// agentScope writes a scope down as claims.
func agentScope(s subjects.Scope, key string) *jwt.UserScope {
	scope := newScope(key, userName(s.Role, s.Agent), s.PubAllow, s.SubAllow)
	scope.Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket)
	scope.Template.Subs = int64(s.MaxSubscriptions)
	if s.MaxPayload > 0 {
		scope.Template.Payload = int64(s.MaxPayload)
	}
	if s.Respond {
		// RespondFor is not zero, which would mean two minutes.
		scope.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: s.RespondFor}
	}
	return scope
}

// gatewayScope lets the gateway do what it needs in its own account, in this
// process only.
func gatewayScope(key string) *jwt.UserScope {
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = key, gatewayKey
	scope.Template.Pub.Deny.Add(subjects.GatewayRefusals()...)
	scope.Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	return scope
}

func monitorScope(key string) *jwt.UserScope {
	publish, subscribe := subjects.MonitorPermissions()
	scope := newScope(key, monitorKey, publish, subscribe)
	scope.Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	return scope
}

// newScope allows the two lists. Where one is empty it refuses everything;
// never both together, which would refuse what is allowed too.
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
