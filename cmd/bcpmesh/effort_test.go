package main

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	leaveOut     = regexp.MustCompile(`\.LeaveOut\(([^)]*)\)`)
	literals     = regexp.MustCompile(`^(\s*"\w+",?\s*)+$`)
	testName     = regexp.MustCompile(`\w+`)
)

// What a TestMain leaves out with -short is there, and no step of CI leaves it out.
func TestLeftOutTestsExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	declared, leftOut := map[string]bool{}, map[string]string{} // by folder and name
	noError(t, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") || path.Dir(name) == "mesh/meshtest/effort" || path.Base(name) == "effort_test.go":
			return nil
		}
		text := string(must(fs.ReadFile(root, name))(t))
		for _, test := range declaredTest.FindAllStringSubmatch(text, -1) {
			declared[path.Join(path.Dir(name), test[1])] = true
		}
		for _, call := range leaveOut.FindAllStringSubmatch(text, -1) {
			if !literals.MatchString(call[1]) {
				t.Errorf("%s: name each test that is left out", name)
			}
			for _, test := range testName.FindAllString(call[1], -1) {
				leftOut[path.Join(path.Dir(name), test)] = name
			}
		}
		return nil
	}))
	for test, at := range leftOut {
		if !declared[test] {
			t.Errorf("%s: there is no test %s", at, test)
		}
	}
	if len(leftOut) < 20 {
		t.Errorf("only %d tests were found", len(leftOut))
	}
	for _, program := range []string{".ci/run", ".ci/nightly"} {
		for n, line := range strings.Split(string(must(fs.ReadFile(root, program))(t)), "\n") {
			if code, _, _ := strings.Cut(line, "#"); strings.Contains(code, "-short") {
				t.Errorf("%s:%d: -short leaves tests out", program, n+1)
			}
		}
	}
}
