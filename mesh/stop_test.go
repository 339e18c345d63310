package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// breakStream has the next write to a stream fail that was not written since the
// mesh began, and returns what mends it.
func breakStream(t *testing.T, m *meshtest.Mesh, stream string) (mend func()) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(m.State, "jetstream", "jetstream", "*", "streams", stream, "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%s has %d blocks: %v", stream, len(blocks), err)
	}
	block, away := blocks[0], filepath.Join(t.TempDir(), "away")
	if err := errors.Join(os.Rename(block, away), os.Mkdir(block, 0o700)); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(os.RemoveAll(block), os.Rename(away, block)); err != nil {
			t.Fatal(err)
		}
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
				if err := mailer.Conn.Publish(pushAlert, mailer.Encode(meshtest.PushText("main", "alerts", `{"urgent":true}`, ""))); err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(meshtest.Patience); !strings.Contains(m.Log(), "a stream could not be written"); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("no stream was closed")
					}
				}
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
				if err := <-reloaded; moment == never && err == nil {
					t.Error("reloaded without a record")
				}
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
