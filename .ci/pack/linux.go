package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// nfpm writes deb and rpm. Later versions need modules that a module proxy may not have.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.0"

// installed is a file of a package, as nfpm's configuration has it.
type installed struct {
	Source string `json:"src"`
	Target string `json:"dst"`
	Info   struct {
		Mode int64     `json:"mode"`
		Time time.Time `json:"mtime"`
	} `json:"file_info"`
}

// packages makes deb and rpm of the programs for Linux.
func (r *release) packages() error {
	gateway, err := os.ReadFile("docs/production/bcpmesh-gateway@.service")
	if err != nil {
		return err
	}
	files := []file{{"/usr/lib/systemd/system/bcpmesh-gateway@.service", 0o644, bytes.ReplaceAll(gateway, []byte("/usr/local/bin/"), []byte("/usr/bin/"))}}
	for name, from := range map[string]string{
		"/usr/lib/systemd/system/bcpmesh.service": ".ci/pack/files/bcpmesh.service",
		"/usr/lib/sysusers.d/bcpmesh.conf":        ".ci/pack/files/sysusers.conf",
		"/usr/share/doc/bcpmesh/copyright":        "LICENSE",
		"/usr/share/doc/bcpmesh/README.md":        "README.md",
	} {
		f, err := read(name, from)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	claude, err := plugin("/usr/share/bcpmesh/claude-code", r.version)
	if err != nil {
		return err
	}
	files = append(files, claude...)
	for _, page := range r.pages {
		switch folder, name := path.Split(page.name); {
		case folder == "man/":
			page.name = "/usr/share/man/man1/" + name + ".gz"
			if page.content, err = compressed(page.content); err != nil {
				return err
			}
		case name == "bcpmesh.bash":
			page.name = "/usr/share/bash-completion/completions/bcpmesh"
		case name == "_bcpmesh":
			page.name = "/usr/share/zsh/vendor-completions/_bcpmesh"
		default:
			page.name = "/usr/share/fish/vendor_completions.d/bcpmesh.fish"
		}
		files = append(files, page)
	}
	for _, t := range r.targets {
		if t.os == "linux" {
			if err := r.linuxPackages(t, slices.Concat(files, t.in("/usr/bin/"))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) linuxPackages(t *target, files []file) error {
	sortFiles(files)
	tree := filepath.Join(r.work, "tree-"+t.arch)
	var contents []installed
	for _, f := range files {
		at := filepath.Join(tree, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, f.content, 0o644); err != nil {
			return err
		}
		one := installed{Source: at, Target: f.name}
		one.Info.Mode, one.Info.Time = f.mode, r.date
		contents = append(contents, one)
	}
	// JSON is YAML. The postinstall script has the time of its file.
	script := filepath.Join(r.work, "postinstall.sh")
	text, err := os.ReadFile(".ci/pack/files/postinstall.sh")
	if err != nil {
		return err
	}
	if err := os.WriteFile(script, text, 0o755); err != nil {
		return err
	}
	if err := os.Chtimes(script, r.date, r.date); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"name": "bcpmesh", "arch": t.arch, "platform": "linux", "version": r.version, "mtime": r.date, "section": "net",
		"maintainer": "The bcpmesh authors <bcpmesh@users.noreply.github.com>", "homepage": "https://github.com/bcpmesh/bcpmesh", "vendor": "bcpmesh", "license": "Apache-2.0", "description": "LLM agents that read hostile text, behind a gateway that counts bits",
		"contents": contents, "scripts": map[string]string{"postinstall": script}, "rpm": map[string]string{"buildhost": "localhost"},
		"recommends": []string{"systemd"},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(r.work, "nfpm-"+t.arch+".yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	for kind, name := range map[string]string{
		"deb": fmt.Sprintf("bcpmesh_%s_%s.deb", strings.Replace(r.version, "-", "~", 1), t.arch),
		"rpm": fmt.Sprintf("bcpmesh-%s-1.%s.rpm", strings.Replace(r.version, "-", "~", 1), map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[t.arch]),
	} {
		cmd := exec.Command("go", "run", nfpm, "package", "--config", file, "--packager", kind, "--target", filepath.Join(r.out, name))
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, output)
		}
	}
	return nil
}
