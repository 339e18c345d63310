package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

// outcome is what one command line did.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute runs a command line inside the test.
func execute(t testing.TB, stdin string, args ...string) outcome {
	t.Helper()
	got := clitest.Root(rootCommand).Execute(stdin, args...)
	return outcome{got.Code, got.Stdout, got.Stderr}
}

// succeed runs a command line that has to succeed, and returns its stdout.
func succeed(t testing.TB, args ...string) string {
	t.Helper()
	got := execute(t, "", args...)
	stopIf(t, got.code != cli.ExitOK, "%q: %+v", args, got)
	return got.stdout
}

func runCommandLine(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	return cli.Run(ctx, rootCommand, args, stdin, stdout, stderr, env)
}

// eachCommand calls f with every command and its words.
func eachCommand(t *testing.T, f func(cmd *cobra.Command, words []string)) {
	t.Helper()
	clitest.Root(rootCommand).Each(f)
}

// The documents name no command that there is not.
func TestDocumentsNameCommands(t *testing.T) {
	t.Parallel()
	children := map[string][]string{} // of commands that take no arguments of their own
	eachCommand(t, func(cmd *cobra.Command, words []string) {
		if parent := strings.Join(words[:max(len(words)-1, 0)], " "); len(words) > 0 && (!strings.Contains(cmd.Parent().Use, " ") || strings.HasSuffix(cmd.Parent().Use, "COMMAND]")) {
			children[parent] = append(children[parent], words[len(words)-1])
		}
	})
	files := must(filepath.Glob("../../docs/*.md"))(t)
	named, word := 0, regexp.MustCompile("^[a-z][a-z0-9-]*$")
	for _, file := range append(files, "../../README.md") {
		text := readFile(t, file)
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
	failIf(t, named < 100, "found only %d commands in the documents", named)
}

// Each link of a document leads to a file of the tree and, where it names one, to a heading of that document.
func TestDocumentsLink(t *testing.T) {
	t.Parallel()
	fence, link, heading := regexp.MustCompile("(?s)\n```.*?\n```"), regexp.MustCompile(`\]\(([^)\s:]+)\)`), regexp.MustCompile(`(?m)^#+ (.*)$`)
	links, mark := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`), regexp.MustCompile(`[^\pL\pN _-]`)
	anchors := map[string][]string{} // by document
	read := func(name string) string {
		text := readFile(t, name)
		return fence.ReplaceAllString("\n"+string(text), "")
	}
	followed := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "bcp/*.md", "agents/*/*.md", "examples/*/*.md"} {
		files := must(filepath.Glob("../../" + pattern))(t)
		for _, file := range files {
			for _, found := range link.FindAllStringSubmatch(read(file), -1) {
				followed++
				name, anchor, _ := strings.Cut(found[1], "#")
				target := file
				if name != "" {
					target = filepath.Join(filepath.Dir(file), name)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: %s: there is no such file", file, found[1])
					continue
				}
				if filepath.Ext(target) != ".md" || anchor == "" {
					continue
				}
				if anchors[target] == nil {
					for _, h := range heading.FindAllStringSubmatch(read(target), -1) {
						plain := mark.ReplaceAllString(strings.ToLower(links.ReplaceAllString(h[1], "$1")), "")
						anchors[target] = append(anchors[target], strings.ReplaceAll(plain, " ", "-"))
					}
				}
				failIf(t, !slices.Contains(anchors[target], anchor), "%s: %s: there is no such heading", file, found[1])
			}
		}
	}
	failIf(t, followed < 300, "followed only %d links", followed)
}

// Every command has a long help with an example that names it, and the texts
// are golden: `go test ./cmd/bcpmesh -run Help -update` rewrites them.
func TestHelp(t *testing.T) {
	t.Parallel()
	clitest.Root(rootCommand).CheckHelp(t, *update)
}

// docs/commands.md lists the commands by what people do with them: `go test ./cmd/bcpmesh -run Help -update` writes it.
func TestHelpListsCommands(t *testing.T) {
	t.Parallel()
	order, tops, below := []string{}, map[string][]*cobra.Command{}, map[*cobra.Command]string{}
	eachCommand(t, func(cmd *cobra.Command, words []string) {
		switch {
		case len(words) == 0:
			for _, g := range cmd.Groups() {
				order = append(order, g.ID)
			}
			return
		case !cmd.IsAvailableCommand():
			return
		}
		top := cmd
		for top.Parent().HasParent() {
			top = top.Parent()
		}
		if top == cmd {
			tops[top.GroupID] = append(tops[top.GroupID], top)
			return
		}
		below[top] += ", `" + strings.Join(words[1:], " ") + "`"
	})
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from the program; `bcpmesh COMMAND --help` says more.\n")
	for _, group := range append(order, "") {
		b.WriteString("\n## " + cmp.Or(group, "Other") + "\n\n")
		for _, top := range tops[group] {
			if b.WriteString("- `" + top.Name() + "`"); below[top] != "" {
				b.WriteString(" (" + strings.TrimPrefix(below[top], ", ") + ")")
			}
			b.WriteString(": " + top.Short + "\n")
		}
	}
	const page = "../../docs/commands.md"
	if *update {
		noError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	if is, err := os.ReadFile(page); err != nil || string(is) != b.String() {
		t.Errorf("docs/commands.md is not that of the commands: go test ./cmd/bcpmesh -run Help -update (%v)", err)
	}
}

func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	clitest.Root(rootCommand).CheckBadCommandLines(t, "validate", "restore", "role attest")
}

func checkTalk(t testing.TB, stderr string) {
	t.Helper()
	clitest.CheckTalk(t, stderr)
}
