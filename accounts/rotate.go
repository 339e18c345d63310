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

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What signs what: the operator's identity key signs the root of trust, which names
// the operator's signing key; that key signs the accounts' JWTs, which name the
// signing keys of each agent in each role; and these sign users. Each of these keys
// can be replaced. The identity keys of accounts sign nothing, and stay: every
// creds file names its account by them.

// ErrOverlap says that a signing key was replaced recently, and that users of its
// predecessor are still accepted: an account has room for two keys of each.
var ErrOverlap = errors.New("its signing key was replaced already")

// RotateOperator replaces the operator's signing key and, where identity is true,
// the operator itself. They sign nothing outside the mesh, so there is no
// overlap, and credentials stay valid. A server reads the operator's keys when it
// starts, and restarts with the next [Compile] that reaches it.
//
// The operator's own key must be in the store ([ErrOperatorAway]), unless identity
// is true: then the old one is not needed, and no longer valid.
func (s *Store) RotateOperator(identity bool) error {
	err := s.change(func(st *state, now time.Time) error { return s.rotateOperator(st, now, identity) })
	if err != nil {
		return fmt.Errorf("rotate the operator's key: %w", err)
	}
	return nil
}

func (s *Store) rotateOperator(st *state, now time.Time, identity bool) error {
	before, err := s.key(operatorSigningKey)
	if err != nil {
		return err
	}
	system, err := s.key(accountKey(System))
	if err != nil {
		return err
	}
	if err := s.noteOperator(st, now, before.PublicKey()); err != nil { // a store that has not recorded it yet
		return err
	}
	if identity {
		_, err = s.replaceKey(operatorKey, nkeys.CreateOperator)
	} else if _, err = s.key(operatorKey); errors.Is(err, fs.ErrNotExist) {
		err = operatorAway()
	}
	if err != nil {
		return err
	}
	// After a crash from here on the next compilation does the rest.
	signing, err := s.replaceKey(operatorSigningKey, nkeys.CreateOperator)
	if err != nil {
		return err
	}
	if _, err = s.operatorJWT(system.PublicKey(), signing.PublicKey()); err != nil {
		return err
	}
	return s.noteOperator(st, now, signing.PublicKey())
}

// noteOperator records in the audit that keys of the operator differ from before,
// whoever changed them.
func (s *Store) noteOperator(st *state, now time.Time, signing string) error {
	identity, err := s.OperatorKey()
	if err != nil {
		return err
	}
	if st.Operator != "" && st.Operator != identity {
		st.recordChange(now, bcp.CredentialIdentity, User{PublicKey: identity})
	}
	if st.OperatorSigning != "" && st.OperatorSigning != signing {
		st.recordChange(now, bcp.CredentialOperator, User{PublicKey: signing})
	}
	st.Operator, st.OperatorSigning = identity, signing
	return nil
}

// Accounts returns the names of all accounts, sorted.
func (s *Store) Accounts() ([]string, error) {
	st, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	return st.allAccounts(), nil
}

func (st *state) allAccounts() []string {
	names := append(st.accounts(), Joiners)
	slices.Sort(names)
	return names
}

// RotateAccount replaces all signing keys of an account. Users that the old keys
// signed, or open invitations of [Joiners], are accepted until overlap has passed,
// and then refused. The logins in [Core] and [System] belong to this process: they
// are replaced without an overlap, and the server restarts with the next [Compile]
// that reaches it. For an unknown account the error is [ErrUnknown], during another
// overlap [ErrOverlap]. Logins from outside ([Store.Gateway]) keep their keys.
func (s *Store) RotateAccount(name string, overlap time.Duration) error {
	if err := checkExpires(overlap); err != nil {
		return fmt.Errorf("rotate an account's keys: %w", err)
	}
	err := s.change(func(st *state, now time.Time) error {
		if names := st.allAccounts(); !slices.Contains(names, name) {
			return fmt.Errorf("%w: no account %q; it has %s", ErrUnknown, name, strings.Join(names, ", "))
		}
		return s.rotateAccount(st, name, now, now.Add(overlap))
	})
	if err != nil {
		return fmt.Errorf("rotate an account's keys: %w", err)
	}
	return nil
}

// RotateAll combines [Store.RotateOperator] and, for each account,
// [Store.RotateAccount] in one change.
func (s *Store) RotateAll(identity bool, overlap time.Duration) error {
	if err := checkExpires(overlap); err != nil {
		return fmt.Errorf("rotate all keys: %w", err)
	}
	err := s.change(func(st *state, now time.Time) error {
		for _, r := range st.Replaced { // before anything changes
			if err := st.noOverlap(r.party(), now, now.Add(overlap)); err != nil {
				return err
			}
		}
		if err := s.rotateOperator(st, now, identity); err != nil {
			return err
		}
		for _, name := range st.allAccounts() {
			if err := s.rotateAccount(st, name, now, now.Add(overlap)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rotate all keys: %w", err)
	}
	return nil
}

func (s *Store) rotateAccount(st *state, name string, now, until time.Time) error {
	account, err := s.key(accountKey(name))
	if err != nil {
		return err
	}
	switch name {
	case Core:
		until, err = now, s.replaceLogin(gatewayKey, gatewayScopeKey)
	case System:
		until, err = now, s.replaceLogin(monitorKey, monitorScopeKey)
	case Joiners:
		err = s.replaceJoinKey(st, now, until)
	default:
		var parties []party
		for _, h := range st.Homes {
			if h.Account == name {
				parties = append(parties, party{h.Agent, h.Role})
			}
		}
		err = s.rotateScopes(st, parties, now, until)
	}
	if err != nil {
		return err
	}
	st.recordChange(now, bcp.CredentialAccount, User{PublicKey: account.PublicKey(), Until: until})
	return nil
}

// noOverlap returns an error if there is already an overlap for the keys of a
// party, or, without a party, for those of invitations.
func (st *state) noOverlap(who party, now, until time.Time) error {
	for _, r := range st.Replaced {
		if r.party() == who && now.Before(r.Until) && now.Before(until) {
			name := Joiners
			if who.agent != "" {
				name = string(who.agent)
			}
			return fmt.Errorf("%w: that of %s, and the one before is good until %s; wait, or take no overlap", ErrOverlap, name, r.Until.Format(time.RFC3339))
		}
	}
	return nil
}

// replaceLogin makes a new user of this process, and a new key that signs it.
func (s *Store) replaceLogin(user, scope string) error {
	if _, err := s.replaceKey(user, nkeys.CreateUser); err != nil {
		return err
	}
	_, err := s.replaceKey(scope, nkeys.CreateAccount)
	return err
}

// replaceJoinKey sets the end of open invitations, and makes a new key to sign
// invitations.
func (s *Store) replaceJoinKey(st *state, now, until time.Time) error {
	if err := st.noOverlap(party{}, now, until); err != nil {
		return err
	}
	before, err := s.accountSigner(joinScopeKey)
	if err != nil {
		return err
	}
	st.Replaced = slices.DeleteFunc(st.Replaced, func(r scopeRecord) bool { return r.party() == party{} })
	if until.After(now) {
		st.Replaced = append(st.Replaced, scopeRecord{Key: before.PublicKey(), Until: until})
	}
	for at := range st.Invitations {
		if i := &st.Invitations[at]; i.Ends.After(until) {
			i.Ends = until
		}
	}
	_, err = s.replaceKey(joinScopeKey, nkeys.CreateAccount)
	return err
}

// RotateScope replaces the signing keys of an agent, in one role or, if role is
// zero, in each. Users that the old keys signed are accepted until overlap has
// passed, and then refused. During another overlap the error is [ErrOverlap].
func (s *Store) RotateScope(agent bcp.AgentName, role bcp.Role, overlap time.Duration) error {
	if err := checkExpires(overlap); err != nil {
		return fmt.Errorf("rotate a signing key: %w", err)
	}
	err := s.change(func(st *state, now time.Time) error {
		parties, err := st.agentParties(agent, role)
		if err != nil {
			return err
		}
		return s.rotateScopes(st, parties, now, now.Add(overlap))
	})
	if err != nil {
		return fmt.Errorf("rotate a signing key: %w", err)
	}
	return nil
}

// rotateScopes sets the end of everything that the signing keys of parties have
// signed, and makes new keys.
func (s *Store) rotateScopes(st *state, parties []party, now, until time.Time) error {
	for _, who := range parties {
		if err := st.noOverlap(who, now, until); err != nil {
			return err
		}
	}
	for i := range st.Users {
		if u := &st.Users[i]; u.Valid(until) && slices.Contains(parties, u.party()) {
			u.Until = until
		}
	}
	st.forget(now)
	for _, who := range parties {
		if err := s.replaceScope(st, who, now, until); err != nil {
			return err
		}
		st.recordChange(now, bcp.CredentialScope, User{Agent: who.agent, Role: who.role, Until: until})
	}
	return nil
}

// replaceScope makes new signing keys for a party. The old ones sign nothing any
// more; what they signed is accepted until a time. New keys are made before the
// record of them is saved: after a crash in between, users of the old ones are
// refused.
func (s *Store) replaceScope(st *state, who party, now, until time.Time) error {
	st.Replaced = slices.DeleteFunc(st.Replaced, func(r scopeRecord) bool { return r.party() == who && !until.After(now) })
	files, err := filepath.Glob(filepath.Join(s.folder, "scope-"+userName(who)+"*"+keySuffix))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), keySuffix)
		if base, _, _ := strings.Cut(name, "."); base != scopeKey(who, Restriction{}) {
			continue // an agent whose name begins with this one's
		}
		signer, err := s.key(name)
		if err != nil {
			return err
		}
		if until.After(now) {
			st.Replaced = append(st.Replaced, scopeRecord{Agent: who.agent, Role: who.role, Key: signer.PublicKey(), Restriction: st.findRestriction(signer.PublicKey()), Until: until})
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	signer, err := s.accountSigner(scopeKey(who, Restriction{}))
	if err != nil {
		return err
	}
	for i := range st.Scopes {
		if st.Scopes[i].party() == who {
			st.Scopes[i].Key = signer.PublicKey()
		}
	}
	return nil
}
