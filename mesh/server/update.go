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

// servers is how many servers have to confirm new claims.
const servers = 1

// ErrUpdate says that new claims did not all reach the server. Compile the
// desired definitions, and update again.
var ErrUpdate = errors.New("the server did not take the new accounts")

// UpdateAccounts gives the server the accounts with changed permissions, and
// reads each back. Only agents whose own scope changed are disconnected; they
// reconnect with the same creds. Removed agents and revoked users are
// disconnected for good.
//
// If the operator's keys changed, or the gateway's or the server's own account,
// the server restarts: everybody is disconnected and reconnects. It refuses
// accounts of another key store.
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
	// New scopes have to be known before the first agent connects with one.
	s.mu.Lock()
	s.bundles = []accounts.Bundle{next, s.bundles[0]}
	s.mu.Unlock()
	changed, begins := s.difference(next)
	if begins {
		return s.askToBegin(ctx, next)
	}
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

// difference returns the accounts that the server must update, and whether it must
// restart for them.
func (s *Server) difference(next accounts.Bundle) (changed []accounts.Account, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins = next.Operator != s.operator
	for _, account := range next.Accounts {
		if held := s.held[account.Name]; held.Digest != account.Digest {
			changed = append(changed, account)
			begins = begins || (account.Name == accounts.Core || account.Name == accounts.System) && held.Unimported != account.Unimported
		}
	}
	accounts.SortForUpdate(changed)
	return changed, begins
}

func (s *Server) askToBegin(ctx context.Context, next accounts.Bundle) error {
	request := again{bundle: next, done: make(chan error, 1)}
	select {
	case s.again <- request:
	case <-s.quit:
		return fmt.Errorf("%w: %w", ErrUpdate, errEnding)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUpdate, context.Cause(ctx))
	}
	select {
	case err := <-request.done:
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUpdate, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUpdate, context.Cause(ctx))
	}
}

func (s *Server) updateAccount(ctx context.Context, account accounts.Account) error {
	replies, err := s.monitor.SubscribeSync(s.monitor.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = replies.Unsubscribe() }()
	if err := s.monitor.PublishRequest(subjects.UpdateClaims, replies.Subject, []byte(account.JWT)); err != nil {
		return err
	}
	for range servers {
		reply, err := replies.NextMsgWithContext(ctx)
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
