//go:build unix

package jetstream_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// BenchmarkProject measures the processor time, of server and projector together, until
// the projections show a journal of accepted pushes on 64 channels in turns, in records of
// one and of many.
//
//	go test ./jetstream -run '^$' -bench Project -benchtime 8x
func BenchmarkProject(b *testing.B) {
	const pushes, channels = 8192, 64
	readers := make([]bcp.AgentName, channels)
	for i := range readers {
		readers[i] = bcp.AgentName(fmt.Sprintf("reader%d", i))
	}
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("record=%d", size), func(b *testing.B) {
			js := connect(b, startServer(b).ClientURL())
			create(b, js)
			j, _ := open(b, js)
			m := newMaker(b, readers...)
			for range pushes / size {
				if err := j.Append(b.Context(), m.pushes(size, readers...)); err != nil {
					b.Fatal(err)
				}
			}
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				for _, name := range jetstream.Projections() {
					if err := js.DeleteStream(b.Context(), name); err != nil {
						b.Fatal(err)
					}
				}
				create(b, js)
				before := processorTime(b)
				b.StartTimer()
				projector := jetstream.NewProjector(js, jetstream.Topology{Replicas: 1}, new(jetstream.Interrupter), nil)
				ctx, stop := context.WithCancel(b.Context())
				var running sync.WaitGroup
				running.Go(func() { projector.Run(ctx) })
				for projector.Shown() < uint64(m.n) {
					time.Sleep(time.Millisecond)
				}
				b.StopTimer()
				used += processorTime(b) - before
				stop()
				running.Wait()
				b.StartTimer()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(b.N)/float64(m.n), "cpu-us/decision")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
