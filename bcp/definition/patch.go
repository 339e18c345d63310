package definition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of [AddSubscription].
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
	mesh, report := Parse(files)
	if mesh == nil {
		return "", nil, fmt.Errorf("the definitions have errors: %v", report.Errors[0])
	}
	agent, known := mesh.Agent(controller)
	key := bcp.ChannelKey{Controller: controller, Reader: p.Reader}
	if _, exists := mesh.Channel(key); !known || !exists {
		return "", nil, ErrNoEntry
	}
	content := files[agent.File]
	at, column, inside, err := findPlace(content, p.Reader)
	if err != nil {
		return "", nil, err
	}
	edited = insert(content, at, column, inside, SubscriptionLines(&p.Subscription))
	changed := maps.Clone(files)
	changed[agent.File] = edited
	after, report := Parse(changed)
	if after == nil {
		return "", nil, fmt.Errorf("%w: %v", ErrPatch, report.Errors[0])
	}
	if !adds(mesh, after, key, p) {
		return "", nil, ErrPatch
	}
	return agent.File, edited, nil
}

// findPlace finds the line behind which the subscription belongs, from 0, and the
// column of its dash; inside says that there are subscriptions already.
func findPlace(content []byte, reader bcp.AgentName) (line, column int, inside bool, err error) {
	channel := findChannel(content, reader)
	if channel == nil {
		return 0, 0, false, ErrNoEntry
	}
	lines := strings.Split(string(content), "\n")
	first := channel.entries[0].position
	if !blockStart(lines[first.line-1], first.column) {
		return 0, 0, false, ErrStyle
	}
	list := channel.value("subscriptions")
	if list.kind == 0 {
		return lastLine(lines, first.line-1, first.column-1), first.column - 1, false, nil
	}
	if len(list.items) == 0 {
		return 0, 0, false, ErrStyle
	}
	dash, ok := dashOf(lines, list.items[0])
	if !ok {
		return 0, 0, false, ErrStyle
	}
	return lastLine(lines, list.items[0].position.line-1, dash), dash, true, nil
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

// insert puts the subscription after a line, as the file ends its lines.
func insert(content []byte, behind, column int, inside bool, subscription []string) []byte {
	end := "\n"
	if bytes.Contains(content, []byte("\r\n")) {
		end = "\r\n"
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	var b bytes.Buffer
	for _, line := range lines[:behind+1] {
		b.Write(line)
	}
	indent := strings.Repeat(" ", column)
	if !inside {
		b.WriteString(indent + "subscriptions:" + end)
		indent += "  "
	}
	for i, line := range subscription {
		mark := "  "
		if i == 0 {
			mark = "- "
		}
		b.WriteString(indent + mark + line + end)
	}
	for _, line := range lines[behind+1:] {
		b.Write(line)
	}
	return b.Bytes()
}

// SubscriptionLines are the lines of a subscription in a definition, without its
// dash and indentation. Texts are quoted, and what cannot be seen is escaped.
func SubscriptionLines(sub *bcp.ProposedSubscription) []string {
	var lines []string
	add := func(key, value string) { lines = append(lines, key+": "+value) }
	text := func(key, value string) {
		if value != "" {
			add(key, strconv.Quote(value))
		}
	}
	add("id", strconv.Quote(string(sub.ID)))
	add("category", strconv.Itoa(int(sub.Category)))
	if sub.MaxRate != (bcp.Rate{}) {
		add("max_rate", sub.MaxRate.String())
	}
	text("batch_window", sub.BatchWindow)
	text("publish_when", sub.PublishWhen)
	text("directive", sub.Directive)
	if sub.MaxWords != 0 {
		add("max_words", strconv.Itoa(sub.MaxWords))
	}
	if sub.RequiresApproval != nil {
		add("requires_approval", strconv.FormatBool(*sub.RequiresApproval))
	}
	if sub.AllowNotEnoughInformation != nil {
		add("allow_not_enough_information", strconv.FormatBool(*sub.AllowNotEnoughInformation))
	}
	if len(sub.Constraints) > 0 {
		add("constraints", quotedList(sub.Constraints))
	}
	if len(sub.Fields) > 0 {
		lines = append(lines, "fields:")
	}
	for i := range sub.Fields {
		f := &sub.Fields[i]
		members := []string{"name: " + strconv.Quote(f.Name), "type: " + f.Type.String()}
		lines = append(lines, "  - {"+strings.Join(append(members, choices(f.Values, f.Min, f.Max)...), ", ")+"}")
	}
	if len(sub.Questions) > 0 {
		lines = append(lines, "questions:")
	}
	for i := range sub.Questions {
		q := &sub.Questions[i]
		members := []string{"id: " + strconv.Quote(q.ID), "question: " + strconv.Quote(q.Question), "expected_format: " + q.ExpectedFormat.String()}
		if q.MaxWords != 0 {
			members = append(members, "max_words: "+strconv.Itoa(q.MaxWords))
		}
		members = append(members, choices(q.Values, q.Min, q.Max)...)
		if q.MaxChars != 0 {
			members = append(members, "max_chars: "+strconv.Itoa(q.MaxChars))
		}
		for _, m := range [][2]string{{"vocabulary", q.Vocabulary}, {"alphabet", q.Alphabet}, {"same_as", q.SameAs}} {
			if m[1] != "" {
				members = append(members, m[0]+": "+strconv.Quote(m[1]))
			}
		}
		lines = append(lines, "  - {"+strings.Join(members, ", ")+"}")
	}
	return lines
}

func choices(values []string, least, most *int64) (members []string) {
	if len(values) > 0 {
		members = append(members, "values: "+quotedList(values))
	}
	if least != nil {
		members = append(members, "min: "+strconv.FormatInt(*least, 10))
	}
	if most != nil {
		members = append(members, "max: "+strconv.FormatInt(*most, 10))
	}
	return members
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// adds reports whether two meshes differ in nothing but the subscription.
func adds(before, after *bcp.Mesh, key bcp.ChannelKey, p *bcp.Proposal) bool {
	want, err := p.Subscription.Subscription()
	if err != nil {
		return false
	}
	was, _ := before.Channel(key)
	same, _ := after.Channel(key)
	n := len(same.Subscriptions) - 1
	if n < 0 || !sameSubscription(same.Subscriptions[n], want) {
		return false
	}
	if same.Subscriptions = same.Subscriptions[:n:n]; n == 0 {
		same.Subscriptions = nil
	}
	return reflect.DeepEqual(was, same) && sameBeside(before, after, key)
}

func sameSubscription(a, b bcp.Subscription) bool {
	x, errX := json.Marshal(a.Spec, json.Deterministic(true))
	y, errY := json.Marshal(b.Spec, json.Deterministic(true))
	return errX == nil && errY == nil && bytes.Equal(x, y) && a.ID == b.ID && a.MaxRate == b.MaxRate && a.BatchWindow == b.BatchWindow && a.PublishWhen == b.PublishWhen
}
