package mailbox

import (
	"regexp"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents/decode"
)

func (w *walker) readFields(h header) {
	m := w.message
	m.Subject, m.ReplyTo = w.field(h, "Subject"), w.field(h, "Reply-To")
	for _, name := range []string{"Subject", "From", "To", "Cc", "Date", "Reply-To"} {
		m.note(len(h[name]) > 1, BadHeader)
	}
	w.readAuthor(h)
	m.To, m.Cc = w.recipients(h["To"]), w.recipients(h["Cc"])
	w.readDate(h)
}

// field gives the first value of a field, decoded, on one line.
func (w *walker) field(h header, name string) string { return w.line(w.decodeWords(h.Get(name))) }

// recipients returns the addresses of a field, also those between invalid ones.
func (w *walker) recipients(values []string) (all []Address) {
	for _, a := range w.addresses(strings.Join(values, ",")) {
		if len(all) == maxRecipients {
			w.message.mark(AddressesCut)
			break
		}
		w.message.note(!a.valid(), BadRecipient)
		all = append(all, a)
	}
	return all
}

// line makes decoded text one line without control characters.
func (w *walker) line(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return w.cut(strings.TrimSpace(s), maxFieldBytes)
}

func (w *walker) readAuthor(h header) {
	all := w.addresses(h.Get("From"))
	if len(all) > 0 {
		w.message.From = all[0]
	}
	if from := h.Get("From"); !w.message.From.valid() || strings.Count(from, "<") > strings.Count(from, ">") {
		w.message.mark(BadFrom)
	}
	w.message.note(len(all) > 1, AddressesCut)
}

// valid reports whether it may be an address: one @ with something on both sides, and no blanks.
func (a Address) valid() bool {
	local, domain, ok := strings.Cut(a.Address, "@")
	return ok && local != "" && domain != "" && !strings.ContainsAny(domain, "@ <>,") && !strings.ContainsAny(local, " <>")
}

// addressToken is a piece of a list of addresses that is read as a whole: an encoded word, which may have any character in
// it, a quoted string, a comment (one may be in another), an address, a separator, or what is between those. What is not closed does
// not begin, and an escape is read as a whole there too, so that no more than one is looked for to the end.
var addressToken = regexp.MustCompile(encodedWord.String() + `|"(?:[^"\\]|\\.)*"|\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)|<[^<>]*>|[,;:]|\\["(]|[^=",;:<(\\]+|(?s:.)`)

// addresses parses a list of addresses, each by itself: a damaged one leaves the others as they are.
func (w *walker) addresses(value string) (all []Address) {
	if len(value) > maxHeaderBytes {
		w.message.mark(AddressesCut)
		value = clip(value, maxHeaderBytes)
	}
	add := func(text string) {
		if text != "" && len(all) <= maxRecipients {
			all = append(all, w.address(text))
		}
	}
	var item strings.Builder
	half := "" // what stands before a comma and is no address may be a half of a name, as in Miller, Ann <a@example.com>
	for _, token := range append(addressToken.FindAllString(value, -1), ",") {
		switch {
		case token == ":" && !strings.Contains(item.String(), "@"): // the name of a group
			item.Reset()
		case token == ",", token == ";":
			text := strings.TrimSpace(item.String())
			item.Reset()
			if at := strings.Index(text, "<"); half != "" && at > 0 && strings.Contains(text[at:], "@") {
				text, half = half+", "+text, ""
			}
			add(half)
			half = ""
			if token == "," && !strings.Contains(text, "@") {
				half = text
			} else {
				add(text)
			}
		default:
			item.WriteString(token)
		}
	}
	add(half)
	return all
}

// address parses one address as far as possible.
func (w *walker) address(text string) (a Address) {
	name := ""
	if before, rest, ok := cutLast(text, "<"); ok {
		inside, after, _ := strings.Cut(rest, ">")
		a.Address = strings.TrimSpace(withoutComments(inside))
		name = strings.TrimSpace(before + " " + after)
	} else {
		var others []string
		for _, remark := range comment.FindAllString(text, 10) {
			name = strings.Trim(remark, "()")
		}
		for _, word := range strings.Fields(withoutComments(text)) {
			if a.Address == "" && strings.Contains(word, "@") {
				a.Address = strings.Trim(word, "<>()[],;\"'")
				continue
			}
			others = append(others, word)
		}
		if len(others) > 0 {
			name = strings.Join(others, " ")
		}
	}
	if strings.HasPrefix(name, `"`) {
		inside, after := quotedString(name)
		name = inside + after
	}
	a.Name = strings.Trim(w.line(w.decodeWords(name)), `<>" `)
	a.Address = w.line(w.decodeWords(a.Address))
	return a
}

func cutLast(s, mark string) (before, after string, found bool) {
	if i := strings.LastIndex(s, mark); i >= 0 {
		return s[:i], s[i+len(mark):], true
	}
	return s, "", false
}

func (w *walker) readDate(h header) {
	m := w.message
	t, exact, ok := decode.Date(h.Get("Date"))
	m.note(!ok || !exact, BadDate)
	if !ok {
		_, when, _ := cutLast(h.Get("Received"), ";")
		t, _, ok = decode.Date(when)
	}
	if ok {
		m.Date = t
	}
}
