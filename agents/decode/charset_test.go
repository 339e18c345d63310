package decode

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
)

// covers ALF-86, BCP-18
func TestText(t *testing.T) {
	t.Parallel()
	const words = "Größe 12 € – Zürich"
	late := strings.Repeat("plain ", 1000)
	windows := "Gr\xf6\xdfe 12 \x80 \x96 Z\xfcrich"
	for _, c := range []struct {
		name, in string
		labels   []string
		want     string
		sound    bool
	}{
		{"nothing declared", words, nil, words, true},
		{"late", late + words, nil, late + words, true},
		{"ascii", "plain", nil, "plain", true},
		{"nothing", "", nil, "", true},
		{"guessed", windows, nil, words, false},
		{"guessed late", late + windows, nil, late + words, false},
		{"declared", windows, []string{"Windows-1252"}, words, true},
		{"declared in quotes", windows, []string{` "windows-1252" `}, words, true},
		{"first label", windows, []string{"windows-1252", "utf-8"}, words, true},
		{"second label", windows, []string{"", "windows-1252"}, words, true},
		{"unknown label", words, []string{"x-harbour"}, words, false},
		{"unknown label, then a known one", windows, []string{"x-harbour", "cp1252"}, words, true},
		{"us-ascii that is UTF-8", words, []string{"US-ASCII"}, words, false},
		{"us-ascii that is not", windows, []string{"us-ascii"}, words, false},
		{"us-ascii that is", "plain", []string{"us-ascii"}, "plain", true},
		{"mark", "\xef\xbb\xbf" + words, []string{"iso-8859-1"}, words, true},
		{"mark of UTF-16", "\xff\xfeG\x00\xf6\x00", nil, "Gö", true},
		{"mark of the other UTF-16", "\xfe\xff\x00G\x00\xf6", []string{"utf-8"}, "Gö", true},
		{"declared UTF-8, and is not", windows, []string{"utf-8"}, "Gr\ufffd\ufffde 12 \ufffd \ufffd Z\ufffdrich", false},
		{"latin1 that is UTF-8 too", "Gr\xc3\xb6", []string{"iso-8859-1"}, "GrÃ¶", true},
		{"GB2312", "\xc4\xe3\xba\xc3", []string{"GB2312"}, "你好", true},
		{"Big5", "\xa7A\xa6n", []string{"big5"}, "你好", true},
		{"Shift_JIS", "\x93\xfa\x96{", []string{"shift_jis"}, "日本", true},
		{"ISO-2022-JP", "\x1b$BF|K\\\x1b(B", []string{"iso-2022-jp"}, "日本", true},
		{"ISO-2022-JP without a label", "\x1b$BF|K\\\x1b(B", []string{"us-ascii"}, "日本", false},
		{"EUC-KR", "\xc7\xd1", []string{"ks_c_5601-1987"}, "한", true},
		{"KOI8-R", "\xf0\xd2", []string{"koi8-r"}, "Пр", true},
		{"HZ", "~{VPND~}", []string{"hz-gb-2312"}, "中文", true},
		{"IBM 850", "\x94", []string{"cp850"}, "ö", true},
		{"not of the set", "\xff\xff", []string{"big5"}, "\ufffd\ufffd", false},
	} {
		text, sound := Text([]byte(c.in), c.labels...)
		failIf(t, text != c.want || sound != c.sound, "%s: %.40q, %v; want %.40q, %v", c.name, text, sound, c.want, c.sound)
	}
}

// covers ALF-86
func TestDeclarations(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"<meta charset=koi8-r>": "koi8-r", "<META CHARSET='koi8-r'>": "koi8-r", `<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">`: "koi8-r", `<meta content="text/html;charset=koi8-r" http-equiv=content-type>`: "koi8-r",
		`<meta name=x content="text/html; charset=koi8-r">`: "", "<!-- <meta charset=koi8-r> -->": "", "<script>'<meta charset=koi8-r>'</script>": "", "<meta charset=utf-16>": "utf-8", "<meta charset=unicode>": "utf-8",
		`<?xml version="1.0" encoding="koi8-r"?><html/>`: "koi8-r", "<?xml version='1.0' encoding='UTF-16'?>": "utf-8", "<?xml version='1.0'?>": "", " \n<?xml version='1.0' encoding = 'koi8-r' standalone='yes'?>": "koi8-r", "<meta><meta charset=koi8-r>": "koi8-r", "": "",
	} {
		got := declared([]byte(source))
		failIf(t, got != want, "%s: %q, want %q", source, got, want)
	}
	for contentType, want := range map[string]string{"text/html; charset=koi8-r": "koi8-r", "text/html;charset=\"koi8-r\"; x=y": "koi8-r", "text/html; Charset = 'koi8-r'": "koi8-r", "text/html": "", "charset=": ""} {
		got := Label(contentType)
		failIf(t, got != want, "%s: %q, want %q", contentType, got, want)
	}
}

// Every label that browsers know gives text, of any bytes.
func FuzzText(f *testing.F) {
	for _, label := range []string{"utf-8", "iso-2022-jp", "gb18030", "big5", "hz-gb-2312", "utf-16", "x-user-defined", "us-ascii", "", "nonsense"} {
		f.Add([]byte("Gr\xf6\xdfe \x1b$B"), label)
	}
	f.Fuzz(func(t *testing.T, b []byte, label string) {
		text, sound := Text(b, label)
		failIf(t, !utf8.ValidString(text), "%q as %q: %q is not UTF-8", b, label, text)
		e, err := htmlindex.Get(label)
		failIf(t, err == nil && sound && text == "" && len(b) > 8, "%q as %v: nothing is left, and that is sound", b, e)
	})
}
