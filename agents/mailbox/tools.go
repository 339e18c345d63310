package mailbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Name is the name of all these tools in a definition.
const Name = "mailbox"

// The names of the tools.
const (
	ListName   = "mailbox_list"
	SearchName = "mailbox_search"
	ReadName   = "mailbox_read"
)

const (
	pageLength = 50  // messages of one listing
	maxFound   = 50  // messages in the result of one search
	maxLines   = 3   // of one message in the result of one search
	maxShown   = 200 // code points of a matching line
	maxNamed   = 50  // listed attachments of a message
	// maxSearched is how many bytes of mail one search looks at.
	maxSearched = 64 << 20
	// searchTime is how long one search takes.
	searchTime = 20 * time.Second
)

type listArguments struct {
	After *int `json:"after"`
}

const listSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"after":{"type":"integer","minimum":1,"description":"The number of the last message of the listing that is to go on."}}}`

type searchArguments struct {
	Text string `json:"text"`
}

const searchSchema = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{` +
	`"text":{"type":"string","minLength":1,"maxLength":100,"description":"A phrase, in any case. It is looked for in senders, recipients, subjects, names of attachments and texts."}}}`

type readArguments struct {
	Message int  `json:"message"`
	Part    *int `json:"part"`
}

const readSchema = `{"type":"object","additionalProperties":false,"required":["message"],"properties":{` +
	`"message":{"type":"integer","minimum":1,"description":"The number of a message that was listed or found."},` +
	`"part":{"type":"integer","minimum":1,"description":"A long text has parts of 100,000 characters. 1 if it is left out."}}}`

// Tools returns the tools of one conversation. Numbers are those of the conversation.
func (b *Box) Tools() []llm.Executable {
	d := &desk{Box: b}
	return []llm.Executable{
		tool.New(ListName, llm.Constant("List the mail, the newest first. Each message has a number, by which other tools know it."), listSchema, guard.Mail, &d.mu, d.list),
		tool.New(SearchName, llm.Constant("Search the mail for a phrase."), searchSchema, guard.Mail, &d.mu, d.search),
		tool.New(ReadName,
			llm.Constant("Read a message: its headers, its text, and that of attachments which are text. Other attachments are named alone."), readSchema, guard.Mail, &d.mu, d.read),
	}
}

// desk is the state of one conversation. Its calls run one at a time.
type desk struct {
	*Box

	mu      sync.Mutex
	numbers tool.Numbers[string] // of the keys of messages
}

// row is the line of a message.
func (d *desk) row(key string, m *Message) string {
	attached := ""
	if len(m.Attachments) > 0 {
		attached = fmt.Sprintf(", %d attachments", len(m.Attachments))
	}
	if m.Has(SetAside) {
		attached = ", set aside: reading it has ended this program before"
	}
	return fmt.Sprintf("%d %s from %s: %s, %d bytes%s\n", d.numbers.Of(key), tool.Day(m.Date), tool.Quote(m.From.String()), tool.Quote(m.Subject), m.Size, attached)
}

// list is mailbox_list.
func (d *desk) list(ctx context.Context, a listArguments) (string, error) {
	keys, older, err := d.keys()
	if err != nil {
		return "", err
	}
	all := len(keys)
	if a.After != nil {
		last, err := d.numbers.Find(*a.After)
		if err != nil {
			return "", err
		}
		i := slices.Index(keys, last)
		if i < 0 {
			return "", tool.Gone
		}
		keys = keys[i+1:]
	}
	page := keys[:min(len(keys), pageLength)]
	var b strings.Builder
	fmt.Fprintf(&b, "The mailbox has %d messages", all)
	if older {
		b.WriteString(", and older ones that are not shown")
	}
	b.WriteString(".\n")
	last := 0
	err = d.load(ctx, page, func(key string, m *Message) bool { // what went while we looked is left out
		b.WriteString(d.row(key, m))
		last = d.numbers.Of(key)
		return true
	})
	if err != nil {
		return "", err
	}
	if len(keys) > pageLength && last > 0 {
		fmt.Fprintf(&b, "There are more after %d.\n", last)
	}
	return b.String(), nil
}

// read is mailbox_read.
func (d *desk) read(ctx context.Context, a readArguments) (string, error) {
	key, err := d.numbers.Find(a.Message)
	if err != nil {
		return "", err
	}
	var message *Message
	for range 2 { // it may be moved while we look
		err := d.load(ctx, []string{key}, func(_ string, m *Message) bool { message = m; return false })
		if err != nil {
			return "", err
		}
		if message != nil {
			break
		}
	}
	if message == nil {
		return "", tool.Gone
	}
	part := tool.Number(a.Part)
	shown, parts, err := tool.NewText(shownText(message)).Part(part)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Message %d\n%sText, part %d of %d:\n\n%s", a.Message, d.head(message), part, parts, shown), nil
}

// shownText is the text of a message and of its attachments: a forwarded mail, an invitation, a report of a delivery.
func shownText(m *Message) string {
	var b strings.Builder
	b.WriteString(m.Text)
	for i, attached := range m.Attachments {
		if attached.Text != "" {
			fmt.Fprintf(&b, "\n\n[attachment %d]\n%s", i+1, attached.Text)
		}
	}
	return b.String()
}

// head are the lines before the text of a message.
func (d *desk) head(m *Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "From: %s\n", tool.Quote(m.From.String()))
	for _, to := range m.To {
		fmt.Fprintf(&b, "To: %s\n", tool.Quote(to.String()))
	}
	for _, cc := range m.Cc {
		fmt.Fprintf(&b, "Cc: %s\n", tool.Quote(cc.String()))
	}
	if m.ReplyTo != "" {
		fmt.Fprintf(&b, "Reply-To: %s\n", tool.Quote(m.ReplyTo))
	}
	if !m.Date.IsZero() {
		fmt.Fprintf(&b, "Date: %s\n", m.Date.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "Subject: %s\n", tool.Quote(m.Subject))
	for _, attached := range m.Attachments[:min(len(m.Attachments), maxNamed)] {
		opened := "not opened"
		if attached.Text != "" {
			opened = "shown behind the text"
		}
		fmt.Fprintf(&b, "Attachment: %s, %s, %d bytes, %s\n", tool.Quote(attached.Name), tool.Quote(attached.Type), attached.Size, opened)
	}
	if more := len(m.Attachments) - maxNamed; more > 0 {
		fmt.Fprintf(&b, "Attachments that are not named: %d\n", more)
	}
	if m.Hidden != "" {
		fmt.Fprintf(&b, "Hidden: %d characters that a person does not see, and that are not shown\n", utf8.RuneCountInString(m.Hidden))
	}
	for _, defect := range m.Defects {
		fmt.Fprintf(&b, "Defect: %s\n", defect)
	}
	return b.String()
}

// search is mailbox_search. It searches mail as the model reads it, so that a search
// does not reveal redacted text.
func (d *desk) search(ctx context.Context, a searchArguments) (string, error) {
	phrase, err := tool.Phrase(a.Text, maxShown/2)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	keys, older, err := d.keys()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	found, read, stopped := 0, int64(0), false
	err = d.load(ctx, keys, func(key string, m *Message) bool {
		if read += m.Size; read > maxSearched {
			stopped = true
		} else if lines, ok := d.matches(m, phrase); ok {
			if stopped = found == maxFound; !stopped {
				found++
				b.WriteString(d.row(key, m) + lines)
			}
		}
		return !stopped
	})
	if err != nil && err != tool.TimedOut {
		return "", err
	}
	switch {
	case older || stopped || err != nil:
		b.WriteString("The search stopped at a limit before it had seen everything.\n")
	case found == 0:
		b.WriteString("Nothing was found.\n")
	}
	return b.String(), nil
}

// matches reports whether a message has a phrase, and returns the matching lines of its
// text.
func (d *desk) matches(m *Message, phrase string) (lines string, ok bool) {
	short := []string{m.From.String(), m.Subject}
	for _, to := range slices.Concat(m.To, m.Cc) {
		short = append(short, to.String())
	}
	for _, attached := range m.Attachments {
		short = append(short, attached.Name)
	}
	for _, text := range short {
		ok = ok || tool.Contains(string(tool.NewText(text)), phrase)
	}
	var b strings.Builder
	count := 0
	for line := range strings.Lines(string(tool.NewText(shownText(m)))) {
		if count < maxLines && tool.Contains(line, phrase) {
			count++
			b.WriteString("  " + tool.Quote(strings.TrimSpace(tool.Around(line, phrase, maxShown))) + "\n")
		}
	}
	return b.String(), ok || count > 0
}
