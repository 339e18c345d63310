package hosts

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// indentUnit is the indentation of one level if a file does not show it.
const indentUnit = "  "

type jsonEntry struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// object is an object of a file, with the positions of its members.
type object struct {
	*hujson.Object
	start int // of its brace
}

// parseJSON returns the object at the top of a file. A file without a value is empty.
func parseJSON(content []byte) (top object, empty bool, err error) {
	if len(bytes.Trim(content, " \t\r\n")) == 0 {
		return object{}, true, nil
	}
	if bytes.HasPrefix(content, []byte("\xef\xbb\xbf")) {
		return object{}, false, ErrSyntax
	}
	v, err := hujson.Parse(bytes.Clone(content))
	if err != nil {
		return object{}, false, ErrSyntax
	}
	top, ok := asObject(v)
	if !ok {
		return object{}, false, ErrSyntax
	}
	return top, false, nil
}

func asObject(v hujson.Value) (object, bool) {
	o, ok := v.Value.(*hujson.Object)
	return object{o, v.StartOffset}, ok
}

// find returns the index of a named member, or -1. A duplicate name is an error: two
// readers may use different ones.
func (o object) find(name string) (int, error) {
	found := -1
	for i := range o.Members {
		if literal, ok := o.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			if found >= 0 {
				return -1, ErrSyntax
			}
			found = i
		}
	}
	return found, nil
}

// servers returns the object with the servers, or false if there is none.
func (o object) servers(key string) (object, bool, error) {
	i, err := o.find(key)
	if i < 0 || err != nil {
		return object{}, false, err
	}
	inner, ok := asObject(o.Members[i].Value)
	if !ok {
		return object{}, false, ErrSyntax
	}
	return inner, true, nil
}

func (h Host) addJSON(content []byte, s Server) ([]byte, error) {
	top, empty, err := parseJSON(content)
	if err != nil {
		return nil, err
	}
	entry := jsonEntry{Command: s.Command, Args: append([]string{}, s.Args...)}
	if h.typed {
		entry.Type = "stdio"
	}
	if empty {
		base := lineIndent(content, len(content))
		outer := base + indentUnit
		return append(bytes.Clone(content), "{\n"+outer+h.member(s.Name, entry, outer, indentUnit)+"\n"+base+"}\n"...), nil
	}
	inner, there, err := top.servers(h.key)
	if err != nil {
		return nil, err
	}
	outer := top.indent(content, "", indentUnit)
	unit := strings.TrimPrefix(outer, lineIndent(content, top.start))
	if unit == "" {
		unit = indentUnit
	}
	if !there {
		return top.insert(content, outer, h.member(s.Name, entry, outer, unit)), nil
	}
	indent := inner.indent(content, outer, unit)
	i, err := inner.find(s.Name)
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		v := inner.Members[i].Value
		return splice(content, v.StartOffset, v.EndOffset, entry.text(indent, unit)), nil
	}
	return inner.insert(content, indent, quoted(s.Name)+": "+entry.text(indent, unit)), nil
}

// member returns the member for the servers, with one server.
func (h Host) member(name string, entry jsonEntry, indent, unit string) string {
	return quoted(h.key) + ": {\n" + indent + unit + quoted(name) + ": " + entry.text(indent+unit, unit) + "\n" + indent + "}"
}

func (h Host) removeJSON(content []byte, name string) ([]byte, bool, error) {
	top, empty, err := parseJSON(content)
	if err != nil || empty {
		return content, false, err
	}
	inner, there, err := top.servers(h.key)
	if err != nil || !there {
		return content, false, err
	}
	i, err := inner.find(name)
	if err != nil || i < 0 {
		return content, false, err
	}
	return inner.remove(content, i), true, nil
}

func (h Host) serverJSON(content []byte, name string) (Server, bool, error) {
	top, empty, err := parseJSON(content)
	if err != nil || empty {
		return Server{}, false, err
	}
	inner, there, err := top.servers(h.key)
	if err != nil || !there {
		return Server{}, false, err
	}
	i, err := inner.find(name)
	if err != nil || i < 0 {
		return Server{}, false, err
	}
	v := inner.Members[i].Value.Clone()
	v.Standardize()
	var e jsonEntry
	_ = json.Unmarshal(v.Pack(), &e) // another form is not what Add writes
	return Server{Name: name, Command: e.Command, Args: e.Args}, true, nil
}

// indent returns the indentation of an object's members.
func (o object) indent(content []byte, outer, unit string) string {
	if len(o.Members) > 0 {
		return lineIndent(content, o.Members[0].Name.StartOffset)
	}
	return outer + unit
}

// lineIndent returns the leading white space of the line at an offset.
func lineIndent(content []byte, at int) string {
	line := content[bytes.LastIndexByte(content[:at], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// insert adds a member after the last.
func (o object) insert(content []byte, indent, member string) []byte {
	member = "\n" + indent + member
	if len(o.Members) == 0 {
		return splice(content, o.start+1, o.start+1, member+"\n"+lineIndent(content, o.start))
	}
	last := o.Members[len(o.Members)-1].Value
	if last.AfterExtra != nil { // there is a comma
		at := last.EndOffset + len(last.AfterExtra) + 1
		return splice(content, at, at, member+",")
	}
	return splice(content, last.EndOffset, last.EndOffset, ","+member)
}

// remove removes a member, with its comma.
func (o object) remove(content []byte, i int) []byte {
	member := &o.Members[i]
	switch {
	case i > 0:
		before := o.Members[i-1].Value
		return splice(content, before.EndOffset+len(before.AfterExtra), member.Value.EndOffset+len(member.Value.AfterExtra), "")
	case len(o.Members) > 1:
		return splice(content, member.Name.StartOffset, o.Members[1].Name.StartOffset, "")
	default:
		end := member.Value.EndOffset
		if member.Value.AfterExtra != nil {
			end += len(member.Value.AfterExtra) + 1
		}
		return splice(content, o.start+1, end, "")
	}
}

func splice(content []byte, from, to int, text string) []byte {
	return append(append(bytes.Clone(content[:from]), text...), content[to:]...)
}

// text encodes an entry whose own line is indented by indent.
func (e jsonEntry) text(indent, unit string) string {
	b, err := json.Marshal(e, jsontext.WithIndentPrefix(indent), jsontext.WithIndent(unit), jsontext.EscapeForHTML(false))
	if err != nil {
		panic(err) // it only has texts
	}
	return string(b)
}

func quoted(text string) string {
	b, _ := jsontext.AppendQuote(nil, text)
	return string(b)
}
