package accounts

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// User is the record of one user that was issued. It holds no secret.
type User struct {
	PublicKey string        `json:"public_key"`
	Agent     bcp.AgentName `json:"agent"`
	Role      bcp.Role      `json:"role"`
	Issued    time.Time     `json:"issued"`
	Expires   time.Time     `json:"expires,omitzero"` // zero: never
	Revoked   time.Time     `json:"revoked,omitzero"` // zero: not
}

// Creds is what one agent connects with in one role. Only Text and WriteFile
// show the private key inside; everything that prints a Creds shows nothing.
type Creds struct {
	redacted
	User
	text secret
}

// Text returns the creds file that stock clients take.
func (c Creds) Text() []byte {
	if c.text == nil {
		return nil
	}
	return c.text()
}

// WriteFile writes the creds file for its owner alone (mode 0600). It refuses
// to replace a file, and leaves none behind when it fails.
func (c Creds) WriteFile(path string) error {
	if c.text == nil {
		return errNoKey
	}
	if err := createFile(path, c.text()); err != nil {
		return fmt.Errorf("write creds: %w", err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write creds: %w", err)
	}
	return nil
}

// Issue makes a fresh user of an agent, or a person, in a role. Role may be
// zero where the agent has exactly one. The user is refused by servers once
// expires has passed; zero means never. It holds no permissions of its own:
// they stand in the account's JWT under the agent's scope, as the last
// [Compile] wrote it. An agent or a role that the last Compile did not have is
// refused with [ErrUnknown], and the error lists what there is.
func (s *Store) Issue(agent bcp.AgentName, role bcp.Role, expires time.Duration) (Creds, error) {
	if expires < 0 || (expires > 0 && expires < time.Second) {
		return Creds{}, errors.New("issue creds: expires is zero or at least a second")
	}
	var creds Creds
	err := s.locked(func() error {
		st, err := s.load()
		if err != nil {
			return err
		}
		scope, err := find(st.Scopes, agent, role)
		if err != nil {
			return err
		}
		creds, err = s.issue(scope, expires)
		if err != nil {
			return err
		}
		st.Users = append(st.Users, creds.User)
		return s.save(st)
	})
	if err != nil {
		return Creds{}, fmt.Errorf("issue creds: %w", err)
	}
	return creds, nil
}

func (s *Store) issue(scope scopeRecord, expires time.Duration) (Creds, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Creds{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Creds{}, err
	}
	user, err := newSigner(pair)
	if err != nil {
		return Creds{}, err
	}
	signer, err := s.key(scopeKey(scope.Role, scope.Agent))
	if err != nil {
		return Creds{}, err
	}
	account, err := s.key(accountKey(accountOf(scope.Role)))
	if err != nil {
		return Creds{}, err
	}
	issued := time.Now().UTC().Truncate(time.Second)
	record := User{PublicKey: user.PublicKey(), Agent: scope.Agent, Role: scope.Role, Issued: issued}
	if expires > 0 {
		record.Expires = issued.Add(expires).Truncate(time.Second)
	}
	token, err := userJWT(record, userName(scope.Role, scope.Agent), account.PublicKey(), signer)
	if err != nil {
		return Creds{}, err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return Creds{}, err
	}
	return Creds{User: record, text: newSecret(text)}, nil
}

func userName(r bcp.Role, a bcp.AgentName) string { return r.String() + "-" + string(a) }

// userJWT makes a user without permissions of its own, under signer's scope.
func userJWT(u User, name, account string, signer Signer) (string, error) {
	claims := jwt.NewUserClaims(u.PublicKey)
	claims.Name = name
	claims.IssuerAccount = account
	claims.SetScoped(true)
	if !u.Expires.IsZero() {
		claims.Expires = u.Expires.Unix()
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

// Revoke marks a user as revoked at now. Servers refuse it from the next
// [Compile] that reaches them, and close its connections. Revoking it twice
// changes nothing.
func (s *Store) Revoke(publicKey string, now time.Time) error {
	err := s.locked(func() error {
		st, err := s.load()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(st.Users, func(u User) bool { return u.PublicKey == publicKey })
		if i < 0 {
			return errors.New("no creds with this public key were issued")
		}
		if st.Users[i].Revoked.IsZero() {
			st.Users[i].Revoked = now.UTC().Truncate(time.Second)
		}
		return s.save(st)
	})
	if err != nil {
		return fmt.Errorf("revoke creds: %w", err)
	}
	return nil
}

// ScopeOf returns the agent and the role that an issuer key of the last
// [Compile] belongs to: the issuer_key of the server's connect events.
func (s *Store) ScopeOf(issuerKey string) (bcp.AgentName, bcp.Role, bool) {
	st, err := s.load()
	if err != nil {
		return "", 0, false
	}
	for _, scope := range st.Scopes {
		if scope.Key == issuerKey {
			return scope.Agent, scope.Role, true
		}
	}
	return "", 0, false
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
