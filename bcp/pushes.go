package bcp

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Rate is at most Count events in any Span of time (PROTOCOL P12.1). The zero
// value is no rate: whoever has one declares it.
type Rate struct {
	Count int
	Span  time.Duration
}

// MaxRateCount bounds the Count of a max_rate: a channel remembers the times of so
// many pushes of each of its subscriptions.
const MaxRateCount = 1000

// MaxRateSpan is the longest Span: what is older counts for none.
const MaxRateSpan = 24 * time.Hour

// rateUnits are the spans that a rate can have, and their letters.
var rateUnits = []struct {
	letter string
	span   time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", MaxRateSpan}}

// String writes the rate as definitions have it, such as 1/h; nothing for the zero
// value.
func (r Rate) String() string {
	for _, unit := range rateUnits {
		if r.Span == unit.span {
			return strconv.Itoa(r.Count) + "/" + unit.letter
		}
	}
	return ""
}

// MarshalText returns what String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what String writes.
func (r *Rate) UnmarshalText(b []byte) error {
	for _, unit := range rateUnits {
		digits := len(b) - len("/") - len(unit.letter)
		if digits < 1 || string(b[digits:]) != "/"+unit.letter {
			continue
		}
		n, err := strconv.Atoi(string(b[:digits]))
		if err != nil || n < 1 || strconv.Itoa(n) != string(b[:digits]) {
			return wire.ErrWord
		}
		*r = Rate{Count: n, Span: unit.span}
		return nil
	}
	return wire.ErrWord
}

// A subscription with a batch_window has the pushes of each window delivered
// together at its end (PROTOCOL P12.3). Windows lie on a grid: they end at the
// multiples of their length since the beginning of 1970 in UTC. Each push is
// decided, charged and recorded when it comes, and says for which end it waits; a
// decision of its own closes the window and makes the delivery.

// What one delivery of a window may hold. Beyond either a push is rate_limited
// until the window ends. The last answer that fits may be as long as any.
const (
	MaxBatchPushes = 256
)

// Pushed is one push of a delivery that has several.
type Pushed struct {
	// Response is the canonical answer.
	Response jsontext.Value `msgpack:"-" json:"response"`
	// Anomalies are set where the channel flags them.
	Anomalies []string `json:"anomalies,omitempty"`
}

// Gathered reports whether the decision accepts a push that waits for the end of
// its window.
func (d *Decision) Gathered() bool {
	return (d.Kind == KindPush || d.Kind == KindApproval) && d.Verdict == Accept && d.Subscription != "" && d.Delivery == "" && d.Release > 0 && !d.Repeat
}

// pushed returns the pushes of a batch's delivery.
func (d *Decision) pushed() ([]Pushed, bool) {
	var pushes []Pushed
	err := json.Unmarshal(d.Payload, &pushes, json.RejectUnknownMembers(true))
	return pushes, err == nil && len(pushes) > 0
}

// WindowText writes a window as definitions have it, such as 10m; nothing for none.
func WindowText(window time.Duration) string {
	for i := len(rateUnits) - 1; i >= 0 && window > 0; i-- {
		if unit := rateUnits[i]; window%unit.span == 0 {
			return strconv.FormatInt(int64(window/unit.span), 10) + unit.letter
		}
	}
	return ""
}
