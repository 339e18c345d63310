package mailroom

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/examples"
)

// What the Reader makes of the shipped mail is written down for each, and an instruction that it
// takes over stands in the mail, word for word.
//
// covers BCP-18
func TestReadings(t *testing.T) {
	t.Parallel()
	readings, err := parseReadings(readingsFile)
	if err != nil {
		t.Fatal(err)
	}
	shipped, places := 0, map[string]bool{}
	for m, err := range mailbox.Messages(examples.Mail()) {
		shipped++
		if err != nil {
			t.Fatal(err)
		}
		r, known := readings[m.ID]
		if !known || r.Subject != m.Subject {
			t.Fatalf("mail %s, %q, is read as %+v", m.ID, m.Subject, r)
		}
		if r.Injection == nil {
			continue
		}
		attached := ""
		for _, a := range m.Attachments {
			attached += strings.ReplaceAll(a.Text, `\,`, ",") + "\n" + a.Name // as a calendar escapes it
		}
		text := map[string]string{"the subject": m.Subject, "the sender's name": m.From.Name, "the body": m.Text, "hidden text": m.Hidden, "the attachment": attached}[r.Injection.Place]
		if !strings.Contains(text, r.Injection.Text) || r.Injection.Text == "" || r.Injection.Plain == "" {
			t.Errorf("%s: %q is not in %s", m.Subject, r.Injection.Text, r.Injection.Place)
		}
		places[r.Injection.Place] = true
	}
	if shipped != len(readings) || len(places) != 5 {
		t.Errorf("%d mails, %d readings, planted in %v", shipped, len(readings), places)
	}
	if _, err := parseReadings([]byte(`[{"mail": "a", "mood": "good"}]`)); err == nil {
		t.Error("a key that nobody reads is taken")
	}
	if r := (&reader{}).of(&mailbox.Message{ID: "another"}); r.Pushes[0].Answer["kind"] != "other" || r.Injection != nil {
		t.Errorf("a strange mail is read as %+v", r)
	}
}
