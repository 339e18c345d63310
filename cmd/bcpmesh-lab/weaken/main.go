// Weaken shows that each attack of the red team can fail. It applies the patches of
// cmd/bcpmesh-lab/weaken to a copy of the files that they change, builds one program of
// the tree with these in place (go build -overlay), and has it make the attacks that
// a patch says it lets through: with no patch on, all have to hold; with one on, each
// of its own has to get through. A promise that no attack over the bus reaches is guarded
// by a test of a package, "TestName in FOLDER", which has to pass and to fail likewise.
//
//	go run ./cmd/bcpmesh-lab/weaken                all patches
//	go run ./cmd/bcpmesh-lab/weaken budget slots   these
//
// A patch is a unified diff with a line of text, and a line "Breaks: A-ID, …", before
// it. What it adds asks weak("NAME") whether it is on, of which there is one function
// in each package that is patched, and none in the tree. Files of NATS's server are
// under nats-server/. It has to run in the root of the tree, and wants git.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/corpus"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/leakage"
)

const (
	module       = "cmd/bcpmesh-lab"
	folder       = module + "/weaken"
	server       = "nats-server"
	serverModule = "github.com/nats-io/nats-server/v2"
	switchName   = "BCPMESH_WEAK"
	overlayName  = "overlay.json"
)

// patch weakens the program in one place.
type patch struct {
	name    string
	attacks []string
	files   []string
	diff    []byte
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "weaken:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	all, err := patches()
	if err != nil {
		return err
	}
	if err := checkPatches(all); err != nil {
		return err
	}
	chosen := all
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			i := slices.IndexFunc(all, func(p patch) bool { return p.name == name })
			if i < 0 {
				return fmt.Errorf("there is no %s/%s.patch", folder, name)
			}
			chosen = append(chosen, all[i])
		}
	}
	work, err := os.MkdirTemp("", "bcpmesh-weaken-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // ours
	program, err := build(ctx, work, chosen)
	if err != nil {
		return err
	}
	return errors.Join(checkUnpatched(ctx, program, chosen), checkPatched(ctx, program, chosen))
}

// patches reads all patches, sorted by name.
func patches() ([]patch, error) {
	paths, err := filepath.Glob(folder + "/*.patch")
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no patches in %s: run it in the root of the tree", folder)
	}
	changed, breaks := regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)$`), regexp.MustCompile(`(?m)^Breaks: (.*)$`)
	var all []patch
	for _, at := range paths {
		p := patch{name: strings.TrimSuffix(path.Base(at), ".patch")}
		if p.diff, err = os.ReadFile(at); err != nil {
			return nil, err
		}
		list := breaks.FindSubmatch(p.diff)
		if list == nil {
			return nil, fmt.Errorf("%s: no line that says what it breaks", at)
		}
		p.attacks = strings.Split(string(list[1]), ", ")
		for _, file := range changed.FindAllSubmatch(p.diff, -1) {
			p.files = append(p.files, string(file[1]))
		}
		if len(p.files) == 0 || !bytes.Contains(p.diff, []byte(`weak("`+p.name+`")`)) {
			return nil, fmt.Errorf("%s: nothing in it asks weak(%q)", at, p.name)
		}
		all = append(all, p)
	}
	return all, nil
}

// checkPatches: each attack, and each promise of texts, has a patch that lets it through, and
// each patch attacks.
func checkPatches(all []patch) error {
	found := map[string]bool{}
	for _, p := range all {
		for _, id := range p.attacks {
			found[id] = true
		}
	}
	var problems []error
	for _, a := range redteam.Catalogue() {
		if !found[a.ID] {
			problems = append(problems, fmt.Errorf("%s: no patch lets it through: it was never seen red", a.ID))
		}
		delete(found, a.ID)
	}
	for _, p := range corpus.Promises() {
		if !found[p.ID] {
			problems = append(problems, fmt.Errorf("%s: no patch breaks it: it was never seen red", p.ID))
		}
		delete(found, p.ID)
	}
	for _, t := range leakage.Tests() { // each looks for any leak, and has no patch of its own
		delete(found, t.ID)
	}
	for id := range found {
		if strings.HasPrefix(id, "Test") { // it is run
			continue
		}
		problems = append(problems, fmt.Errorf("%s: there is no such attack", id))
	}
	return errors.Join(problems...)
}

// build makes the program with the patches in it, all off.
func build(ctx context.Context, work string, chosen []patch) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	packages := map[string]bool{}
	for _, p := range chosen {
		for _, file := range p.files {
			packages[path.Dir(file)] = true
			if strings.HasPrefix(file, server+"/") {
				continue
			}
			replaced[filepath.Join(root, file)] = filepath.Join(work, file)
			if err := copyFile(file, filepath.Join(work, file)); err != nil {
				return "", err
			}
		}
	}
	workspace := filepath.Join(root, "go.work")
	if slices.ContainsFunc(chosen, func(p patch) bool { return strings.HasPrefix(p.files[0], server+"/") }) {
		if err := ownServer(ctx, work); err != nil {
			return "", err
		}
		workspace = filepath.Join(work, "go.work")
		text := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%q\n\t%q\n)\n\nreplace %s => %q\n", root, filepath.Join(root, module), serverModule, filepath.Join(work, server))
		if err := os.WriteFile(workspace, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	for _, p := range chosen {
		apply := exec.CommandContext(ctx, "git", "apply", "-p1", "-")
		apply.Dir, apply.Stdin, apply.Stderr = work, bytes.NewReader(p.diff), os.Stderr
		if err := apply.Run(); err != nil {
			return "", fmt.Errorf("%s.patch does not apply any more: weaken the program in another way: %w", p.name, err)
		}
	}
	for folder := range packages {
		at := filepath.Join(work, folder, "weak.go")
		name, err := findPackage(filepath.Join(work, folder))
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar weakened = os.Getenv(%q)\n\nfunc weak(name string) bool { return weakened == name }\n", name, switchName)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return "", err
		}
		if !strings.HasPrefix(folder, server+"/") {
			replaced[filepath.Join(root, folder, "weak.go")] = at
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	list := filepath.Join(work, overlayName)
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(work, "bcpmesh-lab")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", list, "-o", program, "./"+module)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOWORK="+workspace), os.Stderr
	return program, cmd.Run()
}

// ownServer copies NATS's server, since files of modules cannot be overlaid.
func ownServer(ctx context.Context, work string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", serverModule).Output()
	if err != nil {
		return err
	}
	from, to := strings.TrimSpace(string(out)), filepath.Join(work, server)
	err = filepath.WalkDir(from, func(at string, entry fs.DirEntry, err error) error {
		inside, _ := filepath.Rel(from, at)
		if err != nil || entry.IsDir() || strings.HasSuffix(at, "_test.go") {
			return err
		}
		return copyFile(at, filepath.Join(to, inside))
	})
	return errors.Join(err, copyFile("go.work.sum", filepath.Join(work, "go.work.sum")))
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

func findPackage(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no Go files in %s", folder)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	name := regexp.MustCompile(`(?m)^package (\w+)$`).FindSubmatch(content)
	if name == nil {
		return "", fmt.Errorf("%s: no package", files[0])
	}
	return string(name[1]), nil
}

// checkUnpatched: with no patch on, the program holds.
func checkUnpatched(ctx context.Context, program string, chosen []patch) error {
	var ids []string
	for _, p := range chosen {
		ids = append(ids, p.attacks...)
	}
	slices.Sort(ids)
	verdicts, err := attack(ctx, program, "", slices.Compact(ids))
	if err != nil {
		return err
	}
	var problems []error
	for id, r := range verdicts {
		if r.Verdict != redteam.Held {
			problems = append(problems, fmt.Errorf("%s is %s with all patches off: %v", id, r.Verdict, r.Evidence))
		}
	}
	return errors.Join(problems...)
}

// together is how many patches are tried at a time: those attacks that get through by
// nobody answering any more only wait.
const together = 4

// checkPatched: with a patch on, its attacks get through.
func checkPatched(ctx context.Context, program string, chosen []patch) error {
	problems := make([]error, len(chosen))
	var running sync.WaitGroup
	turns := make(chan struct{}, together)
	for i, p := range chosen {
		turns <- struct{}{}
		running.Go(func() {
			problems[i] = p.seenRed(ctx, program)
			<-turns
		})
	}
	running.Wait()
	return errors.Join(problems...)
}

// seenRed has the program make a patch's attacks with the patch on.
func (p patch) seenRed(ctx context.Context, program string) error {
	begin := time.Now()
	verdicts, err := attack(ctx, program, p.name, p.attacks)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	var problems []error
	for _, id := range p.attacks {
		if r := verdicts[id]; r.Verdict != redteam.Broken {
			problems = append(problems, fmt.Errorf("%s does not break %s, which is %s: %v", p.name, id, r.Verdict, r.Evidence))
		}
	}
	fmt.Printf("%s: %d of %d attacks get through, as they should (%s)\n", p.name, len(p.attacks)-len(problems), len(p.attacks), time.Since(begin).Round(time.Millisecond))
	return errors.Join(problems...)
}

// attack has the program make attacks, and tests of leakage, and say the built-in texts,
// with one patch on.
func attack(ctx context.Context, program, on string, ids []string) (map[string]redteam.Result, error) {
	var attacks, tests []string
	verdicts := map[string]redteam.Result{}
	for _, id := range ids {
		switch {
		case slices.ContainsFunc(leakage.Tests(), func(t leakage.Test) bool { return t.ID == id }):
			tests = append(tests, id)
		case slices.ContainsFunc(corpus.Promises(), func(p corpus.Promise) bool { return p.ID == id }):
			if _, tried := verdicts[id]; tried { // all of them were
				continue
			}
			if err := say(ctx, program, on, verdicts); err != nil {
				return nil, err
			}
		case strings.HasPrefix(id, "Test"):
			r, err := test(ctx, program, on, id)
			if err != nil {
				return nil, err
			}
			verdicts[id] = r
		default:
			attacks = append(attacks, id)
		}
	}
	for _, one := range []struct {
		command []string
		ids     []string
	}{{[]string{"redteam"}, attacks}, {[]string{"redteam", "leakage"}, tests}} {
		if len(one.ids) == 0 {
			continue
		}
		var report redteam.Report
		if err := reported(ctx, program, on, &report, append(one.command, "--json", "--only", strings.Join(one.ids, ","))...); err != nil {
			return nil, err
		}
		for _, r := range report.Results {
			verdicts[r.ID] = r
		}
	}
	return verdicts, nil
}

// say has the program say the built-in texts, and adds what became of each promise.
func say(ctx context.Context, program, on string, verdicts map[string]redteam.Result) error {
	var report corpus.Report
	if err := reported(ctx, program, on, &report, "redteam", "corpus", "--json"); err != nil {
		return err
	}
	for _, p := range corpus.Promises() {
		r := redteam.Result{ID: p.ID, Verdict: redteam.Held, Evidence: p.In(report)}
		if len(r.Evidence) > 0 {
			r.Verdict = redteam.Broken
		}
		verdicts[p.ID] = r
	}
	return nil
}

// test runs a test with one patch on, built of the files that the program was built of.
func test(ctx context.Context, program, on, id string) (redteam.Result, error) {
	name, in, _ := strings.Cut(id, " in ")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-overlay", filepath.Join(filepath.Dir(program), overlayName), "-run", "^"+name+"$", "./"+in)
	cmd.Env = append(os.Environ(), switchName+"="+on)
	out, err := cmd.CombinedOutput()
	switch failed := bytes.Contains(out, []byte("--- FAIL: "+name)); {
	case failed:
		return redteam.Result{ID: id, Verdict: redteam.Broken, Evidence: []string{string(out)}}, nil
	case err != nil || bytes.Contains(out, []byte("[no tests to run]")):
		return redteam.Result{}, fmt.Errorf("%s did not run: %w: %s", id, err, out)
	}
	return redteam.Result{ID: id, Verdict: redteam.Held}, nil
}

// reported runs the program with one patch on, and reads its report.
func reported(ctx context.Context, program, on string, report any, arguments ...string) error {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = append(os.Environ(), switchName+"="+on)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	failed := cmd.Run() // it fails where an attack gets through
	if err := json.Unmarshal(out.Bytes(), report); err != nil {
		return fmt.Errorf("no report: %w: %s", cmp.Or(failed, err), talk.String())
	}
	return nil
}
