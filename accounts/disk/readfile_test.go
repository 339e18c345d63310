//go:build unix

package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file is read to its limit and not beyond, and nothing but a file is read: no wait for a pipe, no end of a device.
//
// covers A-FILE
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int{"empty": 0, "full": 100, "over": 101} {
		noError(t, os.WriteFile(at(name), bytes.Repeat([]byte("x"), size), 0o600))
	}
	noError(t, errors.Join(os.Symlink("full", at("link")), os.Symlink("/dev/zero", at("device")), syscall.Mkfifo(at("pipe"), 0o600),
		os.WriteFile(at("zeros"), nil, 0o600), os.Truncate(at("zeros"), 8<<30)))
	for name, want := range map[string]error{
		"empty": nil, "full": nil, "link": nil, "over": ErrTooLarge, "zeros": ErrTooLarge,
		"pipe": ErrNotRegular, "device": ErrNotRegular, ".": ErrNotRegular, "missing": os.ErrNotExist,
	} {
		content, err := ReadFile(at(name), 100)
		failIf(t, !errors.Is(err, want) || err != nil && content != nil || name == "full" && len(content) != 100,
			"%s: %d bytes, %v", name, len(content), err)
	}
	if content, err := ReadFile("/proc/self/status", 10); !errors.Is(err, ErrTooLarge) && !errors.Is(err, os.ErrNotExist) { // it says that it is empty
		t.Errorf("a file that says nothing of its size: %d bytes, %v", len(content), err)
	}
}
