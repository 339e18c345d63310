package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// All servers are asked to identify themselves once a second. Their knowledge of
// each other does not help: for minutes a server still counts another under its old
// id after that restarted.

const (
	// callTime is how long servers have to answer.
	callTime = time.Second
	// silentCalls in a row mean that a server is down.
	silentCalls = 2
	// forgetCalls in a row mean that it does not come back.
	forgetCalls = 60
)

// roll is who answers a call.
type roll struct {
	at, url  string          // the server that forwarded the request
	answered map[string]bool // ids
	keepers  int             // of answered, those with streams
	size     int             // how many keep streams, as far as they know
	fullest  Store           // of theirs
}

// Store is a server's storage for streams: used, and the limit of its
// configuration for JetStream, in bytes. The zero value is none.
type Store struct{ Used, Limit int64 }

// maxUse returns the one with the larger used fraction.
func (s Store) maxUse(than Store) Store {
	if than.Limit <= 0 || s.Limit > 0 && float64(s.Used)/float64(s.Limit) >= float64(than.Used)/float64(than.Limit) {
		return s
	}
	return than
}

// cutOff reports whether nothing can be stored through the asked server: it does not
// answer itself, or too few of those with streams do.
func (r roll) cutOff() bool { return !r.answered[r.at] || r.size > 0 && 2*r.keepers <= r.size }

// call asks all servers who they are, and waits until callTime is over.
func (c *Cluster) call() (roll, error) {
	r := roll{at: c.monitor.ConnectedServerId(), url: c.monitor.ConnectedUrl(), answered: map[string]bool{}}
	replies, err := ask(c.monitor, subjects.PingServers, nil)
	if err != nil {
		return roll{}, fmt.Errorf("ask the servers: %w", err)
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	for deadline := time.Now().Add(callTime); ; {
		reply, err := replies.NextMsg(time.Until(deadline))
		if errors.Is(err, nats.ErrTimeout) {
			break
		}
		if err != nil {
			return roll{}, fmt.Errorf("ask the servers: %w", err)
		}
		var s natsserver.ServerStatsMsg
		if err := json.Unmarshal(reply.Data, &s); err != nil {
			return roll{}, fmt.Errorf("ask the servers: %w", err)
		}
		r.answered[s.Server.ID] = true
		if js := s.Stats.JetStream; js != nil && js.Meta != nil && js.Meta.Size > 0 {
			r.keepers++
			r.size = max(r.size, js.Meta.Size)
			if js.Config != nil && js.Stats != nil {
				r.fullest = r.fullest.maxUse(Store{int64(js.Stats.Store), js.Config.MaxStore})
			}
		}
	}
	if c.monitor.ConnectedServerId() != r.at { // the monitor switched servers
		return roll{}, errors.New("ask the servers: the connection was lost")
	}
	return r, nil
}

// missedCalls is how many calls in a row each server has missed, by its id.
type missedCalls map[string]int

// note applies a call of a server that is not cut off.
func (a missedCalls) note(r roll) {
	for id := range a {
		a[id]++
	}
	for id := range r.answered {
		a[id] = 0
	}
	maps.DeleteFunc(a, func(_ string, missed int) bool { return missed > forgetCalls })
}

// present returns those that answered the last call.
func (a missedCalls) present() map[string]bool {
	return a.serversWhere(func(missed int) bool { return missed == 0 })
}

// silent returns those that have not answered for long enough.
func (a missedCalls) silent() map[string]bool {
	return a.serversWhere(func(missed int) bool { return missed >= silentCalls })
}

func (a missedCalls) serversWhere(f func(missed int) bool) map[string]bool {
	ids := map[string]bool{}
	for id, missed := range a {
		if f(missed) {
			ids[id] = true
		}
	}
	return ids
}

// noted stores the results of a call.
func (c *Cluster) noted(r roll) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.cutOff() {
		c.home = ""
		return
	}
	c.attended.note(r)
	c.home, c.fullest = r.url, r.fullest
	c.first.Do(func() { close(c.called) })
}

// Fullest returns the store of the server that has used the largest part of its
// own, as of the last second: a replicated stream is full once most of its servers
// are.
func (c *Cluster) Fullest() Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fullest
}

// silentServers returns the servers that count as down.
func (c *Cluster) silentServers() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attended.silent()
}

// inOrder returns the servers' URLs in the order for a new connection, and whether
// the order matters: a server that is known to be good comes first. One that is cut
// off or hangs accepts a connection, and does not answer for seconds.
func inOrder(urls []string, home string) ([]string, bool) {
	i := slices.IndexFunc(urls, func(url string) bool { return home != "" && hostAndPort(url) == hostAndPort(home) })
	if i < 0 {
		return urls, false
	}
	return slices.Concat(urls[i:i+1], urls[:i], urls[i+1:]), true
}

// hostAndPort is the host and port of a server's URL.
func hostAndPort(server string) string {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return u.Host + ":4222"
	}
	return u.Host
}

// A server that is cut off from the others still answers its clients, but stores
// nothing. A gateway leaves it for another.

// leaveCutOff leaves servers that are cut off, until quit is closed.
func (c *Cluster) leaveCutOff(quit <-chan struct{}) {
	ticker := time.NewTicker(callTime)
	defer ticker.Stop()
	for alone := 0; ; {
		r, err := c.call()
		switch {
		case err != nil: // the monitor itself is looking for a server
		case !r.cutOff():
			alone = 0
			c.noted(r)
			c.moveConnections(c.silentServers())
		default:
			c.noted(r)
			if alone++; alone >= silentCalls {
				alone = 0
				c.log.Warn("leaving a server that is cut off from the others", "answers", r.keepers, "servers", r.size)
				c.moveConnections(map[string]bool{r.at: true})
				_ = c.monitor.ForceReconnect() // unless it is closed
			}
		}
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
	}
}

// moveConnections moves the gateway's connections from servers to others. It waits for
// none of them: a reconnecting one does not answer.
func (c *Cluster) moveConnections(servers map[string]bool) {
	if len(servers) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		go func() {
			if servers[conn.ConnectedServerId()] {
				_ = conn.ForceReconnect() // unless it is closed
			}
		}()
	}
}
