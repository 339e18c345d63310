package accounts

import (
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Bundle is everything that a server and a gateway need to know of a store:
// claims to publish, and two logins. It contains no issuing key. It is
// immutable and may be shared; the zero value belongs to no mesh and accepts
// nobody.
type Bundle struct {
	// Operator is the operator's JWT: the root of trust.
	Operator string
	// Accounts are all accounts, sorted by name.
	Accounts []Account
	// Gateway logs in to CORE, only in-process. Monitor logs in to SYS, only
	// in-process, with permissions for connection events, account updates and
	// kicks. They are zero in the bundle of a cluster.
	Gateway, Monitor Login

	scopes      map[string]scopeRecord
	joiners     []string // issuer keys of invitations
	dispatchers map[bcp.AgentName]Login
	intruders   []string // accounts of others that reach into these, one a line
}

// Account is one account as a server sees it.
type Account struct {
	Name      string
	PublicKey string
	JWT       string
	// Digest covers everything in the JWT except its time of issue: it changes
	// only when the account's permissions do.
	Digest [32]byte
	// Unimported is Digest without the imports: CORE gets new ones with each account.
	Unimported [32]byte
}

// SortForUpdate puts the gateway's account behind the others, from which it imports:
// servers refuse an import from an account that they do not have yet.
func SortForUpdate(list []Account) {
	if i := slices.IndexFunc(list, func(a Account) bool { return a.Name == Core }); i >= 0 {
		core := list[i]
		copy(list[i:], list[i+1:])
		list[len(list)-1] = core
	}
}

// Login is a user for this process.
type Login struct {
	JWT    string
	Signer Signer // signs the server's nonce
}

// Account returns the account with this name.
func (b Bundle) Account(name string) (Account, bool) {
	if i := slices.IndexFunc(b.Accounts, func(a Account) bool { return a.Name == name }); i >= 0 {
		return b.Accounts[i], true
	}
	return Account{}, false
}

// Dispatcher returns the login of the dispatcher that calls a tool for a kernel, by its
// name in package subjects: only in-process, and only for the mesh of the last
// [Compile].
func (b Bundle) Dispatcher(name bcp.AgentName) (Login, bool) {
	login, ok := b.dispatchers[name]
	return login, ok
}

// ScopeOf returns the agent and role of an issuer key, the issuer_key in the
// server's connect events. The gateway's own key has none.
func (b Bundle) ScopeOf(issuerKey string) (bcp.AgentName, bcp.Role, bool) {
	s, ok := b.scopes[issuerKey]
	return s.Agent, s.Role, ok
}

// Admits reports whether users of an issuer key may come from outside of the server's
// process: agents, people and joiners, but no login of this process.
func (b Bundle) Admits(issuerKey string) bool {
	_, ok := b.scopes[issuerKey]
	return ok || slices.Contains(b.joiners, issuerKey)
}
