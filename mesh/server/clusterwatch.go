package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// allConnections requests the open connections with their users.
var allConnections = []byte(`{"auth":true,"limit":1000000}`)

// Watch is [Server.Watch], of all servers. It does not wait until those have
// said who is connected: a gateway serves before.
func (c *Cluster) Watch(handle func(Connection)) (stop func(), err error) {
	w := newWatcher(c.party, c.open)
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
		ticker := time.NewTicker(clusterLook)
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
func (c *Cluster) party(issuer string) (Party, bool) {
	claims := c.claims.Load()
	if agent, role, ok := claims.ScopeOf(issuer); ok {
		if role == bcp.RoleDispatcher { // a part of a gateway
			return Party{}, false
		}
		return Party{Agent: agent, Role: role}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreign[issuer] {
		return Party{}, false
	}
	c.strange[issuer] = true
	c.lookAgain()
	return Party{}, false
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
func (c *Cluster) open() (openConnections, error) {
	select {
	case <-c.called:
	case <-c.quit:
		return openConnections{}, nats.ErrConnectionClosed
	case <-time.After(answerTimeout):
		return openConnections{}, errSilent
	}
	c.mu.Lock()
	awaited := c.attended.present()
	c.mu.Unlock()
	replies, err := ask(c.monitor, subjects.PingConnections, allConnections)
	if err != nil {
		return openConnections{}, err
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	open := openConnections{Of: map[string]bool{}}
	for deadline := time.Now().Add(answerTimeout); len(awaited) > 0; {
		reply, err := replies.NextMsg(time.Until(deadline))
		if errors.Is(err, nats.ErrTimeout) {
			break
		}
		if err != nil {
			return openConnections{}, err
		}
		var list natsserver.ServerAPIConnzResponse
		if err := json.Unmarshal(reply.Data, &list); err != nil || list.Server == nil || list.Server.ID == "" {
			return openConnections{}, errors.Join(errors.New("a server's list of connections cannot be read"), err)
		}
		open.Of[list.Server.ID] = true
		delete(awaited, list.Server.ID)
		if list.Data != nil {
			open.add(list.Server.ID, list.Data.Conns)
		}
	}
	if len(open.Of) == 0 {
		return openConnections{}, errSilent
	}
	for id := range c.silentServers() {
		open.Of[id] = true
	}
	return open, nil
}

var errSilent = errors.New("no server answers")
