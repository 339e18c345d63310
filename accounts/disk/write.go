package disk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// DraftPrefix is the prefix of the names of unfinished files.
const DraftPrefix = ".new-"

// Create writes a file that must not exist; if it does, the error is fs.ErrExist.
func Create(name string, content []byte, mode fs.FileMode) error {
	return write(name, content, mode, (*Draft).Create)
}

// Replace writes a file over the one of that name, if any. A link is replaced and not
// followed.
func Replace(name string, content []byte, mode fs.FileMode) error {
	return write(name, content, mode, (*Draft).Replace)
}

// CreateUnsynced is Create for one of many files of a folder: the file survives a
// crash once [SyncFolder], or a Replace in that folder, has returned.
func CreateUnsynced(name string, content []byte, mode fs.FileMode) error {
	return write(name, content, mode, (*Draft).link)
}

func write(name string, content []byte, mode fs.FileMode, finish func(*Draft) error) error {
	draft, err := NewDraft(name, mode)
	if err != nil {
		return err
	}
	defer draft.Discard()
	if _, err := draft.Write(content); err != nil {
		return err
	}
	return finish(draft)
}

// Draft is a file that is being written. One goroutine uses it at a time.
type Draft struct {
	file *os.File
	name string
}

// NewDraft begins a file. The caller defers Discard, and ends it with Create or Replace.
func NewDraft(name string, mode fs.FileMode) (*Draft, error) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(name), DraftPrefix+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	draft := &Draft{file: file, name: name}
	if err := file.Chmod(mode); err != nil { // regardless of the process's umask
		draft.Discard()
		return nil, err
	}
	return draft, nil
}

// Write appends to the draft.
func (d *Draft) Write(b []byte) (int, error) { return d.file.Write(b) }

// Create gives the file its name. If the name is taken, the error is fs.ErrExist.
func (d *Draft) Create() error {
	if err := d.link(); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(d.name))
}

// link is Create without its folder's sync.
func (d *Draft) link() error {
	if err := d.sync(); err != nil {
		return err
	}
	return os.Link(d.file.Name(), d.name) // unlike a rename, it replaces nothing
}

// Replace gives the file its name, and replaces the file that has it.
func (d *Draft) Replace() error {
	if err := d.sync(); err != nil {
		return err
	}
	return Move(d.file.Name(), d.name)
}

func (d *Draft) sync() error { return errors.Join(d.file.Sync(), d.file.Close()) }

// Discard removes the draft, if it has not got its name.
func (d *Draft) Discard() {
	_ = d.file.Close()           // already closed if all went well
	_ = os.Remove(d.file.Name()) // it has its name by then
}

// Move renames a file or folder on the same disk. It replaces a file, but not a
// folder unless it is empty. The caller must have synced the contents.
func Move(from, to string) error {
	if err := MoveUnsynced(from, to); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(to))
}

// MoveUnsynced is Move for one of many files of a folder: the move survives a crash
// once [SyncFolder] has returned.
func MoveUnsynced(from, to string) error { return os.Rename(from, to) }

// SyncFolder writes the names in a folder to the disk. On Windows folders have no
// sync, and it does nothing.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
