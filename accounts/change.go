package accounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Change is one change of a mesh's keys or credentials, for the audit of the
// mesh.
type Change = bcp.CredentialRecord

// forgotten is how long the store remembers expired users.
const forgotten = 30 * 24 * time.Hour

// change makes f change the state, at a time in whole seconds. It is not saved after
// an error of f; [errUnchanged] means only that. Other errors begin with what was done.
func (s *Store) change(what string, f func(st *state, now time.Time) error) error {
	err := s.locked(func() error {
		st, err := s.load()
		if err != nil {
			return err
		}
		now := time.Now().UTC().Truncate(time.Second)
		st.forget(now)
		if err := f(&st, now); err != nil {
			if errors.Is(err, errUnchanged) {
				return nil
			}
			return err
		}
		return s.save(st)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// changed is [Store.change] with what f makes, which is nothing after an error.
func changed[T any](s *Store, what string, f func(st *state, now time.Time) (T, error)) (T, error) {
	var none, made T
	err := s.change(what, func(st *state, now time.Time) (err error) {
		made, err = f(st, now)
		return err
	})
	if err != nil {
		return none, err
	}
	return made, nil
}

// forget revokes users whose time is over, and drops entries that are no longer needed.
func (st *state) forget(now time.Time) {
	for i := range st.Users {
		if u := &st.Users[i]; u.Revoked.IsZero() && hasEnded(u.Until, now) {
			u.Revoked = u.Until
		}
	}
	st.Users = slices.DeleteFunc(st.Users, func(u User) bool {
		return hasEnded(u.Expires, now.Add(-forgotten)) || u.Own && hasEnded(u.Expires, now.Add(-clockSlack))
	})
	st.Replaced = slices.DeleteFunc(st.Replaced, func(r scopeRecord) bool { return !now.Before(r.Until) })
}

// recordChange records a change of a user for the audit.
func (st *state) recordChange(now time.Time, act bcp.CredentialAct, u User) {
	st.Changed++
	c := Change{
		CredentialChange: bcp.CredentialChange{Number: st.Changed, Time: now.UnixNano(), Role: u.Role, Limits: u.Lines()},
		Act:              act, Agent: u.Agent, Key: u.PublicKey,
	}
	switch {
	case !u.Revoked.IsZero():
		c.Until = u.Revoked.UnixNano()
	case !u.Until.IsZero():
		c.Until = u.Until.UnixNano()
	case !u.Expires.IsZero():
		c.Until = u.Expires.UnixNano()
	}
	st.Changes = append(st.Changes, c)
}

// Pending returns the changes that are not yet in the audit, oldest first. due is
// when the next overlap ends, for which [Compile] must be called; it is zero if
// there is none.
func (s *Store) Pending(now time.Time) (changes []Change, due time.Time, err error) {
	st, err := s.load()
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the changes of the key store: %w", err)
	}
	soonest := func(t time.Time) {
		if now.Before(t) && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	for _, u := range st.Users {
		soonest(u.Until)
	}
	for _, r := range st.Replaced {
		soonest(r.Until)
	}
	return st.Changes, due, nil
}

// Stamp identifies a version of a store's record without reading it. The zero
// Stamp matches none.
type Stamp struct{ file fs.FileInfo }

// Stamp returns the stamp of the current record.
func (s *Store) Stamp() (Stamp, error) {
	file, err := os.Stat(filepath.Join(s.folder, stateFile))
	if err != nil {
		return Stamp{}, fmt.Errorf("look at the key store: %w", err)
	}
	return Stamp{file}, nil
}

// Same reports whether nothing was changed between two stamps.
func (a Stamp) Same(b Stamp) bool {
	// Each change is a new file in place of the old one.
	return a.file != nil && b.file != nil && os.SameFile(a.file, b.file) && a.file.ModTime().Equal(b.file.ModTime()) && a.file.Size() == b.file.Size()
}

// Recorded forgets the changes up to a number: the audit shows them.
func (s *Store) Recorded(number uint64) error {
	return s.change("forget the changes of the key store", func(st *state, _ time.Time) error {
		st.Changes = slices.DeleteFunc(st.Changes, func(c Change) bool { return c.Number <= number })
		return nil
	})
}
