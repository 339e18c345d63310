package mailbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/agents/tool"
)

// MaxListed bounds the messages of a mailbox: it has the newest.
const MaxListed = 10_000

const maxTail = 64 << 20 // bytes at the end of an mbox file that are read

// Box is a mailbox that is read repeatedly while mail comes and goes: a Maildir, an mbox
// file or a single message. It is never written to or locked. It is safe for concurrent
// use.
type Box struct {
	fsys fs.FS
	name string // in fsys
	dir  *folder.Folder
}

// OpenBox opens a mailbox. The caller calls Close. The error names the path, and is for the operator.
func OpenBox(path string) (*Box, error) {
	b := &Box{fsys: oneFile(path), name: "mailbox"}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if b.dir, err = folder.Open(path); err != nil {
			return nil, fmt.Errorf("mailbox: %w", err)
		}
		b.fsys, b.name = b.dir, "."
	}
	opened, err := OpenFS(b.fsys, b.name)
	if err == nil {
		err = opened.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mailbox %s: %w", path, withoutPath(err)), b.Close())
	}
	return b, nil
}

// Close closes it.
func (b *Box) Close() error {
	if b.dir == nil {
		return nil
	}
	return b.dir.Close()
}

// oneFile is a file system in which every name is the same file.
type oneFile string

// Open implements [fs.FS]. It does not block, and opens only regular files.
func (o oneFile) Open(string) (fs.File, error) {
	f, err := folder.OpenFile(string(o))
	if errors.Is(err, folder.ErrNotRegular) {
		err = ErrNotMailbox
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// keys returns a stable name for each message, the newest first, and whether there are
// older ones: in a Maildir the name chosen at delivery, which flags and moves do not
// change, and in a file a digest.
func (b *Box) keys(ctx context.Context) (keys []string, older bool, err error) {
	if b.dir != nil {
		m, err := openMaildir(b.fsys, b.name)
		if err != nil {
			return nil, false, failure(err)
		}
		for _, file := range slices.Backward(m.files) {
			keys = append(keys, uniqueName(file))
		}
	} else {
		older, err = b.split(ctx, func(raw []byte, _ int64) { keys = append(keys, messageID(raw)) })
		if err != nil {
			return nil, false, err
		}
		slices.Reverse(keys)
	}
	seen := map[string]bool{}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		again := seen[key]
		seen[key] = true
		return again
	})
	if len(keys) > MaxListed {
		keys, older = keys[:MaxListed], true
	}
	return keys, older, nil
}

// load calls visit for each message that still exists, once. It stops if visit returns
// false.
func (b *Box) load(ctx context.Context, keys []string, visit func(key string, m *Message) bool) error {
	if b.dir == nil {
		wanted := map[string]bool{}
		for _, key := range keys {
			wanted[key] = true
		}
		ended := false
		_, err := b.split(ctx, func(raw []byte, size int64) {
			if key := messageID(raw); wanted[key] && !ended {
				wanted[key] = false
				ended = !visit(key, limited(ctx, raw, size))
			}
		})
		return err
	}
	m, err := openMaildir(b.fsys, b.name)
	if err != nil {
		return failure(err)
	}
	files := map[string]string{}
	for _, file := range m.files {
		files[uniqueName(file)] = file
	}
	for _, key := range keys {
		if ctx.Err() != nil {
			return tool.TimedOut
		}
		file, ok := files[key]
		if !ok {
			continue
		}
		raw, size, readable, _ := (&maildir{fsys: b.fsys, files: []string{file}}).next(MaxMessage)
		if readable && !visit(key, limited(ctx, raw, size)) {
			return nil
		}
	}
	return nil
}

// split visits the messages of a file as they are, and reports whether the file has older ones.
func (b *Box) split(ctx context.Context, visit func(raw []byte, size int64)) (older bool, err error) {
	src, err := openFile(b.fsys, b.name)
	if err != nil {
		return false, failure(err)
	}
	defer func() { _ = src.Close() }() // nothing was written
	box, many := src.(*mbox)
	if many {
		if older, err = box.skipTo(maxTail); err != nil {
			return false, tool.Unreadable
		}
	}
	for first := older; ; first = false {
		if ctx.Err() != nil {
			return false, tool.TimedOut
		}
		raw, size, readable, err := src.next(MaxMessage)
		switch {
		case errors.Is(err, io.EOF):
			return older, nil
		case err != nil || !readable:
			return false, tool.Unreadable
		case !first: // the end of a message came first
			visit(raw, size)
		}
	}
}

// skipTo skips all but the last bytes of a file, and reports whether it skipped
// anything.
func (b *mbox) skipTo(last int64) (bool, error) {
	f, ok := b.f.(fs.File)
	if !ok {
		return false, nil
	}
	info, err := f.Stat()
	if err != nil || info.Size() <= last {
		return false, err
	}
	seeker, ok := f.(io.Seeker)
	if !ok {
		return false, fs.ErrInvalid
	}
	if _, err := seeker.Seek(info.Size()-last, io.SeekStart); err != nil {
		return false, err
	}
	b.r, b.inside = bufio.NewReaderSize(f, 64<<10), true
	return true, nil
}

// limited reads a message, unless it is set aside.
func limited(ctx context.Context, raw []byte, size int64) *Message {
	if tool.Reading(ctx, raw) != nil {
		return &Message{Size: size, Defects: []Defect{SetAside}}
	}
	m := Parse(raw)
	m.Size = size
	if size > int64(len(raw)) {
		m.mark(TooLarge)
	}
	return m
}

// failure says why a mailbox cannot be read.
func failure(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return tool.Unreadable
	case errors.Is(err, ErrTooManyMessages):
		return tool.TooLarge
	}
	return tool.Gone
}

// newFolder reports whether a message of a Maildir is in its folder new.
func newFolder(file string) bool { return path.Base(path.Dir(file)) == "new" }
