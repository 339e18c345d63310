//go:build unix

package clustertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// Patience is how long everything here waits before it fails the test. One
// election takes up to 9 seconds, and a restarted node may need two.
const Patience = 90 * time.Second

// monitored is a node's report about its JetStream: members of /jsz.
type monitored struct {
	Meta     natsjs.ClusterInfo `json:"meta_cluster"`
	Accounts []struct {
		Streams []stream `json:"stream_detail"`
	} `json:"account_details"`
}

type stream struct {
	Name    string             `json:"name"`
	Cluster natsjs.ClusterInfo `json:"cluster"`
}

// lacks returns what a group lacks, as seen by one of its nodes. Only its leader knows the others.
func lacks(g natsjs.ClusterInfo, node string) error {
	if g.Leader == "" {
		return errors.New("it has no leader")
	}
	for _, r := range g.Replicas {
		if g.Leader == node && (!r.Current || r.Offline) {
			return errors.New("a replica lags")
		}
	}
	return nil
}

var monitoring = http.Client{Timeout: 2 * time.Second}

// ask gets a page of a node's monitor.
func (n *node) ask(path string, into any) error {
	reply, err := monitoring.Get("http://" + n.monitor + path)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(reply.Body) // it may have the reason
		return fmt.Errorf("%s of %s: %s: %s", path, n.name, reply.Status, text)
	}
	return json.NewDecoder(reply.Body).Decode(into)
}

func (n *node) streams() (meta natsjs.ClusterInfo, all []stream, err error) {
	var m monitored
	if err := n.ask("/jsz?accounts=true&streams=true", &m); err != nil {
		return meta, nil, err
	}
	for _, a := range m.Accounts {
		all = append(all, a.Streams...)
	}
	return m.Meta, all, nil
}

// unhealthy returns what a node of a cluster lacks, as seen by itself and by the
// groups that it leads.
func (n *node) unhealthy(size int) error {
	if err := n.ask("/healthz", &struct{}{}); err != nil {
		return err
	}
	meta, streams, err := n.streams()
	if err != nil {
		return err
	}
	if err := lacks(meta, n.name); err != nil {
		return fmt.Errorf("%s: the cluster: %w", n.name, err)
	}
	if meta.Leader == n.name && len(meta.Replicas) != size-1 {
		return fmt.Errorf("%s knows %d others", n.name, len(meta.Replicas))
	}
	for _, s := range streams {
		if err := lacks(s.Cluster, n.name); err != nil {
			return fmt.Errorf("%s: stream %s: %w", n.name, s.Name, err)
		}
	}
	return nil
}

// AwaitHealthy waits until all nodes run, know each other, and hold all streams
// up to date.
func (c *Cluster) AwaitHealthy(t testing.TB) {
	t.Helper()
	Await(t, "a healthy cluster", func() error {
		for _, n := range c.nodes {
			select {
			case <-n.ended:
				t.Fatalf("%s has ended", n.name)
			default:
			}
			if err := n.unhealthy(len(c.nodes)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Leader returns the leader of a stream, in any account, as soon as all
// reachable nodes agree on a reachable one.
func (c *Cluster) Leader(t testing.TB, name string) int {
	t.Helper()
	leader := -1
	Await(t, "a leader of "+name, func() (err error) {
		leader, err = c.leader(name)
		return err
	})
	return leader
}

// leader returns the node that the reachable nodes say leads a stream.
func (c *Cluster) leader(stream string) (int, error) {
	leader, reached := "", map[string]int{}
	for i, n := range c.nodes {
		_, streams, err := n.streams()
		if err != nil {
			continue
		}
		reached[n.name] = i
		for _, s := range streams {
			if s.Name != stream || s.Cluster.Leader == "" {
				continue
			}
			if leader != "" && s.Cluster.Leader != leader {
				return -1, fmt.Errorf("%s and %s are both named", leader, s.Cluster.Leader)
			}
			leader = s.Cluster.Leader
		}
	}
	if i, ok := reached[leader]; ok {
		return i, nil
	}
	return -1, fmt.Errorf("%d nodes answer, and name %q", len(reached), leader)
}

// Await tries until it succeeds.
func Await(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("waited for %s: %v", what, err)
}

// Attentive returns options for a client that soon notices that its node is down.
func Attentive() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(time.Second),
		nats.PingInterval(500 * time.Millisecond), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default prints
	}
}

// Lead has a node lead a stream of the connection's account.
func (c *Cluster) Lead(t testing.TB, conn *nats.Conn, name string, i int) {
	t.Helper()
	ask := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, c.nodes[i].name)
	Await(t, c.nodes[i].name+" to lead "+name, func() error {
		leader, err := c.leader(name)
		if err == nil && leader != i {
			// Whether it is answered or not shows later.
			_, err = conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+name, ask, time.Second)
			err = errors.Join(errors.New("it does not lead it yet"), err)
		}
		return err
	})
}
