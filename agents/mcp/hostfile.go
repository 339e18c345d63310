package mcp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// indentUnit is the indentation of one level if a file does not show it.
const indentUnit = "  "

// hostObject is an object of a file.
type hostObject struct {
	*hujson.Object
	line string // the indentation of the line on which it begins
}

// entry is the place of a server in a file, where it is or would be.
type entry struct {
	host    Host
	content []byte
	file    hujson.Value // of the content; it is changed in place
	top     hostObject   // none: the file has no value
	servers hostObject   // none: the file has none
	at      int          // of the entry among them, or -1
}

func (h Host) find(content []byte, name string) (*entry, error) {
	if len(content) > MaxHostFile {
		return nil, ErrHostSize
	}
	e := &entry{host: h, content: content, at: -1}
	if len(bytes.Trim(content, " \t\r\n")) == 0 {
		return e, nil
	}
	var err error
	if e.file, err = hujson.Parse(bytes.Clone(content)); err != nil || bytes.HasPrefix(content, []byte("\xef\xbb\xbf")) {
		return nil, ErrHostSyntax
	}
	if e.top, err = e.object(e.file); err != nil {
		return nil, err
	}
	i, err := e.top.find(h.key)
	if i < 0 || err != nil {
		return e, err
	}
	if e.servers, err = e.object(e.top.Members[i].Value); err != nil {
		return nil, err
	}
	e.at, err = e.servers.find(name)
	return e, err
}

func (e *entry) object(v hujson.Value) (hostObject, error) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return hostObject{}, ErrHostSyntax
	}
	return hostObject{o, e.lineIndent(v.StartOffset)}, nil
}

// lineIndent returns the leading white space of the line at an offset.
func (e *entry) lineIndent(at int) string {
	line := e.content[bytes.LastIndexByte(e.content[:at], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// indent returns the indentation of an object's members.
func (e *entry) indent(o hostObject, otherwise string) string {
	if len(o.Members) > 0 {
		return e.lineIndent(o.Members[0].Name.StartOffset)
	}
	return otherwise
}

// put returns the file with a server.
func (e *entry) put(s HostEntry) []byte {
	if e.host.typed {
		s.Type = "stdio"
	}
	if e.top.Object == nil {
		base := e.lineIndent(len(e.content))
		text := encoded(map[string]any{e.host.key: map[string]HostEntry{s.Name: s}}, base, indentUnit)
		return append(bytes.Clone(e.content), text+"\n"...)
	}
	outer := e.indent(e.top, indentUnit)
	unit := cmp.Or(strings.TrimPrefix(outer, e.top.line), indentUnit)
	indent := outer + unit
	if e.servers.Object == nil {
		e.top.add(outer, e.host.key, encoded(map[string]HostEntry{s.Name: s}, outer, unit))
		return e.file.Pack()
	}
	if indent = e.indent(e.servers, indent); e.at >= 0 {
		e.servers.Members[e.at].Value.Value = hujson.Literal(encoded(s, indent, unit))
	} else {
		e.servers.add(indent, s.Name, encoded(s, indent, unit))
	}
	return e.file.Pack()
}

// encoded is what is added, whose own line is indented by indent.
func encoded(v any, indent, unit string) string {
	b, err := json.Marshal(v, jsontext.WithIndentPrefix(indent), jsontext.WithIndent(unit), jsontext.EscapeForHTML(false))
	if err != nil {
		panic(err) // it only has texts
	}
	return string(b)
}

// find returns the index of a named member, or -1. A duplicate name is an error: two
// readers may use different ones.
func (o hostObject) find(name string) (int, error) {
	found := -1
	for i := range o.Members {
		if literal, ok := o.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			if found >= 0 {
				return -1, ErrHostSyntax
			}
			found = i
		}
	}
	return found, nil
}

// add adds a member after the last. With a comma behind that there is one behind the new one.
func (o hostObject) add(indent, name, value string) {
	member := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra("\n" + indent), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: hujson.Literal(value)},
	}
	if n := len(o.Members); n == 0 {
		o.AfterExtra = append(hujson.Extra("\n"+o.line), o.AfterExtra...)
	} else if o.Members[n-1].Value.AfterExtra != nil {
		member.Value.AfterExtra = hujson.Extra{}
	}
	o.Members = append(o.Members, member)
}

// remove removes a member, with its comma.
func (o hostObject) remove(i int) {
	switch last := len(o.Members) - 1; {
	case i == 0 && last > 0:
		o.Members[1].Name.BeforeExtra = o.Members[0].Name.BeforeExtra
	case i == last && i > 0:
		switch before := &o.Members[i-1].Value; {
		case o.Members[i].Value.AfterExtra == nil: // there is no comma, and nothing but this says so
			o.AfterExtra, before.AfterExtra = slices.Concat(before.AfterExtra, o.AfterExtra), nil
		case before.AfterExtra == nil:
			before.AfterExtra = hujson.Extra{}
		}
	}
	o.Members = slices.Delete(o.Members, i, i+1)
}
