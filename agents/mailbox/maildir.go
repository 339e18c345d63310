package mailbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// The folders of a Maildir.
const (
	newFolder = "new"
	tmpFolder = "tmp"
	curFolder = "cur"
)

var errDisk = errors.New("the copy cannot be written")

// store is the Maildir. Names of messages are made from numbers, so that they sort in
// the server's order.
type store struct{ folder string }

// openStore creates what does not exist.
func openStore(folder string) (store, error) {
	for _, name := range []string{tmpFolder, newFolder, curFolder} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			return store{}, writing(err)
		}
	}
	return store{folder}, writing(os.Chmod(folder, 0o700))
}

// writing is an error of our disk, without the path.
func writing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", errDisk, disk.Reason(err))
}

// clean removes the rest of an interrupted copy.
func (s store) clean() error {
	tmp := filepath.Join(s.folder, tmpFolder)
	return writing(cmp.Or(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o700)))
}

func copyName(validity, uid int64) string { return fmt.Sprintf("%010d-%010d", validity, uid) }

// copied is a message of the Maildir.
type copied struct {
	size   int64
	listed bool // the server still has it, and there is room for it
}

// messages returns the messages of a UIDVALIDITY by UID. Others are removed.
func (s store) messages(validity int64) (map[int64]*copied, error) {
	entries, err := os.ReadDir(filepath.Join(s.folder, newFolder))
	if err != nil {
		return nil, writing(err)
	}
	found := make(map[int64]*copied, len(entries))
	for _, e := range entries {
		_, text, _ := strings.Cut(e.Name(), "-")
		uid, err := strconv.ParseInt(text, 10, 64)
		info, infoErr := e.Info()
		if err == nil && infoErr == nil && info.Mode().IsRegular() && e.Name() == copyName(validity, uid) {
			found[uid] = &copied{size: info.Size()}
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.folder, newFolder, e.Name())); err != nil {
			return nil, writing(err)
		}
	}
	return found, nil
}

func (s store) remove(validity, uid int64) error {
	err := os.Remove(filepath.Join(s.folder, newFolder, copyName(validity, uid)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return writing(err)
}

// draft is the path of a message before it has its name. There is one at a time.
func (s store) draft() string { return filepath.Join(s.folder, tmpFolder, "message") }

// write writes the draft, in place of another.
func (s store) write(r io.Reader) (size int64, err error) {
	f, err := os.OpenFile(s.draft(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, writing(err)
	}
	size, err = io.Copy(onlyWriter{f}, r)
	if err == nil {
		err = writing(f.Sync())
	}
	return size, cmp.Or(err, writing(f.Close()))
}

// onlyWriter distinguishes errors of the disk from those of the server.
type onlyWriter struct{ f *os.File }

func (w onlyWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	return n, writing(err)
}

// sync returns once the names of messages are on disk.
func (s store) sync() error { return writing(disk.SyncFolder(filepath.Join(s.folder, newFolder))) }
