package folder

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
	if err := os.MkdirAll(filepath.Join(dir, "cur"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cur", "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fstest.TestFS(f, "cur/a"); err != nil {
		t.Error(err)
	}
	if got, err := fs.ReadFile(f, "cur/a"); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

// covers ALF-7
func TestNothingOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "../secret", "absolute": filepath.Join(dir, "secret"), "up": ".."} {
		if err := os.Symlink(target, filepath.Join(inside, link)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"../secret", "..", "/etc/passwd", filepath.Join(dir, "secret"), "", "./", "link", "absolute", "up", "up/secret", "inside/../../secret", "a\x00b"} {
		if file, err := f.Open(name); err == nil {
			t.Errorf("%q was opened", name)
			file.Close()
		}
		if _, err := f.Stat(name); err == nil {
			t.Errorf("%q was found", name)
		}
	}
}
