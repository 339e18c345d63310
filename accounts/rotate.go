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
// signing keys of each agent in each role; and these sign users. The last can be replaced.
// The identity keys of accounts sign nothing, and stay: every creds file names its account
// by them.

// ErrOverlap says that signing keys were replaced recently, and that users of their
// predecessors are still accepted: an account has room for two keys of each.
var ErrOverlap = errors.New("the signing keys were replaced already")

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

// RotateAccounts replaces the signing keys of all agents, people and invitations. What
// the old keys signed is accepted until overlap has passed, and then refused. During
// another overlap the error is [ErrOverlap], unless this one is zero. It returns the users
// that would have been good for longer.
func (s *Store) RotateAccounts(overlap time.Duration) ([]User, error) {
	return changed(s, "rotate the accounts' keys", func(st *state, now time.Time) (shortened []User, err error) {
		if err := checkExpires(overlap); err != nil {
			return nil, err
		}
		if len(st.Replaced) > 0 && overlap > 0 {
			return nil, fmt.Errorf("%w: what the ones before signed is good until %s; wait, or take no overlap", ErrOverlap, st.Replaced[0].Until.Format(time.RFC3339))
		}
		until := now.Add(overlap)
		for i := range st.Users {
			if u := &st.Users[i]; u.Valid(until) {
				u.Until = until
				shortened = append(shortened, *u)
			}
		}
		for at := range st.Invitations {
			if i := &st.Invitations[at]; i.Ends.After(until) {
				i.Ends = until
			}
		}
		st.forget(now)
		for _, h := range st.Homes {
			if err := s.replaceScope(st, party{h.Agent, h.Role}, now, until); err != nil {
				return nil, err
			}
			st.recordChange(now, bcp.CredentialScope, User{Agent: h.Agent, Role: h.Role, Until: until})
		}
		if err := s.replaceJoinKey(st, now, until); err != nil {
			return nil, err
		}
		for _, name := range append(st.accounts(), Joiners) {
			if name == Core || name == System {
				continue
			}
			account, err := s.key(accountKey(name))
			if err != nil {
				return nil, err
			}
			st.recordChange(now, bcp.CredentialAccount, User{PublicKey: account.PublicKey(), Until: until})
		}
		return shortened, nil
	})
}

// replaceJoinKey makes a new key to sign invitations.
func (s *Store) replaceJoinKey(st *state, now, until time.Time) error {
	before, err := s.accountSigner(joinScopeKey)
	if err != nil {
		return err
	}
	st.Replaced = slices.DeleteFunc(st.Replaced, func(r scopeRecord) bool { return r.party() == party{} })
	if until.After(now) {
		st.Replaced = append(st.Replaced, scopeRecord{Key: before.PublicKey(), Until: until})
	}
	_, err = s.makeKey(joinScopeKey, nkeys.CreateAccount, replaceFile)
	return err
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
