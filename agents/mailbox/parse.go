package mailbox

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/jhillyerd/enmime/v2"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/charmap"
)

// parser tolerates the errors of real mail. Declared charsets win over guesses,
// because a guess lets an attacker choose how the bytes are read.
var parser = enmime.NewParser(
	enmime.SkipMalformedParts(true),
	enmime.MultipartWOBoundaryAsSinglePart(true),
	enmime.SetReadPartErrorPolicy(func(*enmime.Part, error) bool { return true }),
	enmime.MaxStoredPartErrors(20),
	enmime.DisableTextConversion(true),
	enmime.DisableCharacterDetection(true),
	enmime.MinCharsetDetectRunes(1<<30),
)

// Parse decodes one message. It accepts any bytes, keeps no reference to them
// and never fails: problems are in Defects. Bytes past the limit on messages are
// ignored. It may be called concurrently.
func Parse(raw []byte, limits Limits) *Message {
	limits = limits.withDefaults()
	m := &Message{Size: int64(len(raw))}
	if len(raw) > limits.MaxMessageBytes {
		raw = raw[:limits.MaxMessageBytes]
		m.mark(TooLarge)
	}
	m.ID = messageID(raw)
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	raw = bytes.TrimLeft(raw, "\r\n")
	w := &walker{message: m, limits: limits}
	w.parse(raw, 1)
	m.Text, m.Hidden = w.texts()
	return m
}

// walker collects the text of one message and of those attached to it.
type walker struct {
	message *Message
	limits  Limits
	parts   int
	plain   []textPart
	html    []textPart
	hidden  []string
}

// textPart is text with its alternative container, if any.
type textPart struct {
	text  string
	group *enmime.Part
}

func (w *walker) parse(raw []byte, depth int) {
	m := w.message
	header, body := splitHeader(raw)
	if len(header) > maxHeaderBytes {
		m.mark(HeaderTooLarge)
		header = header[:maxHeaderBytes]
		header = header[:bytes.LastIndexByte(header, '\n')+1]
	}
	header = dropBadLines(header, m)
	if tooComplex(header, body) {
		m.mark(TooComplex)
		body = nil
	}
	root, err := readParts(header, body)
	if err != nil || root == nil {
		m.mark(Unreadable)
		return
	}
	w.readFields(root)
	if m.Has(TooComplex) {
		return
	}
	w.walk(root, nil, depth)
}

// readParts runs the library. Its recover is only for the library: a panic on
// some sender's bytes must not stop the reading of a mailbox.
func readParts(header, body []byte) (root *enmime.Part, err error) {
	defer func() {
		if recover() != nil {
			root, err = nil, errLibrary
		}
	}()
	joined := make([]byte, 0, len(header)+2+len(body))
	joined = append(joined, header...)
	joined = append(joined, '\n')
	joined = append(joined, body...)
	return parser.ReadParts(bytes.NewReader(joined))
}

var errLibrary = errors.New("mail parser broke on a message")

// splitHeader cuts after the last header line; body follows the empty line. A
// message without an empty line is all header.
func splitHeader(raw []byte) (header, body []byte) {
	for at := 0; at < len(raw); {
		end := bytes.IndexByte(raw[at:], '\n')
		if end < 0 {
			break
		}
		if len(bytes.TrimRight(raw[at:at+end], "\r")) == 0 {
			return raw[:at], raw[at+end+1:]
		}
		at += end + 1
	}
	return append(bytes.Clone(raw), '\n'), nil
}

// dropBadLines removes header lines without a field name, which would
// invalidate the rest of the header. Continuation lines go with their field.
func dropBadLines(header []byte, m *Message) []byte {
	out := make([]byte, 0, len(header))
	keep := false
	for line := range bytes.Lines(header) {
		switch {
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			continue
		case line[0] == ' ' || line[0] == '\t':
			if !keep {
				m.mark(BadHeader)
			}
		case headerLine.Match(line):
			keep = true
		default:
			keep = false
			m.mark(BadHeader)
		}
		if keep {
			out = append(out, line...)
		}
	}
	return out
}

// tooComplex bounds the library's work before it starts (see limits.go).
func tooComplex(header, body []byte) bool {
	separators := countFold(header, "boundary") + countFold(body, "boundary")
	if separators == 0 {
		return false
	}
	if separators > freeBoundaries && separators*(len(header)+len(body)) > maxBoundaryWork {
		return true
	}
	dashes := 0
	for line := range bytes.Lines(body) {
		if bytes.HasPrefix(line, []byte("--")) {
			dashes++
		}
	}
	return dashes > maxDashLines
}

// countFold counts an ASCII word in any case.
func countFold(b []byte, word string) int {
	return bytes.Count(bytes.ToLower(b), []byte(word))
}

// walk visits a part and those below it. group is the nearest alternative
// container above.
func (w *walker) walk(p, group *enmime.Part, depth int) {
	m := w.message
	if depth > w.limits.MaxDepth {
		m.mark(TooDeep)
		return
	}
	w.parts++
	if w.parts > w.limits.MaxParts {
		m.mark(TooManyParts)
		return
	}
	w.noteErrors(p)
	kind := strings.ToLower(p.ContentType)
	if p.FirstChild != nil || strings.HasPrefix(kind, "multipart/") && p.Boundary != "" {
		if kind == "multipart/alternative" {
			group = p
		}
		if p.FirstChild == nil {
			m.mark(BadStructure)
		}
		for c := p.FirstChild; c != nil && w.parts <= w.limits.MaxParts; c = c.NextSibling {
			w.walk(c, group, depth+1)
		}
		return
	}
	attached := strings.EqualFold(p.Disposition, "attachment") || p.FileName != ""
	switch {
	case !attached && (kind == "text/plain" || kind == "" || strings.HasPrefix(kind, "multipart/")):
		w.plain = append(w.plain, textPart{tidy(w.decode(p)), group})
	case !attached && kind == "text/html":
		text, hidden := stripHTML(w.decode(p))
		w.html = append(w.html, textPart{text, group})
		w.hidden = append(w.hidden, hidden...)
	default:
		w.attach(p, kind, depth)
	}
}

func (w *walker) attach(p *enmime.Part, kind string, depth int) {
	if kind == "" {
		kind = "text/plain"
	}
	a := Attachment{Name: fileName(p.FileName), Type: clip(kind, 200), Size: len(p.Content)}
	switch {
	case kind == "message/rfc822":
		a.Text = w.attachedMessage(p.Content, depth)
	case kind == "text/html":
		text, hidden := stripHTML(w.decode(p))
		a.Text = strings.Join(append([]string{text}, hidden...), "\n\n")
	case kind == "text/calendar" || kind == "text/vcard":
		a.Text = unfoldLines(w.decode(p))
	case strings.HasPrefix(kind, "text/"), kind == "message/delivery-status",
		kind == "application/json", kind == "application/xml":
		a.Text = tidy(w.decode(p))
	}
	a.Text = w.cut(a.Text, w.limits.MaxAttachmentText)
	w.message.Attachments = append(w.message.Attachments, a)
}

// attachedMessage gives subject, text and hidden text of a message inside this
// one. Its own attachments are left out.
func (w *walker) attachedMessage(raw []byte, depth int) string {
	if depth >= w.limits.MaxDepth {
		w.message.mark(TooDeep)
		return ""
	}
	inner := &walker{message: &Message{}, limits: w.limits, parts: w.parts}
	inner.parse(bytes.TrimLeft(raw, "\r\n"), depth+1)
	w.parts = inner.parts
	for _, d := range inner.message.Defects {
		if d == TooDeep || d == TooManyParts || d == TooComplex {
			w.message.mark(d)
		}
	}
	text, hidden := inner.texts()
	var pieces []string
	for _, s := range []string{inner.message.Subject, text, hidden} {
		if s != "" {
			pieces = append(pieces, s)
		}
	}
	return strings.Join(pieces, "\n\n")
}

// texts joins the collected text: plain text, and HTML without a plain text
// alternative.
func (w *walker) texts() (text, hidden string) {
	covered := map[*enmime.Part]bool{}
	var pieces []string
	for _, p := range w.plain {
		if p.text != "" {
			pieces = append(pieces, p.text)
			covered[p.group] = true
		}
	}
	for _, p := range w.html {
		if p.text != "" && !covered[p.group] {
			pieces = append(pieces, p.text)
		}
	}
	text = strings.Join(pieces, "\n\n")
	spelled := []string{w.message.Subject, w.message.From.Name, text}
	for _, s := range spelled {
		if t := tagText(s); t != "" {
			w.hidden = append(w.hidden, t)
		}
	}
	hidden = strings.Join(w.hidden, "\n\n")
	return w.cut(text, w.limits.MaxTextBytes), w.cut(hidden, w.limits.MaxTextBytes)
}

func (w *walker) cut(s string, limit int) string {
	if len(s) > limit {
		w.message.mark(TextCut)
	}
	return clip(s, limit)
}

// noteErrors turns the library's remarks into our codes; their words may quote
// the sender and stay here.
func (w *walker) noteErrors(p *enmime.Part) {
	for _, e := range p.Errors {
		switch e.Name {
		case enmime.ErrorMalformedBase64, enmime.ErrorContentEncoding:
			w.message.mark(BadEncoding)
		case enmime.ErrorCharsetConversion, enmime.ErrorCharsetDeclaration:
			w.message.mark(BadCharset)
		case enmime.ErrorMalformedHeader:
			w.message.mark(BadHeader)
		case enmime.ErrorMissingBoundary, enmime.ErrorMalformedChildPart, enmime.ErrorDataHasBoundary:
			w.message.mark(BadStructure)
		}
	}
}

// decode gives the content of a part as UTF-8. The library has converted known
// charsets of text parts.
func (w *walker) decode(p *enmime.Part) string {
	s, ok := asUTF8(p.Content, p.Charset)
	if !ok {
		w.message.mark(BadCharset)
	}
	return s
}

// asUTF8 returns false if bytes had to be guessed or replaced. Bytes that are
// neither UTF-8 nor of a known charset are read as windows-1252, as mail
// programs do.
func asUTF8(b []byte, label string) (string, bool) {
	if utf8.Valid(b) {
		return string(b), true
	}
	if enc, _ := charset.Lookup(label); enc != nil {
		return strings.ToValidUTF8(string(b), "\ufffd"), false
	}
	out, err := charmap.Windows1252.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\ufffd"), false
	}
	return string(out), false
}

// fileName drops folders, whichever way they are written.
func fileName(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\\", "/"), "\ufffd")
	s = path.Base(path.Clean("/" + s))
	if s == "/" {
		return ""
	}
	return clip(s, 255)
}

// clip cuts to at most limit bytes at a rune's start.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "")

// tidy folds line ends, drops NUL, trims the ends of lines and runs of empty
// lines.
func tidy(s string) string {
	s = lineEnds.Replace(s)
	var out strings.Builder
	empty := 0
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, " \t\n")
		if line == "" {
			empty++
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('\n')
			if empty > 0 {
				out.WriteByte('\n')
			}
		}
		empty = 0
		out.WriteString(line)
	}
	return out.String()
}

// unfoldLines joins continuation lines of calendar and contact files.
func unfoldLines(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return tidy(strings.NewReplacer("\n ", "", "\n\t", "").Replace(s))
}
