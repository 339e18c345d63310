//go:build unix

package verify_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
)

var benchRecords = flag.Int("bench-records", 100_000, "decisions of the export that BenchmarkFile verifies")

// least is the shortest that something took: others may use the machine.
type least struct{ elapsed, processor time.Duration }

func (l *least) measure(b *testing.B, task func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin, before := time.Now(), used()
	task()
	if took := time.Since(begin); l.elapsed == 0 || took < l.elapsed {
		l.elapsed = took
	}
	if took := used() - before; l.processor == 0 || took < l.processor {
		l.processor = took
	}
}

// BenchmarkFile verifies an export, and compares with hashing its bytes once
// (SHA-256) in the same loop: those of the file as it is on disk, and those of its
// decisions unpacked. Ratios are of
// the time that passes and, with cpu, of processor time.
//
//	go test ./jetstream/verify -run '^$' -bench File -benchtime 5x -bench-records 1000000
func BenchmarkFile(b *testing.B) {
	key := newKey(b)
	decisions := chainOf(b, *benchRecords)
	file := export(b, decisions, jetstream.ExportOptions{Key: key})
	unpacked := bytes.Join(decisions, make([]byte, 4))
	var verifying, hashing, hashingUnpacked least
	for b.Loop() {
		verifying.measure(b, func() {
			if _, err := check(file, verify.Options{Keys: []string{key.Public}}); err != nil {
				b.Fatal(err)
			}
		})
		hashing.measure(b, func() { sha256.Sum256(file) })
		hashingUnpacked.measure(b, func() { sha256.Sum256(unpacked) })
	}
	b.ReportMetric(float64(len(unpacked))/float64(len(decisions)), "bytes/decision")
	b.ReportMetric(float64(len(unpacked))/float64(len(file)), "packed-x")
	b.ReportMetric(float64(verifying.elapsed.Nanoseconds())/float64(len(decisions)), "ns/decision")
	b.ReportMetric(float64(verifying.processor.Nanoseconds())/float64(len(decisions)), "cpu-ns/decision")
	b.ReportMetric(float64(verifying.elapsed)/float64(hashing.elapsed), "hashing-x")
	b.ReportMetric(float64(verifying.processor)/float64(hashing.processor), "hashing-cpu-x")
	b.ReportMetric(float64(verifying.elapsed)/float64(hashingUnpacked.elapsed), "hashing-unpacked-x")
	b.ReportMetric(float64(verifying.processor)/float64(hashingUnpacked.processor), "hashing-unpacked-cpu-x")
}
