package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// ErrUpdate says that new claims did not all reach the server. Compile the
// desired definitions, and update again.
var ErrUpdate = errors.New("the server did not take the new accounts")

// UpdateAccounts gives the server the accounts with changed permissions, and
// reads each back. Only agents whose own scope changed are disconnected; they
// reconnect with the same creds. Removed agents and revoked users are
// disconnected for good.
//
// The server reads its operator's keys, and those of this process, when it starts. If
// they changed, or if the accounts are of another key store, it takes nothing.
//
// After an error some accounts may have changed: each account then has the
// permissions of either the old or the new definitions. The next update
// corrects this.
func (s *Server) UpdateAccounts(ctx context.Context, next accounts.Bundle) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	if err := sameStore(s.bundle(), next); err != nil {
		return err
	}
	changed, err := s.difference(next)
	if err != nil {
		return err
	}
	// New scopes have to be known before the first agent connects with one.
	s.mu.Lock()
	s.bundles = []accounts.Bundle{next, s.bundles[0]}
	s.mu.Unlock()
	for _, account := range changed {
		s.hold(account.Name, accounts.Account{}) // until it is known what the server has
		if err := s.updateAccount(ctx, account); err != nil {
			return fmt.Errorf("%w: account %s: %w", ErrUpdate, account.Name, err)
		}
		s.hold(account.Name, account)
	}
	return nil
}

// hold notes the server's version of an account; the zero one is unknown.
func (s *Server) hold(name string, account accounts.Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = account
}

// sameStore refuses accounts of another key store.
func sameStore(current, next accounts.Bundle) error {
	for _, account := range current.Accounts {
		if update, ok := next.Account(account.Name); !ok || update.PublicKey != account.PublicKey {
			return fmt.Errorf("%w: account %s is of another key store", ErrUpdate, account.Name)
		}
	}
	return nil
}

var errOtherKeys = fmt.Errorf("%w: keys of the operator, or of the mesh itself, were replaced: stop the mesh, and start it", ErrUpdate)

// difference returns the accounts that the server must update.
func (s *Server) difference(next accounts.Bundle) (changed []accounts.Account, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next.Operator != s.started.Operator {
		return nil, errOtherKeys
	}
	for _, account := range next.Accounts {
		before, _ := s.started.Account(account.Name)
		if (account.Name == accounts.Core || account.Name == accounts.System) && before.Unimported != account.Unimported {
			return nil, errOtherKeys
		}
		if s.held[account.Name].Digest != account.Digest {
			changed = append(changed, account)
		}
	}
	accounts.SortForUpdate(changed)
	return changed, nil
}

func (s *Server) updateAccount(ctx context.Context, account accounts.Account) error {
	reply, err := s.monitor.RequestWithContext(ctx, subjects.UpdateClaims, []byte(account.JWT))
	if err != nil {
		return err
	}
	var response natsserver.ServerAPIClaimUpdateResponse
	if err := json.Unmarshal(reply.Data, &response); err != nil {
		return fmt.Errorf("its reply: %w", err)
	}
	if response.Error != nil || response.Data == nil || response.Data.Account != account.PublicKey {
		return errors.New("it refused the claims")
	}
	kept, err := s.monitor.RequestWithContext(ctx, subjects.LookupClaimsOf(account.PublicKey), nil)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if string(kept.Data) != account.JWT {
		return errors.New("it kept other claims")
	}
	return nil
}
