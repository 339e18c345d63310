package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/agents/tool"
)

// MaxListed bounds the messages of a mailbox: it has the newest.
const MaxListed = 10_000

// Box is a Maildir that is read repeatedly while mail comes and goes. It is never written
// to or locked. It is safe for concurrent use.
type Box struct{ dir *folder.Folder }

// OpenBox opens a Maildir. The caller calls Close. The error names the path, and is for the operator.
func OpenBox(path string) (*Box, error) {
	dir, err := folder.Open(path)
	if err == nil {
		if _, err = messageFiles(dir); err == nil {
			return &Box{dir}, nil
		}
		err = errors.Join(err, dir.Close())
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok { // the inner path is not said again
		err = pathErr.Err
	}
	return nil, fmt.Errorf("mailbox %s: %w", path, err)
}

// Close closes it.
func (b *Box) Close() error { return b.dir.Close() }

// keys returns a stable name for each message, the newest first, and whether there are
// older ones: the name chosen at delivery, which flags and moves do not change.
func (b *Box) keys() (keys []string, older bool, err error) {
	files, err := messageFiles(b.dir)
	if err != nil {
		return nil, false, tool.ReadFailure(err)
	}
	for _, file := range slices.Backward(files) {
		keys = append(keys, uniqueName(file))
	}
	keys = slices.Compact(keys)
	if len(keys) > MaxListed {
		keys, older = keys[:MaxListed], true
	}
	return keys, older, nil
}

// load calls visit for each message that still exists, once. It stops if visit returns
// false.
func (b *Box) load(ctx context.Context, keys []string, visit func(key string, m *Message) bool) error {
	all, err := messageFiles(b.dir)
	if err != nil {
		return tool.ReadFailure(err)
	}
	files := map[string]string{}
	for _, file := range all {
		files[uniqueName(file)] = file
	}
	for _, key := range keys {
		if ctx.Err() != nil {
			return tool.TimedOut
		}
		raw, size, err := readFile(b.dir, files[key])
		if err == nil && !visit(key, read(ctx, raw, size)) {
			return nil
		}
	}
	return nil
}

// read decodes a message, unless it is set aside.
func read(ctx context.Context, raw []byte, size int64) *Message {
	if tool.Reading(ctx, raw) != nil {
		return &Message{Size: size, Defects: []Defect{SetAside}}
	}
	return parseCut(raw, size)
}
