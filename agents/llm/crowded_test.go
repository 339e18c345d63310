package llm

import (
	"runtime"
	"strings"
	"testing"
)

// A request of a cell takes memory in proportion to its size: one of 4 MiB is not taken for a million turns. It is the only
// test that runs, so that what is allocated is its own.
func TestCrowdedRequestIsNotRead(t *testing.T) {
	for _, item := range []string{`{"role":1}`, `{}`} {
		body := []byte(`{"model":"m","turns":[` + strings.Repeat(item+",", 4<<20/(len(item)+1)) + item + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseRequest(body)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		failIf(t, err == nil || allocated > 16<<20, "%s: %d bytes for a request of %d, %v", item, allocated, len(body), err)
	}
}
