package subjects_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/subjects"
)

// covers P2.5, P11.5
func TestFamily(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		subjects.Push("mailer", "main", "alerts"): "push", "bcp.v1.push.>": "push", "bcp.v1.push": "push", "bcp.v1.push.kanarienvogel nachtigall": "push",
		"bcp.v1.*": "", "bcp.v1.>": "", "bcp.v1.": "", "bcp.v1.pushed.a": "", "bcp.v2.push.a": "", "bcp.push": "", "kanarienvogel": "", "": "", ">": "",
		subjects.Usage("mailer"): "usage", subjects.Control("reload"): "control", subjects.Commit(): "commit", subjects.Alerts(): "alert",
		"$JS.API.STREAM.LIST": subjects.FamilyStreams, "BCPJS.DIRECT.GET.X": subjects.FamilyStreams, "$KV.a": subjects.FamilyStreams, "$JSX": "",
		"$SYS.REQ.>": subjects.FamilySystem, "_INBOX.a": subjects.FamilyInbox, "_INBOX.main.a": subjects.FamilyInbox, "_R_.x": subjects.FamilyInbox,
	} {
		expect(t, subjects.Family(subject), want, "%q", subject)
	}
}

// A family is a word of a closed list, whatever the subject.
//
// covers P2.5
func TestFamiliesAreClosed(t *testing.T) {
	t.Parallel()
	words := []string{"", subjects.FamilyStreams, subjects.FamilySystem, subjects.FamilyInbox}
	for k := subjects.KindAsk; k <= subjects.KindAlert; k++ {
		words = append(words, k.String())
	}
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]string{"", "bcp.v1.", "bcp.v1.push.", "$JS.", "_INBOX"}).Draw(t, "begin")
		got := subjects.Family(begin + rapid.String().Draw(t, "subject"))
		stopIf(t, !slices.Contains(words, got), "a family of its own: %q", got)
	})
	rapid.Check(t, func(t *rapid.T) {
		if s := anySubject(t); subjects.Family(s.String()) != s.Kind.String() {
			t.Fatalf("%s is of the family %q", s.String(), subjects.Family(s.String()))
		}
	})
}
