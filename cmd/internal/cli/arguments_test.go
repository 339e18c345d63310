package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// A usage says how many arguments a command takes, and what completes them.
func TestUsageArguments(t *testing.T) {
	t.Parallel()
	complete := map[string]cobra.CompletionFunc{
		"FILE": cobra.FixedCompletions([]string{"a file"}, cobra.ShellCompDirectiveNoFileComp), "AGENT": cobra.FixedCompletions([]string{"an agent"}, cobra.ShellCompDirectiveNoFileComp),
	}
	for _, test := range []struct {
		use         string
		least, most int
		completed   []string // by the number of arguments before; empty: nothing
	}{
		{"show", 0, 0, []string{""}},
		{"show FILE", 1, 1, []string{"a file", ""}},
		{"show [FILE] AGENT", 1, 2, []string{"a file", "an agent", ""}},
		{"show AGENT|GATEWAY", 1, 1, []string{"an agent", ""}},
		{"show AGENT...", 0, 9, []string{"an agent", "an agent", "an agent"}},
		{"show [FILE...]", 0, 9, []string{"a file", "a file"}},
		{"show AGENT -- SERVER [ARG...]", 0, 9, []string{"an agent", ""}},
	} {
		cmd := &cobra.Command{Use: test.use}
		takes := usageArguments(test.use)
		for n := range 10 {
			err := takes(cmd, make([]string, n))
			failIf(t, (err == nil) != (n >= test.least && n <= test.most), "%s: %d arguments: %v", test.use, n, err)
		}
		for n, want := range test.completed {
			words, directive := completeArguments(test.use, complete)(cmd, make([]string, n), "")
			got := ""
			if len(words) > 0 {
				got = words[0]
			}
			failIf(t, got != want || directive != cobra.ShellCompDirectiveNoFileComp,
				"%s: argument %d: completed by %q (%v), want %q", test.use, n+1, got, directive, want)
		}
	}
}
