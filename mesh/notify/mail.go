package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// mail sends a message to the mail server of a route. It is taken when one recipient at
// least is.
func mail(ctx context.Context, route *bcp.Route, place Place, m *Message, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(route.MailServer)
	if err != nil {
		return failure("the mail server is no host:port")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", route.MailServer)
	if err != nil {
		return failure("the mail server " + reason(err))
	}
	defer conn.Close() // a second time after Quit
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	address, ok := conn.RemoteAddr().(*net.TCPAddr)
	local := ok && address.IP.IsLoopback()
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if port == "465" {
		conn = tls.Client(conn, config)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return mailFailure(ctx, err)
	}
	if !local && port != "465" {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return failure("the mail server offers no STARTTLS, and is not on this machine")
		}
		if err := client.StartTLS(config); err != nil {
			return mailFailure(ctx, err)
		}
	}
	if route.MailUser != "" {
		password, err := place.read(route.Password)
		if err != nil {
			return err
		}
		_, offered := client.Extension("AUTH")
		if err := client.Auth(login(strings.Fields(offered), host, route.MailUser, string(password))); err != nil {
			return mailFailure(ctx, err)
		}
	}
	if err := deliver(client, route, mailText(route, m, now)); err != nil {
		return mailFailure(ctx, err)
	}
	_ = client.Quit() // it is taken
	return nil
}

func deliver(client *smtp.Client, route *bcp.Route, text []byte) error {
	if err := client.Mail(route.MailFrom); err != nil {
		return err
	}
	var refused error
	taken := 0
	for _, to := range route.MailTo {
		if err := client.Rcpt(to); err != nil {
			refused = err
			continue
		}
		taken++
	}
	if taken == 0 {
		return refused
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	return w.Close()
}

// login is by a token of OAuth 2 if the secret is one, else by the best way that the server offers. The connection is under
// TLS by then, or to this machine.
func login(offered []string, host, user, password string) smtp.Auth {
	token, isToken := strings.CutPrefix(password, "Bearer ")
	switch {
	case isToken:
		return smtp.XOAuth2Auth(user, token)
	case slices.Contains(offered, "SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(user, password)
	case slices.Contains(offered, "LOGIN") && !slices.Contains(offered, "PLAIN"):
		return smtp.LoginAuth(user, password, host, true)
	}
	return smtp.PlainAuth("", user, password, host, true)
}

// mailFailure says in our words why a mail was not taken.
func mailFailure(ctx context.Context, err error) error {
	var reply *textproto.Error
	switch {
	case ctx.Err() != nil:
		return failure("the mail server does not answer in time")
	case errors.As(err, &reply):
		return failure("the mail server answers " + strconv.Itoa(reply.Code))
	}
	return failure("the mail server " + reason(err))
}

func mailText(route *bcp.Route, m *Message, now time.Time) []byte {
	domain := route.MailFrom[strings.LastIndexByte(route.MailFrom, '@')+1:]
	var b strings.Builder
	for _, line := range []string{
		"From: " + route.MailFrom,
		"To: " + strings.Join(route.MailTo, ", "),
		"Subject: " + mime.QEncoding.Encode("utf-8", m.Title),
		"Date: " + now.Format(time.RFC1123Z),
		fmt.Sprintf("Message-ID: <%s@%s>", m.ID, domain),
		"Auto-Submitted: auto-generated",
		"MIME-Version: 1.0",
		"Content-Type: text/plain; charset=utf-8",
		"Content-Transfer-Encoding: 8bit",
		"",
	} {
		b.WriteString(line + "\r\n")
	}
	for _, line := range m.lines() {
		b.WriteString(line + "\r\n")
	}
	return []byte(b.String())
}
