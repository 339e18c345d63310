package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	natsserver "github.com/nats-io/nats-server/v2/server"
)

// The server removes a stream from the disk, with all its messages, when it
// cannot open it: one failed read, or too many open files, and the journal would
// be gone. So its files get a second name while it opens them, and get the first
// one back if they lose it.

// keepFolder has the hard links, next to the streams: on the same disk.
const keepFolder = "keep"

// keeper gives the files of the streams second names. Its methods are called one
// at a time, except [keeper.sync]. The zero value keeps nothing.
type keeper struct {
	log     hclog.Logger
	streams string // <streams>/<account>/streams/<stream>/...
	keep    string // the same below
}

// newKeeper returns the keeper of a server's folder of streams.
func newKeeper(storeDir string, log hclog.Logger) *keeper {
	return &keeper{log: log, streams: filepath.Join(storeDir, natsserver.JetStreamStoreDir), keep: filepath.Join(storeDir, keepFolder)}
}

// begin is called before the streams are opened.
func (k *keeper) begin() error {
	if _, err := k.putBack(); err != nil { // of a process that was killed here
		return err
	}
	if err := k.end(); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(k.streams, "*", "streams", "*", "msgs", "*.blk"))
	if err != nil {
		return err
	}
	descriptions, err := filepath.Glob(filepath.Join(k.streams, "*", "streams", "*", "meta.*"))
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(files, descriptions) {
		if info, err := os.Lstat(name); err != nil {
			return err
		} else if info.IsDir() {
			return fmt.Errorf("%s is a folder", name)
		}
		rest, err := filepath.Rel(k.streams, name)
		if err == nil {
			err = link(name, filepath.Join(k.keep, rest))
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
			k.log.Warn("this file system gives no file two names: a stream that cannot be opened is lost", "error", err)
			return k.end()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putBack restores the files of removed streams, and returns their names.
func (k *keeper) putBack() (removed []string, err error) {
	folders, err := filepath.Glob(filepath.Join(k.keep, "*", "streams", "*"))
	if err != nil {
		return nil, err
	}
	for _, kept := range folders {
		rest, err := filepath.Rel(k.keep, kept)
		if err != nil {
			return nil, err
		}
		stream := filepath.Join(k.streams, rest)
		if _, err := os.Stat(stream); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err = filepath.WalkDir(kept, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			return link(name, filepath.Join(stream, strings.TrimPrefix(name, kept)))
		})
		if err != nil {
			return nil, err
		}
		removed = append(removed, filepath.Base(stream))
	}
	return removed, nil
}

// check is called when the streams have been opened. An error says that some were
// not, and that their files were restored.
func (k *keeper) check() error {
	removed, err := k.putBack()
	if err != nil {
		return fmt.Errorf("giving a stream its files again, which are in %s: %w", k.keep, err)
	}
	if len(removed) > 0 {
		return fmt.Errorf("%w: %s", ErrStreams, strings.Join(removed, ", "))
	}
	return nil
}

// end forgets the second names.
func (k *keeper) end() error { return os.RemoveAll(k.keep) }

func link(old, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.Link(old, name)
}

// dropDescription removes the description of a stream of an account, if it has one.
func (k *keeper) dropDescription(account, stream string) error {
	folder := filepath.Join(k.streams, account, "streams", stream)
	var failed error
	for _, name := range []string{natsserver.JetStreamMetaFile, natsserver.JetStreamMetaFileSum} {
		if err := os.Remove(filepath.Join(folder, name)); !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
