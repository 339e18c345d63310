package mailbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Maildir becomes what a real server has, and stays so while mail comes and goes. Nothing changes at the server.
//
// covers AGENTS A7
func TestCopy(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "mail")
	server := realServer(t, mails(1, 70)...)
	c, out := copier(t, server.address, folder, quick())
	same := func(want []string) {
		t.Helper()
		noError(t, once(t, c))
		got := inMaildir(t, folder)
		stopIf(t, !slices.Equal(got, want), "%d messages, %d expected", len(got), len(want))
	}
	same(mails(1, 70))
	all := readAll(t, os.DirFS(folder))
	stopIf(t, len(all) != 70 || all[0].Subject != "Message 1" || all[69].Subject != "Message 70", "%d messages", len(all))
	before := len(server.heard.String())
	same(mails(1, 70))
	said := server.heard.String()[before:]
	failIf(t, strings.Contains(said, "FETCH"), "nothing had changed: %s", said)
	server.add(mails(71, 75)...)
	same(mails(1, 75))
	server.remove("3,70")
	same(slices.Concat(mails(1, 2), mails(4, 69), mails(71, 75)))
	noError(t, server.user.Delete("INBOX"))
	if err := server.user.Create("INBOX", nil); err != nil { // with another UIDVALIDITY
		t.Fatal(err)
	}
	server.add(mails(100, 103)...)
	same(mails(100, 103))
	server.remove("1,2,3,4")
	same(nil)

	allowed := regexp.MustCompile(`^B\d+ (LOGIN |EXAMINE "INBOX"$|FETCH \d+:\d+ \(UID RFC822\.SIZE\)$|UID FETCH [\d,]+ \(UID BODY\.PEEK\[\]\)$)`)
	for line := range strings.SplitSeq(server.heard.String(), "\r\n") {
		failIf(t, regexp.MustCompile(`^B\d+ [A-Z]`).MatchString(line) && !regexp.MustCompile(`^B\d+ (OK|NO|BAD)`).MatchString(line) && !allowed.MatchString(line),
			"it said %q", line)
		failIf(t, strings.Contains(line, `\Seen`) && strings.Contains(line, "FETCH ("), "a flag was set: %q", line)
	}
	failIf(t, strings.Contains(out.String(), "canary"), "the log has the key: %s", out)
	noError(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		failIf(t, err == nil && info.Mode().Perm()&0o077 != 0, "%s has mode %s", path, info.Mode())
		return err
	}))
}

// The newest messages are copied, as many bytes of each as are read, and as many of all as there is room for.
//
// covers AGENTS A7
func TestCopyLimits(t *testing.T) {
	t.Parallel()
	body := func(size int) string { return "Subject: x\r\n\r\n" + strings.Repeat("y", size-14) }
	for name, c := range map[string]struct {
		messages []string
		change   func(*copyLimits)
		want     []string
	}{
		"as many as the limit":     {mails(1, 8), func(l *copyLimits) { l.messages = 8 }, mails(1, 8)},
		"one more":                 {mails(1, 9), func(l *copyLimits) { l.messages = 8 }, mails(2, 9)},
		"a message of the limit":   {[]string{body(200), mail(1)}, func(l *copyLimits) { l.message = 200 }, []string{body(200), mail(1)}},
		"one of a byte more":       {[]string{body(201), mail(1)}, func(l *copyLimits) { l.message = 200 }, []string{body(201), mail(1)}},
		"one that is far too long": {[]string{body(20_000), mail(1)}, func(l *copyLimits) { l.message = 200 }, []string{body(20_000)[:201], mail(1)}},
		"as much as the limit":     {[]string{body(300), body(200), body(100)}, func(l *copyLimits) { l.all = 600 }, []string{body(300), body(200), body(100)}},
		"a byte less room":         {[]string{body(300), body(200), body(100)}, func(l *copyLimits) { l.all = 599 }, []string{body(200), body(100)}},
	} {
		l := quick()
		c.change(&l)
		folder := t.TempDir()
		copier, _ := copier(t, realServer(t, c.messages...).address, folder, l)
		for range 2 {
			err := once(t, copier)
			stopIf(t, err != nil, "%s: %v", name, err)
			got := inMaildir(t, folder)
			failIf(t, !slices.Equal(got, c.want), "%s: %d messages, %d expected", name, len(got), len(c.want))
		}
	}
	// A large message is marked as one that was cut.
	folder := t.TempDir()
	large, _ := copier(t, realServer(t, "Subject: large\r\n\r\n"+strings.Repeat("z", 9<<20)).address, folder, quick())
	noError(t, once(t, large))
	m := readAll(t, os.DirFS(folder))
	failIf(t, len(m) != 1 || !m[0].Has(TooLarge) || m[0].Subject != "large", "%+v", m)
	failIf(t, defaults().messages != 10_000 || defaults().message != 8<<20 || defaults().all != 1<<30,
		"the limits are others than the documents say")
}

// What is in the way of the copier in its own folder is no message.
func TestStrangeFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c, _ := copier(t, realServer(t, mails(1, 2)...).address, folder, quick())
	noError(t, once(t, c))
	elsewhere := filepath.Join(t.TempDir(), "secret")
	noError(t, os.WriteFile(elsewhere, []byte("x"), 0o600))
	noError(t, os.Symlink(elsewhere, filepath.Join(folder, newFolder, copyName(1, 7))))
	for _, name := range []string{"0000000001-1", "0000000001-+000000001", "x", "0000000002-0000000001"} {
		noError(t, os.WriteFile(filepath.Join(folder, newFolder, name), nil, 0o600))
	}
	noError(t, os.WriteFile(filepath.Join(folder, tmpFolder, "message"), []byte("half"), 0o600))
	c.complete = state{}
	noError(t, c.store.clean())
	noError(t, once(t, c))
	got := inMaildir(t, folder)
	failIf(t, !slices.Equal(got, mails(1, 2)), "%q", got)
	left, err := os.ReadDir(filepath.Join(folder, tmpFolder))
	failIf(t, err != nil || len(left) != 0, "%v, %v", left, err)
	must(os.Stat(elsewhere))
}
