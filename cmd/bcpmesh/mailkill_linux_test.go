package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// halting are the connections of a server that stops in the middle of what it sends, once it is told to.
type halting struct {
	net.Listener
	most    atomic.Int64 // bytes of a connection before it stops; 0: it does not
	stopped chan struct{}
	end     chan struct{} // of a connection that has stopped
}

func (h *halting) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &halt{Conn: conn, of: h}, nil
}

// await returns when a connection has stopped.
func (h *halting) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.stopped:
	case <-time.After(clustertest.Patience):
		t.Fatal("no message is copied")
	}
}

type halt struct {
	net.Conn
	of   *halting
	sent int64
}

func (h *halt) Write(p []byte) (int, error) {
	most := h.of.most.Load()
	if most == 0 || h.sent+int64(len(p)) <= most {
		h.sent += int64(len(p))
		return h.Conn.Write(p)
	}
	n, err := h.Conn.Write(p[:max(0, most-h.sent)])
	if err != nil {
		return n, err
	}
	h.of.most.Store(0)
	h.of.stopped <- struct{}{}
	<-h.of.end
	return n, net.ErrClosed
}

// The keeper is killed in the middle of a message that it copies from a mail server, and then together with its mesh. What it
// comes back to is a mailbox in which each message is once and whole, and no other; its model reads that, and answers once.
//
// covers ALF-78
func TestKilledInTheMiddleOfACopy(t *testing.T) {
	t.Parallel()
	var mails []string
	for n := range 3 {
		mails = append(mails, fmt.Sprintf("From: ann@example.com\r\nSubject: mail %d\r\nContent-Type: text/plain\r\n\r\n%s\r\nthe end of %d\r\n", n, strings.Repeat("All work and no play.\r\n", 8000), n))
	}
	server, certificate, err := mailServer(mails)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	halts := &halting{Listener: listener, stopped: make(chan struct{}), end: make(chan struct{})}
	go func() {
		_ = server.Serve(tls.NewListener(halts, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	}()
	t.Cleanup(func() { _ = listener.Close() })
	trusted := filepath.Join(t.TempDir(), "mail.pem")
	noError(t, os.WriteFile(trusted, pemOf(certificate), 0o600))
	var asked, served atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		events := callOf("mailbox_list", "{}")
		if bytes.Contains(body, []byte(`"role":"tool"`)) {
			events = callOf("answer", fmt.Sprintf(`{"breaking":%t}`, bytes.Contains(body, []byte("The mailbox has 3 messages"))))
		}
		for _, data := range events {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		served.Add(1)
	}))
	t.Cleanup(model.Close)

	middle := int64(len(mails[0]) + len(mails[0])/2) // of the second message that is sent
	halts.most.Store(middle)
	k, ask := newKillable(t, model.URL+"/v1", "tools: [mailbox]\nmailbox: imaps://anna@"+listener.Addr().String()+"/INBOX\nmailbox_key: env:MAIL_KEY\n", "MAIL_KEY=mail-key", "SSL_CERT_FILE="+trusted)
	halts.await(t)
	for deadline := time.Now().Add(clustertest.Patience); len(k.mail("tmp")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(k.log.Name())
			t.Fatalf("there is no draft in the middle of a message: %s", said)
		}
	}
	halts.most.Store(middle)
	k.mustStrike(1)
	halts.end <- struct{}{}
	halts.await(t)
	k.mustStrike(3)
	halts.end <- struct{}{}
	if d := ask(); d.Outcome != "" {
		t.Errorf("the mailbox is not read: %+v", d)
	}
	k.usage().check(t, asked.Load(), served.Load()) // one answer
	if drafts := k.mail("tmp"); len(drafts) > 0 {
		t.Errorf("drafts were left: %d", len(drafts))
	}
	copies := k.mail("new")
	for _, want := range mails {
		found := 0
		for _, got := range copies {
			if got == want {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%q is there %d times", want[:50], found)
		}
	}
	if len(copies) != len(mails) {
		t.Errorf("%d messages are there, of %d", len(copies), len(mails))
	}
}

// mail is what a folder of the researcher's Maildir has.
func (k *killable) mail(folder string) (texts []string) {
	k.t.Helper()
	files, err := filepath.Glob(filepath.Join(k.dir, ".bcpmesh", "mail", "researcher", "*", folder, "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			k.t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	return texts
}
