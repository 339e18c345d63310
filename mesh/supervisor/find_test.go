//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	write("lost.sh", "#!/nowhere/sh\n", 0o755)
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
		p := Program{Agent: "main", Command: []string{command, "word"}, Dir: folder}
		switch err := Find(p, environ); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", command, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", command, err, want)
		}
		// A start says the same.
		b := newBench(t, Config{Environ: environ})
		b.pace.maxFailures = 1
		b.Set([]Program{p})
		if want == "" {
			b.expect("main", Starting, Running)
		} else {
			b.expect("main", Starting, Unavailable)
		}
		b.stop()
	}
	b := newBench(t, Config{Environ: environ})
	b.pace.maxFailures = 1
	b.Set([]Program{{Agent: "main", Command: []string{"./lost.sh"}, Dir: folder}})
	if b.expect("main", Starting, Unavailable); !strings.Contains(b.text.String(), "the first line of the script names a program that is not there") {
		t.Errorf("a script without its interpreter: %s", b.text)
	}
	failIf(t, Find(Program{}, environ) == nil, "an empty command is found")
	failIf(t, Find(Program{Command: []string{"sh"}}, nil) == nil, "sh is found without a PATH")
}
