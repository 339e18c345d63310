package cli

import (
	"crypto/sha256"
	"hash"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// CheckNewFile refuses a place where no new file can be, before anything
// changes.
func CheckNewFile(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return Failf("%s exists", Quoted(name)).WithHint("name another file, or remove this one")
	}
	info, err := os.Stat(filepath.Dir(name))
	switch {
	case err != nil:
		return Failf("%s cannot be written: %s", Quoted(name), FileReason(err))
	case !info.IsDir():
		return Failf("%s cannot be written: %s is not a folder", Quoted(name), Quoted(filepath.Dir(name)))
	case strings.HasSuffix(name, string(filepath.Separator)):
		return Failf("%s is not a file name", Quoted(name))
	}
	return nil
}

// MaxSmallFile bounds files of a few lines, such as mesh.json and creds.
const MaxSmallFile = 64 << 10

// ReadSmall reads a regular file of at most MaxSmallFile bytes.
func ReadSmall(name string) ([]byte, error) { return disk.ReadFile(name, MaxSmallFile) }

// ReadFile reads a file that a command was given, of at most most bytes.
func ReadFile(name string, most int64) ([]byte, error) {
	content, err := disk.ReadFile(name, most)
	if err != nil {
		return nil, Failf("%s cannot be read: %s", Quoted(name), FileReason(err))
	}
	return content, nil
}

// CompleteFolders completes a DIR.
var CompleteFolders = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// Absolute is a path from anywhere; what has none stays.
func Absolute(name string) string {
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

const (
	// StopTimeout is how long a clean end may take.
	StopTimeout = 20 * time.Second
	// StartPatience is how long a start may take without a word.
	StartPatience = 10 * time.Second
)

// IgnoreBrokenPipes makes writing to a pipe that nobody reads an error, where
// it would otherwise end the program on the spot, with its traces left behind.
func IgnoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

// newFile is a file that gets its name when all of it is on disk, and replaces
// nothing.
type newFile struct {
	*disk.Draft
	name string
	size int64
	sum  hash.Hash
}

// CreateFile begins a file. The caller defers Discard.
func CreateFile(name string) (*newFile, error) {
	if err := CheckNewFile(name); err != nil {
		return nil, err
	}
	draft, err := disk.NewDraft(name, 0o600)
	if err != nil {
		return nil, NotWritten(name, err)
	}
	return &newFile{Draft: draft, name: name, sum: sha256.New()}, nil
}

func (f *newFile) Write(b []byte) (int, error) {
	n, err := f.Draft.Write(b)
	f.sum.Write(b[:n])
	f.size += int64(n)
	return n, err
}

// Keep ends the file and returns its size and its SHA-256.
func (f *newFile) Keep() (int64, bcp.Digest, error) {
	if err := f.Create(); err != nil {
		return 0, bcp.Digest{}, NotWritten(f.name, err)
	}
	return f.size, bcp.Digest(f.sum.Sum(nil)), nil
}

// WriteOver writes a file in one step, over the one that is there, if any.
func WriteOver(name string, content []byte, mode fs.FileMode) error {
	if err := disk.Replace(name, content, mode); err != nil {
		return NotWritten(name, err)
	}
	return nil
}

// NotWritten is the failure of writing the file name.
func NotWritten(name string, err error) error {
	return Failf("%s cannot be written: %s", Quoted(name), FileReason(err))
}
