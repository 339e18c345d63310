package accounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// In a cluster, gateways connect from outside, with two logins each, and so does the
// program that pushes claims. A mesh with its own server has these inside its
// process. Their scopes have their own signing keys, which are only in the claims of
// a cluster, so these logins are not valid anywhere else.

// Names of key files, and of scopes and users, of logins from outside.
const (
	pushKey            = "push"
	remoteGatewayScope = "scope-remote-gateway"
	remoteMonitorScope = "scope-remote-monitor"
	pushScopeKey       = "scope-push"
)

// Remote is the record of one login from outside. It holds no secret.
type Remote struct {
	// Gateway is the owner, or a guest; empty for the program that pushes claims.
	Gateway   bcp.AgentName `json:"gateway,omitempty"`
	Account   string        `json:"account"` // [Core], [System], or a dispatcher's
	PublicKey string        `json:"public_key"`
	Made      time.Time     `json:"made"`
	Revoked   time.Time     `json:"revoked,omitzero"` // zero: not
}

// outside is one kind of login from outside.
type outside struct {
	account  string
	name     string // of the scope, and how those of the users begin
	scopeKey string
	template func(key string) *jwt.UserScope
}

var (
	outsideMonitor = outside{System, monitorKey, remoteMonitorScope, func(key string) *jwt.UserScope {
		publish, subscribe := subjects.RemoteMonitorPermissions()
		return standardScope(key, monitorKey, publish, subscribe)
	}}
	outsideGateway = outside{Core, gatewayKey, remoteGatewayScope, func(key string) *jwt.UserScope {
		return gatewayScope(key, jwt.ConnectionTypeStandard)
	}}
	outsidePush = outside{System, pushKey, pushScopeKey, func(key string) *jwt.UserScope {
		publish, subscribe := subjects.PushPermissions()
		return standardScope(key, pushKey, publish, subscribe)
	}}
)

func standardScope(key, role string, publish, subscribe []string) *jwt.UserScope {
	scope := newScope(key, role, publish, subscribe)
	scope.Template.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	return scope
}

// letInFromOutside adds the scopes of logins from outside to the claims of a
// cluster, and refuses the revoked ones. The caller holds the lock.
func (s *Store) letInFromOutside(st state, claims map[string]*jwt.AccountClaims) error {
	for _, o := range []outside{outsideMonitor, outsidePush, outsideGateway} {
		if _, err := s.addScope(o.scopeKey, claims[o.account], o.template); err != nil {
			return err
		}
	}
	for _, r := range st.Remotes {
		if claims[r.Account] != nil && !r.Revoked.IsZero() {
			claims[r.Account].Revocations[r.PublicKey] = forEver
		}
	}
	return nil
}

// Gateway returns the logins of a gateway of a cluster: to CORE and to SYS. They are the same each time until [Store.RevokeGateway]. The
// first call of this or of [Store.Push] marks the store as exported.
func (s *Store) Gateway(name bcp.AgentName) (core, system Creds, err error) {
	return s.remotes("creds of a gateway", name, outsideGateway, outsideMonitor)
}

// remotes returns two logins of one owner.
func (s *Store) remotes(what string, name bcp.AgentName, one, other outside) (first, second Creds, err error) {
	both, err := changed(s, what, func(st *state, now time.Time) (both [2]Creds, err error) {
		if _, err := bcp.ParseAgentName(string(name)); err != nil {
			return both, fmt.Errorf("the name: %w", err)
		}
		for i, o := range []outside{one, other} {
			if both[i], err = s.remote(st, now, o, name); err != nil {
				return both, err
			}
		}
		return both, nil
	})
	return both[0], both[1], err
}

// Dispatchers returns the logins of a gateway of a cluster for calling tools for kernels:
// one for each dispatcher of the scopes, by name. They are the same each time until
// [Store.RevokeGateway]. Call [CompileCluster] with the scopes before, and again after.
func (s *Store) Dispatchers(gateway bcp.AgentName, scopes []subjects.Scope) (map[bcp.AgentName]Creds, error) {
	return changed(s, "creds of a gateway's dispatchers", func(st *state, now time.Time) (all map[bcp.AgentName]Creds, err error) {
		all = map[bcp.AgentName]Creds{}
		for _, scope := range scopes {
			if scope.Role != bcp.RoleDispatcher || err != nil {
				continue
			}
			who := party{scope.Agent, scope.Role}
			all[scope.Agent], err = s.remote(st, now, outside{account: st.homeFor(who, 0), name: userName(who), scopeKey: scopeKey(who, Restriction{})}, gateway)
		}
		return all, err
	})
}

// Push returns the login to SYS of the program that pushes claims to a cluster.
func (s *Store) Push() (Creds, error) {
	return changed(s, "creds to push claims", func(st *state, now time.Time) (Creds, error) { return s.remote(st, now, outsidePush, "") })
}

// Guest returns the logins to SYS of another mesh on the same cluster, which has one
// system account: for its gateways, and to push its claims. They let nobody in to another
// account. [Store.RevokeGateway] revokes them.
func (s *Store) Guest(mesh bcp.AgentName) (system, push Creds, err error) {
	return s.remotes("creds of a guest", mesh, outsideMonitor, outsidePush)
}

// remote makes a login from outside, or returns the existing one.
func (s *Store) remote(st *state, now time.Time, o outside, name bcp.AgentName) (Creds, error) {
	user := strings.TrimSuffix(o.name+"."+string(name), ".") // no name of an agent has a dot
	signer, err := s.key(user)
	if err == nil && st.refused(signer.PublicKey()) {
		if err = os.Remove(filepath.Join(s.folder, user+keySuffix)); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		signer, err = s.makeKey(user, nkeys.CreateUser, createFile)
	}
	if err != nil {
		return Creds{}, err
	}
	seed, err := s.readSeed(user)
	if err != nil {
		return Creds{}, err
	}
	u := User{PublicKey: signer.PublicKey(), Issued: now}
	token, err := s.tokenUnder(&u, user, o.account, o.scopeKey)
	if err != nil {
		return Creds{}, err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return Creds{}, err
	}
	if !slices.ContainsFunc(st.Remotes, func(r Remote) bool { return r.PublicKey == u.PublicKey }) {
		st.Remotes = append(st.Remotes, Remote{Gateway: name, Account: o.account, PublicKey: u.PublicKey, Made: now})
		st.noteRemote(now, bcp.CredentialIssued, st.Remotes[len(st.Remotes)-1])
	}
	return Creds{User: u, text: newSecret(text)}, nil
}

// refused reports whether a login from outside was revoked.
func (st *state) refused(key string) bool {
	return slices.ContainsFunc(st.Remotes, func(r Remote) bool { return r.PublicKey == key && !r.Revoked.IsZero() })
}

// noteRemote records a change of a login from outside for the audit.
func (st *state) noteRemote(now time.Time, act bcp.CredentialAct, r Remote) {
	u := User{Agent: bcp.Operator, PublicKey: r.PublicKey, Revoked: r.Revoked}
	limits := []string{"account " + r.Account}
	if r.Gateway != "" {
		u.Agent, limits = bcp.Gateway, append(limits, "gateway "+string(r.Gateway))
	}
	st.recordChange(now, act, u)
	st.Changes[len(st.Changes)-1].Limits = limits
}

// RevokeGateway revokes the logins of a gateway for ever, from the next push on. The
// next [Store.Gateway] makes new ones. It returns [ErrNoUser] if the gateway has
// none.
func (s *Store) RevokeGateway(name bcp.AgentName) error {
	return s.change("revoke a gateway", func(st *state, now time.Time) error {
		found := false
		for i := range st.Remotes {
			if r := &st.Remotes[i]; r.Gateway == name && name != "" && r.Revoked.IsZero() {
				r.Revoked, found = now, true
				st.noteRemote(now, bcp.CredentialRevoked, *r)
			}
		}
		if !found {
			return fmt.Errorf("%w: no gateway %s", ErrNoUser, name)
		}
		return nil
	})
}

// Remotes returns the record of all logins from outside, oldest first. Where there
// are any, the store was exported.
func (s *Store) Remotes() ([]Remote, error) {
	st, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("list the logins from outside: %w", err)
	}
	return st.Remotes, nil
}
