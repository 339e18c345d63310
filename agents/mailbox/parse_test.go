package mailbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStripHTML(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in, text string
		hidden         []string
	}{
		{"blocks", "<p>a</p><p>b<br>c</p>", "a\n\nb\nc", nil},
		{"cells and items", "<table><tr><td>a</td><td>b</td></tr></table><ul><li>c<li>d</ul>", "a b\n\nc\nd", nil},
		{"white space", "a \n\t b&nbsp;&amp;  c", "a b & c", nil},
		{"script and style", "<style>p{}</style>a<script>b</script>c", "ac", nil},
		{"comment", "a<!-- x -->b", "ab", []string{"x"}},
		{"display none", `a<div style="display: none">x <b>y</b></div>b`, "a\n\nb", []string{"x y"}},
		{"nested in itself", `<div hidden>x<div>y</div>z</div>b`, "b", []string{"x\n\ny\n\nz"}},
		{"never closed", `a<span hidden>x`, "a", []string{"x"}},
		{"white on white", `a<span style="color:#fff; background-color:#fff">x</span>`, "a", []string{"x"}},
		{"tiny", `a<span style="font-size:0px">x</span><span style="font-size:10px">b</span>`, "ab", []string{"x"}},
		{"transparent", `a<span style="opacity:0.01">x</span><span style="opacity:0.9">b</span>`, "ab", []string{"x"}},
		{"picture text and title", `<title>t</title><img alt="x">a`, "a", []string{"t", "x"}},
		{"empty", "", "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text, hidden := stripHTML(c.in)
			if text != c.text {
				t.Errorf("text %q, want %q", text, c.text)
			}
			if diff := cmp.Diff(c.hidden, hidden); diff != "" {
				t.Errorf("hidden: %s", diff)
			}
		})
	}
}

// covers BCP-18
func TestDefects(t *testing.T) {
	t.Parallel()
	const sound = "From: A <a@example.com>\nDate: Mon, 2 Mar 2026 08:05:10 +0000\n"
	cases := []struct {
		name, in, text string
		want           []Defect
	}{
		{"sound", sound + "\nx\n", "x", nil},
		{"nothing", "", "", []Defect{BadFrom, BadDate}},
		{"header only", sound + "Subject: y", "", nil},
		{"line without a name", sound + "nonsense here\n and more\nSubject: y\n\nx\n", "x", []Defect{BadHeader}},
		{"continuation first", " odd\n" + sound + "\nx\n", "x", []Defect{BadHeader}},
		{"author without address", "From: nobody\n" + sound[len("From: A <a@example.com>\n"):] + "\nx\n", "x", []Defect{BadFrom}},
		{"unknown charset", sound + "Content-Type: text/plain; charset=x-none\n\ncaf\xe9\n", "café", []Defect{BadCharset}},
		{"bytes not of the charset", sound + "Content-Type: text/plain; charset=utf-8\n\ncaf\xe9\n", "caf\ufffd", []Defect{BadCharset}},
		{"8-bit header", "Subject: caf\xe9\n" + sound + "\nx\n", "x", []Defect{BadCharset}},
		{"unknown encoding", sound + "Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nx\n", "x", []Defect{BadEncoding}},
		{"damaged base64", sound + "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\naGVs!!!bG8=\n", "hello", []Defect{BadEncoding}},
		{"separator never closed", sound + "Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Type: text/plain\n\nx\n", "x", []Defect{BadStructure}},
		{"multipart without separator", sound + "Content-Type: multipart/mixed\n\nx\n", "x", nil},
		{"multipart without parts", sound + "Content-Type: multipart/mixed; boundary=q\n\nx\n", "", []Defect{BadStructure}},
		{"carriage returns", strings.ReplaceAll(sound+"\nx\ny\n", "\n", "\r\n"), "x\ny", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := Parse([]byte(c.in), Limits{})
			if diff := cmp.Diff(c.want, m.Defects); diff != "" {
				t.Error(diff)
			}
			if m.Text != c.text {
				t.Errorf("text %q, want %q", m.Text, c.text)
			}
		})
	}
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	cases := []struct{ in, want string }{
		{"Mon, 2 Mar 2026 08:05:10 +0000", "2026-03-02T08:05:10Z"},
		{"Mon, 02 Mar 2026 08:05:10 +0100 (CET)", "2026-03-02T07:05:10Z"},
		{"3 Mar 26 06:20 EST", "2026-03-03T11:20:00Z"},
		{"3 Mar 2026 06:20:00 GMT", "2026-03-03T06:20:00Z"},
		{"3 Mar 2026 06:20:00 XYZ", "2026-03-03T06:20:00Z"},
		{"Tue, 31 Dec 2069 23:59:59 -1200", "2070-01-01T11:59:59Z"},
		{"Wed, 04 Mar 2026 25:61:00 +0000", ""},
		{"yesterday", ""},
		{"(", ""},
		{"", ""},
	}
	for _, c := range cases {
		got := ""
		if d, ok := parseDate(c.in); ok {
			got = d.Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// Names from outside lose every folder.
// covers BCP-18
func TestFileName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.pdf": "a.pdf", "../../etc/passwd": "passwd", `C:\x\a.pdf`: "a.pdf", "..": "", "/": "", "": "",
		strings.Repeat("x", 256): strings.Repeat("x", 255),
	} {
		if got := fileName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Plain text wins over HTML of the same alternative only; what HTML hides is
// kept in both cases.
func TestTextOfAlternatives(t *testing.T) {
	t.Parallel()
	const plain = "--q\nContent-Type: text/plain\n\nplain\n"
	const rich = "--q\nContent-Type: text/html\n\n<p>rich<!-- note --></p>\n"
	cases := []struct{ kind, parts, text string }{
		{"alternative", plain + rich, "plain"},
		{"alternative", rich, "rich"},
		{"alternative", "--q\nContent-Type: text/plain\n\n \n" + rich, "rich"},
	}
	for _, c := range cases {
		m := Parse([]byte("Content-Type: multipart/"+c.kind+"; boundary=q\n\n"+c.parts+"--q--\n"), Limits{})
		if m.Text != c.text || strings.Contains(c.parts, "note") && m.Hidden != "note" {
			t.Errorf("%s %q: text %q, hidden %q", c.kind, c.parts, m.Text, m.Hidden)
		}
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	type short struct{ Subject, Name, Type, Text string }
	want := []short{
		{"Invoice 2026-0318", "invoice-2026-0318.pdf", "application/pdf", ""},
		{"Fwd: Pallet count", "Pallet count.eml", "message/rfc822", "Pallet count\n\n42 pallets on dock 4, two of them broken."},
		{"Stock count February", "Zählung-februar.csv", "text/csv", "item,counted,expected\nmooring line 12 mm,118,120\nbronze cleat,64,64\nfender 30 cm,37,40"},
	}
	var got []short
	for _, m := range shippedMail(t) {
		for _, a := range m.Attachments {
			for _, w := range want {
				if w.Subject == m.Subject {
					got = append(got, short{m.Subject, a.Name, a.Type, a.Text})
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTagText(t *testing.T) {
	t.Parallel()
	if got := tagText("a\U000e0049\U000e0067 b\U000e007f"); got != "Ig" {
		t.Errorf("tag text %q", got)
	}
}
