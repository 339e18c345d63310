package wires_test

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// allocated is how many bytes f allocates, if nothing else runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// crowd is JSON of so many bytes, nearly all of which are items of a list.
func crowd(size int, head, item, tail string) string {
	return head + strings.Repeat(item+",", (size-len(head)-len(tail)-len(item))/(len(item)+1)) + item + tail
}

// A reply takes memory in proportion to its size.
func TestCrowdedRepliesAreRefused(t *testing.T) {
	for _, c := range []struct{ provider, head, item, tail string }{
		{"anthropic", `{"content":[`, `{}`, `]}`},
		{"openai", `{"choices":[`, `{}`, `]}`},
		{"google", `{"candidates":[{"content":{"parts":[`, `{}`, `]},"finishReason":"STOP"}]}`},
		{"google", strings.Repeat("[", 9000) + `"`, `x`, `"` + strings.Repeat("]", 9000)},
	} {
		body := crowd(1<<20, c.head, c.item, c.tail)
		model := opened(t, vendorOf(c.provider), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		var err error
		n := allocated(func() {
			_, err = model.Provider.Do(t.Context(), &llm.Request{Model: "m", MaxTokens: 10})
		})
		want := (llm.Protocol{What: "the reply is no JSON of this provider"})
		failIf(t, !errors.Is(err, want) || n > 16<<20, "%s: %d bytes for a reply of %d, %v", c.provider, n, len(body), err)
	}
}

// The search for texts in nested lists is bounded, since it decodes each level again.
func TestTextsStandNotDeep(t *testing.T) {
	body := crowd(1<<20, `{"choices":[{"message":{"content":`+strings.Repeat("[", 9000)+`"`, `x`, `"`+strings.Repeat("]", 9000)+`}}]}`)
	n := allocated(func() { _, _, _ = replied(t, "openai", "application/json", body) })
	failIf(t, n > 64<<20, "%d bytes for a reply of %d", n, len(body))
}
