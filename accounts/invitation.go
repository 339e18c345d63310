package accounts

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// MaxInvitation bounds how long an invitation is good.
	MaxInvitation = 7 * 24 * time.Hour
	// maxJoinRefusals is how often one invitation is refused until it is cancelled.
	maxJoinRefusals = 10
	// maxInvitations bounds the open invitations.
	maxInvitations = 1000

	tokenPrefix  = "bcpjoin1."
	joinScopeKey = "scope-join"
)

// ErrNotInvited says that an invitation does not permit to join: it is used,
// expired, cancelled or unknown, or the request does not prove its key.
var ErrNotInvited = errors.New("not invited")

// Invitation lets somebody join once: get credentials for a key of their own. It
// contains no secret: the private key is in the token, not in the store.
type Invitation struct {
	PublicKey string        `json:"public_key"` // of the token
	Agent     bcp.AgentName `json:"agent"`
	Role      bcp.Role      `json:"role"`
	Made      time.Time     `json:"made"`
	Ends      time.Time     `json:"ends"`
	// Lives is how many seconds the credentials are good; 0 is for ever.
	Lives int64 `json:"lives_seconds,omitzero"`
	Restriction
	// Bound says that the joiner must have a passkey.
	Bound bool `json:"bound,omitzero"`
	// By is the public key of who joined, and Refused how often somebody else was
	// refused.
	By        string `json:"by,omitempty"`
	Refused   int    `json:"refused,omitzero"`
	Cancelled bool   `json:"cancelled,omitzero"`
}

// Open reports whether somebody may join with it at a time.
func (i Invitation) Open(at time.Time) bool {
	return i.By == "" && !i.Cancelled && i.Refused < maxJoinRefusals && at.Before(i.Ends)
}

func (i Invitation) party() party { return party{i.Agent, i.Role} }

// Token is the joiner's secret. Only Text shows it.
type Token struct {
	redacted
	Invitation
	text secret
}

// Text returns the token: one word of letters, digits, dots, hyphens and
// underscores.
func (t Token) Text() string {
	if t.text == nil {
		return ""
	}
	return string(t.text())
}

// Invite makes a token with which somebody can join once within a time, as an
// agent or a person in a role, with credentials of a given lifetime. role may be
// zero if the agent has exactly one; lives zero is for ever. Who is bound, an
// approver, decides only with a passkey.
func (s *Store) Invite(agent bcp.AgentName, role bcp.Role, within, lives time.Duration, r Restriction, bound bool) (Token, error) {
	return changed(s, "invite", func(st *state, now time.Time) (token Token, err error) {
		if within < time.Second || within > MaxInvitation {
			return token, fmt.Errorf("it is good for a second to %s", MaxInvitation)
		}
		if err := checkExpires(lives); err != nil {
			return token, err
		}
		if r, err = r.Checked(); err != nil {
			return token, err
		}
		scope, err := find(st.Scopes, agent, role)
		if err != nil {
			return token, err
		}
		st.Invitations = slices.DeleteFunc(st.Invitations, func(i Invitation) bool { return !now.Before(i.Ends) })
		if len(st.Invitations) >= maxInvitations {
			return token, fmt.Errorf("there are %d invitations already", maxInvitations)
		}
		i := Invitation{Agent: scope.Agent, Role: scope.Role, Made: now, Ends: now.Add(within).Truncate(time.Second), Lives: int64(lives / time.Second), Restriction: r, Bound: bound}
		if i.Bound && i.Role != bcp.RoleApprover {
			return token, errPasskey
		}
		if token, err = s.invite(i); err != nil {
			return token, err
		}
		st.Invitations = append(st.Invitations, token.Invitation)
		st.recordChange(now, bcp.CredentialInvited, User{PublicKey: token.PublicKey, Agent: i.Agent, Role: i.Role, Expires: i.Ends, Restriction: r})
		return token, nil
	})
}

func (s *Store) invite(i Invitation) (Token, error) {
	signer, seed, err := newKey(nkeys.CreateUser)
	if err != nil {
		return Token{}, err
	}
	i.PublicKey = signer.PublicKey()
	token, err := s.tokenUnder(&User{PublicKey: i.PublicKey, Expires: i.Ends}, subjects.Joiner, Joiners, joinScopeKey)
	if err != nil {
		return Token{}, err
	}
	return Token{Invitation: i, text: newSecret([]byte(tokenPrefix + string(seed) + "." + token))}, nil
}

// Join gives credentials to a key made by the holder of an invitation, once: the first
// key that proves itself gets them, and the same key gets them again as long as the
// invitation lasts, in case the reply was lost. invitation is the public key that the
// server has checked; key, the new public key; proof, the signature of
// [bcp.JoinStatement] by it. passkey is for the decisions of an approver, zero for none.
// Every problem is [ErrNotInvited].
func (s *Store) Join(invitation, key string, passkey bcp.Digest, proof []byte) (User, string, error) {
	var joined User
	var token string
	refused := false
	err := s.change("join", func(st *state, now time.Time) (err error) {
		at := slices.IndexFunc(st.Invitations, func(i Invitation) bool { return i.PublicKey == invitation })
		if at < 0 {
			return ErrNotInvited
		}
		i := &st.Invitations[at]
		known := i.By != "" && i.By == key && !i.Cancelled && now.Before(i.Ends)
		if !known && !i.Open(now) || !Verify(key, bcp.JoinStatement(invitation, key, passkey), proof) || i.Bound && passkey.IsZero() || checkPasskey(i.Role, passkey) != nil || !known && st.user(key) != nil {
			refused = true
			if i.Refused >= maxJoinRefusals { // more are one with the last
				return errUnchanged
			}
			i.Refused++
			st.recordChange(now, bcp.CredentialRefused, User{PublicKey: invitation, Agent: i.Agent, Role: i.Role})
			return nil
		}
		if known {
			u := st.user(key)
			if u == nil || !u.Valid(now) || u.Passkey != passkey {
				return ErrNotInvited
			}
			joined = *u
			if token, err = s.token(st, &joined); err != nil {
				return err
			}
			return errUnchanged
		}
		if _, err := find(st.Scopes, i.Agent, i.Role); err != nil {
			return fmt.Errorf("%w: %w", ErrNotInvited, err)
		}
		u := User{PublicKey: key, Agent: i.Agent, Role: i.Role, Restriction: i.Restriction, Passkey: passkey}
		signed, err := s.sign(st, &u, now, time.Duration(i.Lives)*time.Second)
		if err != nil {
			return err
		}
		i.By, joined, token = key, u, signed
		st.recordChange(now, bcp.CredentialJoined, u)
		return nil
	})
	if err == nil && refused {
		err = fmt.Errorf("join: %w", ErrNotInvited)
	}
	if err != nil {
		return User{}, "", err
	}
	return joined, token, nil
}

// Invitations returns the open ones.
func (s *Store) Invitations(now time.Time) ([]Invitation, error) {
	st, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return slices.DeleteFunc(st.Invitations, func(i Invitation) bool { return !i.Open(now) }), nil
}

// cancel ends the open invitations that which selects, and reports whether there
// were any.
func (st *state) cancel(now time.Time, which func(Invitation) bool) (found bool) {
	for at := range st.Invitations {
		i := &st.Invitations[at]
		if i.Open(now) && which(*i) {
			i.Cancelled, found = true, true
			st.recordChange(now, bcp.CredentialRevoked, User{PublicKey: i.PublicKey, Agent: i.Agent, Role: i.Role, Revoked: now})
		}
	}
	return found
}

// maxJoinRequest bounds a request to join, in bytes.
const maxJoinRequest = 1 << 10
