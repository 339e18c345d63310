package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// After a sync that failed, the newest block of each stream is written once more,
// with the same bytes; the others are left alone.
//
// covers P11.1
func TestSettle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "jetstream", "ACCOUNT", "streams", "S", "msgs")
	noError(t, os.MkdirAll(folder, 0o700))
	old := time.Now().Add(-time.Hour)
	names := []string{"2.blk", "9.blk", "10.blk", "index.db"}
	for _, name := range names {
		file := filepath.Join(folder, name)
		noError(t, errors.Join(os.WriteFile(file, []byte("content of "+name), 0o600), os.Chtimes(file, old, old)))
	}
	noError(t, newKeeper(dir, nil).rewriteNewest())
	for _, name := range names {
		file := filepath.Join(folder, name)
		info, err := os.Stat(file)
		b, err2 := os.ReadFile(file)
		err = errors.Join(err, err2)
		stopIf(t, err != nil || string(b) != "content of "+name, "%s: %q %v", name, b, err)
		expect(t, info.ModTime().After(old.Add(time.Minute)), name == "10.blk", "%s is written", name)
	}
}
