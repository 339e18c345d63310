package mailbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
		{"no empty line before a separator", sound + "Content-Type: multipart/mixed; boundary=q\n--q\nContent-Type: text/plain\n\nx\n--q\n\ny\n--q--\n", "x\n\ny", nil},
		{"two types", sound + "Content-Type: multipart/mixed; boundary=p\nContent-Type: multipart/mixed; boundary=q\n\n--q\n\nx\n--q--\n", "x", []Defect{BadHeader}},
		{"two types, one without parts", sound + "Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=q\n\n--q\n\nx\n--q--\n", "x", []Defect{BadHeader}},
		{"two types, none with parts", sound + "Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=q\n\nx\n", "x", []Defect{BadHeader}},
		{"ISO-2022-JP without a charset", sound + "Content-Type: text/plain\n\n\x1b$BF|K\\\x1b(B\n", "日本", []Defect{BadCharset}},
		{"unknown encoding", sound + "Content-Type: text/plain\nContent-Transfer-Encoding: x-uuencode\n\nx\n", "x", []Defect{BadEncoding}},
		{"footer of a list behind base64", sound + "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n-- \nThe list\n", "hello\n--\nThe list", []Defect{BadEncoding}},
		{"damaged base64", sound + "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\naGVs!!!bG8=\n", "hello", []Defect{BadEncoding}},
		{"separator never closed", sound + "Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Type: text/plain\n\nx\n", "x", []Defect{BadStructure}},
		{"multipart without separator", sound + "Content-Type: multipart/mixed\n\nx\n", "x", []Defect{BadStructure}},
		{"multipart without parts", sound + "Content-Type: multipart/mixed; boundary=q\n\nx\n", "x", []Defect{BadStructure}},
		{"two subjects", sound + "Subject: a\nSubject: b\n\nx\n", "x", []Defect{BadHeader}},
		{"two authors", "From: a@example.com, b@example.com\nDate: Mon, 2 Mar 2026 08:05:10 +0000\n\nx\n", "x", []Defect{AddressesCut}},
		{"recipient without address", sound + "To: a@example.com, nobody <>\n\nx\n", "x", []Defect{BadRecipient}},
		{"UTF-7", sound + "Content-Type: text/plain; charset=UTF-7\n\nHi +ADw-b+AD4-\n", "Hi +ADw-b+AD4-", []Defect{BadCharset}},
		{"unknown zone", "From: a@example.com\nDate: Mon, 2 Mar 2026 08:05:10 XYZ\n\nx\n", "x", []Defect{BadDate}},
		{"guessed charset", sound + "\ncaf\xe9\n", "café", []Defect{BadCharset}},
		{"UTF-8 without a charset", sound + "\ncafé\n", "café", nil},
		{"us-ascii that is UTF-8", sound + "Content-Type: text/plain; charset=us-ascii\n\ncafé\n", "café", []Defect{BadCharset}},
		{"HTML says its charset", sound + "Content-Type: text/html\n\n<meta charset=koi8-r>\xf0\xd2", "Пр", nil},
		{"encoding with a comment", sound + "Content-Transfer-Encoding: base64 (as always)\n\neHk=\n", "xy", nil},
		{"blanks at ends of lines", sound + "Content-Transfer-Encoding: Quoted-Printable\n\ncaf=C3=  \n=A9 \t\nx= \n\n", "café\nx", nil},
		{"equals that means nothing", sound + "Content-Transfer-Encoding: quoted-printable\n\na=zz=\n\n", "a=zz", []Defect{BadEncoding}},
		{"base64 in pieces", sound + "Content-Transfer-Encoding: base64\n\neA==\neQ==\n", "xy", nil},
		{"base64 without padding", sound + "Content-Transfer-Encoding: base64\n\neHk\n", "xy", nil},
		{"base64 that is cut", sound + "Content-Transfer-Encoding: base64\n\neHl6e\n", "xyz", []Defect{BadEncoding}},
		{"type without a subtype", sound + "Content-Type: text\n\nx\n", "x", []Defect{BadHeader}},
		{"carriage returns alone", strings.ReplaceAll(sound+"\nx\ny\n", "\n", "\r"), "x\ny", nil},
		{"no header at all", "x\ny\n", "x\ny", []Defect{BadFrom, BadDate}},
		{"no empty line", sound + "x y\nSubject: z\n", "x y\nSubject: z", nil},
		{"carriage returns", strings.ReplaceAll(sound+"\nx\ny\n", "\n", "\r\n"), "x\ny", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := Parse([]byte(c.in))
			diff := cmp.Diff(c.want, m.Defects)
			failIf(t, diff != "", "%v", diff)
			failIf(t, m.Text != c.text, "text %q, want %q", m.Text, c.text)
		})
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
		got := fileName(in)
		failIf(t, got != want, "%q: %q, want %q", in, got, want)
	}
}

// Plain text wins over HTML of the same alternative only; what HTML hides is
// kept in both cases.
func TestTextOfAlternatives(t *testing.T) {
	t.Parallel()
	const plain = "--q\nContent-Type: text/plain\n\nplain\n"
	const rich = "--q\nContent-Type: text/html\n\n<p>rich<!-- note --></p>\n"
	cases := []struct{ kind, parts, text string }{
		{"alternative", plain + rich, "plain\n\nrich"}, // the plain one lacks most words
		{"alternative", "--q\n\nplain, not rich\n" + rich, "plain, not rich"},
		{"alternative", rich, "rich"},
		{"alternative", "--q\nContent-Type: text/plain\n\n \n" + rich, "rich"},
		{"mixed", plain + rich, "plain\n\nrich"},
		{"mixed", "--q\nContent-Type: text/html charset=utf-8\n\n<p>é<p hidden>x\n", "é"},
		{"mixed", rich + plain, "rich\n\nplain"},
		{"related", rich, "rich"},
	}
	for _, c := range cases {
		m := Parse([]byte("Content-Type: multipart/" + c.kind + "; boundary=q\n\n" + c.parts + "--q--\n"))
		failIf(t, m.Text != c.text || strings.Contains(c.parts, "note") && m.Hidden != "note",
			"%s %q: text %q, hidden %q", c.kind, c.parts, m.Text, m.Hidden)
	}
}

// Encoded words as mail programs write them: cut inside of a character, without padding, with blanks, in sets with states.
// covers BCP-18
func TestEncodedWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"=?utf-8?Q?caf=C3?= =?utf-8?Q?=A9?=":                            "café",
		"=?UTF-8?B?Y2Fmww==?=\n =?utf-8?B?qQ==?=":                       "café",
		"=?utf-8?B?Y2Fm?=\n\t=?utf-8?B?w6k?=":                           "café",
		"=?GB2312?B?xOO6ww?=":                                           "你好",
		"=?GB2312?B?xOO6?= =?GB2312?B?ww==?=":                           "你好",
		"=?Big5?B?p0Gmbg?=":                                             "你好",
		"=?Big5?B?p0Gm?= =?big5?B?bg?=":                                 "你好",
		"=?ISO-2022-JP?B?GyRCRnxLXBsoQg?=":                              "日本",
		"=?ISO-2022-JP?B?GyRCRnwbKEI=?= =?ISO-2022-JP?B?GyRCS1wbKEI=?=": "日本",
		"=?iso-8859-1?Q?Gr=F6=DFe_der?= =?iso-8859-1?Q?_T=FCr?=":        "Größe der Tür",
		"=?utf-8?Q?a?= =?iso-8859-1?Q?=E9?=":                            "aé",
		"=?utf-8?Q?a?= b =?utf-8?Q?c?=":                                 "a b c",
		"x=?utf-8?Q?a?=y":                                               "xay",
		"=?utf-8?Q?Hello World?=":                                       "Hello World",
		"=?utf-8*de?Q?a?=":                                              "a",
		"=?utf-8?Q??=":                                                  "",
		"=?utf-8?X?a?=":                                                 "=?utf-8?X?a?=",
		"=?utf-8?Q?a":                                                   "=?utf-8?Q?a",
		"plain café":                                                    "plain café",
		"\"=?utf-8?Q?a?=\"":                                             "\"a\"",
	} {
		m := Parse([]byte("From: a@example.com\nDate: Mon, 2 Mar 2026 08:05:10 +0000\nSubject: " + in + "\n\n"))
		failIf(t, m.Subject != want || len(m.Defects) > 0, "%s: %q, want %q; %v", in, m.Subject, want, m.Defects)
		m = Parse([]byte("From: " + in + " <a@example.com>\n\n"))
		failIf(t, m.From.Address != "a@example.com" || m.From.Name != strings.Trim(want, `"`),
			"%s: from %+v, want %q", in, m.From, want)
	}
}

// A damaged address leaves the others as they are.
// covers BCP-18
func TestAddresses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]Address{
		"a@b.example":                               {{"", "a@b.example"}},
		"A <a@b.example>, c@d.example (C D)":        {{"A", "a@b.example"}, {"C D", "c@d.example"}},
		`"Weiß, Anna" <a@b.example>`:                {{"Weiß, Anna", "a@b.example"}},
		`"A \"B\" C" <a@b.example>`:                 {{`A "B" C`, "a@b.example"}},
		"=?utf-8?Q?Wei=C3=9F,_Anna?= <a@b.example>": {{"Weiß, Anna", "a@b.example"}},
		"Weiß, Anna <a@b.example>":                  {{"Weiß, Anna", "a@b.example"}},
		"a@b.example, nobody, <>, c@d.example":      {{"", "a@b.example"}, {"nobody", ""}, {"", ""}, {"", "c@d.example"}},
		"a@b.example; c@d.example":                  {{"", "a@b.example"}, {"", "c@d.example"}},
		"Team: a@b.example, c@d.example;":           {{"", "a@b.example"}, {"", "c@d.example"}},
		"undisclosed-recipients:;":                  nil,
		"A B a@b.example, c@d.example":              {{"A B", "a@b.example"}, {"", "c@d.example"}},
		`"unclosed <a@b.example>, c@d.example`:      {{"unclosed", "a@b.example"}, {"", "c@d.example"}},
		"<a@b.example, c@d.example":                 {{"", "a@b.example"}, {"", "c@d.example"}},
		"(x a@b.example, c@d.example":               {{"(x", "a@b.example"}, {"", "c@d.example"}},
		"a@b@c, d@e.example":                        {{"", "a@b@c"}, {"", "d@e.example"}},
		", ,a@b.example,":                           {{"", "a@b.example"}},
	} {
		m := Parse([]byte("To: " + in + "\nCc: " + in + "\n\n"))
		diff := cmp.Diff(want, m.To)
		failIf(t, diff != "", "%s: %s", in, diff)
		diff = cmp.Diff(m.To, m.Cc)
		failIf(t, diff != "", "%s: Cc: %s", in, diff)
	}
}

// A paragraph in format=flowed is one line: a price or an address that a mail program wrapped is whole (RFC 3676).
func TestFlowedText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ parameters, body, want string }{
		{"format=flowed", "The total is \n40 euro.\nNext.\n", "The total is 40 euro.\nNext."},
		{"format=Flowed; delsp=yes", "https://example.org/ \nbill\n", "https://example.org/bill"},
		{"format=flowed", "> Do you \n> agree?\n>> No \n> way \nme\n", "> Do you agree?\n>> No\n> way\nme"},
		{"format=flowed", " From space \n-- \nAnn \n", "From space\n--\nAnn"},
		{"format=fixed", "The total is \n40 euro.\n", "The total is\n40 euro."},
	} {
		m := Parse([]byte("From: a@example.org\nContent-Type: text/plain; " + test.parameters + "\n\n" + test.body))
		failIf(t, m.Text != test.want, "%s: %q is read as %q", test.parameters, test.body, m.Text)
	}
}

// The text of a mail is its text, whatever it is called; an attachment is one by its disposition.
// covers BCP-18
func TestNamedBodies(t *testing.T) {
	t.Parallel()
	const mixed = "Content-Type: multipart/mixed; boundary=q\n\n--q\n"
	for in, want := range map[string]struct{ text, name string }{
		"Content-Type: text/plain; name=a.txt\n\nx":                                                          {"x", ""},
		"Content-Type: text/plain\nContent-Disposition: inline; filename=a.txt\n\nx":                         {"x", ""},
		"Content-Type: text/plain\nContent-Disposition: attachment; filename=a.txt\n\nx":                     {"x", ""},
		"Content-Type: text/html; name=\"a.html\"\n\n<p>x":                                                   {"x", ""},
		"Content-Disposition: inline\n\nx":                                                                   {"x", ""},
		mixed + "Content-Type: text/plain; name=a.txt\n\nx\n--q--":                                           {"x", ""},
		mixed + "Content-Disposition: inline; filename=a.txt\n\nx\n--q--":                                    {"x", ""},
		mixed + "Content-Disposition: attachment; filename=\"a b.txt\"\n\nx\n--q--":                          {"", "a b.txt"},
		mixed + "Content-Disposition: attachment; filename=a b.txt\n\nx\n--q--":                              {"", "a b.txt"},
		mixed + "Content-Disposition: attachment; filename*=utf-8''%c3%a4.txt\n\nx\n--q--":                   {"", "ä.txt"},
		mixed + "Content-Disposition: attachment; filename*0*=iso-8859-1''%e4; filename*1=b.txt\n\nx\n--q--": {"", "äb.txt"},
		mixed + "Content-Disposition: attachment; filename=\"=?utf-8?B?w6QudHh0?=\"\n\nx\n--q--":             {"", "ä.txt"},
		mixed + "Content-Type: text/plain; name=a.txt\nContent-Disposition: attachment\n\nx\n--q--":          {"", "a.txt"},
		mixed + "Content-Type: text/csv; name=a.csv\n\nx\n--q--":                                             {"", "a.csv"},
		mixed + "Content-Type: application/octet-stream; name=a.TXT\n\nx\n--q--":                             {"", "a.TXT"},
		mixed + "Content-Type: application/vnd.ms-excel; name=a.csv\n\nx\n--q--":                             {"", "a.csv"},
		mixed + "Content-Type: application/octet-stream; name=a.eml\n\n\nx\n--q--":                           {"", "a.eml"},
	} {
		m := Parse([]byte(in))
		name := ""
		if len(m.Attachments) > 0 {
			name = m.Attachments[0].Name
			failIf(t, m.Attachments[0].Text != "x", "%q: the attachment has %q", in, m.Attachments[0].Text)
		}
		failIf(t, m.Text != want.text || name != want.name, "%q: text %q, attachment %q, want %+v", in, m.Text, name, want)
	}
}

// What is beside the parts and in the version that is not shown is not lost without a word.
// covers BCP-18
func TestNothingIsLostSilently(t *testing.T) {
	t.Parallel()
	parts := "--q\nContent-Type: text/plain\n\nplain and\n--q\nContent-Type: text/html\n\n<p>plain and more\n--q--\n"
	m := Parse([]byte("Content-Type: multipart/alternative; boundary=q\n\n" + parts))
	failIf(t, m.Text != "plain and" || !m.Has(VersionsDiffer), "versions: %q, %v", m.Text, m.Defects)
	m = Parse([]byte("Content-Type: multipart/mixed; boundary=q\n\nThis is a multi-part message in MIME format.\n" + parts + "after"))
	failIf(t, m.Text != "plain and\n\nplain and more" || m.Hidden != "after" || m.Has(VersionsDiffer),
		"beside: %q, %q, %v", m.Text, m.Hidden, m.Defects)
	m = Parse([]byte("Subject: \xf0\xd2\nContent-Type: text/plain; charset=koi8-r\n\n\xf0"))
	failIf(t, m.Subject != "Пр" || m.Text != "П" || !m.Has(BadCharset), "in the charset of the text: %q, %v", m.Subject, m.Defects)
	m = Parse([]byte("Content-Type: multipart/mixed; boundary=q\n\n--q\nContent-Type: application/octet-stream; name=a.txt\n\nx\x00y\n--q--"))
	failIf(t, len(m.Attachments) != 1 || m.Attachments[0].Text != "", "no text in spite of its name: %+v", m.Attachments)
	m = Parse([]byte("Content-Type: text/plain\n\na\U000e0049\U000e0067 b\U000e007f"))
	failIf(t, m.Hidden != "Ig", "in tag characters: %q", m.Hidden)
	m = Parse([]byte("Content-Type: text/html\n\n<title>t</title><img alt=x>a<!--y--><p hidden>z"))
	failIf(t, m.Text != "a" || m.Hidden != "t\n\nx\n\ny\n\nz", "hidden: %q, %q", m.Text, m.Hidden)
}

// What is never closed in a list of addresses is looked for once, not from each escape on.
func TestUnclosedAddresses(t *testing.T) {
	t.Parallel()
	for _, to := range []string{`(\`, `\"`, `\(`} {
		start := time.Now()
		if Parse([]byte("To: \"" + strings.Repeat(to, 100_000) + "\r\n\r\nx")); time.Since(start) > 20*time.Second {
			t.Errorf("%s takes %v", to, time.Since(start))
		}
	}
}
