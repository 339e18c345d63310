package decode

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/simplifiedchinese"
)

const (
	prescan = 1 << 10  // bytes in which browsers look for the charset that a page declares
	latest  = 64 << 10 // bytes in which it is looked for if the page is not UTF-8
)

// Text returns bytes as UTF-8. The character set is that of the byte order mark, else of the
// first label, in the order of their authority, that is known and not us-ascii in front of other
// bytes; else ISO-2022-JP if it has its escapes; else UTF-8 if all of the bytes are; else windows-1252, as in browsers.
//
// sound is false if that was a guess, a label was wrong, or bytes were not of the set. Then the
// text may differ from what was written.
func Text(b []byte, labels ...string) (text string, sound bool) {
	if rest, ok := bytes.CutPrefix(b, []byte("\xef\xbb\xbf")); ok {
		return validUTF8(rest)
	}
	if bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return decodeAs(lookUp("utf-16be"), b[2:])
	}
	if bytes.HasPrefix(b, []byte("\xff\xfe")) {
		return decodeAs(lookUp("utf-16le"), b[2:])
	}
	sound = true
	for _, label := range labels {
		label = strings.ToLower(strings.Trim(label, " \t\r\n\"'"))
		switch e := lookUp(label); {
		case label == "", isASCII(label) && onlyASCII(b):
		case e == nil || isASCII(label):
			sound = false
		default:
			return decodeAs(e, b)
		}
	}
	if onlyASCII(b) && (bytes.Contains(b, []byte("\x1b$B")) || bytes.Contains(b, []byte("\x1b$@"))) {
		text, _ = decodeAs(lookUp("iso-2022-jp"), b)
		return text, false
	}
	if utf8.Valid(b) {
		return string(b), sound
	}
	text, _ = decodeAs(charmap.Windows1252, b)
	return text, false
}

// HTML is [Text] of a page or an XML document with the label of its transport: what the document
// declares comes after it.
func HTML(b []byte, label string) (text string, sound bool) {
	start := prescan
	if !utf8.Valid(b) {
		start = latest
	}
	return Text(b, label, declared(b[:min(len(b), start)]))
}

// Label returns the charset parameter of a Content-Type, perhaps damaged.
func Label(contentType string) string {
	if found := labelled.FindStringSubmatch(contentType); found != nil {
		return found[1]
	}
	return ""
}

var (
	labelled       = regexp.MustCompile(`(?i)\bcharset\s*=\s*["']?([^\s"';,]{1,60})`)
	xmlDeclaration = regexp.MustCompile(`^\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']`)
)

// declared returns the charset that the beginning of a document declares.
func declared(start []byte) string {
	if found := xmlDeclaration.FindSubmatch(start); found != nil {
		return inASCII(string(found[1]))
	}
	z := html.NewTokenizer(bytes.NewReader(start))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return ""
		}
		tag := z.Token()
		if tag.Data != "meta" || kind == html.EndTagToken {
			continue
		}
		label, _ := attribute(tag.Attr, "charset")
		if of, _ := attribute(tag.Attr, "http-equiv"); label == "" && strings.EqualFold(of, "content-type") {
			content, _ := attribute(tag.Attr, "content")
			label = Label(content)
		}
		if label != "" {
			return inASCII(label)
		}
	}
}

// inASCII corrects a declaration in ASCII that says UTF-16, or unicode, as browsers do.
func inASCII(label string) string {
	if _, name := charset.Lookup(label); strings.HasPrefix(name, "utf-16") {
		return "utf-8"
	}
	return label
}

func isASCII(label string) bool {
	return label == "us-ascii" || label == "ascii" || label == "ansi_x3.4-1968" || label == "iso646-us"
}

func onlyASCII(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return r >= utf8.RuneSelf })
}

// aliases are labels that no standard has, and mails do.
var aliases = map[string]string{
	"cp932": "shift_jis", "cp936": "gbk", "cp949": "euc-kr", "cp950": "big5", "gb18030-2005": "gb18030", "iso-2022-jp-1": "iso-2022-jp",
	"iso-2022-jp-2": "iso-2022-jp", "iso-2022-jp-3": "iso-2022-jp", "iso-2022-jp-ms": "iso-2022-jp", "utf_8": "utf-8", "utf8mb4": "utf-8", "iso-8859-8-i": "iso-8859-8",
}

// lookUp returns the character set of a label in lower case, and nil for an unknown one.
func lookUp(label string) encoding.Encoding {
	if known, ok := aliases[label]; ok {
		label = known
	}
	if label == "hz-gb-2312" { // browsers refuse it; mails have it
		return simplifiedchinese.HZGB2312
	}
	if e, name := charset.Lookup(label); e != nil && name != "replacement" {
		return e
	}
	if e, err := ianaindex.MIME.Encoding(label); err == nil && label != "" {
		return e
	}
	return nil
}

func decodeAs(e encoding.Encoding, b []byte) (string, bool) {
	decoded, err := e.NewDecoder().Bytes(b)
	if err != nil || !utf8.Valid(decoded) {
		text, _ := validUTF8(b)
		return text, false
	}
	return string(decoded), !bytes.ContainsRune(decoded, utf8.RuneError)
}

func validUTF8(b []byte) (string, bool) {
	return strings.ToValidUTF8(string(b), "\ufffd"), utf8.Valid(b)
}
