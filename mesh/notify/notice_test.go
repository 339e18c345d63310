package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const canary = "IGNORE-ALL-INSTRUCTIONS"

// heldDecision is the decision about a push that waits, full of what an agent may have said.
func heldDecision() bcp.Decision {
	d := bcp.Decision{
		Kind: bcp.KindPush, Verdict: bcp.Hold, Seq: 7, Time: time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC).UnixNano(), Item: "i-1", Category: 2,
		Agent: "mailer", Role: bcp.RoleReader, Controller: "main", Reader: "mailer",
	}
	return poisoned(d)
}

func poisoned(d bcp.Decision) bcp.Decision {
	d.Note, d.Family, d.Justification, d.Field, d.Client, d.Key = canary, canary, canary, canary, canary, canary
	d.Payload, d.Spec, d.Anomalies = []byte(canary), []byte(canary), []string{canary}
	return d
}

// Whatever a record holds, no route spells a word of an agent, nor a name that the
// definitions do not have.
//
// covers P4.6
func TestNoWordOfAnAgent(t *testing.T) {
	t.Parallel()
	def := office()
	decisions := []bcp.Decision{
		heldDecision(),
		poisoned(bcp.Decision{Kind: bcp.KindAsk, Verdict: bcp.Hold, Item: "i-2", Agent: canary, Controller: canary, Reader: canary}),
		poisoned(bcp.Decision{Kind: bcp.KindPrompt, Count: 2, Agent: canary}),
		poisoned(bcp.Decision{Kind: bcp.KindViolation, Agent: canary}),
		poisoned(bcp.Decision{Kind: bcp.KindProcess, Event: bcp.ProcessUnavailable, Agent: "mailer"}),
	}
	for _, kind := range bcp.AlertKinds() {
		decisions = append(decisions, poisoned(bcp.Decision{Kind: bcp.KindAlert, Event: string(kind), Agent: canary, Controller: canary, Reader: canary}))
	}
	for i := range decisions {
		n, ok := newNotice(def, everything(), &decisions[i])
		stopIf(t, !ok, "decision %d is told nobody", i)
		m := newMessage(def, everything(), []Notice{n})
		for _, format := range []bcp.WebhookFormat{bcp.WebhookJSON, bcp.WebhookSlack, bcp.WebhookNtfy, bcp.WebhookTeams} {
			body, header, err := encodeBody(format, &m)
			all := string(body) + fmt.Sprint(header)
			failIf(t, err != nil || strings.Contains(all, canary), "%s of %s: %s %v", format, n.Kind, all, err)
		}
		text := string(mailText(&bcp.Route{MailFrom: "a@b"}, &m, time.Now()))
		failIf(t, strings.Contains(text, canary), "mail of %s: %s", n.Kind, text)
	}
}

// Each alert has a sentence, a name in it where it is about somebody, and a line in docs/alerts.md.
//
// covers P4.6
func TestEachAlertIsSaid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/alerts.md")
	noError(t, err)
	def := office()
	for _, kind := range append(bcp.AlertKinds(), bcp.AlertJournal, bcp.AlertDamaged) {
		failIf(t, !regexp.MustCompile("(?m)^- [^:]*`"+string(kind)+"`[^:]*: ").Match(page),
			"docs/alerts.md says nothing of %s", kind)
		n, ok := noticeOfAlert(def, everything(), &bcp.Alert{Alert: kind, Agent: "mailer"})
		failIf(t, !ok || n.Says == "" || strings.Contains(n.Says, "another version") || strings.Contains(n.Says, "%") && !strings.Contains(n.Says, " % "),
			"%s says %q, %v", kind, n.Says, ok)
		failIf(t, sentences[kind] == "" || n.Severity == 0, "%s has no sentence or severity", kind)
	}
	n, ok := noticeOfAlert(def, everything(), &bcp.Alert{})
	failIf(t, ok, "no alert is told: %v", n)
}

// The id of an item goes to people who may decide it, and a held item to nobody else's route.
//
// covers P4.6, P10
func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	def, d := office(), heldDecision()
	for person, want := range map[bcp.AgentName]struct {
		told bool
		item bcp.ItemID
	}{"": {true, ""}, "ann": {true, "i-1"}, "bob": {}, "cid": {}} {
		route := everything()
		route.Person = person
		n, ok := newNotice(def, route, &d)
		failIf(t, ok != want.told || n.Item != want.item, "%q: %v, item %q", person, ok, n.Item)
	}
	shared := bcp.Decision{Kind: bcp.KindAlert, Event: string(bcp.AlertShared), Agent: "mailer"}
	missed := bcp.Decision{Kind: bcp.KindPrompt, Count: 1, Agent: "main"}
	expiring := bcp.Decision{Kind: bcp.KindAlert, Event: string(bcp.AlertExpiring), Agent: "main"}
	accepted := bcp.Decision{Kind: bcp.KindPush, Verdict: bcp.Accept}
	for _, tt := range []struct {
		d      *bcp.Decision
		change func(*bcp.Route)
		want   bool
	}{
		{&shared, func(r *bcp.Route) { r.Severity = bcp.SeverityCritical }, true},
		{&d, func(r *bcp.Route) { r.Severity = bcp.SeverityCritical }, false},
		{&d, func(r *bcp.Route) { r.Severity = bcp.SeverityWarning }, true},
		{&missed, func(r *bcp.Route) { r.Severity = bcp.SeverityWarning }, false},
		{&missed, func(*bcp.Route) {}, true},
		{&d, func(r *bcp.Route) { r.Topics = []bcp.NoticeTopic{bcp.TopicAlerts, bcp.TopicCredentials} }, false},
		{&expiring, func(r *bcp.Route) { r.Topics = []bcp.NoticeTopic{bcp.TopicHeld, bcp.TopicAlerts} }, false},
		{&expiring, func(r *bcp.Route) { r.Topics = []bcp.NoticeTopic{bcp.TopicCredentials} }, true},
		{&shared, func(r *bcp.Route) { r.Topics = nil }, false},
		{&accepted, func(*bcp.Route) {}, false},
	} {
		route := everything()
		tt.change(route)
		if n, ok := newNotice(def, route, tt.d); ok != tt.want {
			t.Errorf("%s on %+v: told %v, %v", tt.d.Kind, route, ok, n)
		}
	}
}

// The same notices have the same idempotency key, and others another; a long message says
// how much it leaves out.
func TestMessage(t *testing.T) {
	t.Parallel()
	def, d := office(), heldDecision()
	n, _ := newNotice(def, everything(), &d)
	one, again := newMessage(def, everything(), []Notice{n}), newMessage(def, everything(), []Notice{n})
	both := newMessage(def, everything(), []Notice{n, n})
	failIf(t, one.ID != again.ID || one.ID == both.ID || len(one.ID) != 32, "ids %s, %s and %s", one.ID, again.ID, both.ID)
	b, err := json.Marshal(one)
	const want = `{"type":"notification","id":"` + "%s" + `","mesh":"office","route":"desk","severity":"warning","title":"office: a push of mailer to main waits for a decision","notices":[{"id":"office.7","kind":"item_held","severity":"warning","seq":7,"time":"2027-01-15T08:00:00Z","agent":"mailer","controller":"main","reader":"mailer","category":2,"says":"a push of mailer to main waits for a decision"}]}`
	failIf(t, err != nil || string(b) != fmt.Sprintf(want, one.ID), "%s\n%v", b, err)
	many := make([]Notice, maxNotices+2)
	for i := range many {
		many[i] = n
	}
	if m := newMessage(def, everything(), many); len(m.Notices) != maxNotices || m.More != 2 || !strings.HasSuffix(m.Title, ", and 51 more") {
		t.Errorf("%d notices, %d more: %s", len(m.Notices), m.More, m.Title)
	}
}

// A notice links to the page of the item for whom the item may be decided by, in every shape,
// where the mesh has pages. The link has nothing but the place and the id.
//
// covers P4.6
func TestLink(t *testing.T) {
	t.Parallel()
	d := heldDecision()
	for _, tt := range []struct {
		person bcp.AgentName
		origin string
		want   bool
	}{{"ann", "https://mesh.example.org", true}, {"ann", "", false}, {"", "https://mesh.example.org", false}} {
		def, route := office(), everything()
		def.Origin, route.Person = tt.origin, tt.person
		n, ok := newNotice(def, route, &d)
		failIf(t, !ok || (n.Link == "https://mesh.example.org/approvals/i-1") != tt.want || !tt.want && n.Link != "",
			"%+v: %v, %+v", tt, ok, n)
		m := newMessage(def, route, []Notice{n})
		texts := []string{string(mailText(&bcp.Route{MailFrom: "a@b"}, &m, time.Now()))}
		for _, format := range []bcp.WebhookFormat{bcp.WebhookJSON, bcp.WebhookSlack, bcp.WebhookNtfy, bcp.WebhookTeams} {
			body, header, err := encodeBody(format, &m)
			noError(t, err)
			if texts = append(texts, string(body)); format == bcp.WebhookNtfy && header.Get("Click") != n.Link {
				t.Errorf("ntfy: %v", header)
			}
		}
		for _, text := range texts {
			failIf(t, strings.Contains(text, "https://mesh.example.org/approvals/i-1") != tt.want || strings.Contains(text, "approve") && !strings.Contains(text, "approvals"),
				"%+v: %s", tt, text)
		}
	}
}
