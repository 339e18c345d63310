package accounts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

const (
	folderMode fs.FileMode = 0o700
	fileMode   fs.FileMode = 0o600
	// maxFile bounds the size of each file that is read from the store. The
	// record of a hundred thousand users fits.
	maxFile      = 32 << 20
	readAttempts = 16
)

// checkMode refuses files that others can open. Windows has no such modes.
func checkMode(info fs.FileInfo) error {
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o, want %04o", ErrUnsafe, info.Name(), info.Mode().Perm(), info.Mode().Perm()&0o700)
	}
	return nil
}

// checkFolder refuses a folder that is a link or open to others.
func checkFolder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrUnsafe, info.Name())
	}
	return checkMode(info)
}

// readFile reads a private file. It refuses links and files open to others,
// also when they take the file's place while it is being opened.
func readFile(path string) ([]byte, error) {
	// Another process may be replacing the file properly right now, so a
	// replaced file is read again.
	for range readAttempts {
		content, err := readOnce(path)
		if !errors.Is(err, errReplaced) {
			return content, err
		}
	}
	return nil, fmt.Errorf("%w: %s is being replaced all the time", ErrUnsafe, filepath.Base(path))
}

var errReplaced = errors.New("replaced while it was opened")

func readOnce(path string) ([]byte, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrUnsafe, named.Name())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(named, opened) {
		return nil, errReplaced
	}
	if err := checkMode(opened); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", named.Name(), maxFile)
	}
	return content, nil
}

// createFile writes a private file that must not exist, complete or not at all.
// It survives a crash once its folder is synced.
func createFile(path string, content []byte) error {
	return disk.CreateUnsynced(path, content, fileMode)
}

// replaceFile writes a private file over an existing one, complete or not at
// all, and syncs the folder with everything created in it before.
func replaceFile(path string, content []byte) error { return disk.Replace(path, content, fileMode) }

// makeFolder makes a private folder, which appears filled or not at all, and the one that it is in.
func makeFolder(folder string, fill func(draft string) error) error {
	in := filepath.Dir(folder)
	draft := filepath.Join(in, disk.DraftPrefix+rand.Text())
	if err := errors.Join(os.MkdirAll(in, folderMode), os.Mkdir(draft, folderMode)); err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	if err := fill(draft); err != nil {
		return err
	}
	return disk.Move(draft, folder)
}
