package bench

import (
	"math/bits"
	"slices"
	"time"
)

// Latencies counts durations in buckets that are less than a hundredth wide.
// The zero value is empty.
type Latencies struct {
	Counts map[int]int   `json:"counts,omitempty"`
	Max    time.Duration `json:"max"`
}

func (l *Latencies) add(d time.Duration) {
	if l.Counts == nil {
		l.Counts = make(map[int]int)
	}
	l.Counts[bucketNumber(d)]++
	l.Max = max(l.Max, d)
}

func (l *Latencies) merge(other Latencies) {
	if l.Counts == nil {
		l.Counts = make(map[int]int)
	}
	for bucket, n := range other.Counts {
		l.Counts[bucket] += n
	}
	l.Max = max(l.Max, other.Max)
}

// Count returns how many there are.
func (l Latencies) Count() int {
	n := 0
	for _, c := range l.Counts {
		n += c
	}
	return n
}

// Percentile returns the duration that p in 100 do not exceed, zero if there
// are none.
func (l Latencies) Percentile(p int) time.Duration {
	buckets := make([]int, 0, len(l.Counts))
	for b := range l.Counts {
		buckets = append(buckets, b)
	}
	slices.Sort(buckets)
	left := (l.Count()*p + 99) / 100
	for _, b := range buckets {
		if left -= l.Counts[b]; left <= 0 {
			return min(bucketMiddle(b), l.Max)
		}
	}
	return 0
}

// bucketNumber keeps the upper eight bits of a duration.
func bucketNumber(d time.Duration) int {
	v := uint64(max(0, d))
	shift := max(0, bits.Len64(v)-8)
	return shift<<7 + int(v>>shift)
}

// bucketMiddle is the middle of a bucket.
func bucketMiddle(bucket int) time.Duration {
	if bucket < 256 {
		return time.Duration(bucket)
	}
	shift := bucket>>7 - 1
	return time.Duration(bucket-shift<<7)<<shift + time.Duration(1)<<shift/2
}

func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Span is a duration that is text in JSON, such as 1.5ms.
type Span time.Duration

// MarshalText writes it as [time.Duration] does.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (s *Span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = Span(d)
	return err
}

// String writes it as [time.Duration] does.
func (s Span) String() string { return time.Duration(s).String() }
