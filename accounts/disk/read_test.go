package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestIsAFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noError(t, os.MkdirAll(filepath.Join(dir, "cur"), 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, "cur", "a"), []byte("x"), 0o600))
	f, err := OpenFolder(dir)
	noError(t, err)
	defer f.Close()
	noError(t, fstest.TestFS(f, "cur/a"))
	got, err := fs.ReadFile(f, "cur/a")
	failIf(t, err != nil || string(got) != "x", "%q, %v", got, err)
}

// covers ALF-7
func TestNothingOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	noError(t, os.Mkdir(inside, 0o700))
	noError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600))
	for link, target := range map[string]string{"link": "../secret", "absolute": filepath.Join(dir, "secret"), "up": ".."} {
		noError(t, os.Symlink(target, filepath.Join(inside, link)))
	}
	f, err := OpenFolder(inside)
	noError(t, err)
	defer f.Close()
	for _, name := range []string{"../secret", "..", "/etc/passwd", filepath.Join(dir, "secret"), "", "./", "link", "absolute", "up", "up/secret", "inside/../../secret", "a\x00b"} {
		if file, err := f.Open(name); err == nil {
			t.Errorf("%q was opened", name)
			file.Close()
		}
		_, err := f.Stat(name)
		failIf(t, err == nil, "%q was found", name)
	}
}
