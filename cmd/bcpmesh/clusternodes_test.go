//go:build unix

package main_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

func connectStreams(t testing.TB, url string) natsjs.JetStream {
	t.Helper()
	conn, err := nats.Connect(url, clustertest.Attentive()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// A node that goes, or is cut off, leaves a stream to the two others; one that
// leads it hands it over when it is retired. What was acknowledged stays, and the
// node that comes back has it too.
//
// covers P4.5, A-CRASH
func TestClusterNodes(t *testing.T) {
	t.Parallel()
	c := startWired(t, clustertest.Config{})
	createFloor(t, connectStreams(t, c.URL()))
	leader := c.Leader(t, floorStream)
	follower := (leader + 1) % c.Size()
	p := startPublisher(t, c.NodeURL(leader)+","+c.URL(), 300, append(clustertest.Attentive(), nats.DontRandomize())...)
	p.Await(t, 20)

	c.partition(follower)
	p.Await(t, 20)
	alone, err := nats.Connect(c.NodeURL(follower))
	if err == nil {
		alone.Close()
		t.Error("a client reaches a node that is cut off")
	}
	c.heal()
	c.Kill(t, follower)
	p.Await(t, 20)
	c.Restart(t, follower)
	c.AwaitHealthy(t)

	c.Retire(t, leader)
	p.Await(t, 20)
	if c.Leader(t, floorStream) == leader {
		t.Error("a node that was retired leads the stream")
	}
	c.Restart(t, leader)
	c.AwaitHealthy(t)
	p.Await(t, 20)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
