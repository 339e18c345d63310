package imap

import (
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

var (
	errKey     = errors.New("the key of the mailbox cannot be read")
	errLogin   = errors.New("the server refuses the user or the key")
	errNoLogin = errors.New("the server takes no passwords (LOGINDISABLED)")
	errMailbox = errors.New("the server does not open the mailbox")
	errAnew    = errors.New("the server's mailbox became another one while it was copied")
)

const (
	maxChatter  = 256 << 10 // bytes of an answer without messages
	maxList     = 4 << 20   // bytes of a list of 10,000 messages, with news of their flags
	maxSize     = 1 << 40   // largest size that a server may claim for a message
	maxBody     = 64 << 10  // bytes of a message in a quoted string
	chatterTime = time.Minute
	transferred = 10 * time.Minute // a batch of messages, or a list of them
)

// session is a connection with one command at a time.
type session struct {
	*wire
	tag int

	// What the server said of the mailbox last.
	exists, validity, uidNext int64

	capable  bool // it said what it can
	disabled bool // and that it takes no passwords
	asks     bool // and that it likes to know who is there (RFC 2971)
}

// message is the data about a message in one FETCH response.
type message struct {
	uid, size int64 // size is -1 if it is not said
	body      bool
}

// fetching handles the data of FETCH. Any of it may be nil.
type fetching struct {
	says []string              // what a server is told that waits for more of the command
	body func(io.Reader) error // called before told, if there is a body; it need not read it
	most int64                 // bytes of a body
	told func(message) error
}

// readGreeting reads the first response. It refuses a server that is already logged in.
func (s *session) readGreeting() error {
	s.allow(maxChatter, chatterTime)
	if err := s.expect('*'); err != nil {
		return err
	}
	if err := s.expect(' '); err != nil {
		return err
	}
	status, err := s.word()
	switch {
	case err != nil:
		return err
	case status == "BYE":
		return errBye
	case status != "OK":
		return errAnswer
	}
	text, err := s.text()
	if err != nil {
		return err
	}
	return s.code(text)
}

// command sends a command and reads the responses up to its own, whose status it
// returns.
func (s *session) command(line string, f fetching) (string, error) {
	s.tag++
	tag := "B" + strconv.Itoa(s.tag)
	if err := s.send(tag + " " + line); err != nil {
		return "", err
	}
	for {
		word, err := s.word()
		if err != nil {
			return "", err
		}
		if word == "+" && len(f.says) > 0 {
			_, err := s.text()
			if err == nil {
				err = s.send(f.says[0])
			}
			if err != nil {
				return "", err
			}
			f.says = f.says[1:]
			continue
		}
		if err := s.expect(' '); err != nil {
			return "", err
		}
		switch word {
		case tag:
			status, err := s.word()
			if err != nil {
				return "", err
			}
			if status != "OK" && status != "NO" && status != "BAD" {
				return "", errAnswer
			}
			_, err = s.text()
			return status, err
		case "*":
			if err := s.untagged(f); err != nil {
				return "", err
			}
		default: // an unrequested continuation, or another tag
			return "", errAnswer
		}
	}
}

// untagged reads a response that is not a command's own.
func (s *session) untagged(f fetching) error {
	word, err := s.word()
	if err != nil {
		return err
	}
	switch word {
	case "OK", "NO", "BAD", "PREAUTH", "BYE":
		text, err := s.text()
		switch {
		case err != nil:
			return err
		case word == "BYE":
			return errBye
		case word == "OK":
			return s.code(text)
		}
		return nil
	}
	if word == "CAPABILITY" {
		text, err := s.text()
		s.capabilities(text)
		return err
	}
	if word[0] < '0' || word[0] > '9' {
		return s.skipResponse()
	}
	number, err := parseNumber(word, 32)
	if err != nil {
		return err
	}
	if err := s.expect(' '); err != nil {
		return err
	}
	kind, err := s.word()
	if err != nil {
		return err
	}
	switch kind {
	case "EXISTS":
		s.exists = number
	case "FETCH":
		return s.fetched(f)
	}
	return s.skipResponse()
}

// code reads a response code: [UIDVALIDITY 1] perhaps.
func (s *session) code(text string) error {
	code, _, ok := strings.Cut(strings.TrimPrefix(text, " "), "]")
	if code, bracket := strings.CutPrefix(code, "["); ok && bracket {
		name, value, _ := strings.Cut(code, " ")
		var into *int64
		switch strings.ToUpper(name) {
		case "UIDVALIDITY":
			into = &s.validity
		case "UIDNEXT":
			into = &s.uidNext
		case "CAPABILITY":
			s.capabilities(value)
			return nil
		default:
			return nil
		}
		n, err := parseNumber(value, 32)
		if err != nil {
			return err
		}
		*into = n
	}
	return nil
}

func (s *session) capabilities(words string) {
	s.capable = true
	all := strings.Fields(strings.ToUpper(words))
	s.disabled, s.asks = slices.Contains(all, "LOGINDISABLED"), slices.Contains(all, "ID")
}

// fetched reads the list of a FETCH.
func (s *session) fetched(f fetching) error {
	m := message{size: -1}
	if err := s.expect(' '); err != nil {
		return err
	}
	err := s.list(func() error {
		name, err := s.word()
		if err != nil {
			return err
		}
		if err := s.expect(' '); err != nil {
			return err
		}
		switch name {
		case "UID":
			m.uid, err = s.number(32)
		case "RFC822.SIZE":
			m.size, err = s.number(63)
		case "BODY[]", "BODY[]<0>":
			if f.body == nil || m.body {
				return s.skip(0)
			}
			m.body, err = s.body(f)
		default:
			return s.skip(0)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.newline(); err != nil {
		return err
	}
	if f.told == nil {
		return nil
	}
	return f.told(m)
}

// body reads a message, and reports whether there is one.
func (s *session) body(f fetching) (bool, error) {
	c, err := s.next()
	switch {
	case err != nil:
		return false, err
	case c == '"':
		b, err := s.quoted(maxBody)
		if err != nil {
			return false, err
		}
		return true, f.body(strings.NewReader(string(b)))
	case c != '{':
		return false, s.skip(0) // NIL
	}
	n, err := s.literal()
	switch {
	case err != nil:
		return false, err
	case n > f.most:
		return false, errTooMuch
	}
	r := &io.LimitedReader{R: s.r, N: n}
	if err := f.body(r); err != nil {
		return false, err
	}
	return true, s.drop(r.N)
}

// login is not repeated by anybody here. A password is not sent to a server that takes none.
func (s *session) login(user, key string) error {
	s.allow(maxChatter, chatterTime)
	if token, ok := strings.CutPrefix(key, "Bearer "); ok {
		said := base64.StdEncoding.EncodeToString([]byte("user=" + user + "\x01auth=Bearer " + token + "\x01\x01"))
		// A server that refuses says why first, and waits for an empty line.
		status, err := s.command("AUTHENTICATE XOAUTH2", fetching{says: []string{said, ""}})
		if err == nil && status != "OK" {
			err = errLogin
		}
		return err
	}
	if !s.capable {
		if _, err := s.command("CAPABILITY", fetching{}); err != nil {
			return err
		}
	}
	if s.disabled {
		return errNoLogin
	}
	status, err := s.command("LOGIN "+quote(user)+" "+quote(key), fetching{})
	if err == nil && status != "OK" {
		err = errLogin
	}
	if err == nil && s.asks { // NetEase opens no mailbox to who has not said it
		_, err = s.command(`ID ("name" "bcpmesh")`, fetching{})
	}
	return err
}

// examine opens a mailbox to read.
func (s *session) examine(mailbox string) error {
	s.allow(maxChatter, chatterTime)
	s.exists, s.validity, s.uidNext = 0, 0, 0
	status, err := s.command("EXAMINE "+quote(mailboxName(mailbox)), fetching{})
	switch {
	case err != nil:
		return err
	case status != "OK":
		return errMailbox
	case s.validity == 0:
		return errAnswer
	}
	return nil
}

// newest returns the newest messages of a mailbox, by UID. Not all of them are listed if some were
// expunged meanwhile (RFC 2180, 4.1.2), or are not available.
func (s *session) newest(of state, most int) (listed map[int64]message, all bool, err error) {
	listed = map[int64]message{}
	if of.exists == 0 {
		return listed, true, nil
	}
	first := max(1, of.exists-int64(most)+1)
	s.allow(maxList, transferred)
	line := "FETCH " + strconv.FormatInt(first, 10) + ":" + strconv.FormatInt(of.exists, 10) + " (UID RFC822.SIZE)"
	status, err := s.command(line, fetching{told: func(m message) error {
		switch {
		case m.uid == 0 || m.size < 0: // news of flags perhaps
			return nil
		case len(listed) == most && listed[m.uid].uid == 0:
			return errTooMuch
		}
		m.size = min(m.size, maxSize)
		listed[m.uid] = m
		return nil
	}})
	switch {
	case err != nil:
		return nil, false, err
	case status == "BAD":
		return nil, false, errAnswer
	case s.validity != of.validity:
		return nil, false, errAnew
	}
	return listed, status == "OK", nil
}

// quote returns a quoted string. Users, keys and encoded names of mailboxes are printable ASCII.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// mailboxName encodes a name (RFC 3501, section 5.1.3).
func mailboxName(name string) string {
	encoding := base64.NewEncoding("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,").WithPadding(base64.NoPadding)
	var b strings.Builder
	var wide []byte
	flush := func() {
		if len(wide) > 0 {
			b.WriteString("&" + encoding.EncodeToString(wide) + "-")
			wide = nil
		}
	}
	for _, r := range name {
		if r >= ' ' && r <= '~' {
			flush()
			if b.WriteRune(r); r == '&' {
				b.WriteByte('-')
			}
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			wide = append(wide, byte(unit>>8), byte(unit))
		}
	}
	flush()
	return b.String()
}
