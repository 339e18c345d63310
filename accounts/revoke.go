package accounts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// ErrNoUser says that no such credentials were issued, or that several match.
var ErrNoUser = errors.New("no such credentials")

// Revoke revokes users for ever, from now on, or cancels invitations. Servers refuse them
// from the next [Compile] that reaches them, and close their connections. Revoking twice
// changes nothing. Several are revoked in one change.
func (s *Store) Revoke(publicKeys ...string) error {
	return s.change("revoke creds", func(st *state, now time.Time) error {
		for _, key := range publicKeys {
			if err := st.revokeKey(key, now); err != nil {
				return err
			}
		}
		return nil
	})
}

func (st *state) revokeKey(publicKey string, now time.Time) error {
	if st.cancel(now, func(i Invitation) bool { return i.PublicKey == publicKey }) {
		return nil
	}
	u := st.user(publicKey)
	if u == nil {
		return fmt.Errorf("%w: none with this public key were issued", ErrNoUser)
	}
	st.revoke(u, now)
	return nil
}

// RevokeAll revokes all users of an agent from now on, in one role or, if role
// is zero, in each, including those of commands. Its signing keys are replaced:
// users that they signed elsewhere are refused as well. It returns the public
// keys of those that were valid until now.
func (s *Store) RevokeAll(agent bcp.AgentName, role bcp.Role) ([]User, error) {
	return changed(s, "revoke creds", func(st *state, now time.Time) (revoked []User, err error) {
		parties, err := st.agentParties(agent, role)
		if err != nil {
			return nil, err
		}
		for _, who := range parties {
			for i := range st.Users {
				if u := &st.Users[i]; u.party() == who && st.revoke(u, now) {
					revoked = append(revoked, *u)
				}
			}
			st.cancel(now, func(i Invitation) bool { return i.party() == who })
			if err := s.replaceScope(st, who, now, now); err != nil {
				return nil, err
			}
			st.recordChange(now, bcp.CredentialScope, User{Agent: who.agent, Role: who.role, Revoked: now})
		}
		return revoked, nil
	})
}

// findRestriction returns the restriction of the users that a key signed.
func (st *state) findRestriction(issuer string) Restriction {
	if i := slices.IndexFunc(st.Users, func(u User) bool { return u.Issuer == issuer }); i >= 0 {
		return st.Users[i].Restriction
	}
	return Restriction{}
}

// revoke reports whether the user was valid until now.
func (st *state) revoke(u *User, now time.Time) bool {
	if !u.Revoked.IsZero() {
		return false
	}
	valid := u.Valid(now)
	u.Revoked = now
	st.recordChange(now, bcp.CredentialRevoked, *u)
	return valid
}

// user returns the user with a public key, or nil.
func (st *state) user(publicKey string) *User {
	i := slices.IndexFunc(st.Users, func(u User) bool { return u.PublicKey == publicKey })
	if i < 0 {
		return nil
	}
	return &st.Users[i]
}

// agentParties returns the parties that an agent is, or was when users of it
// were issued: a removed agent may come back, and its users with it.
func (st *state) agentParties(agent bcp.AgentName, role bcp.Role) ([]party, error) {
	var parties []party
	for _, h := range st.Homes {
		if h.Agent == agent && (role == 0 || h.Role == role) {
			parties = append(parties, party{h.Agent, h.Role})
		}
	}
	if len(parties) > 0 {
		return parties, nil
	}
	_, err := find(st.Scopes, agent, role)
	return nil, errors.Join(ErrUnknown, err)
}
