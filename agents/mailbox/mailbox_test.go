package mailbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
)

const shipped = "../../examples/mailroom/mail"

// readAll returns the messages of a mailbox; an error ends the test.
func readAll(t testing.TB, box *Mailbox, err error) []*Message {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var out []*Message
	for {
		m, err := box.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
}

func openPath(path string) (*Mailbox, error) {
	return OpenFS(os.DirFS(filepath.Dir(path)), filepath.Base(path))
}

func shippedMail(t testing.TB) []*Message {
	t.Helper()
	box, err := openPath(shipped)
	return readAll(t, box, err)
}

// shippedRaw returns the bytes of the shipped messages in mailbox order.
func shippedRaw(t testing.TB) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(shipped, "[cn]*", "*.example"))
	if err != nil {
		t.Fatal(err)
	}
	sort.Slice(files, func(i, j int) bool { return filepath.Base(files[i]) < filepath.Base(files[j]) })
	var out [][]byte
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, raw)
	}
	return out
}

// writeMbox writes messages in the mboxrd format.
func writeMbox(raws [][]byte) []byte {
	var out bytes.Buffer
	for _, raw := range raws {
		out.WriteString("From sender@example.com Mon Mar  2 08:05:10 2026\n")
		for line := range bytes.Lines(raw) {
			if bytes.HasPrefix(bytes.TrimLeft(line, ">"), []byte("From ")) {
				out.WriteByte('>')
			}
			out.Write(line)
		}
		if !bytes.HasSuffix(raw, []byte("\n")) {
			out.WriteByte('\n')
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func mboxFS(data []byte) fs.FS {
	return fstest.MapFS{"box": {Data: data}}
}

func TestShippedMailIsSoundAndVaried(t *testing.T) {
	t.Parallel()
	messages := shippedMail(t)
	if len(messages) != 40 {
		t.Fatalf("%d messages, want 40", len(messages))
	}
	ids := map[string]bool{}
	for i, m := range messages {
		if ids[m.ID] {
			t.Errorf("message %d: id %s occurs twice", i+1, m.ID)
		}
		ids[m.ID] = true
		if damaged := m.Subject == "Scan report of 4 March"; damaged != (len(m.Defects) > 0) {
			t.Errorf("message %d %q: defects %v", i+1, m.Subject, m.Defects)
		}
		if m.Text == "" || m.From.Address == "" || m.Date.IsZero() || m.Size == 0 {
			t.Errorf("message %d %q is incomplete: %+v", i+1, m.Subject, m)
		}
	}
}

func TestDamagedMessageComesBackWithDefects(t *testing.T) {
	t.Parallel()
	m := shippedMail(t)[23]
	want := []Defect{BadHeader, BadCharset, BadFrom, BadDate, BadStructure, BadEncoding}
	if diff := cmp.Diff(want, m.Defects); diff != "" {
		t.Error(diff)
	}
	if m.Text != "Gate 2 scanned 17 containers, 1 not read. Café gate closed." {
		t.Errorf("text %q", m.Text)
	}
	if m.From != (Address{"Gate Scanner", "gate@scanner.example"}) {
		t.Errorf("from %+v", m.From)
	}
	if want := time.Date(2026, 3, 4, 8, 51, 40, 0, time.UTC); !m.Date.Equal(want) {
		t.Errorf("date %v, want that of the Received field, %v", m.Date, want)
	}
}

func TestCharsetsAreDecoded(t *testing.T) {
	t.Parallel()
	cases := []struct{ charset, name, subject, text string }{
		{"iso-8859-1 quoted-printable", "Jürgen Weiß", "Beschädigte Lieferung: Reklamation zu Auftrag 4398", "Mit freundlichen Grüßen"},
		{"iso-8859-1 8bit", "Céline Morel", "Problème avec le treuil", "livré en février"},
		{"windows-1252 8bit", "Hanna Lindgren", "Automatic reply: Price list March", "I’m out of the office until 9 March 2026 – for “urgent”"},
		{"iso-2022-jp", "田中 洋子", "注文4480の納期について", "お世話になっております。港商事の田中です。"},
		{"shift_jis base64", "海洋資材 経理部", "請求書 3月分", "合計: 48,600円"},
		{"koi8-r 8bit", "Анна Орлова", "Благодарность за быструю доставку", "Якоря пришли вовремя"},
		{"windows-1251 quoted-printable", "Олег Петров", "Встреча в четверг", "Предлагаю встречу в четверг в 15:00."},
		{"utf-8 base64 word", "Rosa Delgado", "Gracias! 🙂", "Rosa Delgado – Málaga"},
		{"utf-8 8bit", "Mara Lindqvist", "Fwd: Re: Claim for wet cartons", "Łukasz Nowak"},
	}
	messages := shippedMail(t)
	for _, c := range cases {
		t.Run(c.charset, func(t *testing.T) {
			for _, m := range messages {
				if m.Subject != c.subject {
					continue
				}
				if m.From.Name != c.name || !strings.Contains(m.Text, c.text) {
					t.Errorf("name %q, text %q", m.From.Name, m.Text)
				}
				return
			}
			t.Errorf("no message with subject %q", c.subject)
		})
	}
}

func TestSameMailInEveryFormat(t *testing.T) {
	t.Parallel()
	want := shippedMail(t)
	raws := shippedRaw(t)
	data := writeMbox(raws)
	dir := t.TempDir()
	file := filepath.Join(dir, "mail.mbox")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	box, err := openPath(file)
	if diff := cmp.Diff(want, readAll(t, box, err)); diff != "" {
		t.Errorf("mbox differs: %s", diff)
	}
	box, err = OpenFS(mail.FS, ".")
	if diff := cmp.Diff(want, readAll(t, box, err)); diff != "" {
		t.Errorf("embedded Maildir differs: %s", diff)
	}
	box, err = OpenFS(mboxFS(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))), "box")
	for i, m := range readAll(t, box, err) {
		if m.ID != want[i].ID || m.Subject != want[i].Subject {
			t.Errorf("message %d with CRLF: %s %q", i+1, m.ID, m.Subject)
		}
	}
	for i, raw := range raws {
		box, err := OpenFS(fstest.MapFS{"one.eml": {Data: raw}}, "one.eml")
		if diff := cmp.Diff(want[i:i+1], readAll(t, box, err)); diff != "" {
			t.Errorf("single file %d differs: %s", i+1, diff)
		}
	}
}

// Any bodies survive the way through an mbox file.
func TestMboxRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		line := rapid.SampledFrom([]string{"", "From here on", "From a@b.example Mon Mar  2 08:05:10 2026",
			">From x 08:00:00 2026", ">>From ", "> quoted", "text", strings.Repeat("long ", 600)})
		bodies := rapid.SliceOfN(rapid.SliceOfN(line, 0, 8), 1, 5).Draw(rt, "bodies")
		var raws [][]byte
		for i, lines := range bodies {
			raws = append(raws, []byte(fmt.Sprintf("Subject: %d\n\n%s\n", i, strings.Join(lines, "\n"))))
		}
		box := &mbox{r: newReader(writeMbox(raws)), f: io.NopCloser(nil)}
		for i, want := range raws {
			got, size, readable, err := box.next(1 << 20)
			if err != nil || !readable || size != int64(len(want)) || !bytes.Equal(got, want) {
				rt.Fatalf("message %d: %q (%d bytes, readable %v, %v), want %q", i, clip(string(got), 200), size, readable, err, clip(string(want), 200))
			}
		}
		if _, _, _, err := box.next(1); !errors.Is(err, io.EOF) {
			rt.Fatalf("after the last message: %v", err)
		}
	})
}

func TestMboxSeparators(t *testing.T) {
	t.Parallel()
	const post = "From a@b.example Mon Mar  2 08:05:10 2026\n"
	cases := []struct {
		name, data string
		want       []string
	}{
		{"empty file", "", nil},
		{"empty lines only", "\n\n", nil},
		{"one message", post + "Subject: a\n\nx\n", []string{"x"}},
		{"no line end", post + "Subject: a\n\nx", []string{"x"}},
		{"empty lines and mark in front", "\ufeff\n\n" + post + "Subject: a\n\nx\n", []string{"x"}},
		{"postmark without empty line before", post + "Subject: a\n\nx\n" + post + "y\n", []string{"x\n" + strings.TrimSpace(post) + "\ny"}},
		{"sentence that begins with From", post + "Subject: a\n\nx\n\nFrom now on at 10:00\n", []string{"x\n\nFrom now on at 10:00"}},
		{"zone before year", post + "S: a\n\nx\n\nFrom 17@xxx Mon Mar 02 08:05:10 +0000 2026\nS: b\n\ny\n", []string{"x", "y"}},
		{"dash as sender", post + "S: a\n\nx\n\nFrom - Mon Mar 02 08:05:10 2026\nS: b\n\ny\n", []string{"x", "y"}},
		{"quoted once", post + "S: a\n\n>From x\n", []string{"From x"}},
		{"quoted twice", post + "S: a\n\n>>From x\n", []string{">From x"}},
		{"postmark and nothing else", post, []string{""}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			box, err := OpenFS(mboxFS([]byte(c.data)), "box")
			var got []string
			for _, m := range readAll(t, box, err) {
				got = append(got, m.Text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMaildirOrderAndFolders(t *testing.T) {
	t.Parallel()
	file := func(subject string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("Subject: " + subject + "\n\nx\n")}
	}
	fsys := fstest.MapFS{
		"box/cur/300.c:2,S": file("third"), "box/cur/100.a!2,FS": file("first"), "box/new/200.b": file("second"),
		"box/tmp/000.z": file("not delivered yet"), "box/new/.hidden": file("no message"), "box/.Sent/cur/1": file("other folder"),
		"box/cur/400.link": {Data: []byte("Subject: link"), Mode: fs.ModeSymlink},
	}
	box, err := OpenFS(fsys, "box")
	var got []string
	for _, m := range readAll(t, box, err) {
		got = append(got, m.Subject)
	}
	if diff := cmp.Diff([]string{"first", "second", "third"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOpenRefusesWhatIsNoMailbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, data string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	cases := []struct {
		name, path string
		want       error
	}{
		{"folder without cur and new", dir, ErrNotMailbox},
		{"binary file", write("a", "\x7fELF\x00\x01"), ErrNotMailbox},
		{"binary file that begins like a header", write("c", "a: b\x00\x01"), ErrNotMailbox},
		{"prose", write("b", "Once upon a time\nthere was: a colon\n"), ErrNotMailbox},
		{"missing", filepath.Join(dir, "nothing"), fs.ErrNotExist},
	}
	for _, c := range cases {
		box, err := openPath(c.path)
		if !errors.Is(err, c.want) || box != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// One file that cannot be read does not end the mailbox.
func TestUnreadableFileIsOneDefect(t *testing.T) {
	t.Parallel()
	good := &fstest.MapFile{Data: []byte("Subject: good\nFrom: a@example.com\n\nx\n")}
	fsys := brokenFS{fstest.MapFS{"cur/1": good, "cur/2": good, "cur/3": good}, "cur/2"}
	box, err := OpenFS(fsys, ".")
	messages := readAll(t, box, err)
	if len(messages) != 3 || messages[0].Has(Unreadable) || !messages[1].Has(Unreadable) || messages[2].Has(Unreadable) {
		t.Errorf("got %d messages: %+v", len(messages), messages)
	}
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

func TestClosedMailboxIsAtItsEnd(t *testing.T) {
	t.Parallel()
	box, err := openPath(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err := box.Next(); m != nil || !errors.Is(err, io.EOF) {
		t.Errorf("Next after Close: %v, %v", m, err)
	}
}

func newReader(data []byte) *bufio.Reader { return bufio.NewReaderSize(bytes.NewReader(data), 1<<10) }
