package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const variables = "github.com/bcpmesh/bcpmesh/cmd/internal/cli."

// compile builds a program for a platform; an empty one is that of this machine.
func (r *release) compile(system, arch, program, out string) error {
	link := fmt.Sprintf("-s -w -funcalign=16 -buildid= -X %sbuildVersion=v%s -X %sbuildCommit=%s -X %sbuildDate=%s",
		variables, r.version, variables, r.commit, variables, r.date.Format(time.RFC3339))
	// funcalign: see the step build of .ci/run.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", link, "-o", out, "./cmd/"+program)
	// The oldest machines of each kind, whatever this environment says.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=-mod=readonly")
	if system != "" {
		cmd.Env = append(cmd.Env, "GOOS="+system, "GOARCH="+arch)
	}
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// build builds the programs for every platform.
func (r *release) build() error {
	for _, t := range r.targets {
		for _, name := range programs {
			program := name
			if t.os == "windows" {
				program += ".exe"
			}
			at := filepath.Join(r.work, t.os+"-"+t.arch+"-"+program)
			if err := r.compile(t.os, t.arch, name, at); err != nil {
				return fmt.Errorf("%s for %s/%s: %w", name, t.os, t.arch, err)
			}
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			t.programs, t.paths = append(t.programs, file{program, 0o755, content}), append(t.paths, at)
		}
	}
	return nil
}

// document has a program of this machine write the completions, and makes the man pages
// of its help.
func (r *release) document() error {
	program := filepath.Join(r.work, "here", programs[0])
	for _, name := range programs { // bcpmesh asks the others for their help
		if err := r.compile("", "", name, filepath.Join(r.work, "here", name)); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "completions/bcpmesh.bash", "zsh": "completions/_bcpmesh", "fish": "completions/bcpmesh.fish"} {
		script, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		r.pages = append(r.pages, file{name, 0o644, script})
	}
	if err := r.manPages(program, nil); err != nil {
		return err
	}
	sortFiles(r.pages)
	return nil
}

// manPages adds the page of a command and of those below it.
func (r *release) manPages(program string, command []string) error {
	text, err := exec.Command(program, append(append([]string{"help"}, command...), "--json")...).Output()
	if err != nil {
		return fmt.Errorf("help %v: %w", command, err)
	}
	var help struct{ Command, Help, Usage string }
	if err := json.Unmarshal(text, &help); err != nil {
		return fmt.Errorf("help %v: %w", command, err)
	}
	words, err := exec.Command(program, append(append([]string{"__complete", "help"}, command...), "")...).Output()
	if err != nil {
		return err
	}
	var children []string
	for word := range strings.Lines(string(words)) {
		if word = strings.TrimSpace(word); word != "" && word[0] != ':' {
			children = append(children, word)
		}
	}
	page := manPage(strings.ReplaceAll(help.Command, " ", "-"), help.Help, help.Usage, r.version, r.date)
	name := "man/" + strings.ReplaceAll(help.Command, " ", "-") + ".1"
	r.pages = append(r.pages, file{name, 0o644, []byte(page)})
	for _, child := range children {
		if err := r.manPages(program, append(command[:len(command):len(command)], child)); err != nil {
			return err
		}
	}
	return nil
}

// manPage writes a page in man(7): the help in paragraphs, and the usage as it is shown.
func manPage(command, help, usage, version string, date time.Time) string {
	var b strings.Builder
	first, _, _ := strings.Cut(strings.Join(strings.Fields(help), " "), ". ")
	first = strings.TrimRight(first, ".:")
	fmt.Fprintf(&b, ".TH %s 1 %s \"bcpmesh %s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(command), date.Format(time.DateOnly), version, roff(command), roff(first))
	b.WriteString(".SH DESCRIPTION\n")
	for _, paragraph := range strings.Split(strings.TrimSpace(help), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(paragraph))
		} else {
			fmt.Fprintf(&b, ".PP\n%s\n", roff(paragraph))
		}
	}
	fmt.Fprintf(&b, ".SH USAGE\n.nf\n%s\n.fi\n", roff(strings.TrimSpace(usage)))
	return b.String()
}

// roff quotes what roff would read as its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
