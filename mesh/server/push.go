package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Pushed is what [Pusher.Push] did.
type Pushed struct {
	Servers []string `json:"servers"`          // that have all claims now
	Silent  int      `json:"silent,omitzero"`  // servers that did not answer
	Updated []string `json:"updated_accounts"` // at one of them or more
}

const (
	// pushTimeout bounds the wait for what all servers have to answer.
	pushTimeout = 5 * time.Second
	// pushQuiet is how long more servers may take than those that there have to be.
	pushQuiet = 300 * time.Millisecond
)

// ErrNoServer says that no server of a cluster has said who it is.
var ErrNoServer = errors.New("no server of the cluster says who it is")

// Pusher is a connection to a cluster's system account that can change claims. Its methods are called one after the other.
type Pusher struct {
	nc      *nats.Conn
	servers map[string]string // names by id, of those that answer
	silent  int               // of those that others know
}

// ConnectPusher connects to servers of a cluster with the text of creds that may push, and finds those that answer.
func ConnectPusher(ctx context.Context, url string, creds []byte, options ...nats.Option) (*Pusher, error) {
	nc, err := nats.Connect(url, append(slices.Clip(options), nats.Name("bcpmesh accounts push"), nats.UserCredentialBytes(creds),
		nats.CustomInboxPrefix(subjects.PushInbox), nats.NoReconnect(), nats.Timeout(pushTimeout),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...) // what was refused is not answered
	if err != nil {
		return nil, err
	}
	p := &Pusher{nc: nc, servers: map[string]string{}}
	if err := p.meet(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	return p, nil
}

// Close disconnects.
func (p *Pusher) Close() { p.nc.Close() }

// Push gives the servers those accounts that one of them has otherwise. After an error some servers may have some of them:
// the next push leaves those out.
func (p *Pusher) Push(ctx context.Context, list []accounts.Account) (Pushed, error) {
	result := Pushed{Silent: p.silent, Updated: []string{}}
	var changed []accounts.Account
	for _, account := range list {
		kept, err := p.kept(ctx, account)
		if err != nil {
			return result, fmt.Errorf("account %s cannot be read: %w", account.Name, err)
		}
		if !kept {
			changed = append(changed, account)
		}
	}
	accounts.SortForUpdate(changed)
	for _, account := range changed {
		if err := p.update(ctx, account); err != nil {
			return result, fmt.Errorf("account %s: %w", account.Name, err)
		}
		result.Updated = append(result.Updated, account.Name)
	}
	result.Servers = slices.Sorted(maps.Values(p.servers))
	return result, nil
}

// ask sends a request that each server answers, and gives the answers to take until
// that says to wait no longer, or nothing comes for as long as it last said.
func (p *Pusher) ask(ctx context.Context, subject string, body []byte, take func(*nats.Msg) (wait time.Duration)) error {
	replies, err := ask(p.nc, subject, body)
	if err != nil {
		return err
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	if err := p.nc.FlushTimeout(pushTimeout); err != nil {
		return err
	}
	if err := p.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return errors.New("these creds may not push")
	}
	for wait := pushTimeout; wait > 0; {
		patient, cancel := context.WithTimeout(ctx, wait)
		m, err := replies.NextMsgWithContext(patient)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // nobody else answers
			return nil
		case err != nil:
			return err
		case len(m.Data) == 0 && m.Header.Get("Status") == "503":
			return nats.ErrNoResponders
		}
		wait = take(m)
	}
	return nil
}

// untilAll returns how long to wait for more.
func untilAll(enough bool) time.Duration {
	if enough {
		return 0
	}
	return pushTimeout
}

// meet finds the servers that answer, and how many there should be.
func (p *Pusher) meet(ctx context.Context) error {
	known, size := 1, 1 // a server that restarted may count twice in known
	err := p.ask(ctx, subjects.PingServers, nil, func(m *nats.Msg) time.Duration {
		var s natsserver.ServerStatsMsg
		if json.Unmarshal(m.Data, &s) == nil && s.Server.ID != "" {
			p.servers[s.Server.ID] = s.Server.Name
			known = max(known, s.Stats.ActiveServers)
			if js := s.Stats.JetStream; js != nil && js.Meta != nil { // those with JetStream, also if they are away
				size = max(size, js.Meta.Size)
			}
		}
		if len(p.servers) >= size && len(p.servers) < known {
			return pushQuiet
		}
		return untilAll(len(p.servers) >= max(size, known))
	})
	if err == nil && len(p.servers) == 0 {
		err = nats.ErrTimeout
	}
	p.silent = max(0, size-len(p.servers))
	return err
}

// kept reports whether each server keeps an account as it is.
func (p *Pusher) kept(ctx context.Context, account accounts.Account) (bool, error) {
	answers, same := 0, 0
	err := p.ask(ctx, subjects.LookupClaimsOf(account.PublicKey), nil, func(m *nats.Msg) time.Duration {
		answers++
		if sameClaims(string(m.Data), account.JWT) {
			same++
		}
		return untilAll(answers >= len(p.servers))
	})
	return same == answers && answers >= len(p.servers), err
}

// update gives an account to the servers, and returns when each has taken it.
func (p *Pusher) update(ctx context.Context, account accounts.Account) error {
	taken := map[string]bool{}
	var refused error
	err := p.ask(ctx, subjects.UpdateClaims, []byte(account.JWT), func(m *nats.Msg) time.Duration {
		var s natsserver.ServerAPIClaimUpdateResponse
		switch {
		case json.Unmarshal(m.Data, &s) != nil:
			refused = errors.New("a server's answer cannot be parsed")
		case s.Error != nil:
			refused = errors.New("a server refused it: " + s.Error.Description)
		case s.Server != nil && s.Data != nil && s.Data.Account == account.PublicKey:
			taken[s.Server.ID] = true
		}
		return untilAll(refused != nil || len(taken) >= len(p.servers))
	})
	switch {
	case err != nil || refused != nil:
		return errors.Join(err, refused)
	case len(taken) < len(p.servers):
		return errors.New("not all servers have answered")
	}
	kept, err := p.kept(ctx, account)
	if err == nil && !kept {
		err = errors.New("a server keeps other claims: were newer ones pushed from another copy of the keys?")
	}
	return err
}

// sameClaims reports whether two JWTs of an account say the same. Their ids are
// digests of all that they say but when.
func sameClaims(a, b string) bool {
	first, err := jwt.DecodeAccountClaims(a)
	if err != nil {
		return false
	}
	second, err := jwt.DecodeAccountClaims(b)
	return err == nil && first.ID == second.ID && first.Subject == second.Subject
}
