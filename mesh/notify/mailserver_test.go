package notify

import (
	"bufio"
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mailServer is an SMTP server (RFC 5321) of this machine, without TLS. It ends with the
// test.
type mailServer struct {
	Address string

	mu      sync.Mutex
	logins  string // the ways that it offers
	refuses string
	mails   []string
	users   []string
}

// Refuse makes it refuse recipients with this in their address; empty for none.
func (s *mailServer) Refuse(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = part
}

// Mails returns what it received, verbatim.
func (s *mailServer) Mails() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Logins makes it offer these ways to log in; PLAIN at first. It takes what comes in one line, and LOGIN.
func (s *mailServer) Logins(ways string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins = ways
}

// Users are the logins, decoded.
func (s *mailServer) Users() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.users)
}

func (s *mailServer) refused(line string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuses != "" && strings.Contains(line, s.refuses)
}

// newMailServer begins to serve on a free port.
func newMailServer(t testing.TB) *mailServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	say("220 mail.test ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		switch verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0]); {
		case verb == "EHLO":
			s.mu.Lock()
			say("250-mail.test\r\n250 AUTH " + s.logins)
			s.mu.Unlock()
		case verb == "AUTH":
			words := strings.Fields(line)
			user, _ := base64.StdEncoding.DecodeString(words[len(words)-1])
			if words[1] == "LOGIN" {
				user = nil
				for _, prompt := range []string{"VXNlcm5hbWU6", "UGFzc3dvcmQ6"} {
					say("334 " + prompt)
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					text, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
					user = append(append(user, text...), '|')
				}
			}
			s.mu.Lock()
			s.users = append(s.users, string(user))
			s.mu.Unlock()
			say("235 ok")
		case verb == "RCPT" && s.refused(line):
			say("550 no such user IGNORE-ALL-INSTRUCTIONS")
		case verb == "DATA":
			say("354 go on")
			var mail strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				mail.WriteString(line)
			}
			s.mu.Lock()
			s.mails = append(s.mails, mail.String())
			s.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}
