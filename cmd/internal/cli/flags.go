package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// DateFlag is a day in UTC.
type DateFlag struct{ Text string }

// String returns the date.
func (f *DateFlag) String() string { return f.Text }

// Type names the flag's values in the help.
func (f *DateFlag) Type() string { return "DATE" }

// Set takes a date.
func (f *DateFlag) Set(s string) error {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return errors.New("expected a date such as 2026-03-15")
	}
	f.Text = s
	return nil
}

// NumberFlag is a flag that takes a whole number of at least least.
type NumberFlag struct{ Value, Least int }

// String returns the number.
func (f *NumberFlag) String() string { return strconv.Itoa(f.Value) }

// Type names the flag's values in the help.
func (f *NumberFlag) Type() string { return "NUMBER" }

// Set takes a number.
func (f *NumberFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(n) < f.Least {
		return fmt.Errorf("expected a number from %d", f.Least)
	}
	f.Value = int(n)
	return nil
}

// WordFlag is a flag that takes one of a closed list of words.
type WordFlag struct {
	Value string
	Words []string
	Name  string // of its values in the help, where they are many
}

// String returns the word.
func (f *WordFlag) String() string { return f.Value }

// Type names the flag's values in the help.
func (f *WordFlag) Type() string {
	if f.Name != "" {
		return f.Name
	}
	return strings.Join(f.Words, "|")
}

// Set takes one of the words.
func (f *WordFlag) Set(s string) error {
	if !slices.Contains(f.Words, s) {
		return fmt.Errorf("expected %s", JoinOr(f.Words))
	}
	f.Value = s
	return nil
}

// AddTo makes it a flag of cmd, with completion.
func (f *WordFlag) AddTo(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(f, name, usage)
	Complete(cmd, name, cobra.FixedCompletions(f.Words, cobra.ShellCompDirectiveNoFileComp))
}

// FirstArgument completes the first argument alone.
func FirstArgument(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// DurationFlag is a flag that takes a duration such as 90s, 24h or 7d.
type DurationFlag struct {
	Value time.Duration
	Least time.Duration
}

// String returns the duration, or nothing for none.
func (f *DurationFlag) String() string {
	if f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

// Type names the flag's values in the help.
func (f *DurationFlag) Type() string { return "DURATION" }

// Set takes a duration of at least f.least and at most a hundred years.
func (f *DurationFlag) Set(s string) error {
	const longest = 36525 * 24 * time.Hour
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		n, parseErr := strconv.ParseUint(days, 10, 16)
		d, err = time.Duration(n)*24*time.Hour, parseErr
	}
	if err != nil || d < f.Least || d > longest {
		return fmt.Errorf("expected a duration of at least %s, such as 90m, 24h or 7d", f.Least)
	}
	f.Value = d
	return nil
}
