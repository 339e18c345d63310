package disk

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

const name = "file"

// only checks that a folder holds one file, with this content and mode.
func only(t *testing.T, dir, content string, mode fs.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	stopIf(t, err != nil || len(entries) != 1 || entries[0].Name() != name, "the folder holds %v, %v", entries, err)
	got, err := os.ReadFile(filepath.Join(dir, name))
	failIf(t, err != nil || string(got) != content, "it holds %q, %v", got, err)
	info, err := entries[0].Info()
	failIf(t, err != nil || runtime.GOOS != "windows" && info.Mode() != mode, "it has mode %v, %v", info.Mode(), err)
}

// What creates replaces nothing, what replaces does, and both leave the file alone in
// its folder.
func TestCreateAndReplace(t *testing.T) {
	t.Parallel()
	for _, create := range []func(string, []byte, fs.FileMode) error{Create, CreateUnsynced} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		noError(t, create(file, []byte("first"), 0o600))
		only(t, dir, "first", 0o600)
		fails(t, create(file, []byte("second"), 0o600), fs.ErrExist, "over a file")
		only(t, dir, "first", 0o600)
		noError(t, Replace(file, nil, 0o644))
		only(t, dir, "", 0o644)
	}
}

// A file that cannot get its name leaves no draft, and what is there as it was.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, name, "below")
	noError(t, os.MkdirAll(file, 0o700))
	for what, err := range map[string]error{
		"over a folder":    Replace(filepath.Join(dir, name), []byte("x"), 0o600),
		"into no folder":   Create(filepath.Join(dir, "no", "file"), []byte("x"), 0o600),
		"moved nothing":    Move(filepath.Join(dir, "no"), filepath.Join(dir, "yes")),
		"moved over a lot": Move(file, filepath.Join(dir, name)),
		"no such folder":   SyncFolder(filepath.Join(dir, "no")),
	} {
		failIf(t, err == nil && (runtime.GOOS != "windows" || what != "no such folder"), "%s: no error", what)
	}
	entries, err := os.ReadDir(dir)
	failIf(t, err != nil || len(entries) != 1, "the folder holds %v, %v", entries, err)
}

// A draft that is discarded was never there; one that is finished is not discarded.
func TestDraft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, name)
	for _, finish := range []func(*Draft) error{(*Draft).Create, (*Draft).Replace, nil} {
		draft := must(NewDraft(file, 0o600))(t)
		for _, part := range []string{"in ", "parts"} {
			must(draft.Write([]byte(part)))(t)
		}
		if finish != nil {
			noError(t, finish(draft))
		}
		draft.Discard()
		only(t, dir, "in parts", 0o600)
	}
}

// Whoever reads a file that is being replaced, by several at once, gets one content
// whole.
func TestReplaceIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, name)
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<17)}
	noError(t, Create(file, contents[0], 0o600))
	var writing sync.WaitGroup
	for _, content := range contents {
		writing.Go(func() {
			for range 50 {
				if err := Replace(file, content, 0o600); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		got, err := os.ReadFile(file)
		stopIf(t, err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]),
			"read %d bytes, %v", len(got), err)
	}
	entries, err := os.ReadDir(dir)
	failIf(t, err != nil || len(entries) != 1, "the folder holds %v, %v", entries, err)
}

var failIf, fails, noError, stopIf = bcptest.FailIf, bcptest.Fails, bcptest.NoError, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
