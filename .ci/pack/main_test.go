package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"archive/tar"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// A package holds names, modes, contents and one time, and nothing of the machine.
func TestTarballHasNothingOfTheMachine(t *testing.T) {
	t.Parallel()
	files := []file{{"a/program", 0o755, []byte("x")}, {"a/page", 0o644, []byte("y")}, {"tmp/", 0o1777, nil}}
	content := must(tarball(files, noon))(t)
	in := tar.NewReader(bytes.NewReader(content))
	for _, want := range files {
		head := must(in.Next())(t)
		got, err := io.ReadAll(in)
		failIf(t, err != nil || head.Name != want.name || head.Mode != want.mode || !bytes.Equal(got, want.content),
			"%+v: %q, %v", head, got, err)
		failIf(t, head.Uid != 0 || head.Gid != 0 || head.Uname != "" || head.Gname != "" || !head.ModTime.Equal(noon),
			"%+v tells of the machine", head)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, python := range map[string]string{"v1.2.3": "1.2.3", "0.1.0": "0.1.0", "v1.0.0-rc.1": "1.0.0rc1", "v2.0.0-beta.12": "2.0.0b12"} {
		found := versions.FindStringSubmatch(version)
		failIf(t, found == nil || pythonVersion(found[1]) != python, "%s is read as %q", version, found)
	}
	for _, version := range []string{"", "1", "v1.2", "v1.2.3-next", "v1.2.3+x", "v1.2.3\n", "latest"} {
		failIf(t, versions.MatchString(version), "%q is taken", version)
	}
}

// The chart is the documented manifest: an edit that loses a place of it fails here.
func TestChartIsTheDocumentedManifest(t *testing.T) {
	t.Parallel()
	manifests := must(os.ReadFile("../../docs/production/kubernetes.yaml"))(t)
	template := must(chartTemplate(string(manifests)))(t)
	for _, value := range []string{".Values.image", ".Values.url", ".Values.definitions", ".Values.resources"} {
		failIf(t, strings.Count(template, value) != 1, "the template has %s not once", value)
	}
	_, err := chartTemplate(strings.Replace(string(manifests), "bcpmesh:latest", "other", 1))
	failIf(t, err == nil, "a manifest without the image is taken")
}

// A page is read by man as the help was written.
func TestManPage(t *testing.T) {
	t.Parallel()
	page := manPage("bcpmesh-x", "Do it. And more.\n\n.dots and 'quotes' and back\\slashes\n'too", "Usage:\n  bcpmesh x --flag", "1.2.3", noon)
	for _, line := range []string{`.TH BCPMESH-X 1 2026-11-23 "bcpmesh 1.2.3"`, `bcpmesh\-x \- Do it`, `\&.dots and 'quotes' and back\eslashes`, `\&'too`, `  bcpmesh x \-\-flag`} {
		failIf(t, !strings.Contains(page, line+"\n"), "no line %q in\n%s", line, page)
	}
}

// What a postinstall script says is run by a shell of any kind.
func TestPostinstallIsAShellScript(t *testing.T) {
	t.Parallel()
	output, err := exec.Command("sh", "-n", "files/postinstall.sh").CombinedOutput()
	failIf(t, err != nil, "%v: %s", err, output)
}

// The plugin for Claude Code is packed with what the host looks for, and says the version of the release.
func TestPluginHasTheVersionOfTheRelease(t *testing.T) {
	t.Chdir("../..")
	files := must(plugin("below", "1.2.3-rc.1"))(t)
	packed := map[string]string{}
	for _, f := range files {
		packed[f.name] = string(f.content)
	}
	for _, name := range []string{".claude-plugin/plugin.json", ".claude-plugin/marketplace.json", ".mcp.json", "hooks/hooks.json"} {
		failIf(t, !json.Valid([]byte(packed["below/"+name])), "%s is %q", name, packed["below/"+name])
	}
	failIf(t, !strings.Contains(packed["below/.claude-plugin/plugin.json"], `"version": "1.2.3-rc.1"`),
		"the plugin does not have the version of the release")
}

var failIf = bcptest.FailIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
