package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A stream's messages are in blocks, files of some MB with consecutive records.
// If the stream's index has a block, the server reads it without checking
// checksums, and allocates memory for every number between two records: after one
// flipped bit of a number, more than any machine has. Without an index it checks
// each record, and cuts off damaged ones.

const (
	// recordHead is the length (4 bytes), the number (8), the time (8) and the
	// length of the subject (2), in little endian.
	recordHead = 22
	// recordSum is the size of the checksum at the end of a record, and
	// headerLength that of the length before its headers.
	recordSum, headerLength = 8, 4
	// maxRecord is the longest record that the server accepts.
	maxRecord = 32 << 20
	// withHeaders is a bit of the length; removed and erased are bits of the number:
	// of a record that says that another is removed, and of a removed one.
	withHeaders, removed, erased = 1 << 31, 1 << 62, 1 << 63
	// maxNumbers is how many numbers a block may have: with 30 bytes each, the
	// shortest record, that would be four times the largest block.
	maxNumbers = 1 << 20
	// blocksAtStart is how many of the newest blocks of each stream are checked
	// before it is opened: a few ms. The others are checked while the server runs.
	blocksAtStart = 2
)

// blocks returns the blocks of each stream by its folder, oldest first.
func blocks(streams string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(streams, "*", "streams", "*", "msgs", "*.blk"))
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(name string) bool { return blockNumber(name) < 0 })
	slices.SortFunc(files, older)
	byFolder := map[string][]string{}
	for _, name := range files {
		byFolder[filepath.Dir(name)] = append(byFolder[filepath.Dir(name)], name)
	}
	return byFolder, nil
}

// blockNumber returns a negative number if the name is not that of a block.
func blockNumber(name string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".blk"))
	if err != nil {
		return -1
	}
	return n
}

func older(a, b string) int { return blockNumber(a) - blockNumber(b) }

// dropIndexes checks the newest blocks of each stream, all if newest is 0, and
// removes the index of a stream with an implausible one, so that the server handles
// it like other damage. It returns the unchecked blocks, the oldest of each stream
// first: the journal is read in that order.
func (k *keeper) dropIndexes(newest int) (rest []string, err error) {
	folders, err := blocks(k.streams)
	if err != nil {
		return nil, err
	}
	for folder, files := range folders {
		look := files
		if newest > 0 {
			look = files[max(0, len(files)-newest):]
		}
		rest = append(rest, files[:len(files)-len(look)]...)
		i := slices.IndexFunc(look, func(name string) bool { return !plausible(name) })
		if i < 0 {
			continue
		}
		k.log.Warn("a block is damaged: the stream is opened without its index", "block", look[i])
		if err := os.Remove(filepath.Join(folder, "index.db")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	slices.SortFunc(rest, older)
	return rest, nil
}

// plausible reports whether the server can handle the numbers of a block.
// Unreadable blocks are found by the server itself, which stops where this does.
func plausible(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	return err != nil || arePlausible(f, info.Size())
}

func arePlausible(r io.Reader, size int64) bool {
	in := bufio.NewReaderSize(r, 256<<10)
	first := uint64(0)
	for left := size; left >= recordHead; {
		head, err := in.Peek(recordHead)
		if err != nil {
			return true
		}
		length, number, subject := int64(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint64(head[4:]), int64(binary.LittleEndian.Uint16(head[20:]))
		if length&withHeaders != 0 {
			length &^= withHeaders
			subject += headerLength
		}
		if subject > length-recordHead-recordSum || length > left || length > maxRecord {
			return true // where the server stops too
		}
		if number&removed == 0 {
			number &^= erased
			if first == 0 {
				first = number
			}
			if number > first && number-first >= maxNumbers {
				return false
			}
		}
		if _, err := in.Discard(int(length)); err != nil {
			return true
		}
		left -= length
	}
	return true
}
