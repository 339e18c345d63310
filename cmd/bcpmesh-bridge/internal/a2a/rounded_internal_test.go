package a2a

import (
	"testing"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/bcpmesh/bcpmesh/agents"
)

// A number that the library may have rounded is no answer; one below is.
func TestNumbersOfAnswers(t *testing.T) {
	t.Parallel()
	for n, ok := range map[float64]bool{9007199254740991: true, -9007199254740991: true, 9007199254740992: false, 1e300: false, 0.5: true, 12: true} {
		for _, data := range []map[string]any{{"n": n}, {"x": []any{map[string]any{"n": n}}}} {
			if _, err := answerIn([]*protocol.Part{protocol.NewDataPart(data)}, agents.Query{}); (err == nil || n == 0.5) != ok {
				t.Errorf("%v: %v", data, err)
			}
		}
	}
}
