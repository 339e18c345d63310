package mailbox

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/decode"
)

// The structure of a message: headers, parts and transfer encodings. All of it takes time in
// proportion to the bytes, once for each level of nesting, and copies none of them but a header's and a part's
// that is decoded.

var (
	// headerLine is the beginning of a line with a field.
	headerLine = regexp.MustCompile(`^[!-9;-~]+[ \t]*:`)
	// folding is where a line goes on.
	folding = regexp.MustCompile(`\r*\n[ \t]+`)
)

// header has the values of fields by canonical name, unfolded.
type header = textproto.MIMEHeader

// splitHeader cuts after the last header line; body follows the empty line. Without an empty
// line it begins with the first line that is none of a header, also before the first field; and in any case with a separator.
func splitHeader(raw []byte) (head, body []byte) {
	at, other := 0, len(raw)
	for line := range bytes.Lines(raw) {
		switch words := bytes.TrimRight(line, "\r\n"); {
		case len(words) == 0:
			return raw[:at], raw[at+len(line):]
		case at > 0 && bytes.HasPrefix(words, []byte("--")) && !headerLine.Match(words): // a separator
			return raw[:at], raw[at:]
		case other == len(raw) && words[0] != ' ' && words[0] != '\t' && !headerLine.Match(words) && !bytes.HasPrefix(words, []byte("From ")):
			other = at
		}
		at += len(line)
	}
	return raw[:other], raw[other:]
}

// readHeader parses the lines of a header. Those without a field's name are left out, with the
// lines that continue them.
func (w *walker) readHeader(head []byte) header {
	if len(head) > maxHeaderBytes {
		w.message.mark(HeaderTooLarge)
		head = head[:maxHeaderBytes]
		head = head[:bytes.LastIndexByte(head, '\n')+1]
	}
	h := header{}
	for line := range bytes.Lines(folding.ReplaceAll(head, []byte(" "))) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
		case headerLine.Match(line):
			name, value, _ := strings.Cut(string(line), ":")
			h.Add(strings.TrimRight(name, " \t"), strings.TrimSpace(value))
		default:
			w.message.mark(BadHeader)
		}
	}
	return h
}

// contentType is a parsed Content-Type or Content-Disposition.
type contentType struct {
	kind       string // in lower case
	parameters map[string]string
}

// parameter is one with its value, which has quotes or ends with the next semicolon.
var parameter = regexp.MustCompile(`(?s);([^=;]*)=[ \t]*("(?:[^"\\]|\\.)*"?|[^;]*)`)

// noSemicolon is a type without the semicolon before its parameters, as in "text/html charset=utf-8".
var noSemicolon = regexp.MustCompile(`^(\s*[^\s;="()]+)\s+[^\s;="()]+=`)

// parseType parses a value as far as possible: real mail has blanks without quotes, and comments.
func (w *walker) parseType(value string) contentType {
	if len(value) > maxFieldBytes {
		w.message.mark(BadHeader)
		value = clip(value, maxFieldBytes)
	}
	if at := noSemicolon.FindStringSubmatchIndex(value); at != nil {
		w.message.mark(BadHeader)
		value = value[:at[3]] + ";" + value[at[3]:]
	}
	kind, _, _ := strings.Cut(value, ";")
	t := contentType{kind: strings.ToLower(strings.TrimSpace(withoutComments(kind))), parameters: map[string]string{}}
	pieces := map[string][]piece{}
	for _, found := range parameter.FindAllStringSubmatch(value[len(kind):], -1) {
		key, text := strings.ToLower(strings.TrimSpace(withoutComments(found[1]))), found[2]
		if strings.HasPrefix(text, `"`) {
			text, _ = quotedString(text)
		} else {
			text = strings.TrimSpace(withoutComments(text))
		}
		name, number, continued := strings.Cut(key, "*")
		if continued { // RFC 2231
			encoded := strings.HasSuffix(number, "*") || number == ""
			n, _ := strconv.Atoi(strings.TrimSuffix(number, "*"))
			pieces[name] = append(pieces[name], piece{n, text, encoded})
		} else if _, have := t.parameters[name]; !have {
			t.parameters[name] = text
		}
	}
	for name, all := range pieces {
		t.parameters[name] = w.join(all)
	}
	return t
}

// piece is a piece of a parameter that is written in several.
type piece struct {
	number  int
	text    string
	encoded bool
}

// join returns the value of a parameter in pieces.
func (w *walker) join(all []piece) string {
	slices.SortStableFunc(all, func(a, b piece) int { return a.number - b.number })
	var raw []byte
	charset := ""
	for i, p := range all {
		text := p.text
		if p.encoded {
			if parts := strings.SplitN(text, "'", 3); i == 0 && len(parts) == 3 {
				charset, text = parts[0], parts[2]
			}
			if decoded, err := url.PathUnescape(text); err == nil {
				text = decoded
			}
		}
		raw = append(raw, text...)
	}
	return w.text(raw, charset)
}

// quotedString returns the inside of the quoted string that s begins with, and what comes after it.
func quotedString(s string) (inside, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'): // others are folders of Windows
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

var comment = regexp.MustCompile(`\([^()]*\)`)

// withoutComments takes comments out, as far as they are closed.
func withoutComments(s string) string {
	for range 5 {
		without := comment.ReplaceAllString(s, " ")
		if without == s {
			break
		}
		s = without
	}
	return s
}

// split returns the bodies between the separators of a multipart, what stands in front of them and
// after them, and whether the last one is closed. There are at most so many.
func split(body []byte, boundary string, most int) (parts [][]byte, before, after []byte, closed, more bool) {
	start, at := -1, 0 // of the part, and of the line
	before = body
	delimiter := []byte("--" + boundary)
	finish := func(end int) {
		part := bytes.TrimSuffix(body[start:end], []byte("\n"))
		parts = append(parts, bytes.TrimSuffix(part, []byte("\r"))) // the line end belongs to the separator
	}
	for line := range bytes.Lines(body) {
		end := at
		at += len(line)
		rest, ok := bytes.CutPrefix(line, delimiter)
		rest, last := bytes.CutPrefix(rest, []byte("--"))
		if !ok || len(bytes.TrimSpace(rest)) > 0 {
			continue
		}
		if start >= 0 {
			finish(end)
		} else {
			before = body[:end]
		}
		switch start = at; {
		case last:
			return parts, before, body[at:], true, false
		case len(parts) == most:
			return parts, before, nil, true, true
		}
	}
	if start >= 0 {
		finish(len(body))
	}
	return parts, before, nil, false, false
}

// decodeTransfer returns the bytes of a body in its transfer encoding.
func (w *walker) decodeTransfer(body []byte, encoding string) []byte {
	sound := true
	switch encoding = strings.ToLower(strings.Trim(withoutComments(encoding), " \t\"';.")); encoding {
	case "", "7bit", "8bit", "binary", "7-bit", "8-bit":
	case "base64":
		data, footer := cutFooter(body)
		body, sound = decodeBase64(data)
		if len(footer) > 0 {
			body, sound = append(append(body, '\n'), footer...), false
		}
	case "quoted-printable":
		body, sound = decodeQuoted(body)
	default:
		sound = false
	}
	w.message.note(!sound, BadEncoding)
	return body
}

func inAlphabet(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// cutFooter cuts off what a mailing list wrote behind base64, from a line on that is words or a rule and cannot be damaged data.
func cutFooter(body []byte) (data, footer []byte) {
	at := 0
	for line := range bytes.Lines(body) {
		text := bytes.TrimSpace(line)
		letters := bytes.ContainsFunc(text, func(r rune) bool { return r < utf8.RuneSelf && inAlphabet(byte(r)) })
		foreign := bytes.ContainsFunc(text, func(r rune) bool {
			return r >= utf8.RuneSelf || !inAlphabet(byte(r)) && !strings.ContainsRune("= \t", r)
		})
		if foreign && (!letters || bytes.ContainsAny(text, " \t")) {
			return body[:at], body[at:]
		}
		at += len(line)
	}
	return body, nil
}

// decodeBase64 decodes what there is: with or without padding, in one piece or several. Other
// characters than white space are left out, and make it unsound.
func decodeBase64(text []byte) (decoded []byte, sound bool) {
	sound = true
	clean := bytes.Map(func(r rune) rune {
		switch {
		case r == '=', r < utf8.RuneSelf && inAlphabet(byte(r)):
			return r
		case r != '\n' && r != '\r' && r != ' ' && r != '\t':
			sound = false
		}
		return -1
	}, text)
	for piece := range bytes.SplitSeq(clean, []byte("=")) {
		if len(piece)%4 == 1 {
			piece, sound = piece[:len(piece)-1], false
		}
		decoded, _ = base64.RawStdEncoding.AppendDecode(decoded, piece)
	}
	return decoded, sound
}

// decodeQuoted decodes what there is. White space at the end of a line was not written by the
// sender. An equals sign that means nothing stays, and makes it unsound.
func decodeQuoted(text []byte) (decoded []byte, sound bool) {
	sound = true
	decoded = make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimRight(line, " \t\r\n")
		ending := "\n"
		if !bytes.HasSuffix(line, []byte("\n")) {
			ending = ""
		}
		if soft, ok := bytes.CutSuffix(trimmed, []byte("=")); ok {
			trimmed, ending = soft, ""
		}
		for i := 0; i < len(trimmed); i++ {
			c := trimmed[i]
			if c == '=' {
				if one, err := hex.DecodeString(string(trimmed[i+1 : min(i+3, len(trimmed))])); err == nil && len(one) == 1 {
					c = one[0]
					i += 2
				} else {
					sound = false
				}
			}
			decoded = append(decoded, c)
		}
		decoded = append(decoded, ending...)
	}
	return decoded, sound
}

// encodedWord is one of RFC 2047, as it is written in practice: blanks in it too.
var encodedWord = regexp.MustCompile(`=\?([^?\s]{1,60})\?([BbQq])\?([^?]*)\?=`)

// decodeWords decodes the encoded words of a field. The bytes of words that follow each other in
// one character set are decoded together, as characters are cut between them.
func (w *walker) decodeWords(value string) string {
	if !strings.Contains(value, "=?") {
		return w.bare(value)
	}
	var out strings.Builder
	var raw []byte
	charset, at := "", 0
	flush := func() {
		out.WriteString(w.text(raw, charset))
		raw = nil
	}
	for _, found := range encodedWord.FindAllStringSubmatchIndex(value, -1) {
		between := value[at:found[0]]
		name, _, _ := strings.Cut(value[found[2]:found[3]], "*") // a language, RFC 2231
		adjacent := at > 0 && strings.TrimSpace(between) == ""
		if !adjacent || !strings.EqualFold(name, charset) {
			flush()
		}
		if !adjacent {
			out.WriteString(w.bare(between))
		}
		charset, at = name, found[1]
		inside := []byte(value[found[6]:found[7]])
		sound := true
		if c := value[found[4]]; c == 'B' || c == 'b' {
			inside, sound = decodeBase64(inside)
		} else {
			inside, sound = decodeQuoted(bytes.ReplaceAll(bytes.TrimRight(inside, " "), []byte("_"), []byte("=20")))
		}
		w.message.note(!sound, BadEncoding)
		raw = append(raw, inside...)
	}
	flush()
	out.WriteString(w.bare(value[at:]))
	return out.String()
}

// bare decodes bytes of a header that are in no encoded word: often they are in the charset of the text.
func (w *walker) bare(value string) string {
	if utf8.ValidString(value) || w.charset == "" {
		return w.text([]byte(value), "")
	}
	w.message.mark(BadCharset)
	return w.text([]byte(value), w.charset)
}

// text decodes bytes of a character set. What was guessed is a defect.
func (w *walker) text(raw []byte, charset string) string {
	text, sound := decode.Text(raw, charset)
	w.message.note(!sound, BadCharset)
	return text
}
