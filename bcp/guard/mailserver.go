package guard

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MailServer is a mailbox of an IMAP server. It is reached by TLS from the first byte on.
type MailServer struct {
	User    string // printable ASCII
	Mailbox string // as the server spells it; INBOX unless the URL names another; printable ASCII
	Target  Target // host and port
}

const (
	imapsPort    = 993
	maxMailUser  = 256 // bytes
	maxMailboxes = 255 // bytes of a mailbox's name
)

// The errors of [ParseMailServer], for the operator who wrote the URL.
var (
	errMailServer   = errors.New("guard: expected imaps://user@host/INBOX, perhaps with :port, and a mailbox as the server spells it (Entw&APw-rfe)")
	errMailScheme   = errors.New("guard: only imaps: the server is reached by TLS from the first byte on")
	errMailPassword = errors.New("guard: only a user's name stands before the @, with : as %3A and ; as %3B: a password never stands in a URL")
)

// IsMailServer reports whether a mailbox of a definition is a URL, and no path.
func IsMailServer(mailbox string) bool { return strings.Contains(mailbox, "://") }

// ParseMailServer reads imaps://user@host:port/mailbox, strictly: the host is spelled as in [ParseTarget]. A user's name may
// have an @, since the last one counts. The error says what to write, and holds nothing of the URL.
func ParseMailServer(url string) (MailServer, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	switch {
	case !ok || !utf8.ValidString(url) || !wellSpelled(url) || strings.ContainsAny(url, "?#"):
		return MailServer{}, errMailServer
	case !strings.EqualFold(scheme, "imaps"):
		return MailServer{}, errMailScheme
	}
	authority, mailbox, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 1 {
		return MailServer{}, errMailServer
	}
	if strings.ContainsAny(authority[:i], ":;") {
		return MailServer{}, errMailPassword
	}
	name, port, ok := cutPort(authority[i+1:])
	if !ok {
		return MailServer{}, errMailServer
	}
	if port == 0 {
		port = imapsPort
	}
	host, err := parseHost(name)
	if err != nil {
		return MailServer{}, errMailServer
	}
	m := MailServer{User: percentDecoded(authority[:i]), Mailbox: percentDecoded(mailbox), Target: Target{https: true, host: host, port: port, path: "/"}}
	if m.Mailbox == "" || strings.EqualFold(m.Mailbox, "inbox") {
		m.Mailbox = "INBOX"
	}
	if len(m.User) > maxMailUser || len(m.Mailbox) > maxMailboxes || strings.ContainsFunc(m.User+m.Mailbox, func(r rune) bool { return r < ' ' || r > '~' }) {
		return MailServer{}, errMailServer
	}
	return m, nil
}

var percentEncoded = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// percentDecoded returns what a text says that is spelled as URLs are.
func percentDecoded(s string) string {
	return percentEncoded.ReplaceAllStringFunc(s, func(pair string) string {
		b, _ := hex.DecodeString(pair[1:])
		return string(b)
	})
}
