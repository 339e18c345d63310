package guard_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// covers AGENTS A1, A7, GUARD G6
func TestMailServers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][3]string{
		"imaps://anna@mail.example/INBOX":                       {"anna", "INBOX", "https://mail.example:993/"},
		"IMAPS://anna@MAIL.example":                             {"anna", "INBOX", "https://mail.example:993/"},
		"imaps://anna@mail.example/":                            {"anna", "INBOX", "https://mail.example:993/"},
		"imaps://anna@mail.example/inbox":                       {"anna", "INBOX", "https://mail.example:993/"},
		"imaps://anna@mail.example:1993/Archive/2026":           {"anna", "Archive/2026", "https://mail.example:1993/"},
		"imaps://anna@example.org@mail.example/Entw&APw-rfe":    {"anna@example.org", "Entw&APw-rfe", "https://mail.example:993/"},
		"imaps://anna%40example.org@mail.example/a%20b%3f":      {"anna@example.org", "a b?", "https://mail.example:993/"},
		"imaps://anna@[2001:db8::1]:1993/x":                     {"anna", "x", "https://[2001:db8::1]:1993/"},
		"imaps://anna@127.0.0.1:443/x":                          {"anna", "x", "https://127.0.0.1/"},
		"imaps://" + strings.Repeat("a", 256) + "@mail.example": {strings.Repeat("a", 256), "INBOX", "https://mail.example:993/"},
		"imaps://a@mail.example/" + strings.Repeat("b", 255):    {"a", strings.Repeat("b", 255), "https://mail.example:993/"},
	} {
		got, err := guard.ParseMailServer(url)
		if err != nil || got.User != want[0] || got.Mailbox != want[1] || got.Target.Origin()+"/" != want[2] || !guard.IsMailServer(url) {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for url, want := range map[string]string{
		"":                                                      "expected imaps",
		"mail":                                                  "expected imaps",
		"imap://anna@mail.example/":                             "only imaps",
		"https://anna@mail.example/":                            "only imaps",
		"imaps://mail.example/INBOX":                            "expected imaps",
		"imaps://@mail.example/INBOX":                           "expected imaps",
		"imaps://anna:hunter2@mail.example":                     "a password never stands",
		"imaps://anna;AUTH=PLAIN@mail.test":                     "a password never stands",
		"imaps://anna@mail.example:0/":                          "expected imaps",
		"imaps://anna@mail.example:99999/":                      "expected imaps",
		"imaps://anna@mail.example./":                           "expected imaps",
		"imaps://anna@0x7f.1/":                                  "expected imaps",
		"imaps://anna@127.1/":                                   "expected imaps",
		"imaps://anna@mail.example/?x":                          "expected imaps",
		"imaps://anna@mail.example/#x":                          "expected imaps",
		"imaps://anna@mail.example/a%0d%0aB LOGOUT":             "expected imaps",
		"imaps://anna@mail.example/a%0d%0aB":                    "expected imaps",
		"imaps://anna%0d%0a@mail.example/":                      "expected imaps",
		"imaps://anna%00@mail.example/":                         "expected imaps",
		"imaps://anna%c3%a4@mail.example/":                      "expected imaps",
		"imaps://anna@mail.example/Entw%C3%BCrfe":               "as the server spells it",
		"imaps://anna@mail.example/%ff":                         "expected imaps",
		"imaps://anna@mail.example/%c2%85":                      "expected imaps",
		"imaps://anna@mail.example/%zz":                         "expected imaps",
		"imaps://" + strings.Repeat("a", 257) + "@mail.example": "expected imaps",
		"imaps://a@mail.example/" + strings.Repeat("b", 256):    "expected imaps",
	} {
		got, err := guard.ParseMailServer(url)
		bcptest.FailIf(t, err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2"),
			"%s: %+v, %v", url, got, err)
	}
}

// FuzzMailServer: what is read has nothing that could end a line of the protocol, and its host is one of a URL's.
func FuzzMailServer(f *testing.F) {
	f.Add("imaps://anna@example.org@mail.example:1993/Entw&APw-rfe")
	f.Add("imaps://a%0d@b/c%0a")
	f.Fuzz(func(t *testing.T, url string) {
		m, err := guard.ParseMailServer(url)
		if err != nil {
			return
		}
		bcptest.StopIf(t, strings.ContainsAny(m.User+m.Mailbox, "\r\n\x00") || m.User == "" || m.Mailbox == "", "%q: %+v", url, m)
		if again, err := guard.ParseTarget(m.Target.String()); err != nil || again != m.Target {
			t.Fatalf("%q: %v, %v", url, m.Target, err)
		}
	})
}
