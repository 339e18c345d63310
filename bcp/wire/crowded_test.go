package wire

import (
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
		got := Crowded([]byte(text))
		failIf(t, got != want, "%.20s, %d bytes: %v", text, len(text), got)
	}
}
