package office_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/office"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// bench is an office with two mails, a contact and an event, and the tools of its
// definition.
type bench struct {
	*office.Office
	dir   string
	tools map[string]kernel.Tool
}

const oldMail = "From: Ann Lee <ann@example.org>\r\nTo: kim@example.org\r\nSubject: Lunch\r\nDate: Mon, 2 Mar 2026 09:00:00 +0000\r\n\r\nAt noon?\r\n"

func open(t testing.TB) *bench {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"mail/new/1000000000.M1P1.host": oldMail,
		"mail/new/1000000009.M1P1.host": strings.Replace(strings.Replace(oldMail, "Lunch", "Dinner", 1), "noon", "eight", 1),
		"mail/cur/.keep":                "", "mail/tmp/.keep": "",
		"contacts.vcf": "BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Lee\\, Ann\r\nitem1.EMAIL;TYPE=work:ann@example.org\r\nEND:VCARD\r\n",
		"calendar.ics": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:x\r\nSUMMARY:Din\r\n ner\r\nDTSTART;TZID=Europe/Berlin:20260302T200000\r\nDTEND:20260302T210000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
		"files/a.txt":  "hello",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o, err := office.Open(dir, "desk@example.org")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{Office: o, dir: dir, tools: tools()}
}

// tools are those of the definition, by name.
var tools = sync.OnceValue(func() map[string]kernel.Tool {
	def, report := definition.Load(fstest.MapFS{
		"mesh.yaml":         {Data: []byte("name: office\n")},
		"tools/office.yaml": {Data: office.Definition},
		"agents/kim.md":     {Data: []byte("---\nname: kim\n---\n")},
		"agents/desk.md":    {Data: []byte("---\nname: desk\nkernel: {planner: ann, requesters: {kim: [all]}, grants: {all: [mail.read, mail.send, contacts.read, calendar.read, calendar.write, files.read, files.write]}}\n---\n")},
	})
	tools := map[string]kernel.Tool{}
	if def == nil || len(report.Errors) > 0 {
		return tools // and no call of a test is one
	}
	for _, tool := range kernel.OfMesh(def)[0].Definition().Tools {
		tools[tool.Name] = tool
	}
	return tools
})

// key is that of a call.
func key(n int) string { return fmt.Sprintf("%064x", n) }

// call makes a call as the kernel does, and makes sure that the result is what the
// definition says.
func (b *bench) call(t testing.TB, n int, tool, args string) (string, error) {
	t.Helper()
	def, known := b.tools[tool]
	if v, err := kernel.ParseValue([]byte(args)); !known || err != nil || !def.Input.Has(&v) {
		t.Fatalf("%s(%s) is no call: %v", tool, args, err)
	}
	result, err := b.Call(t.Context(), agents.Call{Tool: tool, Key: key(n), Args: jsontext.Value(args)})
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := kernel.ParseValue(encoded); err != nil || !def.Output.Has(&v) {
		t.Errorf("%s returned %s, which is not of its output_schema", tool, encoded)
	}
	return string(encoded), nil
}

func notPerformed(err error) bool {
	_, ok := errors.AsType[*agents.NotPerformedError](err)
	return ok
}

// Every tool does what its definition says, with results of its schema.
//
// covers KER-79, KER-80, KER-81
func TestToolsOfAnOffice(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, c := range []struct{ tool, args, want string }{
		{"latest_mail", `{}`, `{"name":"Ann Lee","address":"ann@example.org","subject":"Dinner","date":"2026-03-02T09:00:00Z","body":"At eight?","cut":false}`},
		{"list_mail", `{}`, `{"messages":[{"name":"Ann Lee","address":"ann@example.org","subject":"Dinner","date":"2026-03-02T09:00:00Z"},{"name":"Ann Lee","address":"ann@example.org","subject":"Lunch","date":"2026-03-02T09:00:00Z"}]}`},
		{"list_contacts", `{}`, `{"contacts":[{"name":"Lee, Ann","address":"ann@example.org"}]}`},
		{"list_events", `{}`, `{"events":[{"title":"Dinner","begins":"2026-03-02T20:00:00Z","ends":"2026-03-02T21:00:00Z"}]}`},
		{"list_files", `{}`, `{"names":["a.txt"]}`},
		{"read_file", `{"name":"a.txt"}`, `{"text":"hello","cut":false}`},
		{"write_file", `{"name":"b.txt","text":"new"}`, `{"written":true}`},
		{"read_file", `{"name":"b.txt"}`, `{"text":"new","cut":false}`},
		{"send_mail", `{"to":"ann@example.org","subject":"Übermorgen","body":"Yes.\n.\nKim"}`, `{"sent":true}`},
		{"add_event", `{"title":"Long, with a comma","begins":"2026-03-01T10:00:00Z","ends":"2026-03-01T11:00:00Z"}`, `{"added":true}`},
	} {
		if got, err := b.call(t, 1, c.tool, c.args); err != nil || got != c.want {
			t.Errorf("%s(%s): %s, %v", c.tool, c.args, got, err)
		}
	}
	if got, _ := b.call(t, 2, "list_events", `{}`); !strings.HasPrefix(got, `{"events":[{"title":"Long, with a comma","begins":"2026-03-01T10:00:00Z"`) {
		t.Errorf("the calendar has %s", got)
	}
	if _, err := b.Call(t.Context(), agents.Call{Tool: "delete_all", Key: key(1), Args: jsontext.Value(`{}`)}); !notPerformed(err) {
		t.Errorf("a tool that is none: %v", err)
	}
	sent := b.outbox(t)
	if len(sent) != 1 {
		t.Fatalf("%d mails were sent", len(sent))
	}
	m, err := mail.ReadMessage(bytes.NewReader(sent[0]))
	if err != nil || m.Header.Get("To") != "<ann@example.org>" || m.Header.Get("From") != "desk@example.org" {
		t.Errorf("%v, %v", m, err)
	}
}

func (b *bench) outbox(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(b.dir, "outbox", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	var mails [][]byte
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		mails = append(mails, content)
	}
	return mails
}

// A call that comes again, also to another process, has no second effect; another call
// with the same words has.
//
// covers KER-83
func TestEffectsAreMadeOnce(t *testing.T) {
	t.Parallel()
	b := open(t)
	const letter, meeting = `{"to":"ann@example.org","subject":"s","body":"b"}`, `{"title":"t","begins":"2026-03-01T10:00:00Z","ends":"2026-03-01T11:00:00Z"}`
	again, err := office.Open(b.dir, "desk@example.org")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for _, n := range []int{1, 1, 2} {
		for tool, args := range map[string]string{"send_mail": letter, "add_event": meeting} {
			if _, err := b.call(t, n, tool, args); err != nil {
				t.Error(err)
			}
			if _, err := again.Call(t.Context(), agents.Call{Tool: tool, Key: key(n), Args: jsontext.Value(args)}); err != nil {
				t.Error(err)
			}
		}
	}
	if n := len(b.outbox(t)); n != 2 {
		t.Errorf("%d mails were sent", n)
	}
	if got, _ := b.call(t, 3, "list_events", `{}`); strings.Count(got, `"t"`) != 2 {
		t.Errorf("the calendar has %s", got)
	}
}

// Hostile arguments do nothing, and say so: no way out of the folder, no second header.
//
// covers P7.5
func TestHostileArguments(t *testing.T) {
	t.Parallel()
	b := open(t)
	outside := filepath.Join(filepath.Dir(b.dir), "outside.txt")
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.Symlink(outside, filepath.Join(b.dir, "files", "link.txt"))); err != nil {
		t.Fatal(err)
	}
	before := tree(t, b.dir)
	quoted := func(s string) string {
		q, err := jsontext.AppendQuote(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		return string(q)
	}
	for _, name := range []string{"", ".", "..", "../outside.txt", "/etc/passwd", "a/b", `a\b`, ".hidden", "a\x00", "a\nb", "link.txt", "no such file", strings.Repeat("a", 101)} {
		if len(name) <= 100 {
			if _, err := b.call(t, 1, "read_file", `{"name":`+quoted(name)+`}`); !notPerformed(err) {
				t.Errorf("reading %q: %v", name, err)
			}
		}
		if name == "link.txt" || name == "no such file" {
			continue // these are names, and a file takes the place of the link
		}
		if _, err := b.Call(t.Context(), agents.Call{Tool: "write_file", Key: key(1), Args: jsontext.Value(`{"name":` + quoted(name) + `,"text":"x"}`)}); !notPerformed(err) {
			t.Errorf("writing %q: %v", name, err)
		}
	}
	for _, m := range [][2]string{
		{"", "s"}, {"ann", "s"}, {"ann@example.org, eve@example.org", "s"}, {"Ann <ann@example.org>", "s"}, {"ann@example.org\r\nBcc: eve@example.org", "s"},
		{"ann@example.org", "s\r\nBcc: eve@example.org"}, {"ann@example.org", "s\nx"}, {"ann@example.org", "s\x00"},
	} {
		if _, err := b.Call(t.Context(), agents.Call{Tool: "send_mail", Key: key(1), Args: jsontext.Value(`{"to":` + quoted(m[0]) + `,"subject":` + quoted(m[1]) + `,"body":"b"}`)}); !notPerformed(err) {
			t.Errorf("mail to %q about %q: %v", m[0], m[1], err)
		}
	}
	for _, e := range [][3]string{
		{"t", "today", "2026-03-01T10:00:00Z"}, {"t", "2026-03-01T10:00:00Z", ""}, {"t", "2026-03-01T10:00:00Z", "2026-03-01T09:00:00Z"}, {"t\r\nEND:VEVENT", "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
	} {
		if _, err := b.call(t, 1, "add_event", `{"title":`+quoted(e[0])+`,"begins":`+quoted(e[1])+`,"ends":`+quoted(e[2])+`}`); !notPerformed(err) {
			t.Errorf("the event %q: %v", e, err)
		}
	}
	for _, bad := range []string{"", "../x", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("a", 63) + "/"} {
		if _, err := b.Call(t.Context(), agents.Call{Tool: "send_mail", Key: bad, Args: jsontext.Value(`{"to":"a@b","subject":"s","body":"b"}`)}); !notPerformed(err) {
			t.Errorf("the key %q: %v", bad, err)
		}
	}
	if after := tree(t, b.dir); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if content, err := os.ReadFile(outside); err != nil || string(content) != "secret" {
		t.Errorf("%s, %v", content, err)
	}
}

// tree is what a folder has.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var content []byte
			content, err = os.ReadFile(path)
			fmt.Fprintf(&b, "%s %q\n", path, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is too long is cut and says so, at the limit and one past it.
//
// covers KER-81
func TestLongTexts(t *testing.T) {
	t.Parallel()
	b := open(t)
	for n, isCut := range map[int]bool{60_000: false, 60_001: true} {
		if err := os.WriteFile(filepath.Join(b.dir, "files", "long.txt"), []byte(strings.Repeat("é", n)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := b.call(t, 1, "read_file", `{"name":"long.txt"}`)
		if err != nil || strings.Contains(got, `"cut":true`) != isCut {
			t.Errorf("%d: %v", n, err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "files", "raw.bin"), []byte{0xff, 0xfe, 'a'}, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := b.call(t, 1, "read_file", `{"name":"raw.bin"}`); err != nil || !strings.Contains(got, "\uFFFD") {
		t.Errorf("%s, %v", got, err)
	}
}

// Whatever the files of an office hold, tools return values of their schemas.
func FuzzOffice(f *testing.F) {
	f.Add([]byte("BEGIN:VCARD\nFN:x\nEMAIL:y\nEND:VCARD"), []byte("BEGIN:VEVENT\nSUMMARY:\\n\nDTSTART:20260101\nEND:VEVENT\n"))
	f.Add([]byte("\xff:\xff\n :;\n"), []byte("END:VCALENDAR\nBEGIN:VEVENT\n"))
	f.Fuzz(func(t *testing.T, contacts, calendar []byte) {
		b := open(t)
		if err := errors.Join(os.WriteFile(filepath.Join(b.dir, "contacts.vcf"), contacts, 0o600), os.WriteFile(filepath.Join(b.dir, "calendar.ics"), calendar, 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"list_contacts", "list_events"} {
			if _, err := b.call(t, 1, tool, `{}`); err != nil {
				t.Errorf("%s: %v", tool, err)
			}
		}
		_, err := b.call(t, 2, "add_event", `{"title":"t","begins":"2026-03-01T10:00:00Z","ends":"2026-03-01T11:00:00Z"}`)
		if err != nil && !notPerformed(err) {
			t.Error(err)
		}
	})
}
