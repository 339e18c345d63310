package office

import (
	"bytes"
	"context"
	_ "embed" // office.yaml
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

// Definition is the file of tools/ that defines the service.
//
//go:embed office.yaml
var Definition []byte

// Limits of the tools' results and arguments, in code points, as in the definition.
const (
	maxName    = 200
	maxAddress = 320
	maxSubject = 1000
	maxTitle   = 200
	maxText    = 60_000

	maxMails    = 50
	maxContacts = 500
	maxEvents   = 500
	maxFiles    = 500
	// maxFile bounds contacts and calendar, in bytes.
	maxFile = 16 << 20
)

// Office is an open folder. It is safe for concurrent use by one process.
type Office struct {
	dir  string
	root *os.Root
	mail *mailbox.Box
	from string
	mu   sync.Mutex // held during changes of the calendar
}

// Open opens a folder, and makes outbox and files in it. Mails are sent from an address. The caller calls Close. Errors
// name paths, and are for the operator.
func Open(dir, from string) (*Office, error) {
	if _, err := mail.ParseAddress(from); err != nil {
		return nil, fmt.Errorf("office: the address %q: %w", from, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("office: %w", err)
	}
	o := &Office{dir: dir, root: root, from: from}
	for _, name := range []string{"outbox", "files"} {
		err = errors.Join(err, root.MkdirAll(name, 0o700))
	}
	if err == nil {
		o.mail, err = mailbox.OpenBox(filepath.Join(dir, "mail"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("office: %w", err), root.Close())
	}
	return o, nil
}

// Close closes the folder.
func (o *Office) Close() error { return errors.Join(o.mail.Close(), o.root.Close()) }

// Call performs a call. An error that is a [*agents.NotPerformedError] says that
// nothing was done.
func (o *Office) Call(ctx context.Context, c agents.Call) (any, error) {
	switch c.Tool {
	case "latest_mail":
		return o.latestMail(ctx)
	case "list_mail":
		return o.listMail(ctx)
	case "list_contacts":
		return o.contacts()
	case "send_mail":
		return perform(c, o.sendMail)
	case "list_events":
		return o.events()
	case "add_event":
		return perform(c, o.addEvent)
	case "list_files":
		return o.files()
	case "read_file":
		return perform(c, o.readFile)
	case "write_file":
		return perform(c, o.writeFile)
	default:
		return nil, notPerformed(errNoTool)
	}
}

var (
	errNoTool    = errors.New("there is no such tool")
	errArguments = errors.New("the arguments are not those of the tool")
	errKey       = errors.New("the call has no key that names a file")
	errAddress   = errors.New("it is not one address, such as kim@example.org")
	errLine      = errors.New("it is not one line of text")
	errName      = errors.New("a name of a file has letters, digits, spaces, dots, hyphens and underscores, and begins with a letter or a digit")
	errTime      = errors.New("it is no time such as 2026-03-15T14:00:00Z")
	errTooLarge  = errors.New("it is too large")
	errCalendar  = errors.New("calendar.ics is no calendar")
)

func notPerformed(err error) error { return &agents.NotPerformedError{Err: err} }

// perform reads the arguments of a call. A key names the effect.
func perform[A any](c agents.Call, do func(key string, a A) (any, error)) (any, error) {
	var a A
	if err := json.Unmarshal(c.Args, &a, json.RejectUnknownMembers(true)); err != nil {
		return nil, notPerformed(errArguments)
	}
	if !keyForm.MatchString(c.Key) {
		return nil, notPerformed(errKey)
	}
	return do(c.Key, a)
}

var keyForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// cut returns at most n code points of valid UTF-8.
func cut(s string, n int) (string, bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= n {
		return s, false
	}
	return string([]rune(s)[:n]), true
}

func truncate(s string, n int) string {
	s, _ = cut(s, n)
	return s
}

// line reports whether a text is one visible line.
func line(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) < 0
}

type sender struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Subject string `json:"subject"`
	Date    string `json:"date"`
}

func describeSender(m *mailbox.Message) sender {
	date := ""
	if !m.Date.IsZero() {
		date = m.Date.UTC().Format(time.RFC3339)
	}
	return sender{truncate(m.From.Name, maxName), truncate(m.From.Address, maxAddress), truncate(m.Subject, maxSubject), truncate(date, len(time.RFC3339))}
}

func (o *Office) latestMail(ctx context.Context) (any, error) {
	messages, err := o.mail.Newest(ctx, 1)
	if err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, errors.New("there is no mail")
	}
	body, isCut := cut(messages[0].Text, maxText)
	return struct {
		sender
		Body string `json:"body"`
		Cut  bool   `json:"cut"`
	}{describeSender(messages[0]), body, isCut}, nil
}

func (o *Office) listMail(ctx context.Context) (any, error) {
	messages, err := o.mail.Newest(ctx, maxMails)
	if err != nil {
		return nil, err
	}
	list := make([]sender, len(messages))
	for i, m := range messages {
		list[i] = describeSender(m)
	}
	return map[string]any{"messages": list}, nil
}

type newMail struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

func (o *Office) sendMail(key string, m newMail) (any, error) {
	to, err := mail.ParseAddress(m.To)
	switch {
	case err != nil || to.Name != "" || len(m.To) > maxAddress || !line(m.To):
		return nil, notPerformed(errAddress)
	case !line(m.Subject) || len(m.Subject) > 4*maxTitle:
		return nil, notPerformed(errLine)
	case len(m.Body) > 4*maxText:
		return nil, notPerformed(errTooLarge)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: %s\r\nTo: %s\r\nSubject: %s\r\nMessage-ID: <%s@bcpmesh>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n",
		o.from, to, mime.QEncoding.Encode("utf-8", m.Subject), key)
	w := quotedprintable.NewWriter(&b)
	_, err = io.WriteString(w, m.Body)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, notPerformed(err)
	}
	err = durable.Create(filepath.Join(o.dir, "outbox", key+".eml"), b.Bytes(), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) { // it was sent before, under this key
		return nil, err
	}
	return map[string]bool{"sent": true}, nil
}

// read reads a whole file of the folder; a missing one is empty.
func (o *Office) read(name string) ([]byte, error) {
	f, err := o.regular(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = errTooLarge
	}
	return content, err
}

// fileName is the form of the name of a file.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,99}$`)
})

func (o *Office) files() (any, error) {
	dir, err := o.root.Open("files")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // it was only read
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, e := range entries {
		if e.Type().IsRegular() && fileName().MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return map[string][]string{"names": names[:min(len(names), maxFiles)]}, nil
}

type namedFile struct {
	Name string `json:"name"`
}

func (o *Office) readFile(_ string, a namedFile) (any, error) {
	if !fileName().MatchString(a.Name) {
		return nil, notPerformed(errName)
	}
	f, err := o.regular("files/" + a.Name)
	if err != nil {
		return nil, notPerformed(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, 4*maxText+1))
	if err != nil {
		return nil, err
	}
	text, isCut := cut(string(content), maxText)
	return struct {
		Text string `json:"text"`
		Cut  bool   `json:"cut"`
	}{text, isCut}, nil
}

// regular opens a regular file. No link is followed, and nothing is waited for.
func (o *Office) regular(name string) (*os.File, error) {
	info, err := o.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	return o.root.Open(name)
}

type newFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func (o *Office) writeFile(key string, a newFile) (any, error) {
	switch {
	case !fileName().MatchString(a.Name):
		return nil, notPerformed(errName)
	case len(a.Text) > 4*maxText:
		return nil, notPerformed(errTooLarge)
	}
	if err := o.replace("files/"+a.Name, key, []byte(a.Text)); err != nil {
		return nil, err
	}
	return map[string]bool{"written": true}, nil
}

// replace writes a file of the folder, whole or not at all.
func (o *Office) replace(name, key string, content []byte) (err error) {
	draft := filepath.Dir(name) + "/." + key + ".new"
	f, err := o.root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = o.root.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, o.root.Remove(draft))
	}
	return durable.SyncFolder(filepath.Join(o.dir, filepath.Dir(name)))
}
