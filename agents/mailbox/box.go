package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/tool"
)

// MaxListed bounds the messages of a mailbox: it has the newest.
const MaxListed = 10_000

// ErrNotMailbox: no folder with a folder cur or new.
var ErrNotMailbox = errors.New("not a Maildir")

// file is a message in a Maildir. Its key is the name chosen at delivery, which flags and moves do not change.
type file struct{ key, path string }

// Messages yields the messages of a Maildir, in the order of the file names (by arrival, cur and
// new together). Damage of a single message is never an error.
func Messages(fsys fs.FS) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		files, err := list(fsys)
		if err != nil {
			yield(nil, err)
		}
		for _, f := range files {
			m, err := read(context.Background(), fsys, f.path)
			m.note(err != nil, Unreadable)
			if !yield(m, nil) {
				return
			}
		}
	}
}

// Box is a Maildir that is read repeatedly while mail comes and goes. It is never written
// to or locked. It is safe for concurrent use.
type Box struct{ dir *disk.Folder }

// OpenBox opens a Maildir. The caller calls Close. The error names the path, and is for the operator.
func OpenBox(path string) (*Box, error) {
	dir, err := disk.OpenFolder(path)
	if err == nil {
		if _, err = list(dir); err == nil {
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

// keys returns the keys of all messages, the newest first, and whether there are older ones.
func (b *Box) keys() (keys []string, older bool, err error) {
	files, err := list(b.dir)
	if err != nil {
		return nil, false, tool.ReadFailure(err)
	}
	for _, f := range slices.Backward(files) {
		keys = append(keys, f.key)
	}
	keys = slices.Compact(keys)
	return keys[:min(len(keys), MaxListed)], len(keys) > MaxListed, nil
}

// load calls visit for each message that still exists, once. It stops if visit returns
// false.
func (b *Box) load(ctx context.Context, keys []string, visit func(key string, m *Message) bool) error {
	files, err := list(b.dir)
	if err != nil {
		return tool.ReadFailure(err)
	}
	paths := map[string]string{}
	for _, f := range files {
		paths[f.key] = f.path
	}
	for _, key := range keys {
		if ctx.Err() != nil {
			return tool.TimedOut
		}
		if m, err := read(ctx, b.dir, paths[key]); err == nil && !visit(key, m) {
			return nil
		}
	}
	return nil
}

// list lists the messages of a Maildir by their keys. Symbolic links are left out: mail cannot make the Reader read other files.
func list(fsys fs.FS) (files []file, err error) {
	missing := 0
	// Mail moves from new to cur: a file moved between the two lists is in both of
	// them, never in neither.
	for _, dir := range []string{"new", "cur"} {
		for e, err := range disk.Entries(fsys, dir, maxDirEntries) {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				missing++
			case err != nil:
				return nil, err
			case e.Type().IsRegular() && !strings.HasPrefix(e.Name(), "."):
				files = append(files, file{uniqueName(e.Name()), path.Join(dir, e.Name())})
			}
		}
	}
	if missing == 2 {
		return nil, ErrNotMailbox
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.path, b.path)) })
	return slices.CompactFunc(files, func(a, b file) bool { return a.key == b.key && path.Dir(a.path) != path.Dir(b.path) }), nil
}

// uniqueName is the part of a Maildir name chosen at delivery: without
// flags, which change (":2,S", or "!2,S" and ";2,S" if a colon is
// not allowed).
func uniqueName(name string) string {
	for _, mark := range []string{":2,", "!2,", ";2,"} {
		if i := strings.Index(name, mark); i >= 0 {
			return name[:i]
		}
	}
	return name
}

// read decodes the first bytes of a message, so that a sparse file of a terabyte costs nothing, unless it is set aside. It
// returns what it has with an error.
func read(ctx context.Context, fsys fs.FS, name string) (*Message, error) {
	var raw []byte
	var info fs.FileInfo
	f, err := fsys.Open(name)
	if err == nil {
		defer f.Close()
		if raw, err = io.ReadAll(io.LimitReader(f, MaxMessage)); err == nil {
			info, err = f.Stat()
		}
	}
	size := int64(len(raw))
	if err == nil {
		if size = max(size, info.Size()); tool.Reading(ctx, raw) != nil {
			return &Message{Size: size, Defects: []Defect{SetAside}}, nil
		}
	}
	return parse(raw, size, standard), err
}
