package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

// rewriteNewest rewrites the newest block of each stream. After a failed sync the
// system shows its memory, and no later sync writes that to disk: a power cut would lose
// it, and everything stored after it.
func (k *keeper) rewriteNewest() error {
	folders, err := blocks(k.streams)
	if err != nil {
		return err
	}
	for _, files := range folders {
		if err := rewrite(files[len(files)-1]); err != nil {
			return err
		}
	}
	return nil
}

// sync writes a stream, of the one account that has one of its name, to disk.
func (k *keeper) sync(stream string) error {
	folders, err := filepath.Glob(filepath.Join(k.streams, "*", "streams", stream, "msgs"))
	if err == nil && len(folders) != 1 {
		err = errors.New("it has no folder")
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	files, err := filepath.Glob(filepath.Join(folders[0], "*.blk"))
	if err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	for _, name := range files {
		err = errors.Join(err, syncFile(name))
	}
	if err = errors.Join(err, disk.SyncFolder(folders[0])); err != nil {
		return fmt.Errorf("sync %s: %w", stream, err)
	}
	return nil
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// rewrite makes no copy: none may be left of what is erased later.
func rewrite(name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Sync(), f.Close())
}
