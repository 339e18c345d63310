package otlp

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// In the clear, a name that turns out to be another machine is not dialled: what was
// checked is the URL. There is no proxy, whatever the environment says.
//
// covers A-TRACE
func TestDialsThisMachineAloneInTheClear(t *testing.T) {
	t.Parallel()
	plain := newTransport("http", nil)
	for _, address := range []string{"192.0.2.1:4318", "[2001:db8::1]:4318", "0.0.0.0:4318"} {
		if _, err := plain.DialContext(t.Context(), "tcp", address); !errors.Is(err, ErrPlaintext) {
			t.Errorf("dialling %s: %v", address, err)
		}
	}
	for _, scheme := range []string{"http", "https"} {
		if newTransport(scheme, nil).Proxy != nil {
			t.Errorf("%s goes by a proxy", scheme)
		}
	}
}

// What a collector rejected is read of any reply, also of a damaged or hostile one: never
// a number below zero, and the one that the message says.
func FuzzRejected(f *testing.F) {
	for _, partial := range []*collectorpb.ExportTracePartialSuccess{nil, {}, {RejectedSpans: 3, ErrorMessage: "no"}, {RejectedSpans: -1}} {
		reply, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: partial})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(reply)
		f.Add(slices.Concat([]byte{0x10, 0x01, 0x1a, 0x02, 'h', 'i'}, reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		got := parseRejected(reply)
		if got < 0 {
			t.Fatalf("%d spans were rejected", got)
		}
		var answer collectorpb.ExportTraceServiceResponse
		if err := proto.Unmarshal(reply, &answer); err != nil {
			return
		}
		again, err := proto.Marshal(&answer) // fields that came twice are merged
		if err != nil {
			t.Fatal(err)
		}
		if want := max(0, answer.GetPartialSuccess().GetRejectedSpans()); parseRejected(again) != want {
			t.Errorf("%d spans were rejected, not %d", parseRejected(again), want)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0": 0, "7": 7 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got, ok := retryAfter(text, now); !ok || got != want {
			t.Errorf("%q: %s, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "soon", "99999999999999999999"} {
		if got, ok := retryAfter(text, now); ok {
			t.Errorf("%q: %s", text, got)
		}
	}
}
