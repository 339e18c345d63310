package accounts

import (
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Bundle is everything that a server and a gateway need to know of a store:
// claims to publish, and two logins. It holds no issuing key. It is immutable
// and may be shared; the zero value is of no mesh and lets nobody in.
type Bundle struct {
	// Operator is the operator's JWT: the root of trust.
	Operator string
	// Accounts are all accounts, sorted by name.
	Accounts []Account
	// Gateway logs in to CORE, in-process only. Monitor logs in to SYS,
	// in-process only, with what connection events, account updates and kicks
	// need. They are zero in the bundle of a cluster.
	Gateway, Monitor Login

	scopes      map[string]scopeRecord
	dispatchers map[bcp.AgentName]Login
	intruders   []string // accounts of others that reach into these; a line each
}

// Account is one account as a server sees it.
type Account struct {
	Name      string
	PublicKey string
	JWT       string
	// Digest is over all that the JWT says but its time of issue: it is the
	// same for as long as the account's permissions are.
	Digest [32]byte
}

// Login is a user that this process may be.
type Login struct {
	JWT    string
	Signer Signer // signs the server's nonce
}

// Account returns the account with this name.
func (b Bundle) Account(name string) (Account, bool) {
	for _, a := range b.Accounts {
		if a.Name == name {
			return a, true
		}
	}
	return Account{}, false
}

// Dispatcher returns the login of what calls a tool for a kernel, by its name in package
// subjects: in-process only, and only of the mesh that the last [Compile] was of.
func (b Bundle) Dispatcher(name bcp.AgentName) (Login, bool) {
	login, ok := b.dispatchers[name]
	return login, ok
}

// ScopeOf returns the agent and the role that an issuer key belongs to: the
// issuer_key of the server's connect events. The gateway's own key belongs to
// none.
func (b Bundle) ScopeOf(issuerKey string) (bcp.AgentName, bcp.Role, bool) {
	s, ok := b.scopes[issuerKey]
	return s.Agent, s.Role, ok
}

// OnShard reports whether the agent that an issuer key belongs to is on a shard. People
// are on all.
func (b Bundle) OnShard(issuerKey string, shard int) bool {
	s, ok := b.scopes[issuerKey]
	return ok && (roleAccount(s.Role) == Operators || s.shard == shard)
}
