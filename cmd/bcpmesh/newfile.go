package main

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// newFile is a file that gets its name when all of it is on disk, and replaces
// nothing.
type newFile struct {
	name  string
	draft *os.File
	sum   hash.Hash
}

// createFile begins a file. The caller defers discard.
func createFile(name string) (*newFile, error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, failf("%s is there already", quoted(name)).withHint("name a new file, or remove it first")
	}
	draft, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return nil, notWritten(name, err)
	}
	return &newFile{name: name, draft: draft, sum: sha256.New()}, nil
}

func (f *newFile) Write(b []byte) (int, error) {
	n, err := f.draft.Write(b)
	f.sum.Write(b[:n])
	return n, err
}

// keep ends the file and returns its size and its SHA-256.
func (f *newFile) keep() (int64, bcp.Digest, error) {
	info, err := f.draft.Stat()
	if err == nil {
		err = errors.Join(f.draft.Sync(), f.draft.Close())
	}
	if err == nil {
		err = os.Link(f.draft.Name(), f.name) // unlike a rename, it replaces nothing
	}
	if err == nil {
		err = accounts.SyncFolder(filepath.Dir(f.name))
	}
	if err != nil {
		return 0, bcp.Digest{}, notWritten(f.name, err)
	}
	return info.Size(), bcp.Digest(f.sum.Sum(nil)), nil
}

func (f *newFile) discard() {
	_ = f.draft.Close()           // closed before, where all went well
	_ = os.Remove(f.draft.Name()) // it has its name by then
}

// writeOver writes a file in one step, over the one that is there, if any.
func writeOver(name string, content []byte, mode fs.FileMode) error {
	draft, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return notWritten(name, err)
	}
	defer os.Remove(draft.Name()) // it has its name by then, where all went well
	_, err = draft.Write(content)
	if err = errors.Join(err, draft.Chmod(mode), draft.Sync(), draft.Close()); err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err == nil {
		err = accounts.SyncFolder(filepath.Dir(name))
	}
	if err != nil {
		return notWritten(name, err)
	}
	return nil
}

func notWritten(name string, err error) error {
	return failf("%s cannot be written: %s", quoted(name), reasonOf(err))
}
