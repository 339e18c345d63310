package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"

	goimap "github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
)

// playMail is the program mailserver of scripts: an IMAP server on this machine with one
// mailbox of anna, whose key is mail-key and whose messages are its arguments. It writes its
// certificate to mail.pem and its address to mail.address.
func playMail() {
	if err := serveMail(os.Args[1:]); err != nil {
		panic(err)
	}
}

func serveMail(files []string) error {
	var texts []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		texts = append(texts, strings.ReplaceAll(string(b), "\n", "\r\n"))
	}
	server, certificate, err := mailServer(texts)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	if err := os.WriteFile("mail.pem", pemOf(certificate), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile("mail.address", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	return server.Serve(listener)
}

func pemOf(c tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

// mailServer is a server with one mailbox of anna, whose key is mail-key, and a certificate for this machine.
func mailServer(messages []string) (*imapserver.Server, tls.Certificate, error) {
	web := httptest.NewTLSServer(nil)
	certificate := web.TLS.Certificates[0]
	web.Close()
	user := imapmemserver.NewUser("anna", "mail-key")
	if err := user.Create("INBOX", nil); err != nil {
		return nil, certificate, err
	}
	for _, text := range messages {
		if _, err := user.Append("INBOX", literal{strings.NewReader(text)}, &goimap.AppendOptions{}); err != nil {
			return nil, certificate, err
		}
	}
	mem := imapmemserver.New()
	mem.AddUser(user)
	return imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return mem.NewSession(), nil, nil
		},
		InsecureAuth: true, Logger: log.New(io.Discard, "", 0),
	}), certificate, nil
}

type literal struct{ *strings.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }
