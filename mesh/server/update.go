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

// ErrUpdate says that new claims did not reach the server, or not all of them.
// Compile the definitions that should hold, and update again.
var ErrUpdate = errors.New("the server did not take the new accounts")

// UpdateAccounts gives the server the accounts whose permissions are others
// than before, and reads each back. Only agents whose own scope changed are
// disconnected; they come back with the same creds. Removed agents and revoked
// users are disconnected for good.
//
// The gateway's and the server's own accounts must be the same as before.
// After an error some accounts may have changed: permissions are then those of
// the old or of the new definitions, each account for itself.
func (s *Server) UpdateAccounts(ctx context.Context, next accounts.Bundle) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	current := s.bundle()
	changed, err := difference(current, next)
	if err != nil {
		return err
	}
	// New scopes have to be known before the first agent connects with one.
	s.mu.Lock()
	s.bundles = []accounts.Bundle{next, current}
	s.mu.Unlock()
	for _, account := range changed {
		if err := s.updateAccount(ctx, account); err != nil {
			return fmt.Errorf("%w: account %s: %w", ErrUpdate, account.Name, err)
		}
	}
	return nil
}

func difference(current, next accounts.Bundle) ([]accounts.Account, error) {
	var changed []accounts.Account
	for _, account := range current.Accounts {
		update, ok := next.Account(account.Name)
		switch {
		case !ok || update.PublicKey != account.PublicKey:
			return nil, fmt.Errorf("%w: account %s is of another key store", ErrUpdate, account.Name)
		case update.Digest == account.Digest:
		case account.Name == accounts.Core || account.Name == accounts.System:
			return nil, fmt.Errorf("%w: account %s cannot change while the server runs", ErrUpdate, account.Name)
		default:
			changed = append(changed, update)
		}
	}
	return changed, nil
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
