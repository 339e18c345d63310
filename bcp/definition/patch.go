package definition

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of [AddSubscription] and [Narrow].
var (
	// ErrStyle says that the file writes its channels in a style that cannot be added
	// to by lines.
	ErrStyle = errors.New("the channel's entry is written in braces or brackets: write it over several lines, or add the subscription by hand")
	// ErrNoEntry says that no file has the controller's entry of the channel.
	ErrNoEntry = errors.New("the definitions have no such channel")
	// ErrPatch says that the edited files would not be what was proposed.
	ErrPatch = errors.New("adding the subscription would change something else in the definitions")
)

// AddSubscription returns the file of the controller with a subscription more, and
// its path. Every other line of it stays as it is, comments too. The edited files
// load, and what they say differs from before in nothing but the subscription; or
// it is an error and nothing is returned.
func AddSubscription(files map[string][]byte, controller bcp.AgentName, p *bcp.Proposal) (path string, edited []byte, err error) {
	want, invalid := p.Subscription.Subscription()
	return editChannel(files, bcp.ChannelKey{Controller: controller, Reader: p.Reader}, func(e *channelEdit, _ bcp.Channel) { e.add(&p.Subscription) }, func(was, now bcp.Channel) bool {
		n := len(now.Subscriptions) - 1
		if invalid != nil || n < 0 || !sameSubscription(now.Subscriptions[n], want) {
			return false
		}
		if now.Subscriptions = now.Subscriptions[:n:n]; n == 0 {
			now.Subscriptions = nil
		}
		return reflect.DeepEqual(was, now)
	})
}

// editChannel edits the controller's entry of a channel, and returns its file and the path of it. The edited files load,
// the channel is as it should be, and nothing else has changed; or it is an error.
func editChannel(files map[string][]byte, key bcp.ChannelKey, edit func(e *channelEdit, was bcp.Channel), isRight func(was, now bcp.Channel) bool) (path string, edited []byte, err error) {
	mesh, report := Parse(files)
	if mesh == nil {
		return "", nil, fmt.Errorf("the definitions have errors: %v", report.Errors[0])
	}
	was, exists := mesh.Channel(key)
	agent, known := mesh.Agent(key.Controller)
	content := files[agent.File]
	e := channelEdit{node: findChannel(content, key.Reader), lines: strings.Split(string(content), "\n")}
	if !exists || !known || e.node == nil {
		return "", nil, ErrNoEntry
	}
	if edit(&e, was); e.err != nil {
		return agent.File, nil, e.err
	}
	edited = e.apply()
	changed := maps.Clone(files)
	changed[agent.File] = edited
	after, report := Parse(changed)
	if after == nil {
		return agent.File, nil, fmt.Errorf("%w: %v", ErrPatch, report.Errors[0])
	}
	if now, _ := after.Channel(key); !isRight(was, now) || !sameBeside(mesh, after, key) {
		return agent.File, nil, ErrPatch
	}
	return agent.File, edited, nil
}

// lineEdit puts lines in place of some, which may be none.
type lineEdit struct {
	from, to int // the first and the one behind the last, from 0
	lines    []string
}

// channelEdit gathers what changes in one entry of bcp_channels.
type channelEdit struct {
	node  *node
	lines []string
	edits []lineEdit
	err   error
}

// add puts a subscription behind the others of the entry, or behind its last line.
func (e *channelEdit) add(sub *bcp.ProposedSubscription) {
	first, list := e.node.entries[0].position, e.node.value("subscriptions")
	from, indent := first.line-1, first.column-1
	var lines []string
	if !blockStart(e.lines[from], first.column) {
		e.err = ErrStyle
		return
	}
	if list.kind == 0 {
		lines = append([]string{strings.Repeat(" ", indent) + "subscriptions:"}, listed(indent+2, sub)...)
	} else {
		ok := len(list.items) > 0
		if ok {
			from = list.items[0].line - 1
			indent, ok = dashOf(e.lines, list.items[0])
		}
		if !ok {
			e.err = ErrStyle
			return
		}
		lines = listed(indent, sub)
	}
	at := lastLine(e.lines, from, indent) + 1
	e.edits = append(e.edits, lineEdit{at, at, lines})
}

// listed are the lines of a subscription as an entry of a list.
func listed(indent int, sub *bcp.ProposedSubscription) (lines []string) {
	for i, line := range SubscriptionLines(sub) {
		lines = append(lines, strings.Repeat(" ", indent)+[]string{"- ", "  "}[min(i, 1)]+line)
	}
	return lines
}

// apply makes the edits, with the ends of lines that the file has.
func (e *channelEdit) apply() []byte {
	slices.SortStableFunc(e.edits, func(a, b lineEdit) int { return cmp.Compare(b.from, a.from) })
	end := ""
	if strings.HasSuffix(e.lines[0], "\r") {
		end = "\r"
	}
	lines := slices.Clone(e.lines)
	for _, edit := range e.edits {
		for i := range edit.lines {
			edit.lines[i] = strings.TrimSuffix(edit.lines[i], "\r") + end
		}
		lines = slices.Replace(lines, edit.from, edit.to, edit.lines...)
	}
	return []byte(strings.Join(lines, "\n"))
}

// findChannel finds a controller's entry of bcp_channels; nil if there is none.
func findChannel(content []byte, reader bcp.AgentName) *node {
	front, _, ok := splitFrontMatter(content)
	if !ok {
		return nil
	}
	root := parseYAML(&source{}, unixLines(front), 1)
	if root == nil {
		return nil
	}
	for _, channel := range root.value("bcp_channels").items {
		if channel.value("peer").text == string(reader) && channel.value("role").text == bcp.RoleController.String() {
			return channel
		}
	}
	return nil
}

// dashOf is the column of the dash of an item of a list in block style.
func dashOf(lines []string, item *node) (dash int, ok bool) {
	line := lines[item.position.line-1]
	dash = strings.IndexByte(line, '-')
	return dash, dash >= 0 && blockStart(line, item.position.column) && strings.TrimLeft(line[:dash], " ") == ""
}

// value returns the value of a key of a mapping, or an empty node.
func (n *node) value(key string) *node {
	for i := range n.entries {
		if n.entries[i].key == key {
			return n.entries[i].value
		}
	}
	return &node{}
}

// blockStart reports whether nothing but the dash of a list comes before a column.
func blockStart(line string, column int) bool {
	return column-1 <= len(line) && strings.Trim(line[:column-1], " -") == ""
}

// lastLine is the last line of a block that begins in a line with this indentation,
// without the comments and blank lines after it.
func lastLine(lines []string, from, indent int) int {
	last, dashed := from, strings.HasPrefix(lines[from][indent:], "- ")
	for i := from + 1; i < len(lines); i++ {
		text := strings.TrimLeft(lines[i], " ")
		depth := len(lines[i]) - len(text)
		switch {
		case strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#"):
			continue
		case depth < indent, isFence([]byte(lines[i])), depth == indent && dashed && !strings.HasPrefix(text, "- "):
			return last
		}
		last = i
	}
	return last
}

// SubscriptionLines are the lines of a subscription in a definition, without its
// dash and indentation: its members in JSON, which the front matter reads too. Texts are quoted, and what cannot be seen is escaped.
func SubscriptionLines(sub *bcp.ProposedSubscription) (lines []string) {
	text, err := json.Marshal(sub)
	if err != nil {
		return nil // what is no UTF-8 is no text of a definition
	}
	from := jsontext.NewDecoder(bytes.NewReader(text))
	next := func() string { // a token
		token, _ := from.ReadToken()
		return token.String()
	}
	for next(); from.PeekKind() != '}'; {
		switch name := next(); name {
		case "fields", "questions":
			lines = append(lines, name+":")
			for next(); from.PeekKind() != ']'; {
				lines = append(lines, "  - "+inFlow(from))
			}
			next()
		default:
			lines = append(lines, name+": "+inFlow(from))
		}
	}
	return lines
}

// inFlow writes the next value in one line.
func inFlow(from *jsontext.Decoder) string {
	token, _ := from.ReadToken()
	kind, open := token.Kind(), token.String()
	switch kind {
	case '"':
		return strconv.Quote(open)
	case '{', '[':
	default:
		return open
	}
	var members []string
	for from.PeekKind() != kind+2 { // the closing one, in ASCII
		name := ""
		if kind == '{' {
			token, _ := from.ReadToken()
			name = token.String() + ": "
		}
		members = append(members, name+inFlow(from))
	}
	end, _ := from.ReadToken()
	return open + strings.Join(members, ", ") + end.String()
}

func sameSubscription(a, b bcp.Subscription) bool {
	x, errX := json.Marshal(a.Spec, json.Deterministic(true))
	y, errY := json.Marshal(b.Spec, json.Deterministic(true))
	return errX == nil && errY == nil && bytes.Equal(x, y) && a.ID == b.ID && a.MaxRate == b.MaxRate && a.BatchWindow == b.BatchWindow && a.PublishWhen == b.PublishWhen
}

// sameBeside reports whether two meshes differ in nothing but a channel.
func sameBeside(before, after *bcp.Mesh, key bcp.ChannelKey) bool {
	was, same := *before, *after
	same.Files = was.Files
	was.Compiled, same.Compiled = nil, nil // their definitions are compared
	without := func(channels []bcp.Channel) []bcp.Channel {
		return slices.DeleteFunc(slices.Clone(channels), func(c bcp.Channel) bool { return c.ChannelKey == key })
	}
	was.Channels, same.Channels = without(was.Channels), without(same.Channels)
	return reflect.DeepEqual(&was, &same)
}
