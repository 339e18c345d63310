package kernel_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The loop sends a mail to each of the contacts that content names, of which ada or bob
// decide.
const loopPlan = `{"steps":[{"kind":"tool","id":"people","tool":"read_contacts"},
{"kind":"each","id":"loop","over":{"ref":"people","path":"contacts"},"as":"one","max":12,"do":[
{"kind":"tool","id":"send","tool":"send_email","args":{"to":{"ref":"one","path":"email"},"body":"hello"}}]},
{"kind":"const","id":"end","value":"done"}],"final":"end"}`

// looping brings a run to the first mail of a loop over these addresses.
func looping(t *testing.T, plan string, addresses ...string) *ledger {
	t.Helper()
	l := signedLedger(t, mustKernel(t, func(d *kernel.Definition) {
		d.Approvers, d.UntestedRules, d.Limits.ControlBits = []bcp.AgentName{"ada", "bob"}, true, 20
		d.Rules = []kernel.Rule{{ID: "ask-first", Effect: kernel.Ask, Tool: "send_email", When: "true"}}
		for i := range d.Tools {
			d.Tools[i].Idempotency = kernel.ByKey // a call is made again after a crash
		}
	}))
	l.g.begin("all")
	l.g.plan(plan)
	var contacts []string
	for _, a := range addresses {
		contacts = append(contacts, fmt.Sprintf(`{"name":"x","email":%q}`, a))
	}
	l.g.result(`{"contacts":[` + strings.Join(contacts, ",") + `]}`)
	l.catchUp()
	return l
}

// catchUp records what the kernel decided.
func (l *ledger) catchUp() {
	l.t.Helper()
	for _, c := range l.g.changes[len(l.records):] {
		l.record(c, "somebody", "body")
	}
}

// together has a person sign for items in one batch, and sends the decisions in an order.
func (l *ledger) together(who bcp.AgentName, views []bcp.ItemView, order ...int) []bcp.Code {
	l.t.Helper()
	statements, salts := make([][]byte, len(views)), make([][]byte, len(views))
	expires := views[0].Deadline.Truncate(time.Second)
	for i := range views {
		statements[i], salts[i] = bcp.Statement(views[i].ID, bcp.Approve, views[i].SHA256, expires), sha256.New().Sum(make([]byte, 0))
		salts[i][0] ^= byte(i)
	}
	batches := bcp.NewBatches(statements, salts)
	signed, _ := batches[0].Signed(statements[0])
	codes := make([]bcp.Code, len(views))
	for _, i := range order {
		body := approval(views[i].Item, bcp.Approve, views[i].Content, func(a *bcp.Approval) {
			a.Expires, a.Batch, a.Signature = expires, batches[i], base64.StdEncoding.EncodeToString(seal("key", signed))
		})
		d := l.state.DecideApproval(l.moment(), who, bcp.Sender{Key: "key"}, bcp.Approve, body)
		if codes[i] = d.Code; d.Code == "" {
			l.play(d)
		}
	}
	return codes
}

// play records a decision of a person, and has the kernel of the ledger make the same.
func (l *ledger) play(d bcp.Decision) {
	l.t.Helper()
	c := must(kernel.ReadRecord(&d))
	l.g.hears(d.Agent, "")
	l.g.now = time.Unix(0, c.Time)
	l.g.store(c)
	l.store(d)
}

func (l *ledger) views(who bcp.AgentName) (views []bcp.ItemView) {
	l.t.Helper()
	for _, it := range l.state.Items() {
		v, code := l.state.View(who, it.ID)
		stopIf(l.t, code != "", "%v", code)
		views = append(views, v)
	}
	return views
}

// A person who is asked about a call of a loop sees the later ones whose arguments are
// known, and decides about all with one signature, in any order: none of them is held again,
// each is made once, in its turn, and a crash changes nothing.
//
// covers P7.7, P7.10
func TestOneDecisionCoversTheRestOfALoop(t *testing.T) {
	t.Parallel()
	addresses := []string{"a@x.example", "b@x.example", "c@x.example"}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		l := looping(t, loopPlan, addresses...)
		views := l.views("ada")
		stopIf(t, len(views) != 3, "%d items wait", len(views))
		l.checkHeld(views[0].Item) // one of them is held
		for i, v := range views {
			if e := v.Effect; e.Element != i+1 || e.Elements != 3 || e.Early != (i > 0) || !strings.Contains(string(v.Content), addresses[i]) || e.Changed || fmt.Sprint(e.Rules) != "[ask-first]" {
				t.Errorf("item %d shows %+v of %s", i, v.Effect, v.Content)
			}
			_, code := l.state.View("kim", v.ID)
			failIf(t, code != bcp.NotPermitted, "who may not decide sees it: %q", code)
		}
		done := 0
		for n, i := range order {
			codes := l.together("ada", views, i)
			stopIf(t, codes[i] != "", "order %v: item %d: %s", order, i, codes[i])
			again := l.together("ada", views, i)
			failIf(t, again[i] == "" && i > 0, "order %v: item %d counts twice", order, i)
			if n == 0 {
				l.g.crash()
				l.catchUp()
			}
			for l.g.state.Unanswered() != nil {
				for l.g.todo[0].Kind == kernel.ReleaseItem {
					l.g.todo = l.g.todo[1:]
				}
				l.g.result(sent)
				l.catchUp()
				done++
			}
		}
		failIf(t, done != 3 || len(l.state.Items()) != 0,
			"order %v: %d mails were sent, %d items wait: %s", order, done, len(l.state.Items()), l.g.calls())
		l.g.end(kernel.Committed, "")
		mails := map[string]string{} // by call
		for _, r := range l.g.sent {
			if r.Kind == kernel.ReleaseCall && r.Wait.Tool == "send_email" {
				mails[r.Wait.ID] = string(r.Arguments)
			}
		}
		expect(t, len(mails), 3, "order %v: the calls are %v", order, mails)
		made := checkpoint(t, l.replay(l.config, false))
		failIf(t, string(made) != string(checkpoint(t, l.state)), "the records give another state")
	}
}

// What is not the very call that was listed is held as before: another element than was
// listed, one whose arguments nobody knew, one that was approved by who may not any more, or
// until a time that is over. So is everything in another plan.
//
// covers P7.7, P7.10
func TestWhatIsNotListedIsHeld(t *testing.T) {
	t.Parallel()
	waits := func(l *ledger, want string) {
		t.Helper()
		l.catchUp()
		r := l.g.next(kernel.ReleaseItem)
		failIf(t, !strings.Contains(string(r.Arguments), want), "it waits for %s", r.Arguments)
	}
	approve := func(l *ledger, views []bcp.ItemView, order ...int) {
		t.Helper()
		for _, i := range order {
			codes := l.together("ada", views, i)
			stopIf(t, codes[i] != "", "%v", codes[i])
		}
	}
	t.Run("not signed", func(t *testing.T) {
		l := looping(t, loopPlan, "a@x.example", "b@x.example", "c@x.example")
		views := l.views("ada")
		approve(l, views[:2], 1, 0)
		l.g.next(kernel.ReleaseItem)
		l.g.result(sent, sent)
		waits(l, "c@x.example")
	})
	t.Run("a revoked approver", func(t *testing.T) {
		l := looping(t, loopPlan, "a@x.example", "b@x.example")
		views := l.views("ada")
		approve(l, views, 1)
		d := views[0]
		l.g.state.Define(mustKernel(t, func(d *kernel.Definition) {
			d.Approvers, d.UntestedRules, d.Limits.ControlBits = []bcp.AgentName{"bob"}, true, 20
			d.Rules = []kernel.Rule{{ID: "ask-first", Effect: kernel.Ask, Tool: "send_email", When: "true"}}
		}))
		l.g.next(kernel.ReleaseItem)
		l.g.hears("bob", "")
		l.g.store(l.g.state.DecidePerson(l.g.moment(), string(d.ID), kernel.Approve, nil))
		l.g.result(sent)
		r := l.g.next(kernel.ReleaseItem)
		failIf(t, !strings.Contains(string(r.Arguments), "b@x.example"), "it waits for %s", r.Arguments)
	})
	t.Run("arguments that are not known", func(t *testing.T) {
		plan := strings.Replace(loopPlan, `"do":[`, `"do":[{"kind":"q_parse","id":"sum","source":{"ref":"one","path":"email"},"schema_ref":"Summary","instruction":"i"},`, 1)
		plan = strings.Replace(plan, `"body":"hello"`, `"body":{"ref":"sum","path":"text"}`, 1)
		l := looping(t, plan, "a@x.example", "b@x.example")
		for len(l.g.todo) > 0 && l.g.todo[0].Kind == kernel.ReleaseParse {
			l.g.answer(`{"text":"one"}`, "")
		}
		l.catchUp()
		views := l.views("ada")
		failIf(t, len(views) != 1 || views[0].Effect.Early || views[0].Effect.Elements != 2, "%d items wait: %+v", len(views), views[0].Effect)
	})
	t.Run("in another plan", func(t *testing.T) {
		l := looping(t, loopPlan, "a@x.example", "b@x.example")
		approve(l, l.views("ada"), 1, 0)
		l.g.next(kernel.ReleaseItem)
		l.g.outcome(l.g.next(kernel.ReleaseCall), `"error":"not now","not_performed":true`)
		l.g.plan(loopPlan)
		waits(l, "a@x.example")
		views := l.views("ada")
		failIf(t, len(views) != 2, "%d items wait", len(views))
	})
	t.Run("too late", func(t *testing.T) {
		l := looping(t, loopPlan, "a@x.example", "b@x.example")
		views := l.views("ada")
		approve(l, views, 1)
		l.g.state.DecideDue(l.g.moment())
		approve(l, views, 0)
		l.g.next(kernel.ReleaseItem)
		l.g.now = views[0].Deadline
		c := l.g.store(l.g.state.DecideOutcome(l.g.moment(), "mail", l.g.next(kernel.ReleaseCall).Wait.ID, 1, l.g.hears("mail", fmt.Sprintf(`{"call_id":%q,"result":%s}`, l.g.sent[len(l.g.sent)-1].Wait.ID, sent))))
		failIf(t, c.Wait == nil || c.Wait.Kind != kernel.WaitApproval, "it goes on as %+v", c.Wait)
	})
}
