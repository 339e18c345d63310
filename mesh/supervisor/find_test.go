//go:build unix

package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/supervisor"
)

// What cannot be started is known before it is tried, with what to do about it; what is
// found so is what a start finds.
//
// covers P9.2
func TestFind(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		noError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), mode))
	}
	write("good.sh", "#!/bin/sh\nexit 0\n", 0o755)
	write("plain.sh", "#!/bin/sh\n", 0o644)
	environ := []string{"PATH=/usr/bin:/bin"}
	for command, want := range map[string]string{
		"./good.sh":                "",
		"good.sh":                  `no program "good.sh" in PATH`, // no relative folder is searched
		folder + "/good.sh":        "",
		"sh":                       "",
		"/bin/sh":                  "",
		"":                         "names no program",
		"./missing.sh":             "there is no file " + folder + "/missing.sh: make it",
		"missing/good.sh":          "there is no file",
		"./plain.sh":               "not executable: chmod +x " + folder + "/plain.sh",
		".//":                      "is a folder",
		"/":                        "/ is a folder",
		"no-such-program-anywhere": `there is no program "no-such-program-anywhere" in PATH`,
		"./good.sh/x":              "cannot be executed",
	} {
		p := supervisor.Program{Agent: "main", Command: []string{command, "word"}, Dir: folder}
		switch err := supervisor.Find(p, environ); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", command, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", command, err, want)
		}
		// A start says the same.
		b := newBench(t, supervisor.Config{MaxFailures: 1, Environ: environ})
		b.Set([]supervisor.Program{p})
		if want == "" {
			b.expect("main", starting, running)
		} else {
			b.expect("main", starting, unavailable)
		}
		b.stop()
	}
	if err := supervisor.Find(supervisor.Program{}, environ); err == nil {
		t.Error("an empty command is found")
	}
	if err := supervisor.Find(supervisor.Program{Command: []string{"sh"}}, nil); err == nil {
		t.Error("sh is found without a PATH")
	}
}
