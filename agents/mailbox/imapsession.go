package mailbox

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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
	maxNested   = 8         // lists in each other, of an answer
	maxSize     = 1 << 40   // largest size that a server may claim for a message
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

// entry is the data about a message in one FETCH response.
type entry struct {
	uid, size int64 // size is -1 if it is not said
	body      bool
}

// fetching handles the data of FETCH. Any of it may be nil.
type fetching struct {
	says []string              // what a server is told that waits for more of the command
	body func(io.Reader) error // called before told, if there is a body; it need not read it
	most int64                 // bytes of a body
	told func(entry) error
}

// readGreeting reads the first response. It refuses a server that is already logged in.
func (s *session) readGreeting() error {
	s.allow(maxChatter, chatterTime)
	if first, err := s.r.Peek(2); err != nil || string(first) != "* " {
		return cmp.Or(err, errAnswer)
	}
	text, err := s.line()
	rest := strings.TrimPrefix(text, "* ")
	switch word, _, _ := strings.Cut(rest, " "); {
	case err != nil:
		return err
	case strings.EqualFold(word, "OK"), strings.EqualFold(word, "BYE"):
		return s.untagged(rest, entry{}, fetching{})
	}
	return errAnswer
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
		m := entry{size: -1}
		text, err := s.response(func(before string, content *io.LimitedReader) error {
			switch {
			case m.body || f.body == nil || !bodyNext.MatchString(before):
				return nil
			case content.N > f.most:
				return errTooMuch
			}
			m.body = true
			return f.body(content)
		})
		if err != nil {
			return "", err
		}
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "": // some servers send an empty line
		case word == "+" && len(f.says) > 0:
			err, f.says = s.send(f.says[0]), f.says[1:]
		case word == "*":
			err = s.untagged(rest, m, f)
		case word == tag:
			status, _, _ := strings.Cut(rest, " ")
			if status = strings.ToUpper(status); status != "OK" && status != "NO" && status != "BAD" {
				err = errAnswer
			}
			return status, err
		default: // an unrequested continuation, or another tag
			err = errAnswer
		}
		if err != nil {
			return "", err
		}
	}
}

var (
	bodyNext = regexp.MustCompile(`(?i)^\* [0-9]+ FETCH \((?:.* )?BODY\[\](?:<0>)? $`)
	stringIn = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	groupIn  = regexp.MustCompile(`\([^()\[\]]*\)|\[[^()\[\]]*\]`)
)

// untagged takes a response that is not a command's own. m has what is known of a message.
func (s *session) untagged(text string, m entry, f fetching) error {
	word, rest, _ := strings.Cut(text, " ")
	switch word = strings.ToUpper(word); word {
	case "":
		return errAnswer
	case "BYE":
		return errBye
	case "OK":
		return s.code(rest)
	case "CAPABILITY":
		s.capabilities(rest)
		return nil
	}
	if word[0] < '0' || word[0] > '9' {
		return nil
	}
	number, err := parseNumber(word, 32)
	kind, list, _ := strings.Cut(rest, " ")
	switch kind = strings.ToUpper(kind); {
	case err != nil:
		return err
	case kind == "EXISTS":
		s.exists = number
	case kind == "FETCH":
		return m.fetched(list, f)
	}
	return nil
}

// fetched reads the list of a FETCH.
func (m entry) fetched(list string, f fetching) (err error) {
	list, begins := strings.CutPrefix(list, "(")
	list, ends := strings.CutSuffix(list, ")")
	if !begins || !ends {
		return errAnswer
	}
	list, sound := flat(list)
	words := strings.Fields(list)
	for len(words) > 1 && err == nil {
		switch strings.ToUpper(words[0]) {
		case "UID":
			m.uid, err = parseNumber(words[1], 32)
		case "RFC822.SIZE":
			m.size, err = parseNumber(words[1], 63)
		}
		words = words[2:]
	}
	switch {
	case err != nil:
		return err
	case !sound || len(words) > 0:
		return errAnswer
	case f.told == nil:
		return nil
	}
	return f.told(m)
}

// flat returns a list with a word in place of each string, list and section in it, and whether all of them are closed.
func flat(list string) (words string, sound bool) {
	list = stringIn.ReplaceAllString(list, "-")
	for range maxNested {
		list = groupIn.ReplaceAllString(list, "-")
	}
	return list, !strings.ContainsAny(list, `"()[]`)
}

var responseCode = regexp.MustCompile(`^\[([^\] ]+) ?([^\]]*)\]`)

// code reads a response code: [UIDVALIDITY 1] perhaps.
func (s *session) code(text string) (err error) {
	found := responseCode.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	switch strings.ToUpper(found[1]) {
	case "UIDVALIDITY":
		s.validity, err = parseNumber(found[2], 32)
	case "UIDNEXT":
		s.uidNext, err = parseNumber(found[2], 32)
	case "CAPABILITY":
		s.capabilities(found[2])
	}
	return err
}

func (s *session) capabilities(words string) {
	s.capable = true
	all := strings.Fields(strings.ToUpper(words))
	s.disabled, s.asks = slices.Contains(all, "LOGINDISABLED"), slices.Contains(all, "ID")
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
	s.exists, s.validity, s.uidNext = 0, -1, 0 // a UIDVALIDITY of 0 is against RFC 3501, and occurs
	status, err := s.command("EXAMINE "+quote(mailbox), fetching{})
	switch {
	case err != nil:
		return err
	case status != "OK":
		return errMailbox
	case s.validity < 0:
		return errAnswer
	}
	return nil
}

// newest returns the newest messages of a mailbox, by UID. Not all of them are listed if some were
// expunged meanwhile (RFC 2180, 4.1.2), or are not available.
func (s *session) newest(of state, most int) (listed map[int64]entry, all bool, err error) {
	listed = map[int64]entry{}
	if of.exists == 0 {
		return listed, true, nil
	}
	first := max(1, of.exists-int64(most)+1)
	s.allow(maxList, transferred)
	line := "FETCH " + strconv.FormatInt(first, 10) + ":" + strconv.FormatInt(of.exists, 10) + " (UID RFC822.SIZE)"
	status, err := s.command(line, fetching{told: func(m entry) error {
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

// quote returns a quoted string. Users, keys and names of mailboxes are printable ASCII.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
