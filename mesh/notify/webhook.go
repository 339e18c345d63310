package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// parseWebhook parses a URL. Without TLS it must be on this machine.
func parseWebhook(text secret) (*url.URL, error) {
	u, err := url.Parse(string(text))
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, failure("the webhook is no http or https URL")
	case u.Scheme == "http" && !guard.Loopback(u.Hostname()):
		return nil, failure("the webhook is not on this machine: it has to be https")
	}
	return u, nil
}

// post sends a message to the webhook of a route.
func post(ctx context.Context, route *bcp.Route, place Place, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	text, err := place.read(route.Webhook)
	if err != nil {
		return err
	}
	u, err := parseWebhook(text)
	if err != nil {
		return err
	}
	body, header, err := encodeBody(route.Format, m)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return failure("the webhook is no http or https URL")
	}
	request.Header = header
	request.Header.Set("User-Agent", "bcpmesh")
	request.Header.Set("Idempotency-Key", m.ID)
	transport := fetch.NewServiceTransport(u.Scheme, webhookTimeout, errPlaintext)
	transport.DisableKeepAlives = true
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return failure("the webhook " + reason(err))
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply)) // so that the connection can be reused
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return failure("the webhook answers " + strconv.Itoa(response.StatusCode))
	}
	return nil
}

var errPlaintext = errors.New("not on this machine")

// encodeBody spells a message in the shape of a format.
func encodeBody(format bcp.WebhookFormat, m *Message) (body []byte, header http.Header, err error) {
	header = http.Header{"Content-Type": {"application/json"}}
	text := strings.Join(m.lines(), "\n")
	switch format {
	case bcp.WebhookSlack:
		body, err = json.Marshal(map[string]string{"text": "*" + slackText(m.Title) + "*\n" + slackText(text)})
	case bcp.WebhookNtfy:
		header.Set("Content-Type", "text/plain; charset=utf-8")
		header.Set("Title", m.Title)
		header.Set("Priority", map[bcp.Severity]string{bcp.SeverityInfo: "low", bcp.SeverityWarning: "high", bcp.SeverityCritical: "urgent"}[m.Severity])
		header.Set("Tags", "bcpmesh,"+m.Severity.String())
		if link := m.Notices[0].Link; link != "" {
			header.Set("Click", link)
		}
		body = []byte(text)
	case bcp.WebhookTeams:
		body, err = json.Marshal(teamsCard(m, text))
	default:
		body, err = json.Marshal(m)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write a notification: %w", err)
	}
	return body, header, nil
}

// teamsCard is a message of Microsoft Teams with an adaptive card. Rich text, unlike a text block, reads no Markdown.
func teamsCard(m *Message, text string) any {
	type object = map[string]any
	run := func(text string, bold bool) object {
		o := object{"type": "TextRun", "text": text}
		if bold {
			o["weight"] = "Bolder"
		}
		return object{"type": "RichTextBlock", "inlines": []object{o}}
	}
	card := object{"type": "AdaptiveCard", "$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "version": "1.4",
		"body": []object{run(m.Title, true), run(text, false)}}
	if link := m.Notices[0].Link; link != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": "Open", "url": link}}
	}
	return object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}}
}

func slackText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// reason says in our words why a server was not reached.
func reason(err error) string {
	var unknown *net.DNSError
	var timeout net.Error
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errPlaintext):
		return "is not on this machine: it has to be https"
	case errors.As(err, &host), errors.As(err, &authority), errors.As(err, &invalid):
		return "has a certificate that is not trusted"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "does not answer in time"
	case errors.As(err, &unknown):
		return "has a name that cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses connections"
	}
	return "cannot be reached"
}
