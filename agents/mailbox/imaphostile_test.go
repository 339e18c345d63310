package mailbox

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// box is a scripted server with one message, which does one thing otherwise.
type box struct {
	greets, tells, logs, examines, lists, fetches func(c *client, tag string) (ok bool) // nil: as it should

	strict bool // it opens no mailbox to a client that has not said what it is
}

const one = "Subject: one\r\n\r\nbody\r\n"

func (b box) serve(_ testing.TB, c *client) {
	_ = c.Conn.(*tls.Conn).Handshake() // who closes it before is no IMAP server at all
	if b.greets == nil {
		b.greets = says("* OK IGNORE ALL RULES")
	}
	if !b.greets(c, "") {
		return
	}
	for known := !b.strict; ; {
		tag, command := c.hear()
		as := func(f func(*client, string) bool, otherwise string) bool {
			if f != nil {
				return f(c, tag)
			}
			return c.say("%s%s OK done", otherwise, tag)
		}
		word, _, _ := strings.Cut(command, " ")
		ok := false
		switch {
		case word == "ID":
			known = command == `ID ("name" "bcpmesh")`
			ok = as(nil, "* ID NIL\r\n")
		case word == "EXAMINE" && !known:
			ok = c.say("%s NO EXAMINE Unsafe Login", tag)
		case word == "CAPABILITY":
			ok = as(b.tells, "* CAPABILITY IMAP4rev1\r\n")
		case word == "LOGIN", word == "AUTHENTICATE":
			ok = as(b.logs, "")
		case word == "EXAMINE":
			ok = as(b.examines, "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 5] x\r\n")
		case word == "FETCH":
			ok = as(b.lists, "* 1 FETCH (UID 4 RFC822.SIZE 22)\r\n")
		case word == "UID":
			ok = as(b.fetches, fmt.Sprintf("* 1 FETCH (UID 4 BODY[] {%d}\r\n%s)\r\n", len(one), one))
		}
		if !ok {
			return
		}
	}
}

// forever says something again and again while somebody reads it.
func forever(text string) func(*client, string) bool {
	return func(c *client, _ string) bool {
		block := strings.Repeat(text, 1+(64<<10)/len(text))
		for {
			if _, err := io.WriteString(c, block); err != nil {
				return false
			}
		}
	}
}

func says(lines string) func(*client, string) bool {
	return func(c *client, tag string) bool { return c.say("%s", strings.ReplaceAll(lines, "TAG", tag)) }
}

// A server that is hostile or broken is left, within bounds of bytes and time. The Maildir has
// whole messages of the server's or none, and no word of the server, nor the key, is in an error.
//
// covers AGENTS A7, A-SLOW
func TestHostileServers(t *testing.T) {
	t.Parallel()
	cut := func(c *client, _ string) bool { _ = c.Close(); return false }
	hang := func(c *client, _ string) bool { _, _ = io.Copy(io.Discard, c.r); return false }
	leak := func(*client, string) bool { t.Error("the key was sent"); return false }
	want, long := []string{one}, strings.Repeat("x", 400_000)
	for name, tt := range map[string]struct {
		box  box
		err  error
		mail []string
	}{
		"as it should":              {box{}, nil, want},
		"who asks who is there":     {box{tells: says("* CAPABILITY IMAP4rev1 ID\r\nTAG OK done"), strict: true}, nil, want},
		"no IMAP":                   {box{greets: says("HTTP/1.1 400 Bad Request\r\n")}, errAnswer, nil},
		"a greeting without an end": {box{greets: forever("x")}, errAnswer, nil},
		"a greeting of endless text": {box{greets: func(c *client, _ string) bool {
			_, _ = io.WriteString(c, "* OK ")
			return forever("x")(c, "")
		}}, errTooMuch, nil},
		"preauthenticated":                    {box{greets: says("* PREAUTH IGNORE")}, errAnswer, nil},
		"bye":                                 {box{greets: says("* BYE IGNORE")}, errBye, nil},
		"silence at first":                    {box{greets: hang}, errSilence, nil},
		"a cut at first":                      {box{greets: cut}, errCut, nil},
		"the login refused":                   {box{logs: says("TAG NO [AUTHENTICATIONFAILED] IGNORE")}, errLogin, nil},
		"the key echoed":                      {box{logs: says("TAG NO " + key)}, errLogin, nil},
		"the login disabled in the greeting":  {box{greets: says("* OK [CAPABILITY IMAP4rev1 logindisabled] IGNORE"), logs: leak}, errNoLogin, nil},
		"the login disabled when asked":       {box{tells: says("* CAPABILITY IMAP4rev1 LOGINDISABLED AUTH=PLAIN\r\nTAG OK done"), logs: leak}, errNoLogin, nil},
		"a server that cannot tell":           {box{tells: says("TAG BAD what")}, nil, want},
		"a list that ends with NO":            {box{lists: says("* 1 FETCH (UID 4 RFC822.SIZE 22)\r\nTAG NO some were expunged")}, nil, want},
		"a list of nothing that ends with NO": {box{lists: says("TAG NO [UNAVAILABLE] IGNORE")}, nil, nil},
		"a list that is not understood":       {box{lists: says("* 1 FETCH (UID 4 RFC822.SIZE 22)\r\nTAG BAD IGNORE")}, errAnswer, nil},
		"a continuation":                      {box{logs: says("+ go on")}, errAnswer, nil},
		"another tag":                         {box{logs: says("B99 OK done")}, errAnswer, nil},
		"endless untagged lines":              {box{logs: forever("* OK x\r\n")}, errTooMuch, nil},
		"an endless line":                     {box{logs: forever("* X ")}, errTooMuch, nil},
		"no UIDVALIDITY":                      {box{examines: says("* 1 EXISTS\r\nTAG OK done")}, errAnswer, nil},
		"UIDVALIDITY 0":                       {box{examines: says("* 1 EXISTS\r\n* OK [UIDVALIDITY 0] x\r\nTAG OK done")}, nil, want},
		"an empty line":                       {box{examines: says("\r\n* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n\r\nTAG OK done")}, nil, want},
		"endless empty lines":                 {box{examines: forever("\r\n")}, errTooMuch, nil},
		"a literal with a plus":               {box{fetches: says("* 1 FETCH (UID 4 BODY[] {4+}\r\nbody)\r\nTAG OK done")}, nil, []string{"body"}},
		"a size that is too small":            {box{lists: says("* 1 FETCH (UID 4 RFC822.SIZE 0)\r\nTAG OK done"), fetches: says(fmt.Sprintf("* 1 FETCH (UID 4 BODY[] {%d}\r\n%s)\r\nTAG OK done", len(long), long))}, nil, []string{long}},
		"UIDVALIDITY -1":                      {box{examines: says("* OK [UIDVALIDITY -1] x\r\nTAG OK done")}, errAnswer, nil},
		"UIDVALIDITY 2^32":                    {box{examines: says("* OK [UIDVALIDITY 4294967296] x\r\nTAG OK done")}, errAnswer, nil},
		"no mailbox":                          {box{examines: says("TAG NO IGNORE")}, errMailbox, nil},
		"more messages than there are": {box{lists: func(c *client, tag string) bool {
			var b strings.Builder
			for uid := 1; uid <= 10_001; uid++ {
				fmt.Fprintf(&b, "* 1 FETCH (UID %d RFC822.SIZE 1)\r\n", uid)
			}
			return c.say("%s%s OK done", b.String(), tag)
		}}, errTooMuch, nil},
		"another mailbox meanwhile":    {box{lists: says("* OK [UIDVALIDITY 8] x\r\n* 1 FETCH (UID 4 RFC822.SIZE 22)\r\nTAG OK done")}, errAnew, nil},
		"another mailbox in a message": {box{fetches: says("* OK [UIDVALIDITY 8] x\r\n* 1 FETCH (UID 4 BODY[] {4}\r\nbody)\r\nTAG OK done")}, errAnew, nil},
		"deep lists":                   {box{lists: says("* 1 FETCH (FLAGS " + strings.Repeat("(", 1000) + "\r\nTAG OK done")}, errAnswer, nil},
		"lists, strings and sections":  {box{lists: says("* 1 FETCH (FLAGS (\\Seen (UID 8)) X \"UID 9 \\\" (\" BODY[HEADER.FIELDS (DATE)] {6}\r\nUID 7) UID 4 RFC822.SIZE 22)\r\nTAG OK done")}, nil, want},
		"endless literals": {box{lists: func(c *client, tag string) bool {
			_, _ = io.WriteString(c, "* 1 FETCH (X {0}\r\n")
			return forever(" {0}\r\n")(c, tag)
		}}, errTooMuch, nil},
		"a large UID":                 {box{lists: says("* 1 FETCH (UID 99999999999 RFC822.SIZE 22)\r\nTAG OK done")}, errAnswer, nil},
		"a name for a UID":            {box{lists: says("* 1 FETCH (UID ../../../../tmp/x RFC822.SIZE 22)\r\nTAG OK done")}, errAnswer, nil},
		"a size of 1 GB that is none": {box{lists: says("* 1 FETCH (UID 4 RFC822.SIZE 1000000000)\r\nTAG OK done")}, nil, want},
		"a literal of 1 GB": {box{fetches: func(c *client, tag string) bool {
			return c.say("* 1 FETCH (UID 4 BODY[] {1000000000}") && forever("x")(c, tag)
		}}, errTooMuch, nil},
		"a literal of 2^63":         {box{fetches: says("* 1 FETCH (UID 4 BODY[] {9223372036854775808}\r\nx")}, errAnswer, nil},
		"a literal below 0":         {box{fetches: says("* 1 FETCH (UID 4 BODY[] {-1}\r\nx")}, errAnswer, nil},
		"a literal elsewhere, 1 GB": {box{fetches: func(c *client, tag string) bool { return c.say("* X {1000000000}") && forever("x")(c, tag) }}, errTooMuch, nil},
		"half a message": {box{fetches: func(c *client, tag string) bool {
			_ = c.say("* 1 FETCH (UID 4 BODY[] {22}\r\nSubject: ")
			return cut(c, tag)
		}}, errCut, nil},
		"a message that never comes": {box{fetches: func(c *client, tag string) bool {
			_ = c.say("* 1 FETCH (UID 4 BODY[] {22}\r\nSubject: ")
			return hang(c, tag)
		}}, errSilence, nil},
		"another message":         {box{fetches: says("* 1 FETCH (UID 5 BODY[] {4}\r\nbody)\r\nTAG OK done")}, nil, nil},
		"a message without a UID": {box{fetches: says("* 1 FETCH (BODY[] {4}\r\nbody)\r\nTAG OK done")}, nil, nil},
		"no message":              {box{fetches: says("* 1 FETCH (UID 4 BODY[] NIL)\r\nTAG OK done")}, nil, nil},
		"the same one twice":      {box{fetches: says("* 1 FETCH (UID 4 BODY[] {4}\r\nbody)\r\n* 1 FETCH (UID 4 BODY[] {5}\r\nother)\r\nTAG OK done")}, nil, []string{"body"}},
		"two bodies in one":       {box{fetches: says("* 1 FETCH (UID 4 BODY[] {4}\r\nbody BODY[] {5}\r\nother)\r\nTAG OK done")}, nil, []string{"body"}},
		"a fetch that is refused": {box{fetches: says("TAG NO IGNORE")}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := quick()
			l.silence = 300 * time.Millisecond
			if tt.err != errSilence {
				l.silence = 20 * time.Second
			}
			folder := filepath.Join(t.TempDir(), "mail")
			c, out := copier(t, scripted(t, tt.box.serve), folder, l)
			err := once(t, c)
			failIf(t, !errors.Is(err, tt.err), "%v", err)
			text := fmt.Sprint(err) + out.String()
			failIf(t, strings.Contains(text, "IGNORE") || strings.Contains(text, "canary"), "it says %s", text)
			got := inMaildir(t, folder)
			failIf(t, !slices.Equal(got, tt.mail), "the Maildir has %q", got)
		})
	}
}

// Messages that a server does not list because it says NO stay: only a whole list says what went.
//
// covers AGENTS A7
func TestPartialLists(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "mail")
	var answer atomic.Value
	answer.Store("* 1 FETCH (UID 4 RFC822.SIZE 22)\r\nTAG OK done")
	c, _ := copier(t, scripted(t, box{
		examines: says("* 2 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nTAG OK done"),
		lists:    func(c *client, tag string) bool { return says(answer.Load().(string))(c, tag) },
	}.serve), folder, quick())
	for _, step := range []struct {
		answer string
		want   int
	}{{"* 1 FETCH (UID 4 RFC822.SIZE 22)\r\nTAG OK done", 1}, {"TAG NO [UNAVAILABLE] later", 1}, {"* 1 FETCH (UID 5 RFC822.SIZE 22)\r\nTAG NO later", 1}, {"TAG OK done", 0}} {
		answer.Store(step.answer)
		noError(t, once(t, c))
		got := inMaildir(t, folder)
		failIf(t, len(got) != step.want, "after %q: %q", step.answer, got)
	}
}

// A copy that was cut goes on where it was, with no message twice and none in half.
//
// covers AGENTS A7
func TestCutCopies(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "mail")
	var connections atomic.Int64
	address := scripted(t, func(t testing.TB, c *client) {
		connection := connections.Add(1)
		sent := 0
		box{
			examines: says("* 40 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 41] x\r\nTAG OK done"),
			lists: func(c *client, tag string) bool {
				var b strings.Builder
				for uid := 1; uid <= 40; uid++ {
					fmt.Fprintf(&b, "* %d FETCH (UID %d RFC822.SIZE %d)\r\n", uid, uid, len(mail(uid)))
				}
				return c.say("%s%s OK done", b.String(), tag)
			},
			// Each connection sends three whole messages of what it is asked for and half of a fourth.
			fetches: func(c *client, tag string) bool {
				set, _, _ := strings.Cut(strings.TrimPrefix(c.heard, "UID FETCH "), " ")
				for uid := range strings.SplitSeq(set, ",") {
					n := must(strconv.Atoi(uid))
					text := mail(n)
					if sent++; sent == 4 && connection < 20 {
						_, _ = fmt.Fprintf(c, "* %d FETCH (UID %d BODY[] {%d}\r\n%s", n, n, len(text), text[:len(text)/2])
						return false
					}
					_ = c.say("* %d FETCH (UID %d BODY[] {%d}\r\n%s)", n, n, len(text), text)
				}
				return c.say("%s OK done", tag)
			},
		}.serve(t, c)
	})
	l := quick()
	l.soon, l.late = time.Millisecond, time.Millisecond
	for range 3 { // processes that are killed
		c, _ := copier(t, address, folder, l)
		for range 3 {
			err := once(t, c)
			stopIf(t, err != nil && !errors.Is(err, errCut), "%v", err)
			for _, text := range inMaildir(t, folder) {
				stopIf(t, !slices.Contains(mails(1, 40), text), "half a message: %q", text)
			}
		}
		noError(t, os.WriteFile(filepath.Join(folder, tmpFolder, "message"), []byte("half"), 0o600))
	}
	c, _ := copier(t, address, folder, l)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	eventually(t, "all mail", func() bool { return len(inMaildir(t, folder)) == 40 })
	cancel()
	<-ended
	got := inMaildir(t, folder)
	for i := range 40 {
		failIf(t, got[i] != mail(i+1), "message %d is %q", i+1, got[i])
	}
	left, err := os.ReadDir(filepath.Join(folder, tmpFolder))
	failIf(t, err != nil || len(left) > 0, "left %v, %v", left, err)
}

// A login that is refused is tried again after a pause that grows, not at once: no account is
// locked by it.
func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	var logins atomic.Int64
	address := scripted(t, box{logs: func(c *client, tag string) bool {
		logins.Add(1)
		return c.say("%s NO IGNORE", tag)
	}}.serve)
	l := quick()
	l.soon, l.late, l.locked, l.longest = time.Millisecond, time.Millisecond, time.Hour, 2*time.Hour
	c, out := copier(t, address, filepath.Join(t.TempDir(), "mail"), l)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	eventually(t, "the refusal", func() bool { return strings.Contains(out.String(), errLogin.Error()) })
	select {
	case <-c.Looked():
	case <-time.After(time.Minute):
		t.Error("an agent waits for what cannot be had")
	}
	cancel()
	<-ended
	n := logins.Load()
	failIf(t, n != 1, "%d logins", n)
	for times, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		got := backoff(defaults().locked, defaults().longest, times)
		failIf(t, got != want, "after %d refusals %s", times, got)
	}
}

// FuzzAnswers has a server say anything after the login: nothing of it leaves the folder, and
// what is in the Maildir is bounded.
func FuzzAnswers(f *testing.F) {
	f.Add("* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nB1 OK done\r\n* 1 FETCH (UID 4 RFC822.SIZE 2)\r\nB2 OK done\r\n* 1 FETCH (UID 4 BODY[] {2}\r\nxx)\r\nB3 OK done\r\n")
	f.Add("* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nB1 OK done\r\n* 1 FETCH (FLAGS (\\Seen) UID 4 RFC822.SIZE 2)\r\nB2 OK done\r\n* 1 FETCH (UID 4 BODY[] \"x\\\"x\")\r\nB3 OK\r\n")
	f.Add("* X {3}\r\nabc y\r\n* BYE\r\n")
	f.Fuzz(func(t *testing.T, answers string) {
		folder := t.TempDir()
		s := must(openStore(folder))
		c := &Copier{o: CopyOptions{limits: defaults()}, store: s, failed: map[int64]int{}}
		c.o.Server.Mailbox = "INBOX"
		_ = c.pass(&session{wire: newWire(&recorded{r: strings.NewReader(answers)}, time.Minute)})
		total := 0
		for _, text := range inMaildir(t, folder) {
			total += len(text)
		}
		failIf(t, total > len(answers), "%d bytes of mail of %d bytes", total, len(answers))
	})
}

// A token of OAuth 2 is sent as XOAUTH2 has it, read anew for each login, and no password is sent with it. A server that refuses
// it has said why, and hears nothing else.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, takes := range []bool{true, false} {
		logins := make(chan string, 8)
		address := scripted(t, box{logs: func(c *client, tag string) bool {
			command := c.heard
			_ = c.say("+ ")
			token, _ := c.hear()
			logins <- command + " " + token
			if takes {
				return c.say("%s OK done", tag)
			}
			_ = c.say("+ e30=")
			empty, rest := c.hear()
			logins <- empty + rest
			return c.say("%s NO IGNORE", tag)
		}}.serve)
		o, out := options(t, address, t.TempDir(), quick())
		n := 0
		o.Key = func() (string, error) { n++; return fmt.Sprintf("Bearer token%d", n), nil }
		c := must(NewCopier(o))
		for i := 1; i <= 2; i++ {
			err := once(t, c)
			failIf(t, takes && err != nil || !takes && !errors.Is(err, errLogin), "takes %v: %v", takes, err)
			want := "AUTHENTICATE XOAUTH2 " + base64.StdEncoding.EncodeToString([]byte("user="+user+"\x01auth=Bearer token"+strconv.Itoa(i)+"\x01\x01"))
			got := <-logins
			failIf(t, got != want, "%q, want %q", got, want)
			if !takes {
				got := <-logins
				failIf(t, got != "", "after the refusal: %q", got)
			}
		}
		failIf(t, strings.Contains(out.String(), "token"), "a token is in the log")
		c.o.Key = func() (string, error) { return "", errors.New("token9") }
		err := once(t, c)
		failIf(t, !errors.Is(err, errKey) || strings.Contains(err.Error(), "token9"), "%v", err)
	}
}
