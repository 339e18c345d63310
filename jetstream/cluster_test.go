//go:build unix

package jetstream_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// A journal with copies is read to its end while one of the nodes stands still that
// the others still take for one that answers, whichever that is but the one that leads
// the journal.
//
// covers P11.1, A-RECONN
func TestReadingWhileANodeStandsStill(t *testing.T) {
	t.Parallel()
	nodes := clustertest.Start(t, clustertest.Config{})
	topology := jetstream.Topology{Replicas: 3}
	js := connect(t, nodes.URL(), append(clustertest.Attentive(), nats.DontRandomize())...)
	// The leader of a cluster that has just come together may not know yet what a node has room for.
	err := jetstream.Create(t.Context(), js, topology)
	for end := time.Now().Add(clustertest.Patience); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		err = jetstream.Create(t.Context(), js, topology)
	}
	noError(t, err)
	journal, _ := open(t, js)
	written := newMaker(t).some(200)
	for _, d := range written {
		noError(t, journal.Append(within(t), [][]byte{d}))
	}
	for still := 1; still < nodes.Size(); still++ {
		// The client is there too. A node that stood still may have called for an election.
		nodes.Lead(t, js.Conn(), jetstream.CommitStream, 0)
		nodes.Pause(t, still)
		for range 5 {
			noError(t, jetstream.CreateJournal(t.Context(), js, topology))
			_, read := open(t, js)
			failIf(t, len(read) != len(written) || !bytes.Equal(read[len(read)-1], written[len(written)-1]),
				"%d decisions of %d", len(read), len(written))
			err := jetstream.CheckEnd(t.Context(), js, uint64(len(read)))
			failIf(t, err != nil, "%v", err)
		}
		nodes.Continue(t, still)
		nodes.AwaitHealthy(t)
	}
}
