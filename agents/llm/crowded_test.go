package llm

import (
	"runtime"
	"strings"
	"testing"
)

// What counts are members and elements, and no punctuation of a text.
func TestCrowded(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return "[" + strings.Repeat("0,", n-1) + "0]" }
	for text, want := range map[string]bool{
		"": false, list(maxMembers): false, list(maxMembers + 1): true, strings.Repeat("[", maxMembers+1): true,
		strings.Repeat("{", maxMembers): false, `{"a":` + list(maxMembers-1) + `}`: false, `{"a":` + list(maxMembers) + `}`: true,
		`["` + strings.Repeat(",", maxMembers) + `"]`: false, `["\"` + strings.Repeat(",[{", maxMembers) + `\\"]`: false,
		`["\\",` + list(maxMembers) + "]": true,
	} {
		if got := Crowded([]byte(text)); got != want {
			t.Errorf("%.20s, %d bytes: %v", text, len(text), got)
		}
	}
}

// A request of a cell takes memory in proportion to its size: one of 4 MiB is not taken for a million turns. It is the only
// test that runs, so that what is allocated is its own.
func TestCrowdedRequestIsNotRead(t *testing.T) {
	for _, item := range []string{`{"role":1}`, `{}`} {
		body := []byte(`{"model":"m","turns":[` + strings.Repeat(item+",", 4<<20/(len(item)+1)) + item + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseRequest(body)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err == nil || allocated > 16<<20 {
			t.Errorf("%s: %d bytes for a request of %d, %v", item, allocated, len(body), err)
		}
	}
}
