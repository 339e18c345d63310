package mailbox

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/decode"
)

// limits bounds the work and memory for mail. They are smaller in tests.
type limits struct {
	message        int // bytes of one that are kept; the rest is counted and dropped
	parts          int // of a message, including containers
	depth          int // of containers and attached messages in each other, the message itself being 1
	text           int // bytes of Text and of Hidden, each
	attachmentText int // bytes
}

// MaxMessage is the size up to which a message is kept, in bytes: the text of any mail together with the usual attachments.
const MaxMessage = 8 << 20

// standard are far from real mail, which has under 50 parts and a depth under 6.
var standard = limits{message: MaxMessage, parts: 200, depth: 12, text: 256 << 10, attachmentText: 64 << 10}

const (
	// maxHeaderBytes is how much of a message's header block is parsed: twice
	// what common servers accept. A longer one is cut at the end of a line.
	maxHeaderBytes = 256 << 10
	// maxFieldBytes is one decoded header field; addresses of a long To line are
	// of no use to anybody here.
	maxFieldBytes = 4 << 10
	// maxRecipients is the number of addresses kept of a field.
	maxRecipients = 50
	// maxDirEntries is the number of names in one folder of a Maildir beyond
	// which it is refused: sorting needs them all in memory.
	maxDirEntries = 500_000
	// maxHTML bounds the bytes of HTML of a message that are parsed, and parseTime
	// how long; what comes later is left out, and the message is marked [TextCut].
	maxHTML   = 4 << 20
	parseTime = 10 * time.Second
)

// Parse decodes one message. It accepts any bytes, keeps no reference to them
// and never fails: problems are in Defects. Bytes past the limit on messages are
// ignored. It may be called concurrently.
func Parse(raw []byte) *Message { return parse(raw, int64(len(raw)), standard) }

// parse decodes a message of a size, of which there are at least the first bytes.
func parse(raw []byte, size int64, limits limits) (m *Message) {
	raw = raw[:min(len(raw), limits.message)]
	// Line ends, and those at the end, differ between servers.
	sum := sha256.Sum256(bytes.TrimRight(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), "\n"))
	id := hex.EncodeToString(sum[:8])
	// A message on which a library panics must not stop the reading of a mailbox.
	defer func() {
		if recover() != nil {
			m = &Message{ID: id, Size: size, Defects: []Defect{Unreadable}}
		}
	}()
	m = &Message{ID: id, Size: size}
	m.note(size > int64(len(raw)), TooLarge)
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	raw = bytes.TrimLeft(raw, "\r\n")
	w := &walker{message: m, limits: limits, html: maxHTML, until: time.Now().Add(parseTime)}
	w.parse(raw, 1)
	m.Text, m.Hidden = w.texts()
	return m
}

// walker collects the text of one message and of those attached to it.
type walker struct {
	message   *Message
	limits    limits
	charset   string // of the message's text, and of what its header has in bytes
	parts     int
	html      int       // bytes of HTML that may still be parsed
	until     time.Time // and for how long
	collected []textPart
	hidden    []string
}

// textPart is text with its alternative container, if any.
type textPart struct {
	text  string
	html  bool
	group *alternative
}

// alternative is a container whose parts say the same.
type alternative struct{ plain string }

func (w *walker) parse(raw []byte, depth int) {
	if !bytes.Contains(raw, []byte("\n")) { // lines of old Macs
		raw = bytes.ReplaceAll(raw, []byte("\r"), []byte("\n"))
	}
	head, body := splitHeader(raw)
	h := w.readHeader(head)
	w.charset = w.parseType(h.Get("Content-Type")).parameters["charset"]
	w.readFields(h)
	w.entity(h, body, "text/plain", nil, depth)
}

// entity reads a message or a part of one. group is the nearest alternative container above, and
// kind what it is if it does not say.
func (w *walker) entity(h header, body []byte, kind string, group *alternative, depth int) {
	m := w.message
	if depth > w.limits.depth {
		m.mark(TooDeep)
		return
	}
	w.parts++
	if w.parts > w.limits.parts {
		m.mark(TooManyParts)
		return
	}
	for _, name := range []string{"Content-Type", "Content-Disposition", "Content-Transfer-Encoding"} {
		m.note(len(h[name]) > 1, BadHeader)
	}
	t, disposition := w.parseType(h.Get("Content-Type")), w.parseType(h.Get("Content-Disposition"))
	for _, other := range h["Content-Type"][min(1, len(h["Content-Type"])):min(3, len(h["Content-Type"]))] {
		// Of several types that one holds whose boundary is there.
		has := func(t contentType) bool {
			boundary := t.parameters["boundary"]
			return strings.HasPrefix(t.kind, "multipart/") && boundary != "" && bytes.Contains(body, []byte("--"+boundary))
		}
		if o := w.parseType(other); !has(t) && has(o) {
			t = o
		}
	}
	switch {
	case strings.Contains(t.kind, "/"):
		kind = t.kind
	case t.kind != "":
		m.mark(BadHeader)
	}
	if strings.HasPrefix(kind, "multipart/") {
		if w.multipart(kind, strings.TrimRight(t.parameters["boundary"], " \t"), body, group, depth) {
			return
		}
		m.mark(BadStructure)
		kind = "text/plain"
	}
	name := cmp.Or(disposition.parameters["filename"], t.parameters["name"])
	p := leaf{kind: kind, charset: t.parameters["charset"], name: w.decodeWords(name), content: w.decodeTransfer(body, h.Get("Content-Transfer-Encoding"))}
	// A name alone does not make an attachment of a text, nor anything of a message that is one part.
	attached := disposition.kind == "attachment" && depth > 1
	switch {
	case attached:
		w.attach(p, depth)
	case kind == "text/plain":
		text := w.text(p.content, p.charset)
		if strings.EqualFold(t.parameters["format"], "flowed") {
			text = unflow(text, strings.EqualFold(t.parameters["delsp"], "yes"))
		}
		text = tidy(text)
		if group != nil {
			group.plain += " " + text
		}
		w.collected = append(w.collected, textPart{text: text, group: group})
	case kind == "text/html", kind == "application/xhtml+xml":
		text, hidden := w.stripHTML(p)
		w.collected = append(w.collected, textPart{text, true, group})
		w.hidden = append(w.hidden, hidden...)
	default:
		w.attach(p, depth)
	}
}

// multipart reads the parts of a container. It returns false if it has none.
func (w *walker) multipart(kind, boundary string, body []byte, group *alternative, depth int) bool {
	if boundary == "" {
		return false
	}
	parts, before, after, closed, more := split(body, boundary, w.limits.parts-w.parts)
	w.message.note(more, TooManyParts)
	if len(parts) == 0 && !more {
		return false
	}
	w.message.note(!closed, BadStructure)
	for _, beside := range [][]byte{before, after} { // which no mail program shows
		if text := tidy(w.text(beside, "")); text != "" && !preamble.MatchString(text) {
			w.hidden = append(w.hidden, text)
		}
	}
	if kind == "multipart/alternative" {
		group = &alternative{}
	}
	standard := "text/plain"
	if kind == "multipart/digest" {
		standard = "message/rfc822"
	}
	for _, part := range parts {
		head, inside := splitHeader(part)
		w.entity(w.readHeader(head), inside, standard, group, depth+1)
	}
	return true
}

// preamble is what mail programs say to those that do not know MIME.
var preamble = regexp.MustCompile(`(?i)^this is an? [a-z0-9 .,-]{0,20}(mime|multi-?part|signed)[a-z0-9 .,()/-]{0,90}$`)

// leaf is a part without parts, decoded.
type leaf struct {
	kind, charset, name string
	content             []byte
}

func (w *walker) attach(p leaf, depth int) {
	a := Attachment{Name: fileName(p.name), Type: clip(w.line(p.kind), 200), Size: len(p.content)}
	if named := byName[strings.ToLower(path.Ext(a.Name))]; named != "" && strings.HasPrefix(p.kind, "application/") && !bytes.Contains(p.content, []byte{0}) {
		p.kind = named
	}
	switch {
	case p.kind == "message/rfc822" || p.kind == "message/global":
		a.Text = w.attachedMessage(p.content, depth)
	case strings.HasPrefix(p.kind, "text/") && strings.HasSuffix(p.kind, "html"): // text/x-amp-html hides text too
		text, hidden := w.stripHTML(p)
		a.Text, w.hidden = text, append(w.hidden, hidden...)
	case p.kind == "text/calendar" || p.kind == "text/vcard":
		text := strings.ReplaceAll(w.text(p.content, p.charset), "\r\n", "\n")
		a.Text = tidy(strings.NewReplacer("\n ", "", "\n\t", "").Replace(text)) // continuation lines are joined
	case strings.HasPrefix(p.kind, "text/"), p.kind == "message/delivery-status",
		p.kind == "application/json", p.kind == "application/xml":
		a.Text = tidy(w.text(p.content, p.charset))
	}
	a.Text = w.cut(a.Text, w.limits.attachmentText)
	w.message.Attachments = append(w.message.Attachments, a)
}

// byName are the types of files that many programs send as application/octet-stream or the like.
var byName = map[string]string{
	".txt": "text/plain", ".log": "text/plain", ".md": "text/plain", ".csv": "text/csv", ".html": "text/html", ".htm": "text/html",
	".ics": "text/calendar", ".vcf": "text/vcard", ".eml": "message/rfc822", ".json": "application/json", ".xml": "application/xml",
}

// attachedMessage gives author, subject and text of a message inside this one. Its own attachments are named.
func (w *walker) attachedMessage(raw []byte, depth int) string {
	if depth >= w.limits.depth {
		w.message.mark(TooDeep)
		return ""
	}
	inner := &walker{message: &Message{}, limits: w.limits, parts: w.parts, html: w.html, until: w.until}
	inner.parse(bytes.TrimLeft(raw, "\r\n"), depth+1)
	w.parts, w.html = inner.parts, inner.html
	for _, d := range inner.message.Defects {
		w.message.note(d != BadFrom && d != BadDate, d) // an attached one need not have them
	}
	text, hidden := inner.texts()
	if hidden != "" {
		w.hidden = append(w.hidden, hidden)
	}
	pieces := []string{inner.message.From.String(), inner.message.Subject, text}
	pieces = slices.DeleteFunc(pieces, func(s string) bool { return s == "" })
	for _, a := range inner.message.Attachments {
		pieces = append(pieces, "Attachment: "+a.Name+", "+a.Type)
	}
	return strings.Join(pieces, "\n\n")
}

// stripHTML returns the text of a part that is seen, and the pieces that are not.
func (w *walker) stripHTML(p leaf) (text string, hidden []string) {
	content := p.content
	if time.Now().After(w.until) {
		content = nil
	}
	if len(content) > w.html || len(content) < len(p.content) {
		w.message.mark(TextCut)
		content = content[:min(len(content), w.html)]
	}
	w.html -= len(content)
	source, sound := decode.HTML(content, p.charset)
	d := decode.Parse(source, decode.Options{Mail: true})
	w.message.note(!sound, BadCharset)
	w.message.note(d.Cut, TextCut)
	w.message.note(d.TooDeep, TooDeep)
	w.message.note(d.Complex, TooComplex)
	for _, piece := range append([]string{d.Title}, d.Hidden...) {
		if piece = tidy(piece); piece != "" {
			hidden = append(hidden, piece)
		}
	}
	return tidy(decode.Write(d.Root, nil)), hidden
}

// texts joins the collected text, in the order of the message: HTML only if there is no plain text
// that says the same, or if that lacks most of its words, as "your program shows no HTML" does.
func (w *walker) texts() (text, hidden string) {
	var pieces []string
	said := map[*alternative]map[string]bool{} // in plain text: once, however many versions there are
	for _, p := range w.collected {
		if p.html && p.group != nil && strings.TrimSpace(p.group.plain) != "" {
			if said[p.group] == nil {
				said[p.group] = wordsOf(p.group.plain)
			}
			lacking, all := lacks(said[p.group], p.text)
			w.message.note(lacking > 0, VersionsDiffer)
			if 2*lacking <= all {
				continue
			}
		}
		if p.text != "" {
			pieces = append(pieces, p.text)
		}
	}
	text = strings.Join(pieces, "\n\n")
	for _, s := range []string{w.message.Subject, w.message.From.Name, text} {
		if t := tagText(s); t != "" {
			w.hidden = append(w.hidden, t)
		}
	}
	hidden = strings.Join(w.hidden, "\n\n")
	return w.cut(text, w.limits.text), w.cut(hidden, w.limits.text)
}

// lacks returns how many of all the words of a text are not among others.
func lacks(has map[string]bool, text string) (lacking, all int) {
	for word := range wordsOf(text) {
		all++
		if !has[word] {
			lacking++
		}
	}
	return lacking, all
}

func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[word] = true
	}
	return words
}

func (w *walker) cut(s string, limit int) string {
	w.message.note(len(s) > limit, TextCut)
	return clip(s, limit)
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
	var out strings.Builder
	empty := 0
	for line := range strings.Lines(lineEnds.Replace(s)) {
		if line = strings.TrimRight(line, " \t\n"); line == "" {
			empty = 1
			continue
		}
		if out.Len() > 0 {
			out.WriteString("\n\n"[:1+empty])
		}
		out.WriteString(line)
		empty = 0
	}
	return out.String()
}

// unflow joins the lines of a paragraph, each of which but the last ends with a space (RFC 3676, 4). With delSp that space
// is no part of the text.
func unflow(s string, delSp bool) string {
	const signature = "-- "
	var out strings.Builder
	before, flows := "", false // the quote marks of the line before, and whether it goes on
	for line := range strings.Lines(lineEnds.Replace(s)) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, ">")
		quote := line[:len(line)-len(text)]
		text = strings.TrimPrefix(text, " ")
		if !flows || quote != before || text == signature {
			out.WriteString("\n" + quote)
			if quote != "" {
				out.WriteByte(' ')
			}
		}
		before, flows = quote, strings.HasSuffix(text, " ") && text != signature
		if flows && delSp {
			text = strings.TrimSuffix(text, " ")
		}
		out.WriteString(text)
	}
	return out.String()
}

// tagText returns the text in tag characters (U+E0020 to U+E007E), which models
// read and no screen shows.
func tagText(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r >= 0xe0020 && r <= 0xe007e {
			out.WriteRune(r - 0xe0000)
		}
	}
	return out.String()
}
