package notify

import (
	"bufio"
	"encoding/base64"
	"net"
	"strings"
	"sync"
	"testing"
)

// mailServer is an SMTP server (RFC 5321) of this machine, without TLS. It ends with the
// test.
type mailServer struct {
	Address string

	mu      sync.Mutex
	logins  string   // the ways that it offers; it takes what comes in one line, and LOGIN
	refuses string   // recipients with this in their address; empty for none
	mails   []string // what it received, verbatim
	users   []string // the logins, decoded
}

// locked does something between two commands of clients.
func (s *mailServer) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// got returns what it has received until now, and the logins.
func (s *mailServer) got() (mails, users []string) {
	s.locked(func() { mails, users = s.mails, s.users })
	return mails, users
}

// newMailServer begins to serve on a free port.
func newMailServer(t testing.TB) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	s := &mailServer{Address: listener.Addr().String(), logins: "PLAIN"}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return s
}

func (s *mailServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = conn.Write([]byte(line + "\r\n")) }
	hear := func() string {
		line, _ := in.ReadString('\n') // empty at the end
		return line
	}
	say("220 mail.test ESMTP")
	for line := hear(); line != ""; line = hear() {
		s.locked(func() { s.answer(strings.TrimRight(line, "\r\n"), say, hear) })
	}
}

func (s *mailServer) answer(line string, say func(string), hear func() string) {
	switch verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0]); {
	case verb == "EHLO":
		say("250-mail.test\r\n250 AUTH " + s.logins)
	case verb == "AUTH":
		words := strings.Fields(line)
		user, _ := base64.StdEncoding.DecodeString(words[len(words)-1])
		if words[1] == "LOGIN" {
			user = nil
			for _, prompt := range []string{"VXNlcm5hbWU6", "UGFzc3dvcmQ6"} {
				say("334 " + prompt)
				text, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(hear()))
				user = append(append(user, text...), '|')
			}
		}
		s.users = append(s.users, string(user))
		say("235 ok")
	case verb == "RCPT" && s.refuses != "" && strings.Contains(line, s.refuses):
		say("550 no such user IGNORE-ALL-INSTRUCTIONS")
	case verb == "DATA":
		say("354 go on")
		mail := ""
		for line := hear(); line != "" && line != ".\r\n"; line = hear() {
			mail += line
		}
		s.mails = append(s.mails, mail)
		say("250 taken")
	case verb == "QUIT":
		say("221 bye")
	default:
		say("250 ok")
	}
}
