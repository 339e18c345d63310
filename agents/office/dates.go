package office

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// Contacts and events, in the parts of vCard (RFC 6350) and iCalendar (RFC 5545) that
// most programs write. Other lines are ignored, and kept.

// property is a line of either format: a name without its parameters, and the value.
type property struct{ name, value string }

// properties returns the lines of a file, unfolded, as far as they are text.
func properties(content []byte) []property {
	var list []property
	for raw := range bytes.Lines(content) {
		text := strings.ToValidUTF8(strings.TrimRight(string(raw), "\r\n"), "\uFFFD")
		if folded := strings.TrimLeft(text, " \t"); len(folded) < len(text) && len(list) > 0 {
			list[len(list)-1].value += text[1:]
			continue
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, ";")
		if i := strings.LastIndexByte(name, '.'); i >= 0 { // a group of vCard
			name = name[i+1:]
		}
		list = append(list, property{strings.ToUpper(name), value})
	}
	return list
}

var unescapes = strings.NewReplacer(`\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";", `\\`, `\`)

// plain is a value as one line of text.
func (p *property) plain() string {
	return strings.Join(strings.Fields(unescapes.Replace(p.value)), " ")
}

type contact struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

func (o *Office) contacts() (any, error) {
	content, err := o.read("contacts.vcf")
	if err != nil {
		return nil, err
	}
	list := []contact{}
	var c contact
	for _, p := range properties(content) {
		switch p.name {
		case "BEGIN":
			c = contact{}
		case "FN":
			c.Name = truncate(p.plain(), maxName)
		case "EMAIL":
			c.Address = truncate(p.plain(), maxAddress)
		case "END":
			if c.Address != "" && len(list) < maxContacts {
				list = append(list, c)
			}
		}
	}
	return map[string][]contact{"contacts": list}, nil
}

type event struct {
	Title  string `json:"title"`
	Begins string `json:"begins"`
	Ends   string `json:"ends"`
}

// The times of iCalendar: in UTC, of no zone, and a day.
var calendarTimes = []string{"20060102T150405Z", "20060102T150405", "20060102"}

// formatTime returns a time in the tools' format; empty if it is invalid.
func (p *property) formatTime() string {
	for _, form := range calendarTimes {
		if t, err := time.Parse(form, p.value); err == nil {
			return t.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

func (o *Office) events() (any, error) {
	content, err := o.read("calendar.ics")
	if err != nil {
		return nil, err
	}
	list := []event{}
	var e *event
	for _, p := range properties(content) {
		switch {
		case p.name == "BEGIN" && p.value == "VEVENT":
			e = &event{}
		case e == nil:
		case p.name == "SUMMARY":
			e.Title = truncate(p.plain(), maxTitle)
		case p.name == "DTSTART":
			e.Begins = p.formatTime()
		case p.name == "DTEND":
			e.Ends = p.formatTime()
		case p.name == "END" && p.value == "VEVENT":
			list, e = append(list, *e), nil
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.Begins, b.Begins) })
	return map[string][]event{"events": list[:min(len(list), maxEvents)]}, nil
}

const emptyCalendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//bcpmesh//office//EN\r\nEND:VCALENDAR\r\n"

var escapes = strings.NewReplacer(`\`, `\\`, ",", `\,`, ";", `\;`)

func (o *Office) addEvent(key string, a event) (any, error) {
	begins, err1 := time.Parse(time.RFC3339, a.Begins)
	ends, err2 := time.Parse(time.RFC3339, a.Ends)
	switch {
	case err1 != nil || err2 != nil || ends.Before(begins):
		return nil, notPerformed(errTime)
	case !line(a.Title) || len(a.Title) > 4*maxTitle:
		return nil, notPerformed(errLine)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	content, err := o.read("calendar.ics")
	if err != nil {
		return nil, notPerformed(err)
	}
	if len(content) == 0 {
		content = []byte(emptyCalendar)
	}
	uid := key + "@bcpmesh"
	if slices.Contains(properties(content), property{"UID", uid}) { // it was added before, under this key
		return map[string]bool{"added": true}, nil
	}
	end := bytes.LastIndex(content, []byte("END:VCALENDAR"))
	if end < 0 {
		return nil, notPerformed(errCalendar)
	}
	added := "BEGIN:VEVENT\r\nUID:" + uid + "\r\nDTSTAMP:" + time.Now().UTC().Format(calendarTimes[0]) + "\r\nDTSTART:" + begins.UTC().Format(calendarTimes[0]) +
		"\r\nDTEND:" + ends.UTC().Format(calendarTimes[0]) + "\r\n" + folded("SUMMARY:"+escapes.Replace(a.Title)) + "END:VEVENT\r\n"
	if err := o.replace("calendar.ics", key, slices.Concat(content[:end], []byte(added), content[end:])); err != nil {
		return nil, err
	}
	return map[string]bool{"added": true}, nil
}

// folded breaks a line into lines of at most 75 bytes (RFC 5545, 3.1).
func folded(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		size := len(string(r))
		if n+size > 75 {
			b.WriteString("\r\n ")
			n = 1
		}
		b.WriteRune(r)
		n += size
	}
	return b.String() + "\r\n"
}
