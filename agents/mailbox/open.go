package mailbox

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/folder"
)

// Errors of OpenFS and Next. Damage of a single message is never an error.
var (
	// ErrNotMailbox: neither a Maildir, an mbox file nor a message.
	ErrNotMailbox = errors.New("not a Maildir, an mbox file or a mail message")
	// ErrTooManyMessages: the mailbox holds more than 100,000 messages; those
	// up to the limit were returned.
	ErrTooManyMessages = errors.New("more messages than the limit")
)

// Mailbox is an open mailbox. It is for one goroutine; Close it at the end.
type Mailbox struct {
	limits limits
	source source
	count  int
	err    error
}

// source yields the raw messages of one kind of mailbox: the bytes kept, the
// full size, and whether they could be read. io.EOF ends it.
type source interface {
	next(maxBytes int) (raw []byte, size int64, readable bool, err error)
	io.Closer
}

// withoutPath drops the inner path of an error, which gets wrapped with a better one.
func withoutPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// OpenFS opens the mailbox named name in a file system, such as an embedded
// one. "." is its root. A folder must be a Maildir (it has cur or new); a file is an mbox
// when it begins with "From " or is empty, and else a single message.
func OpenFS(fsys fs.FS, name string) (*Mailbox, error) { return openFS(fsys, name, standard) }

func openFS(fsys fs.FS, name string, l limits) (*Mailbox, error) {
	box := &Mailbox{limits: l}
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		box.source, err = openMaildir(fsys, name)
	case info.Mode().IsRegular():
		box.source, err = openFile(fsys, name)
	default: // a pipe would have us wait
		err = folder.ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	return box, nil
}

// Next returns the next message, or io.EOF. The order is that of the file names
// in a Maildir (by arrival, cur and new together) and that of the file in an
// mbox. After an error it returns that error again.
func (b *Mailbox) Next() (*Message, error) {
	if b.err != nil {
		return nil, b.err
	}
	raw, size, readable, err := b.source.next(b.limits.message)
	if err == nil && b.count == b.limits.messages {
		err = ErrTooManyMessages
	}
	if err != nil {
		b.err = err
		return nil, err
	}
	b.count++
	m := parse(raw, b.limits)
	m.Size = size
	if size > int64(len(raw)) {
		m.mark(TooLarge)
	}
	if !readable {
		m.mark(Unreadable)
	}
	return m, nil
}

// Close releases the file. The mailbox yields nothing afterwards.
func (b *Mailbox) Close() error {
	if b.err == nil {
		b.err = io.EOF
	}
	return b.source.Close()
}

type maildir struct {
	fsys  fs.FS
	files []string
}

func openMaildir(fsys fs.FS, name string) (*maildir, error) {
	m := &maildir{fsys: fsys}
	found := false
	// Mail moves from new to cur: a file moved between the two lists is in both of
	// them, never in neither.
	for _, part := range []string{"new", "cur"} {
		names, err := messageFiles(fsys, path.Join(name, part))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = true
		m.files = append(m.files, names...)
	}
	if !found {
		return nil, ErrNotMailbox
	}
	sort.Slice(m.files, func(i, j int) bool {
		a, b := uniqueName(m.files[i]), uniqueName(m.files[j])
		if a != b {
			return a < b
		}
		return m.files[i] < m.files[j]
	})
	m.files = slices.CompactFunc(m.files, func(a, b string) bool { return uniqueName(a) == uniqueName(b) && newFolder(a) != newFolder(b) })
	return m, nil
}

// messageFiles lists the regular files of a folder. Symbolic links are left out:
// mail cannot make the Reader read other files.
func messageFiles(fsys fs.FS, dir string) ([]string, error) {
	f, err := fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, ErrNotMailbox
	}
	var names []string
	for seen := 0; ; {
		entries, err := list.ReadDir(1024)
		seen += len(entries)
		if seen > maxDirEntries {
			return nil, ErrTooManyMessages
		}
		for _, e := range entries {
			if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
				names = append(names, path.Join(dir, e.Name()))
			}
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
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

func (m *maildir) next(maxBytes int) ([]byte, int64, bool, error) {
	if len(m.files) == 0 {
		return nil, 0, false, io.EOF
	}
	name := m.files[0]
	m.files = m.files[1:]
	f, err := m.fsys.Open(name)
	if err != nil {
		return nil, 0, false, nil
	}
	defer f.Close()
	raw, size, err := readBounded(f, f, maxBytes)
	return raw, size, err == nil, nil
}

func (m *maildir) Close() error {
	m.files = nil
	return nil
}

// readBounded reads the first maxBytes of a file and its size, so that a sparse file of
// a terabyte costs nothing.
func readBounded(r io.Reader, f fs.File, maxBytes int) ([]byte, int64, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(maxBytes)))
	size := int64(len(raw))
	if err != nil || len(raw) < maxBytes {
		return raw, size, err
	}
	info, err := f.Stat()
	if err != nil {
		return raw, size, err
	}
	return raw, max(size, info.Size()), nil
}

type singleFile struct {
	r    io.Reader
	f    fs.File
	done bool
}

var headerLine = regexp.MustCompile(`^[!-9;-~]+[ \t]*:`)

func openFile(fsys fs.FS, name string) (source, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	start, err := r.Peek(maxPostmarkBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, err
	}
	text := strings.TrimPrefix(string(start), "\ufeff")
	text = strings.TrimLeft(text, "\r\n")
	switch {
	case strings.Contains(text, "\x00"): // no mail begins so (RFC 5322)
	case text == "" || strings.HasPrefix(text, "From "):
		return &mbox{r: r, f: f}, nil
	case headerLine.MatchString(text):
		return &singleFile{r: r, f: f}, nil
	}
	f.Close()
	return nil, ErrNotMailbox
}

func (s *singleFile) next(maxBytes int) ([]byte, int64, bool, error) {
	if s.done {
		return nil, 0, false, io.EOF
	}
	s.done = true
	raw, size, err := readBounded(s.r, s.f, maxBytes)
	return raw, size, err == nil, nil
}

func (s *singleFile) Close() error {
	s.done = true
	return s.f.Close()
}
