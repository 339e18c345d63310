//go:build unix

package guard

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// processorTime is what this process has used of processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// How much more processor time twice a text takes, over the worst texts: 2 is linear. Each time is that of five runs, as
// some systems count processor time in steps of milliseconds.
func BenchmarkRedactDoubling(b *testing.B) {
	const runs = 5
	spent := func(text string) time.Duration {
		start := processorTime(b)
		for range runs {
			Redact(text, All)
		}
		return processorTime(b) - start
	}
	for b.Loop() {
		worst, at := 0.0, ""
		slowest, slow := 0.0, ""
		for _, piece := range worstLines {
			text := strings.Repeat(piece, (4<<20)/len(piece))
			once, twice := spent(text), spent(text+text)
			if ratio := float64(twice) / float64(once); ratio > worst {
				worst, at = ratio, piece
			}
			if rate := runs * float64(len(text)) / 1e6 / once.Seconds(); slowest == 0 || rate < slowest {
				slowest, slow = rate, piece
			}
		}
		b.ReportMetric(worst, "times-for-twice")
		b.ReportMetric(slowest, "slowest-MB/s")
		b.Logf("the worst ratio has %q, the lowest rate %q", at, slow)
	}
}
