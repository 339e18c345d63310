package mailroom

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/examples"
)

// What the Reader makes of the shipped mail is written down for each, and an instruction that it
// takes over stands in the mail, word for word.
//
// covers BCP-18
func TestReadings(t *testing.T) {
	t.Parallel()
	readings := must(parseReadings(readingsFile))(t)
	shipped, places := 0, map[string]bool{}
	for m, err := range mailbox.Messages(examples.Mail()) {
		shipped++
		noError(t, err)
		r, known := readings[m.ID]
		stopIf(t, !known || r.Subject != m.Subject, "mail %s, %q, is read as %+v", m.ID, m.Subject, r)
		if r.Injection == nil {
			continue
		}
		attached := ""
		for _, a := range m.Attachments {
			attached += strings.ReplaceAll(a.Text, `\,`, ",") + "\n" + a.Name // as a calendar escapes it
		}
		text := map[string]string{"the subject": m.Subject, "the sender's name": m.From.Name, "the body": m.Text, "hidden text": m.Hidden, "the attachment": attached}[r.Injection.Place]
		failIf(t, !strings.Contains(text, r.Injection.Text) || r.Injection.Text == "" || r.Injection.Plain == "",
			"%s: %q is not in %s", m.Subject, r.Injection.Text, r.Injection.Place)
		places[r.Injection.Place] = true
	}
	failIf(t, shipped != len(readings) || len(places) != 5,
		"%d mails, %d readings, planted in %v", shipped, len(readings), places)
	_, err := parseReadings([]byte(`[{"mail": "a", "mood": "good"}]`))
	failIf(t, err == nil, "a key that nobody reads is taken")
	r := (&reader{}).of(&mailbox.Message{ID: "another"})
	failIf(t, r.Pushes[0].Answer["kind"] != "other" || r.Injection != nil, "a strange mail is read as %+v", r)
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
