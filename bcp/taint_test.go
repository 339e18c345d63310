package bcp

import "testing"

// covers BCP-138, BCP-140, BCP-141, BCP-142, BCP-143, P8.1, P8.2
func TestTaintLevels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		taint, down Taint
		word        string
	}{
		{TaintLow, TaintLow, "low"}, {TaintMedium, TaintLow, "medium"}, {TaintHigh, TaintMedium, "high"},
		{TaintUnknown, TaintMedium, "high"}, {4, TaintMedium, "high"}, {255, TaintMedium, "high"},
	} {
		got := tt.taint.StepDown()
		failIf(t, got != tt.down, "%d steps down to %s", tt.taint, got)
		word, err := tt.taint.MarshalText()
		failIf(t, err != nil || string(word) != tt.word || tt.taint.String() != tt.word,
			"%d is written %q, %v", tt.taint, word, err)
	}
	for a := range Taint(5) {
		for b := range Taint(5) {
			if got := MaxTaint(a, b); got != MaxTaint(b, a) || got < a.level() || got < b.level() || got != a.level() && got != b.level() {
				t.Errorf("the greater of %d and %d is %d", a, b, got)
			}
		}
	}
}
