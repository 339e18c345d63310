package mailbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
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
			m := parse([]byte(c.at), int64(len(c.at)), limits)
			failIf(t, m.Has(c.defect), "at the limit: %v", m.Defects)
			m = parse([]byte(c.past), int64(len(c.past)), limits)
			failIf(t, !m.Has(c.defect), "past the limit: %v", m.Defects)
		})
	}
}

func TestFieldLimits(t *testing.T) {
	t.Parallel()
	for _, extra := range []int{0, 1} {
		m := Parse([]byte("Subject: " + strings.Repeat("x", maxFieldBytes+extra) + "\n\n"))
		failIf(t, len(m.Subject) != maxFieldBytes, "%d over: subject of %d bytes", extra, len(m.Subject))
		to := strings.TrimSuffix(strings.Repeat("a@example.com, ", maxRecipients+extra), ", ")
		if m := Parse([]byte("To: " + to + "\n\n")); len(m.To) != maxRecipients || m.Has(AddressesCut) != (extra > 0) {
			t.Errorf("%d over: %d recipients, %v", extra, len(m.To), m.Defects)
		}
	}
}

func TestDirectoryLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries int
		want    error
	}{{maxDirEntries, nil}, {maxDirEntries + 1, disk.ErrTooMany}} {
		_, err := list(manyFiles{n: c.entries})
		failIf(t, !errors.Is(err, c.want), "%d entries: %v", c.entries, err)
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
		"versions of one text":    "Content-Type: multipart/alternative; boundary=q\n\n--q\n\n" + strings.Repeat("a ", 3<<20) + strings.Repeat("\n--q\nContent-Type: text/html\n\na", 900),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			data := data[:bcptest.Rounds(len(data), len(data)/8)]
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
