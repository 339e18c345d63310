package mesh_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// However much waits, and however large what was delivered before is, an
// approver gets a list and can look at what is on it: of its own channel, and of
// one beside it that has the same Controller.
//
// covers P7.1, P7.4, A-SCROLL, BCP-118
func TestApproversAreNotBuried(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"main.md": agentFile("main", "",
			controls("mailer", 10_000_000, "max_pending_approvals: 10000\nwindow_budget_bits: 100000000", alerts+`
  - id: books
    category: 2
    questions: [{id: book, question: "?", max_words: 1000, expected_format: short_text}]`),
			controls("clerk", 1000, alerts)),
		"mailer.md": agentFile("mailer", "", reads("main")), "clerk.md": agentFile("clerk", "", reads("main")),
		"mesh.yaml": people,
	}
	m := meshtest.Start(t, files)
	main, mailer := connect(t, m)
	clerk, ann := reader(t, m, "clerk"), approver(t, m, "ann")
	text := must(json.Marshal(strings.Repeat(strings.Repeat("キ", 24)+" ", 1000)))
	for range 20 {
		succeeded(t, mailer.Push(t, "main", "books", `{"book":`+string(text)+`}`, ""))
		main.delivery(t)
	}
	r := clerk.Push(t, "main", "digest", `{"summary":"All is well."}`, "")
	stopIf(t, r.Text("status") != "held", "%v", r.JSON)
	view := ann.first(t)
	failIf(t, view.Reader != "clerk" || len(view.Earlier) == 0 || view.Earlier[len(view.Earlier)-1].Subscription != "books",
		"the view has %d earlier releases", len(view.Earlier))
	// Thousands of items of one channel.
	const n = 4000
	results := mailer.Listen(t, subjects.InboxPrefix("mailer")+".r")
	for i := range n {
		message := meshtest.PushText("main", "digest", `{"summary":"Look at me."}`, fmt.Sprintf(`,"push_id":"p%d"`, i))
		noError(t, mailer.PublishRequest(subjects.Push("mailer", "main", "digest"), subjects.InboxPrefix("mailer")+".r", []byte(message)))
	}
	for range n {
		r := results.Next(t)
		stopIf(t, r.Text("status") != "held", "%v", r.JSON)
	}
	items := ann.items(t)
	failIf(t, len(items) < 100 || items[0].Reader != "clerk" && items[1].Reader != "clerk", "%d items are listed", len(items))
	ann.decided(t, approves(ann.view(t, view.ID)))
	carries(t, main.delivery(t), "from_agent", "clerk", "delivery")
	expect(t, m.Count(func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Verdict == bcp.Hold }), n+1, "items wait")
}
