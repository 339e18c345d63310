package mailbox

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/examples"
)

// readAll returns the messages of a Maildir; an error ends the test.
func readAll(t testing.TB, fsys fs.FS) (all []*Message) {
	t.Helper()
	for m, err := range Messages(fsys) {
		noError(t, err)
		all = append(all, m)
	}
	return all
}

func shippedMail(t testing.TB) []*Message { return readAll(t, examples.Mail()) }

// shippedRaw returns the bytes of the shipped messages in mailbox order.
func shippedRaw(t testing.TB) (out [][]byte) {
	t.Helper()
	files, err := list(examples.Mail())
	noError(t, err)
	for _, f := range files {
		raw, err := fs.ReadFile(examples.Mail(), f.path)
		noError(t, err)
		out = append(out, raw)
	}
	return out
}

func TestShippedMailIsSoundAndVaried(t *testing.T) {
	t.Parallel()
	messages := shippedMail(t)
	stopIf(t, len(messages) != 40, "%d messages, want 40", len(messages))
	ids := map[string]bool{}
	for i, m := range messages {
		failIf(t, ids[m.ID], "message %d: id %s occurs twice", i+1, m.ID)
		ids[m.ID] = true
		damaged := m.Subject == "Scan report of 4 March"
		failIf(t, damaged != (len(m.Defects) > 0), "message %d %q: defects %v", i+1, m.Subject, m.Defects)
		failIf(t, m.Text == "" || m.From.Address == "" || m.Date.IsZero() || m.Size == 0,
			"message %d %q is incomplete: %+v", i+1, m.Subject, m)
	}
}

func TestDamagedMessageComesBackWithDefects(t *testing.T) {
	t.Parallel()
	m := shippedMail(t)[23]
	want := []Defect{BadHeader, BadCharset, BadFrom, BadDate, BadStructure, BadEncoding}
	diff := cmp.Diff(want, m.Defects)
	failIf(t, diff != "", "%v", diff)
	failIf(t, m.Text != "Gate 2 scanned 17 containers, 1 not read. Café gate closed.", "text %q", m.Text)
	failIf(t, m.From != (Address{"Gate Scanner", "gate@scanner.example"}), "from %+v", m.From)
	if want := time.Date(2026, 3, 4, 8, 51, 40, 0, time.UTC); !m.Date.Equal(want) {
		t.Errorf("date %v, want that of the Received field, %v", m.Date, want)
	}
}

// A mail with other line ends is the same mail.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	want := shippedMail(t)
	for i, raw := range shippedRaw(t) {
		m := Parse(bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n")))
		failIf(t, m.ID != want[i].ID || m.Subject != want[i].Subject, "message %d with CRLF: %s %q", i+1, m.ID, m.Subject)
	}
}

func TestMaildirOrderAndFolders(t *testing.T) {
	t.Parallel()
	file := func(subject string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Subject: " + subject + "\n\nx\n")}
	}
	fsys := fstest.MapFS{
		"cur/300.c:2,S": file("third"), "cur/100.a!2,FS": file("first"), "new/200.b": file("second"),
		"tmp/000.z": file("not delivered yet"), "new/.hidden": file("no message"), ".Sent/cur/1": file("other folder"),
		"cur/400.link": {Data: []byte("Subject: link"), Mode: fs.ModeSymlink},
	}
	var got []string
	for _, m := range readAll(t, fsys) {
		got = append(got, m.Subject)
	}
	diff := cmp.Diff([]string{"first", "second", "third"}, got)
	failIf(t, diff != "", "%v", diff)
}

func TestOpenRefusesWhatIsNoMailbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	noError(t, os.WriteFile(file, []byte("From: ann@example.com\n\nx\n"), 0o600))
	for path, want := range map[string]error{dir: ErrNotMailbox, filepath.Join(dir, "nothing"): fs.ErrNotExist, file: nil, os.DevNull: nil} {
		box, err := OpenBox(path)
		failIf(t, err == nil || want != nil && !errors.Is(err, want) || box != nil, "%s: %v, want %v", path, err, want)
	}
	for m, err := range Messages(os.DirFS(dir)) {
		failIf(t, m != nil || !errors.Is(err, ErrNotMailbox), "%+v, %v", m, err)
	}
}

// One file that cannot be read does not end the mailbox.
func TestUnreadableFileIsOneDefect(t *testing.T) {
	t.Parallel()
	good := &fstest.MapFile{Data: []byte("Subject: good\nFrom: a@example.com\n\nx\n")}
	fsys := brokenFS{fstest.MapFS{"cur/1": good, "cur/2": good, "cur/3": good}, "cur/2"}
	messages := readAll(t, fsys)
	failIf(t, len(messages) != 3 || messages[0].Has(Unreadable) || !messages[1].Has(Unreadable) || messages[2].Has(Unreadable),
		"got %d messages: %+v", len(messages), messages)
}

type brokenFS struct {
	fstest.MapFS
	broken string
}

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == b.broken {
		return nil, fs.ErrPermission
	}
	return b.MapFS.Open(name)
}

var noError, failIf, stopIf, eventually = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Eventually
