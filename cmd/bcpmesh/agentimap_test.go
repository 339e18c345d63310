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
	web := httptest.NewTLSServer(nil) // has a certificate for this machine
	certificate := web.TLS.Certificates[0]
	web.Close()
	user := imapmemserver.NewUser("anna", "mail-key")
	if err := user.Create("INBOX", nil); err != nil {
		return err
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(b), "\n", "\r\n")
		if _, err := user.Append("INBOX", literal{strings.NewReader(text)}, &goimap.AppendOptions{}); err != nil {
			return err
		}
	}
	mem := imapmemserver.New()
	mem.AddUser(user)
	server := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return mem.NewSession(), nil, nil
		},
		InsecureAuth: true, Logger: log.New(io.Discard, "", 0),
	})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	if err := os.WriteFile("mail.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile("mail.address", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	return server.Serve(listener)
}

type literal struct{ *strings.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }
