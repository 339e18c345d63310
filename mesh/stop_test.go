package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// breakStream has the next write to a stream fail that was not written since the
// mesh began, and returns what mends it.
func breakStream(t *testing.T, m *meshtest.Mesh, stream string) (mend func()) {
	t.Helper()
	block, away := filepath.Join(streamFolder(t, m.State, stream), "msgs", "1.blk"), filepath.Join(t.TempDir(), "away")
	noError(t, errors.Join(os.Rename(block, away), os.Mkdir(block, 0o700)))
	return func() {
		t.Helper()
		noError(t, errors.Join(os.RemoveAll(block), os.Rename(away, block)))
	}
}

// A mesh is stopped while its streams are closed because one could not be written,
// at each moment until they are open again, or never are. It ends in order, with a
// checkpoint where the streams answer, and the next start finds everything.
//
// covers P11.1, P11.2, A-CRASH
func TestStopWhileStreamsAreClosed(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, stream := range []string{jetstream.KeyStream, jetstream.LedgerStream} { // the gateway's, and the projector's
		for _, moment := range []time.Duration{never, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} { // they are opened once a second
			name := fmt.Sprintf("%s, mended %s before", stream, moment)
			if moment == never {
				name = stream + ", not mended"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m := meshtest.Start(t, pair(1000))
				m.Restart(t)
				mend := breakStream(t, m, stream)
				mailer := m.Connect(t, "mailer", bcp.RoleReader)
				noError(t, mailer.Conn.Publish(pushAlert, mailer.Encode(meshtest.PushText("main", "alerts", `{"urgent":true}`, ""))))
				until(t, "a stream that is closed", func() bool { return strings.Contains(m.Log(), "a stream could not be written") })
				if moment != never {
					mend()
				}
				reloaded := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					_, err := m.Mesh.Reload(ctx, m.Definition)
					reloaded <- err
				}()
				time.Sleep(max(0, moment))
				decisions := m.Decisions()
				last := decisions[len(decisions)-1].Seq
				m.Stop(t)
				err := <-reloaded
				failIf(t, moment == never && err == nil, "reloaded without a record")
				if moment == never {
					mend()
				} else if c, _ := signed(t, m.State); c.Size < last && !strings.Contains(m.Log(), "no checkpoint was signed") { // on a slow machine
					t.Errorf("the checkpoint is of %d decisions, and %d were made", c.Size, last)
				}
				m.Start(t)
				booksAgree(t, m)
			})
		}
	}
}

// A mesh that cannot record what its server tells, and has no room for more of it, is
// stopped all the same, though whoever tells it waits.
//
// covers P11.1, A-CRASH
func TestStopWhileNothingCanBeTold(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(1000))
	mailer := m.Connect(t, "mailer", bcp.RoleReader)
	m.Settle(t)
	stream := must(m.Mesh.JetStream().Stream(t.Context(), jetstream.CommitStream))
	info := stream.CachedInfo()
	info.Config.MaxMsgs = int64(info.State.Msgs)
	must(m.Mesh.JetStream().UpdateStream(t.Context(), info.Config))
	noError(t, mailer.Conn.Publish(pushAlert, mailer.Encode(meshtest.PushText("main", "alerts", `{"urgent":true}`, ""))))
	const kept, lane = 4096, 256
	var told atomic.Int64
	telling := make(chan struct{})
	go func() {
		defer close(telling)
		for range kept + 2*lane {
			m.Mesh.Denied("mailer", bcp.RoleReader, "publish", "a")
			told.Add(1)
		}
	}()
	until(t, "all that it takes", func() bool { return told.Load() >= kept+lane })
	// The server's events are told one after the other: these wait, and so does who looks
	// for what was not heard.
	for range 3 {
		m.Connect(t, "main", bcp.RoleController)
	}
	until(t, "somebody else who is there", func() bool { return len(m.Mesh.Connections()) >= 2 })
	ctx := within(t, meshtest.Patience)
	err := m.Mesh.Stop(ctx)
	stopIf(t, err != nil, "it is not stopped: %v", err)
	<-telling
	m.Start(t) // which makes the stream as it has to be
	booksAgree(t, m)
}

// A mesh that is told to stop in the moment in which it has started is stopped, whatever
// of it had not begun by then.
//
// covers P11.1
func TestStopWhileItStarts(t *testing.T) {
	t.Parallel()
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		state := filepath.Join(t.TempDir(), "state")
		m, err := mesh.Start(ctx, mesh.Config{Definition: meshtest.Parse(t, pair(1000)), State: state, OnDecision: func(*bcp.Decision) { cancel() }})
		noError(t, err)
		bcptest.Next(t, m.Done(), "its gateway ends")
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		again, err := mesh.Start(t.Context(), mesh.Config{Definition: meshtest.Parse(t, pair(1000)), State: state})
		stopIf(t, err != nil, "something of it runs on: %v", err)
		err = again.Stop(context.Background())
		failIf(t, err != nil, "%v", err)
	}
}
