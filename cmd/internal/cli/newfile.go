package cli

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"
	"os"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// newFile is a file that gets its name when all of it is on disk, and replaces
// nothing.
type newFile struct {
	name  string
	draft *durable.Draft
	size  int64
	sum   hash.Hash
}

// CreateFile begins a file. The caller defers discard.
func CreateFile(name string) (*newFile, error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, Failf("%s already exists", Quoted(name)).WithHint("name a new file, or remove it first")
	}
	draft, err := durable.New(name, 0o600)
	if err != nil {
		return nil, NotWritten(name, err)
	}
	return &newFile{name: name, draft: draft, sum: sha256.New()}, nil
}

func (f *newFile) Write(b []byte) (int, error) {
	n, err := f.draft.Write(b)
	f.sum.Write(b[:n])
	f.size += int64(n)
	return n, err
}

// Keep ends the file and returns its size and its SHA-256.
func (f *newFile) Keep() (int64, bcp.Digest, error) {
	if err := f.draft.Create(); err != nil {
		return 0, bcp.Digest{}, NotWritten(f.name, err)
	}
	return f.size, bcp.Digest(f.sum.Sum(nil)), nil
}

func (f *newFile) Discard() { f.draft.Discard() }

// WriteOver writes a file in one step, over the one that is there, if any.
func WriteOver(name string, content []byte, mode fs.FileMode) error {
	if err := durable.Replace(name, content, mode); err != nil {
		return NotWritten(name, err)
	}
	return nil
}

// NotWritten is the failure of writing the file name.
func NotWritten(name string, err error) error {
	return Failf("%s cannot be written: %s", Quoted(name), FileReason(err))
}
