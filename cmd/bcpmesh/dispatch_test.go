package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The laboratory is found in PATH, and no file of the current folder, or of another that is
// not absolute, takes its place.
func TestFindProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	noError(t, os.Mkdir("there", 0o700))
	for _, file := range []string{"some-program", "there/some-program"} {
		noError(t, os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700))
	}
	there := must(filepath.Abs("there"))(t)
	for path, want := range map[string]string{
		"": "", ".": "", "there": "", ":": "", "/nowhere": "",
		there: filepath.Join(there, "some-program"), ".::there:" + there: filepath.Join(there, "some-program"),
	} {
		t.Setenv("PATH", path)
		expect(t, find("some-program"), want, "PATH=%s", path)
	}
}
