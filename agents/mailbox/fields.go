package mailbox

import (
	"io"
	"mime"
	"net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/jhillyerd/enmime/v2"
	"golang.org/x/net/html/charset"
)

// keptHeaders are the fields that show what kind of mail it is.
var keptHeaders = []string{
	"Auto-Submitted", "List-Id", "List-Post", "List-Unsubscribe", "Message-Id",
	"Precedence", "Priority", "Reply-To", "X-Priority", "X-Spam-Flag",
}

var words = mime.WordDecoder{CharsetReader: func(label string, r io.Reader) (io.Reader, error) {
	return charset.NewReaderLabel(label, r)
}}

func (w *walker) readFields(root *enmime.Part) {
	m := w.message
	h := root.Header
	m.Subject, _ = w.field(h, "Subject")
	m.Headers = map[string]string{}
	for _, name := range keptHeaders {
		if v, ok := w.field(h, name); ok {
			m.Headers[name] = v
		}
	}
	w.readAuthor(h)
	if to, err := enmime.ParseAddressList(clip(strings.Join(h["To"], ", "), maxHeaderBytes)); err == nil {
		for _, a := range to[:min(len(to), maxRecipients)] {
			m.To = append(m.To, Address{Name: w.line(a.Name), Address: w.line(a.Address)})
		}
	}
	w.readDate(h)
}

// field gives the first value of a field, decoded, on one line.
func (w *walker) field(h textproto.MIMEHeader, name string) (string, bool) {
	values := h[name]
	if len(values) == 0 {
		return "", false
	}
	return w.line(w.decodeWords(values[0])), true
}

func (w *walker) decodeWords(v string) string {
	decoded, err := words.DecodeHeader(v)
	if err != nil {
		w.message.mark(BadCharset)
		return v
	}
	return decoded
}

// line makes header text of one line: UTF-8, no control characters.
func (w *walker) line(s string) string {
	s, ok := asUTF8([]byte(s), "")
	if !ok {
		w.message.mark(BadCharset)
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(clip(s, maxFieldBytes))
}

func (w *walker) readAuthor(h textproto.MIMEHeader) {
	m := w.message
	if len(h["From"]) == 0 {
		m.mark(BadFrom)
		return
	}
	value := clip(h["From"][0], maxFieldBytes)
	if list, err := enmime.ParseAddressList(value); err == nil && len(list) > 0 {
		m.From = Address{Name: w.line(list[0].Name), Address: w.line(list[0].Address)}
		return
	}
	m.mark(BadFrom)
	m.From = looseAddress(w.line(w.decodeWords(value)))
}

// looseAddress parses an invalid author field: the first word with an @ is the
// address, the rest is the name.
func looseAddress(s string) Address {
	var a Address
	var name []string
	for _, word := range strings.Fields(s) {
		if a.Address == "" && strings.Contains(word, "@") {
			a.Address = strings.Trim(word, "<>()[],;\"'")
			continue
		}
		name = append(name, word)
	}
	a.Name = strings.Trim(strings.Join(name, " "), "<>\" ")
	return a
}

// zones are the zone names of RFC 5322, 4.3. The time package would interpret
// them by this machine's local zone.
var zones = map[string]string{
	"UT": "+0000", "GMT": "+0000", "Z": "+0000", "UTC": "+0000",
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

func (w *walker) readDate(h textproto.MIMEHeader) {
	m := w.message
	if len(h["Date"]) > 0 {
		if t, ok := parseDate(h["Date"][0]); ok {
			m.Date = t
			return
		}
	}
	m.mark(BadDate)
	if len(h["Received"]) > 0 {
		v := h["Received"][0]
		if t, ok := parseDate(v[strings.LastIndexByte(v, ';')+1:]); ok {
			m.Date = t
		}
	}
}

func parseDate(v string) (time.Time, bool) {
	v = clip(v, 200)
	if i := strings.IndexByte(v, '('); i >= 0 {
		v = v[:i]
	}
	fields := strings.Fields(v)
	if len(fields) == 0 {
		return time.Time{}, false
	}
	last := fields[len(fields)-1]
	if zone, ok := zones[strings.ToUpper(last)]; ok {
		fields[len(fields)-1] = zone
	} else if last[0] >= 'A' {
		fields[len(fields)-1] = "+0000"
	}
	t, err := mail.ParseDate(strings.Join(fields, " "))
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t.UTC(), true
}
