package hosts

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// indentUnit is the indentation of one level if a file does not show it.
const indentUnit = "  "

// written is an entry as Add writes it.
type written struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// object is an object of a file, with the positions of its members.
type object struct {
	*hujson.Object
	start int // of its brace
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

func asObject(v hujson.Value) (object, error) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return object{}, ErrSyntax
	}
	return object{o, v.StartOffset}, nil
}

// entry is the place of a server in a file, where it is or would be.
type entry struct {
	host    Host
	content []byte
	name    string
	top     object // none: the file has no value
	servers object // none: the file has none
	at      int    // of the entry among them, or -1
}

func (h Host) find(content []byte, name string) (*entry, error) {
	if len(content) > MaxFile {
		return nil, ErrSize
	}
	e := &entry{host: h, content: content, name: name, at: -1}
	if len(bytes.Trim(content, " \t\r\n")) == 0 {
		return e, nil
	}
	v, err := hujson.Parse(bytes.Clone(content))
	if err != nil || bytes.HasPrefix(content, []byte("\xef\xbb\xbf")) {
		return nil, ErrSyntax
	}
	if e.top, err = asObject(v); err != nil {
		return nil, err
	}
	i, err := e.top.find(h.key)
	if i < 0 || err != nil {
		return e, err
	}
	if e.servers, err = asObject(e.top.Members[i].Value); err != nil {
		return nil, err
	}
	e.at, err = e.servers.find(name)
	return e, err
}

func (e *entry) there() bool { return e.at >= 0 }

// put returns the file with a server.
func (e *entry) put(s Server) []byte {
	w := written{Command: s.Command, Args: append([]string{}, s.Args...)}
	if e.host.typed {
		w.Type = "stdio"
	}
	// all returns the member for the servers, with this one.
	all := func(indent, unit string) string {
		return quoted(e.host.key) + ": {\n" + indent + unit + quoted(e.name) + ": " + w.text(indent+unit, unit) + "\n" + indent + "}"
	}
	if e.top.Object == nil {
		base := lineIndent(e.content, len(e.content))
		outer := base + indentUnit
		return append(bytes.Clone(e.content), "{\n"+outer+all(outer, indentUnit)+"\n"+base+"}\n"...)
	}
	outer := e.top.indent(e.content, "", indentUnit)
	unit := cmp.Or(strings.TrimPrefix(outer, lineIndent(e.content, e.top.start)), indentUnit)
	if e.servers.Object == nil {
		return e.top.insert(e.content, outer, all(outer, unit))
	}
	indent := e.servers.indent(e.content, outer, unit)
	if e.there() {
		v := e.servers.Members[e.at].Value
		return splice(e.content, v.StartOffset, v.EndOffset, w.text(indent, unit))
	}
	return e.servers.insert(e.content, indent, quoted(e.name)+": "+w.text(indent, unit))
}

// remove returns the file without the server.
func (e *entry) remove() []byte { return e.servers.remove(e.content, e.at) }

// server returns what is there, without its name.
func (e *entry) server() Server {
	v := e.servers.Members[e.at].Value.Clone()
	v.Standardize()
	var w written
	_ = json.Unmarshal(v.Pack(), &w) // another form is not what Add writes
	return Server{Command: w.Command, Args: w.Args}
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

// text encodes an entry whose own line is indented by indent.
func (e written) text(indent, unit string) string {
	b, err := json.Marshal(e, jsontext.WithIndentPrefix(indent), jsontext.WithIndent(unit), jsontext.EscapeForHTML(false))
	if err != nil {
		panic(err) // it only has texts
	}
	return string(b)
}
