package jetstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// BenchmarkExpireRaw measures what a start waits for before it serves, and what happens
// beside it then, of a mesh whose channels speak every day and keep raw messages for 30 days.
func BenchmarkExpireRaw(b *testing.B) {
	for _, channels := range []int{10, 1000} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			conn, err := nats.Connect("", nats.InProcessServer(startServer(b)))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(conn.Close)
			js, err := natsjs.New(conn, natsjs.WithPublishAsyncMaxPending(1000))
			if err != nil {
				b.Fatal(err)
			}
			create(b, js)
			const retention = 30
			day := noon
			speak := func() {
				for c := range channels {
					subject := subjects.Key("main", bcp.AgentName(fmt.Sprintf("r%d", c)), subjects.SealedRaw, day.Format(time.DateOnly))
					if _, err := js.PublishAsync(subject, make([]byte, 32)); err != nil {
						b.Fatal(err)
					}
				}
				<-js.PublishAsyncComplete()
				day = day.AddDate(0, 0, 1)
			}
			for range retention + 1 {
				speak()
			}
			var overwriting time.Duration
			for b.Loop() {
				b.StopTimer()
				speak()
				keys := jetstream.NewSealingKeys(js)
				b.StartTimer()
				if err := keys.ExpireRaw(b.Context(), day, retention*24*time.Hour); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				begin := time.Now()
				if n, err := keys.OverwriteExpired(b.Context()); err != nil || n < channels {
					b.Fatal(n, err)
				}
				overwriting += time.Since(begin)
				b.StartTimer()
			}
			b.ReportMetric(float64(overwriting.Milliseconds())/float64(b.N), "overwriting-ms/op")
		})
	}
}
