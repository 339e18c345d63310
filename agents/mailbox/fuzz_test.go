package mailbox

import (
	"testing"
	"unicode/utf8"
)

// checkMessage holds for every message, whoever wrote it.
func checkMessage(t *testing.T, m *Message, limits limits) {
	t.Helper()
	texts := []string{m.Subject, m.Text, m.Hidden, m.From.Name, m.From.Address, m.ReplyTo}
	for _, a := range m.Attachments {
		texts = append(texts, a.Name, a.Type, a.Text)
		failIf(t, len(a.Text) > limits.attachmentText, "attachment text of %d bytes", len(a.Text))
	}
	for _, s := range texts {
		failIf(t, !utf8.ValidString(s), "not UTF-8: %q", s)
	}
	if len(m.ID) != 16 || len(m.Text) > limits.text || len(m.Hidden) > limits.text ||
		len(m.Attachments) > limits.parts || len(m.To) > maxRecipients {
		t.Errorf("past a limit: %+v", m)
	}
}

// covers BCP-18, A-CRASH
func FuzzMessage(f *testing.F) {
	for _, raw := range shippedRaw(f) {
		f.Add(raw)
	}
	f.Add([]byte(nestedMail(20)))
	f.Add([]byte(attachedMail(20)))
	f.Add([]byte("Content-Type: text/html\n\n<p hidden><p style=\"color:red;background:red\">x<!-- y --></p>"))
	f.Add([]byte("From: <\nDate: x\nReceived: ;\nContent-Type: multipart/mixed\n\n"))
	limits := limits{message: 1 << 16, parts: 20, depth: 5, text: 4096, attachmentText: 1024}
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkMessage(t, parse(raw, int64(len(raw)), limits), limits)
	})
}
