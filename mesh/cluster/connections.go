package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The parts of the servers' replies that a gateway needs.
type (
	// about is in front of each.
	about struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	statistics struct {
		about
		Statistics struct {
			JetStream struct {
				Config struct {
					Limit int64 `json:"max_storage"`
				} `json:"config"`
				Usage struct {
					Used int64 `json:"storage"`
				} `json:"stats"`
				Meta struct {
					Size int `json:"cluster_size"`
				} `json:"meta"`
			} `json:"jetstream"`
		} `json:"statsz"`
	}
	connections struct {
		about
		Data struct {
			Connections []struct {
				Number  uint64 `json:"cid"`
				IP      string `json:"ip"`
				UserKey string `json:"authorized_user"`
				Issuer  string `json:"issuer_key"`
			} `json:"connections"`
		} `json:"data"`
	}
)

// allConnections requests the open connections with their users.
var allConnections = []byte(`{"auth":true,"limit":1000000}`)

// Watch is [server.Server.Watch], of all servers. It does not wait until those have
// said who is connected: a gateway serves before.
func (c *Cluster) Watch(handle func(server.Connection)) (stop func(), err error) {
	w := server.NewWatcher(c.party, c.open)
	unreport := w.Report(handle)
	subscriptions := make([]*nats.Subscription, 0, 2)
	ctx, cancel := context.WithCancel(context.Background())
	var looking sync.WaitGroup
	end := func() {
		cancel()
		looking.Wait()
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // the connection may be gone
		}
		unreport()
	}
	for subject, heard := range map[string]func(*nats.Msg){
		subjects.Connections: func(m *nats.Msg) { w.Event(m.Data) },
		subjects.Shutdowns:   func(*nats.Msg) { c.lookAgain() },
	} {
		s, err := c.monitor.Subscribe(subject, heard)
		if err != nil {
			end()
			return nil, fmt.Errorf("watch connections: %w", err)
		}
		subscriptions = append(subscriptions, s)
	}
	looking.Go(func() {
		ticker := time.NewTicker(lookInterval)
		defer ticker.Stop()
		_ = c.monitor.FlushTimeout(connectTimeout) // otherwise the next list reports what was missed
		for {
			if err := c.knowStrangers(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("looking for new claims", "error", err)
			}
			if err := w.Look(); err != nil && ctx.Err() == nil {
				c.log.Warn("looking for connections", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-c.again:
			}
		}
	})
	return end, nil
}

func (c *Cluster) lookAgain() {
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// party returns the party of an issuer key. An unknown one may be
// in newer claims: then they are read again.
func (c *Cluster) party(issuer string) (server.Party, bool) {
	claims := c.claims.Load()
	if agent, role, ok := claims.ScopeOf(issuer); ok {
		if role == bcp.RoleDispatcher { // a part of a gateway
			return server.Party{}, false
		}
		return server.Party{Agent: agent, Role: role}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreign[issuer] {
		return server.Party{}, false
	}
	c.strange[issuer] = true
	c.lookAgain()
	return server.Party{}, false
}

// knowStrangers reads the claims again if an unknown client came, and otherwise
// from time to time. A client that is still unknown belongs, for a while, to
// somebody else: to another system of the cluster, or the gateway.
func (c *Cluster) knowStrangers(ctx context.Context) error {
	c.mu.Lock()
	came, age := maps.Clone(c.strange), time.Since(c.learnt)
	c.mu.Unlock()
	if age < learnPause || len(came) == 0 && age < learnInterval {
		return nil
	}
	if err := c.readClaims(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if age >= learnInterval || len(c.foreign) > maxForeign {
		clear(c.foreign)
	}
	for issuer := range came {
		if _, _, ok := c.claims.Load().ScopeOf(issuer); !ok {
			c.foreign[issuer] = true
		}
	}
	return nil
}

// maxForeign bounds the issuers that are remembered as not ours.
const maxForeign = 10_000

// open asks all servers, and waits for those that answered the last call. One that
// does not answer keeps its connections until it counts as down.
func (c *Cluster) open() (server.OpenConnections, error) {
	select {
	case <-c.called:
	case <-c.quit:
		return server.OpenConnections{}, nats.ErrConnectionClosed
	case <-time.After(answerTimeout):
		return server.OpenConnections{}, errSilent
	}
	c.mu.Lock()
	awaited := c.attended.present()
	c.mu.Unlock()
	replies, err := c.ask(subjects.PingConnections, allConnections)
	if err != nil {
		return server.OpenConnections{}, err
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	open := server.OpenConnections{Of: map[string]bool{}}
	for deadline := time.Now().Add(answerTimeout); len(awaited) > 0; {
		reply, err := replies.NextMsg(time.Until(deadline))
		if errors.Is(err, nats.ErrTimeout) {
			break
		}
		if err != nil {
			return server.OpenConnections{}, err
		}
		var list connections
		if err := json.Unmarshal(reply.Data, &list); err != nil || list.Server.ID == "" {
			return server.OpenConnections{}, errors.Join(errors.New("a server's list of connections cannot be read"), err)
		}
		open.Of[list.Server.ID] = true
		delete(awaited, list.Server.ID)
		for _, o := range list.Data.Connections {
			open.List = append(open.List, server.OpenConnection{
				ID: server.ClientID{Server: list.Server.ID, Number: o.Number}, Issuer: o.Issuer, UserKey: o.UserKey, Host: o.IP,
			})
		}
	}
	if len(open.Of) == 0 {
		return server.OpenConnections{}, errSilent
	}
	for id := range c.silentServers() {
		open.Of[id] = true
	}
	return open, nil
}

var errSilent = errors.New("no server answers")
