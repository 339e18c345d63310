package disk

import (
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// ErrKind says that something is neither a regular file nor a folder.
var ErrKind = errors.New("folder: neither a regular file nor a folder")

// Why [ReadFile] read nothing, to be said after the file's name.
var (
	ErrNotRegular = errors.New("it is not a regular file")
	ErrTooLarge   = errors.New("it is too large")
)

// OpenFile opens a regular file for reading, whatever it is or becomes in the meantime. It
// waits for nobody.
func OpenFile(name string) (*os.File, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // opening a device may do something
		return nil, ErrNotRegular
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return checked(file, func(info fs.FileInfo) bool { return info.Mode().IsRegular() }, ErrNotRegular)
}

// checked is an open file, if it still is what it has to be.
func checked(file *os.File, is func(fs.FileInfo) bool, wrong error) (*os.File, error) {
	info, err := file.Stat()
	if err == nil && !is(info) {
		err = wrong
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ReadFile reads a regular file of at most most bytes.
func ReadFile(name string, most int64) ([]byte, error) {
	file, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if info.Size() > most {
		return nil, ErrTooLarge
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, ErrTooLarge
	}
	return content, err
}

// Folder is an open folder. It implements [fs.FS] and [fs.StatFS], and is safe for concurrent use.
type Folder struct{ root *os.Root }

// OpenFolder opens a folder. The caller calls Close.
func OpenFolder(name string) (*Folder, error) {
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
	return checked(file, readable, refused("open", name))
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

// ErrTooMany says that a folder has more entries than are read.
var ErrTooMany = errors.New("folder: more entries than the limit")

// Entries yields the entries of a folder, in no order, up to as many as are said.
func Entries(fsys fs.FS, name string, most int) iter.Seq2[fs.DirEntry, error] {
	return func(yield func(fs.DirEntry, error) bool) {
		f, err := fsys.Open(name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		dir, ok := f.(fs.ReadDirFile)
		if !ok {
			yield(nil, refused("readdir", name))
			return
		}
		for seen := 0; err == nil; {
			var entries []fs.DirEntry
			entries, err = dir.ReadDir(1024)
			if seen += len(entries); seen > most {
				entries, err = nil, ErrTooMany
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

func readable(info fs.FileInfo) bool { return info.Mode().IsRegular() || info.IsDir() }

func refused(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrKind} }

// Reason says why an operation on a file failed, without its path.
func Reason(err error) string {
	var path *os.PathError
	var link *os.LinkError
	var call *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	case errors.As(err, &call):
		return call.Err.Error()
	}
	return err.Error()
}
