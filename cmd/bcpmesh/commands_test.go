package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// outcome is what one command line did.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute runs a command line inside the test.
func execute(t testing.TB, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := runCommandLine(context.Background(), args, strings.NewReader(stdin), &stdout, &stderr, func(string) string { return "" })
	return outcome{code, stdout.String(), stderr.String()}
}

// eachCommand calls f with every command and its words.
func eachCommand(t *testing.T, f func(cmd *cobra.Command, words []string)) {
	t.Helper()
	p := &cli.Program{In: strings.NewReader(""), Out: cli.NewOutput(&bytes.Buffer{}, &bytes.Buffer{}, os.Getenv), Env: os.Getenv}
	var walk func(cmd *cobra.Command, words []string)
	walk = func(cmd *cobra.Command, words []string) {
		f(cmd, words)
		for _, child := range cmd.Commands() {
			walk(child, append(words[:len(words):len(words)], child.Name()))
		}
	}
	walk(rootCommand(p), nil)
}

// The documents name no command that there is not.
func TestDocumentsNameCommands(t *testing.T) {
	t.Parallel()
	children := map[string][]string{} // of commands that take no arguments of their own
	eachCommand(t, func(cmd *cobra.Command, words []string) {
		if parent := strings.Join(words[:max(len(words)-1, 0)], " "); len(words) > 0 && !strings.Contains(cmd.Parent().Use, " ") {
			children[parent] = append(children[parent], words[len(words)-1])
		}
	})
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named, word := 0, regexp.MustCompile("^[a-z][a-z0-9-]*$")
	for _, file := range append(files, "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range regexp.MustCompile("`bcpmesh ([^`\n]+)`").FindAllSubmatch(text, -1) {
			named++
			command := ""
			for _, next := range strings.Fields(string(span[1])) {
				if children[command] == nil || !word.MatchString(next) {
					break
				}
				if !slices.Contains(children[command], next) {
					t.Errorf("%s names bcpmesh %s, and there is no %s", file, span[1], next)
					break
				}
				command = strings.TrimSpace(command + " " + next)
			}
		}
	}
	if named < 100 {
		t.Errorf("found only %d commands in the documents", named)
	}
}

// Every command has a long help with an example that names it, and the texts
// are golden: `go test ./cmd/bcpmesh -run Help -update` rewrites them.
func TestHelp(t *testing.T) {
	t.Parallel()
	eachCommand(t, func(cmd *cobra.Command, words []string) {
		t.Run(strings.Join(append([]string{"bcpmesh"}, words...), "-"), func(t *testing.T) {
			t.Parallel()
			if cmd.Long == "" || !strings.Contains(cmd.Example, cmd.CommandPath()) {
				t.Errorf("%s: expected a long help and an example", cmd.CommandPath())
			}
			got := execute(t, "", append(words, "--help")...)
			if got.code != cli.ExitOK || got.stderr != "" {
				t.Fatalf("exit %d, stderr %q", got.code, got.stderr)
			}
			if !strings.Contains(got.stdout, "--json") {
				t.Error("the help does not name --json")
			}
			for line := range strings.Lines(got.stdout) {
				if len([]rune(line)) > 121 {
					t.Errorf("longer than 120 characters: %s", line)
				}
			}
			golden := filepath.Join("testdata", "help", filepath.Base(t.Name())+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got.stdout), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.stdout); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	})
}

// Whatever is wrong with a command line, the answer is one line on stderr, at
// most one hint behind it, nothing on stdout, and the exit code for it.
func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	eachCommand(t, func(_ *cobra.Command, words []string) {
		for _, wrong := range [][]string{
			{"--jsonn"}, {"--json=perhaps"}, {"-Q"}, {"--no-such-flag=\x1b[31m\n"}, {"one", "two", "three", "--", "--four"}, {"-="}, {"--="},
		} {
			args := append(words[:len(words):len(words)], wrong...)
			if wrong[0] == "one" && slices.Contains([]string{"validate", "restore", "role attest", "role contracts", "notify test"}, strings.Join(words, " ")) {
				continue // takes any number
			}
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				got := execute(t, "", args...)
				if got.code != cli.ExitUsage || got.stdout != "" {
					t.Errorf("exit %d, stdout %q", got.code, got.stdout)
				}
				checkTalk(t, got.stderr)
			})
		}
	})
}

// checkTalk checks that stderr holds one line about an error, perhaps with a
// hint, and nothing that a terminal would act on.
func checkTalk(t testing.TB, stderr string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) > 2 || !strings.HasPrefix(lines[0], "bcpmesh: ") || len(lines) == 2 && !strings.HasPrefix(lines[1], "hint: ") {
		t.Errorf("expected one line and perhaps a hint:\n%s", stderr)
	}
	for _, line := range lines {
		if line != cli.Plain(line) {
			t.Errorf("not harmless for a terminal: %q", line)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"as it is, ä 中 🙂":       "as it is, ä 中 🙂",
		"two\nlines":            "two; lines",
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"\u202etfel\u2066":      `\u202etfel\u2066`,
		"zero\u200bwidth\ufeff": `zero\u200bwidth\ufeff`,
		"bad \xff\xfe utf8":     `bad \xff\xfe utf8`,
		"c1 \u009b31m \u00a0":   `c1 \u009b31m \u00a0`,
		"tab\tand\rreturn":      `tab\tand\rreturn`,
	} {
		if got := cli.Plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}
