package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset"
	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// oracleWords returns the words of texts that go-message finds in a mail, false if it refuses the mail.
func oracleWords(raw []byte) (words []string, ok bool) {
	e, err := message.Read(bytes.NewReader(raw))
	if err != nil {
		return nil, false
	}
	ok = true
	walk := e.Walk(func(_ []int, part *message.Entity, err error) error {
		if err != nil {
			return err
		}
		kind, _, err := part.Header.ContentType()
		if err != nil || !strings.HasPrefix(kind, "text/") {
			return err
		}
		text, err := io.ReadAll(part.Body)
		if err != nil {
			return err
		}
		if kind == "text/html" {
			doc, err := html.Parse(bytes.NewReader(text))
			if err != nil {
				return err
			}
			text = nil
			for n := range doc.Descendants() {
				if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" && n.Parent.Data != "noscript" {
					text = append(append(text, n.Data...), ' ')
				}
			}
		}
		words = append(words, letterWords(string(text))...)
		return nil
	})
	return words, ok && (walk == nil || errors.Is(walk, io.EOF))
}

func letterWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
}

// lost returns a word that go-message reads in a mail and this package does not, without a defect that says so.
func lost(raw []byte) string {
	words, ok := oracleWords(raw)
	m := parse(raw, int64(len(raw)), limits{message: MaxMessage, parts: 200, depth: 12, text: 1 << 20, attachmentText: 1 << 20})
	if !ok || len(m.Defects) > 0 {
		return ""
	}
	all := m.Text + "\n" + m.Hidden
	for _, a := range m.Attachments {
		all += "\n" + a.Text
	}
	have := map[string]bool{}
	for _, word := range letterWords(all) {
		have[word] = true
	}
	for _, word := range words {
		if !have[word] && !strings.Contains(strings.Join(letterWords(all), ""), word) {
			return word
		}
	}
	return ""
}

const soundHead = "From: A <a@example.com>\nDate: Mon, 2 Mar 2026 08:05:10 +0000\n"

// FuzzNothingIsLost asserts that every word of a text in a mail is shown, hidden, in an attachment, or that the mail has a
// defect. What there is, go-message says.
// covers BCP-18
func FuzzNothingIsLost(f *testing.F) {
	for _, raw := range shippedRaw(f) {
		f.Add(raw)
	}
	for _, seed := range []string{
		"\nplain", "Content-Type: text/html\n\n<p>html<p hidden>hidden", "Content-Type: multipart/mixed; boundary=q\n\nfront\n--q\n\none\n--q\nContent-Type: text/html\n\n<b>two\n--q--\nbehind",
		"Content-Type: multipart/alternative; boundary=q\n\n--q\n\none\n--q\nContent-Type: text/html\n\none two\n--q--\n", "Content-Transfer-Encoding: base64\n\nb25l\n", "Content-Transfer-Encoding: quoted-printable\n\non=65=\n\n",
	} {
		f.Add([]byte(soundHead + seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if word := lost(raw); word != "" {
			t.Errorf("%q is lost: %+v", word, Parse(raw))
		}
	})
}

// Of generated mails each text is found, as go-message finds it.
// covers BCP-18
func TestAgainstGoMessage(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-z]{3,8}`)
	var part func(t *rapid.T, depth int) string
	part = func(t *rapid.T, depth int) string {
		kind := rapid.SampledFrom([]string{"plain", "html", "csv", "mixed", "alternative", "related", "rfc822"}).Draw(t, "kind")
		switch {
		case depth == 0 || kind == "plain":
			disposition := rapid.SampledFrom([]string{"", "Content-Disposition: inline; filename=a.txt\n", "Content-Disposition: attachment\n"}).Draw(t, "disposition")
			return "Content-Type: text/plain; charset=utf-8\n" + disposition + "\n" + word.Draw(t, "word") + "\n"
		case kind == "html":
			return "Content-Type: text/html\n\n<p>" + word.Draw(t, "word") + "<p hidden>" + word.Draw(t, "word") + "<div>" + word.Draw(t, "word") + "\n"
		case kind == "csv":
			return "Content-Type: text/csv\nContent-Transfer-Encoding: quoted-printable\n\n" + word.Draw(t, "word") + "=\n" + word.Draw(t, "word") + "\n"
		case kind == "rfc822":
			return "Content-Type: message/rfc822\n\n" + soundHead + part(t, depth-1)
		}
		boundary := fmt.Sprintf("b%d%s", depth, word.Draw(t, "boundary"))
		var b strings.Builder
		fmt.Fprintf(&b, "Content-Type: multipart/%s; boundary=%q\n\n", kind, boundary)
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			b.WriteString("--" + boundary + "\n" + part(t, depth-1) + "\n")
		}
		return b.String() + "--" + boundary + "--\n"
	}
	rapid.Check(t, func(t *rapid.T) {
		raw := soundHead + part(t, 3)
		m := Parse([]byte(raw))
		if word := lost([]byte(raw)); word != "" || m.Has(BadStructure) || m.Has(BadHeader) || m.Has(BadEncoding) {
			t.Fatalf("%s\n%q is lost: %+v", raw, word, m)
		}
	})
}
