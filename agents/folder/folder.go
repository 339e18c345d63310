// Package folder only opens regular files and folders below one folder for
// reading.
//
// An attacker may change the folder while it is read. No name, ".." or symbolic
// link leads out of it (os.Root), however fast it is swapped, and reading never
// waits for a FIFO, device or socket. A hard link cannot be distinguished from
// a file.
package folder

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// ErrKind says that something is neither a regular file nor a folder.
var ErrKind = errors.New("folder: neither a regular file nor a folder")

// Folder is an open folder. It implements [fs.FS] and [fs.StatFS], and is safe for concurrent use.
type Folder struct{ root *os.Root }

// Open opens a folder. The caller calls Close.
func Open(name string) (*Folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Close closes it. Opened files stay open.
func (f *Folder) Close() error { return f.root.Close() }

// Open implements [fs.FS]. It does not wait for anybody to write.
func (f *Folder) Open(name string) (fs.File, error) {
	if _, err := f.Stat(name); err != nil { // opening a device may do something
		return nil, err
	}
	file, err := f.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !readable(info) {
		err = refused("open", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Stat implements [fs.StatFS]. A symbolic link is not followed, and refused.
func (f *Folder) Stat(name string) (fs.FileInfo, error) {
	if path.Clean(name) != name || !filepath.IsLocal(name) { // a name need not be UTF-8
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	info, err := f.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !readable(info) {
		return nil, refused("stat", name)
	}
	return info, nil
}

func readable(info fs.FileInfo) bool { return info.Mode().IsRegular() || info.IsDir() }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrKind} }
