package mailbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

// multipartMail is a message of n parts, the container included.
func multipartMail(n int) string {
	var b strings.Builder
	b.WriteString("Content-Type: multipart/mixed; boundary=q\n\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "--q\nContent-Type: text/plain\n\npart %d\n", i)
	}
	return b.String() + "--q--\n"
}

// nestedMail has text at the given depth, in containers inside each other.
func nestedMail(depth int) string {
	var b strings.Builder
	for i := 1; i < depth; i++ {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=\"b%dx\"\n\n--b%dx\n", i, i)
	}
	b.WriteString("Content-Type: text/plain\n\ndeep\n")
	for i := depth - 1; i > 0; i-- {
		fmt.Fprintf(&b, "--b%dx--\n", i)
	}
	return b.String()
}

// attachedMail has text at the given depth, in messages attached to each other.
func attachedMail(depth int) string {
	return strings.Repeat("Content-Type: message/rfc822\n\n", depth-1) + "Content-Type: text/plain\n\ndeep\n"
}

// Every limit holds exactly: at it nothing is lost, one past it is marked.
// covers BCP-18
func TestLimitsAtAndPast(t *testing.T) {
	t.Parallel()
	textMail := func(n int) string { return "Content-Type: text/plain\n\n" + strings.Repeat("x", n) }
	csvMail := func(n int) string { return "Content-Type: text/csv\n\n" + strings.Repeat("x", n) }
	header := func(n int) string {
		const line = "X-Filler: yes\n"
		h := strings.Repeat(line, n/len(line)-2)
		return h + "X-Last: " + strings.Repeat("y", n-len(h)-len("X-Last: \n")) + "\n\nbody\n"
	}
	limits := limits{message: 3 << 20, parts: 10, depth: 5, text: 100, attachmentText: 50}
	cases := []struct {
		name     string
		at, past string
		defect   Defect
	}{
		{"message bytes", "S: a\n\n" + strings.Repeat("x", 3<<20-6), "S: a\n\n" + strings.Repeat("x", 3<<20-5), TooLarge},
		{"parts", multipartMail(10), multipartMail(11), TooManyParts},
		{"depth of containers", nestedMail(5), nestedMail(6), TooDeep},
		{"depth of attached messages", attachedMail(5), attachedMail(6), TooDeep},
		{"text", textMail(100), textMail(101), TextCut},
		{"attachment text", csvMail(50), csvMail(51), TextCut},
		{"hidden text", "Content-Type: text/html\n\n<!--" + strings.Repeat("x", 100) + "-->", "Content-Type: text/html\n\n<!--" + strings.Repeat("x", 101) + "-->", TextCut},
		{"header bytes", header(maxHeaderBytes), header(maxHeaderBytes + 1), HeaderTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if m := parse([]byte(c.at), limits); m.Has(c.defect) {
				t.Errorf("at the limit: %v", m.Defects)
			}
			if m := parse([]byte(c.past), limits); !m.Has(c.defect) {
				t.Errorf("past the limit: %v", m.Defects)
			}
		})
	}
}

func TestFieldLimits(t *testing.T) {
	t.Parallel()
	for _, extra := range []int{0, 1} {
		m := Parse([]byte("Subject: " + strings.Repeat("x", maxFieldBytes+extra) + "\n\n"))
		if len(m.Subject) != maxFieldBytes {
			t.Errorf("%d over: subject of %d bytes", extra, len(m.Subject))
		}
		to := strings.TrimSuffix(strings.Repeat("a@example.com, ", maxRecipients+extra), ", ")
		if m := Parse([]byte("To: " + to + "\n\n")); len(m.To) != maxRecipients || m.Has(AddressesCut) != (extra > 0) {
			t.Errorf("%d over: %d recipients, %v", extra, len(m.To), m.Defects)
		}
	}
}

func TestMessageLimit(t *testing.T) {
	t.Parallel()
	data := writeMbox([][]byte{[]byte("Subject: 1\n\n"), []byte("Subject: 2\n\n"), []byte("Subject: 3\n\n")})
	for _, c := range []struct {
		limit, want int
		err         error
	}{{3, 3, io.EOF}, {2, 2, ErrTooManyMessages}} {
		box, err := openFS(mboxFS(data), "box", limits{message: MaxMessage, messages: c.limit, parts: 1, depth: 1})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			if _, err = box.Next(); err != nil {
				break
			}
		}
		_, again := box.Next()
		if n != c.want || !errors.Is(err, c.err) || !errors.Is(again, c.err) {
			t.Errorf("limit %d: %d messages, %v, then %v", c.limit, n, err, again)
		}
	}
}

// A message past the size limit is cut, counted, and does not take the next one
// with it.
// covers BCP-18
func TestOversizeMessageInsideMbox(t *testing.T) {
	t.Parallel()
	big := "Subject: big\n\n" + strings.Repeat(strings.Repeat("x", 200_000)+"\n", 20)
	data := writeMbox([][]byte{[]byte("Subject: a\n\n1\n"), []byte(big), []byte("Subject: b\n\n2\n")})
	box, err := openFS(mboxFS(data), "box", limits{message: 1000, messages: 3, parts: 1, depth: 1, text: 1000})
	got := readAll(t, box, err)
	if len(got) != 3 || !got[1].Has(TooLarge) || got[1].Size != int64(len(big)) || got[2].Text != "2" || got[2].Has(TooLarge) {
		t.Errorf("%d messages, second %v of %d bytes, want %d", len(got), got[1].Defects, got[1].Size, len(big))
	}
}

func TestDirectoryLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries int
		want    error
	}{{maxDirEntries, nil}, {maxDirEntries + 1, ErrTooManyMessages}} {
		_, err := messageFiles(manyFiles{n: c.entries}, "cur")
		if !errors.Is(err, c.want) {
			t.Errorf("%d entries: %v, want %v", c.entries, err, c.want)
		}
	}
}

// manyFiles is a folder with n entries that are no messages.
type manyFiles struct {
	fs.File
	n    int
	read *int
}

func (m manyFiles) Open(string) (fs.File, error) {
	m.read = new(int)
	return m, nil
}

func (m manyFiles) Close() error { return nil }

func (m manyFiles) ReadDir(n int) ([]fs.DirEntry, error) {
	n = min(n, m.n-*m.read)
	if n == 0 {
		return nil, io.EOF
	}
	*m.read += n
	out := make([]fs.DirEntry, n)
	for i := range out {
		out[i] = fs.FileInfoToDirEntry(hiddenInfo{})
	}
	return out, nil
}

type hiddenInfo struct{ fs.FileInfo }

func (hiddenInfo) Name() string      { return ".hidden" }
func (hiddenInfo) Mode() fs.FileMode { return 0 }

// An mbox file far larger than the memory allowed for it is read in a stream. It
// measures the heap and so runs beside no other test.
func TestMboxIsStreamed(t *testing.T) {
	const size = 96 << 20
	endless := &endlessMbox{left: size, unit: writeMbox([][]byte{[]byte("Subject: x\n\n" + strings.Repeat(strings.Repeat("y", 78)+"\n", 2_000))})}
	box, err := OpenFS(endless, "box")
	if err != nil {
		t.Fatal(err)
	}
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	peak, total := uint64(0), int64(0)
	for {
		raw, n, _, err := box.source.next(MaxMessage)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		total += n
		_ = raw
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc)
	}
	if total < size*9/10 {
		t.Errorf("read %d bytes of %d", total, size)
	}
	if limit := before.HeapAlloc + 32<<20; peak > limit {
		t.Errorf("heap reached %d MiB for a file of %d MiB", peak>>20, size>>20)
	}
}

// endlessMbox is one file that repeats unit until left bytes are read.
type endlessMbox struct {
	unit []byte
	at   int
	left int
}

func (e *endlessMbox) Open(string) (fs.File, error) { return e, nil }
func (e *endlessMbox) Stat() (fs.FileInfo, error)   { return e, nil }
func (e *endlessMbox) Close() error                 { return nil }
func (e *endlessMbox) Name() string                 { return "box" }
func (e *endlessMbox) Size() int64                  { return int64(e.left) }
func (e *endlessMbox) Mode() fs.FileMode            { return 0 }
func (e *endlessMbox) ModTime() time.Time           { return time.Time{} }
func (e *endlessMbox) IsDir() bool                  { return false }
func (e *endlessMbox) Sys() any                     { return nil }
func (e *endlessMbox) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, e.unit[e.at:])
	e.at = (e.at + n) % len(e.unit)
	e.left -= n
	return n, nil
}

// A file that breaks off in the middle gives what was read, marked, and then the
// error of the file.
func TestReadErrorInMbox(t *testing.T) {
	t.Parallel()
	data := string(writeMbox([][]byte{[]byte("Subject: a\n\n1\n"), []byte("Subject: b\n\n2\n")}))
	r := newReader(nil)
	r.Reset(io.MultiReader(strings.NewReader(data), failing{}))
	box := &Mailbox{limits: standard, source: &mbox{r: r, f: io.NopCloser(nil)}}
	first, err := box.Next()
	if err != nil || first.Has(Unreadable) {
		t.Fatalf("first: %v, %v", first, err)
	}
	second, err := box.Next()
	if err != nil || !second.Has(Unreadable) || second.Text != "2" {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if _, err := box.Next(); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("after it: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fs.ErrInvalid }

// Structures made to cost time stay within bounds.
// covers BCP-18
func TestCostlyStructures(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	cases := map[string]string{
		"nested within the bound": nestedMail(400),
		"nested past it":          nestedMail(20_000),
		"attached in each other":  attachedMail(30_000),
		"separators only":         "Content-Type: multipart/mixed; boundary=q\n\n" + fill("--q\n\n"),
		"header lines only":       fill("a: b\n"),
		"part header lines":       "Content-Type: multipart/mixed; boundary=q\n\n--q\n" + fill("a: b\n"),
		"comments only":           "Content-Type: text/html\n\n" + fill("<!--a-->"),
		"hidden and never closed": "Content-Type: text/html\n\n" + fill("<p hidden>"),
		"one tag with attributes": "Content-Type: text/html\n\n<p " + fill("a=b "),
		"encoded words":           "Subject: " + fill("=?utf-8?q?a?= "),
		"long content type":       "Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Type: text/plain; " + fill("a=b; ") + "\n\nx\n--q--\n",
		"parameter in pieces":     "Content-Type: text/plain; " + fill("name*1=\"; ") + "\n\nx",
		"bad base64":              "Content-Transfer-Encoding: base64\n\n" + strings.Repeat("!=A", 7<<20/3),
		"bad quoted-printable":    "Content-Transfer-Encoding: quoted-printable\n\n" + strings.Repeat("=", 7<<20),
		"addresses":               "To: " + fill("<,\"(\n "),
		"quotes in addresses":     "To: " + fill("\"a\\\" <b@c>, "),
		"the word boundary":       "Subject: x\n\n" + fill("boundary\n"),
		"many boundaries":         fill("Content-Type: multipart/mixed; boundary=q\n\n--q\n"),
		"formatting":              "Content-Type: text/html\n\n" + strings.Repeat("<b id=1><i id=2><font id=3>", 10_000) + fill("<p>x"),
		"much html":               "Content-Type: multipart/mixed; boundary=q\n\n" + strings.Repeat("--q\nContent-Type: text/html\n\n"+strings.Repeat("<p>x", 10_000)+"\n", 180),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			data := data[:effort.Rounds(len(data), len(data)/8)]
			start := time.Now()
			m := Parse([]byte(data))
			took := time.Since(start)
			t.Logf("%d KiB took %v, defects %v", len(data)>>10, took.Round(time.Millisecond), m.Defects)
			if took > time.Minute { // where it grows with the square it takes hours; a busy machine takes seconds
				t.Errorf("took %v", took)
			}
		})
	}
}
