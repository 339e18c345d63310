package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// gapped is a stream whose third message of six is missing.
func gapped(t *testing.T) (natsjs.JetStream, natsjs.Stream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	noError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn := must(nats.Connect("", nats.InProcessServer(s)))(t)
	t.Cleanup(conn.Close)
	js := must(natsjs.New(conn))(t)
	stream := must(js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}, AllowDirect: true}))(t)
	for i := range 6 {
		must(js.Publish(t.Context(), "s", fmt.Append(nil, i+1)))(t)
	}
	noError(t, stream.DeleteMsg(t.Context(), 3))
	return js, stream
}

// What is in front of a message that is lost is read, and then where the next one
// stands. A copy that lacks one is none to read on from: another may have it.
//
// covers P11.2, A-CHAIN
func TestReaderAtAGap(t *testing.T) {
	t.Parallel()
	js, stream := gapped(t)
	for _, whole := range []bool{true, false} {
		for _, copies := range []bool{true, false} {
			t.Run(fmt.Sprintf("whole %v, copies %v", whole, copies), func(t *testing.T) {
				t.Parallel()
				r := must(read(js, stream, 1, whole))(t)
				defer r.end()
				r.copies = copies
				for sequence := range uint64(6) {
					sequence++
					if sequence == 3 {
						continue
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					if sequence == 4 && whole && copies {
						cancel() // nothing comes, however long it waits
						ctx, cancel = context.WithTimeout(t.Context(), 3*copyPause)
					}
					m, err := r.message(ctx)
					cancel()
					if sequence == 4 && whole && copies {
						stopIf(t, !errors.Is(err, context.DeadlineExceeded) || !Unanswered(err),
							"behind the gap: message %d, %v", m.sequence, err)
						return
					}
					stopIf(t, err != nil || m.sequence != sequence || string(m.data) != fmt.Sprint(sequence),
						"message %d is %d, %q: %v", sequence, m.sequence, m.data, err)
				}
				if copies {
					return
				}
				m, err := r.message(t.Context())
				failIf(t, !errors.Is(err, ErrRecord), "behind the end: message %d, %v", m.sequence, err)
			})
		}
	}
}

// Pages follow each other without a gap, whatever their size, and from anywhere.
//
// covers P11.1
func TestReaderTurnsPages(t *testing.T) {
	t.Parallel()
	js, stream := gapped(t)
	for _, most := range []int{1, 2, 3} {
		for from := uint64(4); from <= 6; from++ {
			r := must(read(js, stream, from, true))(t)
			r.messages = most
			for want := from; want <= 6; want++ {
				if m, err := r.message(t.Context()); err != nil || m.sequence != want || string(m.data) != fmt.Sprint(want) {
					t.Fatalf("pages of %d from %d: message %d is %d, %q: %v", most, from, want, m.sequence, m.data, err)
				}
			}
			r.end()
		}
	}
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
