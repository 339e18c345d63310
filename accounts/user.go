package accounts

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// User is the record of an issued user. It contains no secret.
type User struct {
	PublicKey string        `json:"public_key"`
	Agent     bcp.AgentName `json:"agent"`
	Role      bcp.Role      `json:"role"`
	Issued    time.Time     `json:"issued"`
	Expires   time.Time     `json:"expires,omitzero"` // zero: never
	// Until is when it will be revoked, since the key that signed it was replaced. Zero: never.
	Until time.Time `json:"until,omitzero"`
	// Revoked is when it was. Whatever a clock says later, it stays so. Zero: not.
	Revoked time.Time `json:"revoked,omitzero"`
	Restriction
	// Passkey identifies the passkey of an approver's decisions: see
	// [PasskeyHash]. The user's own key then signs no decision. Zero: none.
	Passkey bcp.Digest `json:"passkey,omitzero"`
	// Issuer is the public key that signed it.
	Issuer string `json:"issuer_key,omitempty"`
	// Own says that a command, or the mesh, made it for its own use.
	Own bool `json:"own,omitzero"`
	// Invitation says, in a list, that it is the key of an invitation.
	Invitation bool `json:"-"`
}

// Valid reports whether servers let the user in at a time.
func (u User) Valid(at time.Time) bool {
	return u.Revoked.IsZero() && !hasEnded(u.Until, at) && !hasEnded(u.Expires, at)
}

// Status is the word for the user's state at a time: valid, expired, revoked, replaced (it
// will be revoked) or invited.
func (u User) Status(at time.Time) string {
	switch {
	case !u.Revoked.IsZero(), hasEnded(u.Until, at):
		return "revoked"
	case hasEnded(u.Expires, at):
		return "expired"
	case !u.Until.IsZero():
		return "replaced"
	case u.Invitation:
		return "invited"
	}
	return "valid"
}

// hasEnded reports whether a moment has passed; the zero moment never does.
func hasEnded(end, at time.Time) bool { return !end.IsZero() && !at.Before(end) }

func (u User) party() party { return party{u.Agent, u.Role} }

var errPasskey = errors.New("only an approver decides, and so has a passkey")

// Lines returns the user's limits, as the audit shows them.
func (u User) Lines() []string {
	lines := u.Restriction.Lines()
	if !u.Passkey.IsZero() {
		lines = append(lines, "passkey "+hex.EncodeToString(u.Passkey[:]))
	}
	return lines
}

// Creds are the credentials of one agent in one role. Only Text and WriteFile
// show the private key inside; printing a Creds shows nothing.
type Creds struct {
	redacted
	User
	text secret
}

// ReadCreds reads a creds file that only its owner can open. Who it is for is not read.
func ReadCreds(path string) (Creds, error) {
	content, err := readFile(path)
	if err == nil {
		_, err = jwt.ParseDecoratedUserNKey(content)
	}
	if err != nil {
		return Creds{}, fmt.Errorf("read creds: %w", err)
	}
	return Creds{text: newSecret(content)}, nil
}

// Text returns the creds file for standard clients.
func (c Creds) Text() []byte {
	if c.text == nil {
		return nil
	}
	return c.text()
}

// WriteFile writes a creds file that only its owner can read (mode 0600). It
// refuses to replace a file, and leaves no file when it fails.
func (c Creds) WriteFile(path string) error {
	return c.write(path, func(path string, content []byte) error { return disk.Create(path, content, fileMode) })
}

// ReplaceFile writes the creds file over an existing one, atomically.
func (c Creds) ReplaceFile(path string) error { return c.write(path, replaceFile) }

func (c Creds) write(path string, write func(path string, content []byte) error) error {
	if c.text == nil {
		return errNoKey
	}
	if err := write(path, c.text()); err != nil {
		return fmt.Errorf("write creds: %w", err)
	}
	return nil
}

// IssueOption changes what [Store.Issue] makes.
type IssueOption func(*User) error

// Restricted limits where and how the user may connect. If no other user of the
// agent has the same restriction, the server refuses the user until the next
// [Compile] that reaches it.
func Restricted(r Restriction) IssueOption {
	return func(u *User) (err error) {
		u.Restriction, err = r.Checked()
		return err
	}
}

// ForItself says that the issuer itself uses the user for a while: the audit
// shows its connections but not its issue, and it is forgotten when it has
// expired.
func ForItself(u *User) error {
	u.Own = true
	return nil
}

// BoundTo makes the user, who must be an approver, decide only with a passkey.
func BoundTo(passkey bcp.Digest) IssueOption {
	return func(u *User) error {
		u.Passkey = passkey
		return checkPasskey(u.Role, passkey)
	}
}

func checkPasskey(role bcp.Role, passkey bcp.Digest) error {
	if role != bcp.RoleApprover && !passkey.IsZero() {
		return errPasskey
	}
	return nil
}

// Issue makes a new user for an agent, or a person, in a role. role may be zero
// if the agent has exactly one. Servers refuse the user once expires has
// passed; zero means never. The user has no permissions of its own: they are in
// the account's JWT under the agent's scope, as written by the last [Compile].
// If the last Compile did not have the agent or role, the error wraps
// [ErrUnknown] and lists those that exist.
func (s *Store) Issue(agent bcp.AgentName, role bcp.Role, expires time.Duration, options ...IssueOption) (Creds, error) {
	return changed(s, "issue creds", func(st *state, now time.Time) (Creds, error) {
		scope, err := find(st.Scopes, agent, role)
		if err != nil {
			return Creds{}, err
		}
		return s.issueTo(st, scope, now, expires, options)
	})
}

// IssueTo is [Store.Issue] for several agents or people, in one change of the record: thousands one by one take minutes. It
// makes a user in one role or, if role is zero, in each that they have. If one is unknown, the error is [ErrUnknown] and none
// are made.
func (s *Store) IssueTo(agents []bcp.AgentName, role bcp.Role, expires time.Duration, options ...IssueOption) ([]Creds, error) {
	return changed(s, "issue creds", func(st *state, now time.Time) (all []Creds, err error) {
		of := map[bcp.AgentName][]scopeRecord{}
		for _, scope := range st.Scopes {
			if role == 0 || scope.Role == role {
				of[scope.Agent] = append(of[scope.Agent], scope)
			}
		}
		for _, agent := range agents {
			if len(of[agent]) == 0 {
				_, err := find(st.Scopes, agent, role)
				return nil, fmt.Errorf("%s: %w", agent, err)
			}
			for _, scope := range of[agent] {
				creds, err := s.issueTo(st, scope, now, expires, options)
				if err != nil {
					return nil, err
				}
				all = append(all, creds)
			}
		}
		return all, nil
	})
}

// issueTo makes a user of the agent of a scope.
func (s *Store) issueTo(st *state, scope scopeRecord, now time.Time, expires time.Duration, options []IssueOption) (Creds, error) {
	if err := checkExpires(expires); err != nil {
		return Creds{}, err
	}
	u := User{Agent: scope.Agent, Role: scope.Role}
	for _, option := range options {
		if err := option(&u); err != nil {
			return Creds{}, err
		}
	}
	signer, seed, err := newKey(nkeys.CreateUser)
	if err != nil {
		return Creds{}, err
	}
	u.PublicKey = signer.PublicKey()
	token, err := s.sign(st, &u, now, expires)
	if err != nil {
		return Creds{}, err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err == nil && !u.Own {
		st.recordChange(now, bcp.CredentialIssued, u)
	}
	return Creds{User: u, text: newSecret(text)}, err
}

func checkExpires(d time.Duration) error {
	if d < 0 || d > 0 && d < time.Second {
		return errors.New("expires is zero or at least a second")
	}
	return nil
}

// sign makes the JWT of a public key for u's agent, and keeps the record.
func (s *Store) sign(st *state, u *User, now time.Time, expires time.Duration) (string, error) {
	u.Issued, u.Expires = now, time.Time{}
	if expires > 0 {
		u.Expires = now.Add(expires).Truncate(time.Second)
	}
	token, err := s.token(st, u)
	if err != nil {
		return "", err
	}
	st.Users = append(st.Users, *u)
	return token, nil
}

// token makes the JWT of a user of an agent, and notes what signed it.
func (s *Store) token(st *state, u *User) (string, error) {
	return s.tokenUnder(u, userName(u.party()), st.homeFor(u.party(), 0), scopeKey(u.party(), u.Restriction))
}

// tokenUnder makes the JWT of a user of an account, under the scope with a key. Missing keys are made.
func (s *Store) tokenUnder(u *User, name, account, scope string) (string, error) {
	signer, err := s.accountSigner(scope)
	if err != nil {
		return "", err
	}
	of, err := s.accountSigner(accountKey(account))
	if err != nil {
		return "", err
	}
	u.Issuer = signer.PublicKey()
	return userJWT(*u, name, of.PublicKey(), signer)
}

func userName(who party) string { return subjects.UserName(who.agent, who.role) }

// userJWT makes a user without permissions of its own, under signer's scope.
func userJWT(u User, name, account string, signer Signer) (string, error) {
	claims := jwt.NewUserClaims(u.PublicKey)
	claims.Name = name
	claims.IssuerAccount = account
	claims.SetScoped(true)
	if !u.Expires.IsZero() {
		claims.Expires = u.Expires.Unix()
	}
	if !u.Passkey.IsZero() {
		claims.Tags.Add(bcp.PasskeyTag + hex.EncodeToString(u.Passkey[:]))
	}
	pair, err := signer.pair()
	if err != nil {
		return "", err
	}
	return claims.EncodeWithSigner(pair, signer.signFor)
}

// Users returns the record of all users issued, oldest first.
func (s *Store) Users() ([]User, error) {
	st, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("list creds: %w", err)
	}
	return st.Users, nil
}

// find returns the one scope of agent in role, or an error with all there are.
func find(scopes []scopeRecord, agent bcp.AgentName, role bcp.Role) (scopeRecord, error) {
	var found []scopeRecord
	var all, roles []string
	for _, s := range scopes {
		all = append(all, string(s.Agent)+" ("+s.Role.String()+")")
		if s.Agent != agent {
			continue
		}
		roles = append(roles, s.Role.String())
		if role == 0 || s.Role == role {
			found = append(found, s)
		}
	}
	if len(found) > 1 { // a keeper must be named
		found = slices.DeleteFunc(found, func(s scopeRecord) bool { return s.Role == bcp.RoleKeeper })
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return scopeRecord{}, fmt.Errorf("%w: %s has several roles, name one: %s", ErrUnknown, agent, strings.Join(roles, ", "))
	case len(roles) > 0:
		return scopeRecord{}, fmt.Errorf("%w: %s is not a %s; it has: %s", ErrUnknown, agent, role, strings.Join(roles, ", "))
	case len(all) == 0:
		return scopeRecord{}, fmt.Errorf("%w: it has no agents at all", ErrUnknown)
	}
	return scopeRecord{}, fmt.Errorf("%w: it has %s", ErrUnknown, strings.Join(all, ", "))
}
