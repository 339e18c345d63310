package mailbox

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/folder"
)

// ErrNotMailbox: no folder with a folder cur or new.
var ErrNotMailbox = errors.New("not a Maildir")

// Messages yields the messages of a Maildir, in the order of the file names (by arrival, cur and
// new together). Damage of a single message is never an error.
func Messages(fsys fs.FS) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		files, err := messageFiles(fsys)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, file := range files {
			raw, size, err := readFile(fsys, file)
			m := parseCut(raw, size)
			if err != nil {
				m.mark(Unreadable)
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// messageFiles lists the messages of a Maildir.
func messageFiles(fsys fs.FS) (files []string, err error) {
	found := false
	// Mail moves from new to cur: a file moved between the two lists is in both of
	// them, never in neither.
	for _, dir := range []string{"new", "cur"} {
		names, err := regularFiles(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = true
		files = append(files, names...)
	}
	if !found {
		return nil, ErrNotMailbox
	}
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(strings.Compare(uniqueName(a), uniqueName(b)), strings.Compare(a, b))
	})
	return slices.CompactFunc(files, func(a, b string) bool { return uniqueName(a) == uniqueName(b) && path.Dir(a) != path.Dir(b) }), nil
}

// regularFiles lists the regular files of a folder. Symbolic links are left out:
// mail cannot make the Reader read other files.
func regularFiles(fsys fs.FS, dir string) (names []string, err error) {
	for e, err := range folder.Entries(fsys, dir, maxDirEntries) {
		if err != nil {
			return nil, err
		}
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// uniqueName is the part of a Maildir name chosen at delivery: without folder
// and without flags, which change (":2,S", or "!2,S" and ";2,S" if a colon is
// not allowed).
func uniqueName(file string) string {
	name := path.Base(file)
	for _, mark := range []string{":2,", "!2,", ";2,"} {
		if i := strings.Index(name, mark); i >= 0 {
			return name[:i]
		}
	}
	return name
}

// readFile reads the first bytes of a message and its size, so that a sparse file of
// a terabyte costs nothing.
func readFile(fsys fs.FS, name string) (raw []byte, size int64, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	raw, err = io.ReadAll(io.LimitReader(f, MaxMessage))
	size = int64(len(raw))
	if err != nil || size < MaxMessage {
		return raw, size, err
	}
	info, err := f.Stat()
	if err != nil {
		return raw, size, err
	}
	return raw, max(size, info.Size()), nil
}

// parseCut decodes a message of which there are the first bytes.
func parseCut(raw []byte, size int64) *Message {
	m := Parse(raw)
	m.Size = size
	if size > int64(len(raw)) {
		m.mark(TooLarge)
	}
	return m
}
