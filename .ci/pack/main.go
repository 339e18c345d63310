// Command pack builds what a release publishes: archives, deb and rpm, an image, wheels,
// npm packages, a Helm chart, an SBOM, a statement of provenance and checksums. The same commit gives the same bytes.
// .ci/release calls it.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// release is what all packages have in common.
type release struct {
	version   string // 1.2.3 or 1.2.3-rc.1, without v
	commit    string
	date      time.Time // of every file
	out       string    // folder of the results
	work      string    // temporary folder
	targets   []*target
	pages     []file // man pages and completions
	goVersion string // of the compiler
}

// target is the programs for one platform.
type target struct {
	os, arch string
	programs []file
	paths    []string // of them
}

// in are the programs as files of a package, below a prefix.
func (t *target) in(prefix string) []file {
	var files []file
	for _, p := range t.programs {
		files = append(files, file{prefix + p.name, p.mode, p.content})
	}
	return files
}

// programs are bcpmesh and those that it starts, which lie beside it.
var programs = []string{"bcpmesh", "bcpmesh-lab", "bcpmesh-bridge"}

var versions = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?)$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "v1.2.3 or v1.2.3-rc.1")
	commit := flag.String("commit", "", "the commit that is built")
	date := flag.Int64("date", 0, "its time, seconds since 1970")
	out := flag.String("out", "dist", "a new folder")
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "what to build for")
	flag.Parse()
	found := versions.FindStringSubmatch(*version)
	if found == nil {
		return fmt.Errorf("--version: expected v1.2.3 or v1.2.3-rc.1, got %q", *version)
	}
	if *commit == "" || *date <= 0 {
		return errors.New("--commit and --date are needed")
	}
	if err := os.Mkdir(*out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bcpmesh-pack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{version: found[1], commit: *commit, date: time.Unix(*date, 0).UTC(), out: *out, work: work}
	for _, p := range strings.Split(*platforms, ",") {
		system, arch, ok := strings.Cut(p, "/")
		if !ok || wheelTags[p] == "" {
			return fmt.Errorf("--platforms: there is no %q", p)
		}
		r.targets = append(r.targets, &target{os: system, arch: arch})
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"programs", r.build}, {"man pages and completions", r.document}, {"archives", r.archives}, {"deb and rpm", r.packages},
		{"image", r.image}, {"wheels", r.wheels}, {"npm packages", r.npm}, {"chart", r.chart}, {"SBOM", r.sbom}, {"provenance", r.provenance}, {"checksums", r.sums},
	} {
		fmt.Println(step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// write writes a result.
func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// digest is a result's.
type digest struct{ name, sha256 string }

// digests are those of all results so far, by their names.
func (r *release) digests() ([]digest, error) {
	entries, err := os.ReadDir(r.out)
	var all []digest
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, digest{e.Name(), fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	return all, err
}

// sums writes the checksums of all results, for sha256sum -c.
func (r *release) sums() error {
	all, err := r.digests()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, one := range all {
		fmt.Fprintf(&b, "%s  %s\n", one.sha256, one.name)
	}
	return r.write("SHA256SUMS", []byte(b.String()))
}
