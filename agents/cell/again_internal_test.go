package cell

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// A call whose provider lacks capacity or sends what nobody understands is made again until it is back, ten times and not once
// more; one that is refused is not, and the pauses are of 2 seconds to 2 minutes.
func TestCallsAreMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		fails  int
		want   error
		calls  int
		lasted time.Duration
	}{
		"once":       {"overloaded", 1, nil, 2, 2 * time.Second},
		"ten times":  {"rate_limited", 10, nil, 11, 606 * time.Second},
		"one more":   {"overloaded", 11, llm.Overloaded{}, 11, 606 * time.Second},
		"garbled":    {"garbled", 2, nil, 3, 6 * time.Second},
		"timeout":    {"timeout", 2, nil, 3, 6 * time.Second},
		"a key":      {"auth", 1, llm.Auth{}, 1, 0},
		"refused":    {"protocol", 1, llm.Protocol{What: "the call failed"}, 1, 0},
		"the budget": {"budget", 1, llm.Budget{}, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			toKeeper, fromCell := io.Pipe()
			toCell, fromKeeper := io.Pipe()
			calls := 0
			go func() {
				lines := bufio.NewScanner(toKeeper)
				for lines.Scan() {
					var m struct {
						ID jsontext.Value `json:"id"`
					}
					if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
						t.Error(err)
					}
					if calls++; calls <= c.fails {
						_, _ = fmt.Fprintf(fromKeeper, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"x","data":{"code":%q}}}`+"\n", m.ID, c.code)
					} else {
						_, _ = fmt.Fprintf(fromKeeper, `{"jsonrpc":"2.0","id":%s,"result":{"stop":"end","usage":{"Input":0,"CacheRead":0,"CacheWrite":0,"Output":0}}}`+"\n", m.ID)
					}
				}
			}()
			door := stdio.NewClient(fromCell, nil)
			ended := make(chan error, 1)
			go func() { ended <- door.Run(t.Context(), toCell, maxLine) }()
			begun := time.Now()
			talk := &talk{cell: &Cell{door: door}, id: "c", ends: time.Now().Add(lasts)}
			_, err := talk.Do(t.Context(), &llm.Request{Model: "m"})
			bcptest.FailIf(t, !errors.Is(err, c.want) || calls != c.calls || time.Since(begun) != c.lasted,
				"%s: %v after %d calls and %s", name, err, calls, time.Since(begun))
			_, _ = fromKeeper.Close(), fromCell.Close()
			<-ended
		})
	}
}
