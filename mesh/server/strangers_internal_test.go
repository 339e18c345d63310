package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
)

// Strangers come while those of before are looked for: the race detector says whether
// the two share what they should not.
//
// covers P1.5, A-RECONN
func TestStrangersComeWhileTheyAreLookedFor(t *testing.T) {
	t.Parallel()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoLog: true, NoSigs: true})
	noError(t, err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	monitor, err := nats.Connect("", nats.InProcessServer(s))
	noError(t, err)
	monitor.Close() // no server tells of newer claims
	c := &Cluster{
		monitor: monitor, again: make(chan struct{}, 1), learnt: time.Now().Add(-2 * learnPause),
		strange: map[string]bool{}, foreign: map[string]bool{},
	}
	c.claims.Store(&accounts.Bundle{})
	came := make(chan struct{})
	go func() {
		defer close(came)
		for i := range 1000 {
			c.party(fmt.Sprint("A", i))
		}
	}()
	for looking := true; looking; {
		err := c.knowStrangers(context.Background())
		failIf(t, err != nil && !errors.Is(err, nats.ErrConnectionClosed), "%v", err)
		select {
		case <-came:
			looking = false
		default:
		}
	}
	failIf(t, len(c.strange) != 1000 || len(c.foreign) > 0,
		"%d strangers, %d foreigners, and nobody was asked", len(c.strange), len(c.foreign))
}
