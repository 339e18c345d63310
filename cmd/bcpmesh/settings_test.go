package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/define"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// A judge that has seen many specs still tells them apart.
func TestJudgeForgets(t *testing.T) {
	t.Parallel()
	var cases strings.Builder
	for i := range 3*define.MaxReady + 1 {
		maximum := i % (define.MaxReady + 1)
		line := must(json.Marshal(map[string]any{
			"id":       maximum,
			"spec":     map[string]any{"category": 1, "fields": []any{map[string]any{"name": "n", "type": "integer", "min": 0, "max": maximum}}},
			"response": map[string]int{"n": define.MaxReady / 2},
		}))(t)
		cases.Write(append(line, '\n'))
	}
	got := execute(t, cases.String(), "validate")
	stopIf(t, got.code != cli.ExitOK, "%+v", got)
	for line := range strings.Lines(got.stdout) {
		var v struct {
			ID      int
			Verdict string
		}
		noError(t, json.Unmarshal([]byte(line), &v))
		want := v.ID >= define.MaxReady/2
		failIf(t, (v.Verdict == "accept") != want, "maximum %d: %s", v.ID, v.Verdict)
	}
}
