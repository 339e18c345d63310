//go:build unix

package main_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// floorStream is the stream of a publisher.
const floorStream = "FLOOR"

// publisher only writes into a stream with three replicas, as a journal is
// written: each message has the sequence that it expects to follow, and waits
// until the previous one is acknowledged. After an error it reads the stream and
// continues, and leaves a node without progress. No gateway on the same cluster
// can be better than this.
type publisher struct {
	conn   *nats.Conn
	js     natsjs.JetStream
	data   []byte
	cancel context.CancelFunc
	done   chan struct{}
	left   time.Time // when it last left a node; owned by run

	mu      sync.Mutex
	acked   int
	last    time.Time // of an acknowledgement
	longest time.Duration
	wrong   error
}

const (
	// publishWait is how long a publisher waits for an acknowledgement.
	publishWait = 500 * time.Millisecond
	// nodePatience is how long it stays at a node without progress.
	nodePatience = 2 * time.Second
	// publishPause leaves the cluster time for others.
	publishPause = 2 * time.Millisecond
)

// createFloor creates the stream unless it exists. A newly formed cluster may
// lose a reply.
func createFloor(t testing.TB, js natsjs.JetStream) {
	t.Helper()
	clustertest.Await(t, "the stream "+floorStream, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), nodePatience)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, natsjs.StreamConfig{
			Name: floorStream, Subjects: []string{"floor"}, Storage: natsjs.FileStorage, Replicas: 3,
			Discard: natsjs.DiscardNew, Duplicates: 100 * time.Millisecond,
		})
		return err
	})
}

// startPublisher publishes messages of a size in bytes until Stop or the end of
// the test. The stream is there already.
func startPublisher(t testing.TB, url string, size int, options ...nats.Option) *publisher {
	t.Helper()
	conn, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &publisher{conn: conn, js: js, data: make([]byte, size), cancel: cancel, done: make(chan struct{}), last: time.Now()}
	go p.run(ctx)
	t.Cleanup(func() { _ = p.Stop() }) // the caller of Stop gets the error
	return p
}

// Stop stops it, and returns what was wrong with the stream, if anything. It
// may be called twice.
func (p *publisher) Stop() error {
	p.cancel()
	<-p.done
	p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong
}

// Gap returns the longest time without an acknowledgement since it was last
// called, up to now, and how many there were.
func (p *publisher) Gap() (longest time.Duration, acked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest, acked = max(p.longest, time.Since(p.last)), p.acked
	p.longest, p.acked = 0, 0
	return longest, acked
}

// Await waits until n more messages are acknowledged.
func (p *publisher) Await(t testing.TB, n int) {
	t.Helper()
	p.mu.Lock()
	want := p.acked + n
	p.mu.Unlock()
	clustertest.Await(t, "acknowledgements", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wrong != nil {
			t.Fatal(p.wrong)
		}
		if p.acked < want {
			return fmt.Errorf("%d are missing", want-p.acked)
		}
		return nil
	})
}

func (p *publisher) run(ctx context.Context) {
	defer close(p.done)
	var acknowledged uint64
	for ctx.Err() == nil {
		last, err := p.end(ctx)
		if err == nil && last < acknowledged {
			p.fail(fmt.Errorf("the stream ends at %d, and %d was acknowledged", last, acknowledged))
			return
		}
		for err == nil {
			var ack *natsjs.PubAck
			if ack, err = p.publish(ctx, last); err != nil {
				break
			}
			if ack.Sequence != last+1 {
				p.fail(fmt.Errorf("message %d was acknowledged as %d", last+1, ack.Sequence))
				return
			}
			last, acknowledged = ack.Sequence, ack.Sequence
			p.countAcked()
			time.Sleep(publishPause)
		}
		p.changeNode(ctx)
	}
}

func (p *publisher) publish(ctx context.Context, last uint64) (*natsjs.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	return p.js.PublishMsg(ctx, &nats.Msg{Subject: "floor", Data: p.data}, natsjs.WithExpectLastSequence(last), natsjs.WithRetryAttempts(0))
}

// end is the last sequence of the stream.
func (p *publisher) end(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	s, err := p.js.Stream(ctx, floorStream)
	if err != nil {
		return 0, err
	}
	info := s.CachedInfo()
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return 0, errors.New("it has no leader")
	}
	return info.State.LastSeq, nil
}

// changeNode pauses after a failure, and after enough of them switches to another node.
func (p *publisher) changeNode(ctx context.Context) {
	p.mu.Lock()
	silent := time.Since(p.last)
	p.mu.Unlock()
	if silent > nodePatience && time.Since(p.left) > nodePatience {
		p.left = time.Now()
		_ = p.conn.ForceReconnect() // unless it is closed
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

func (p *publisher) countAcked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longest = max(p.longest, now.Sub(p.last))
	p.last = now
	p.acked++
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong = err
}
