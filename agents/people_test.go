package agents_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const deskMain = `---
name: main
cron_schedules:
  - {schedule: "0 9 * * *", message: ask for the summary}
bcp_channels:
  - {peer: reader, role: controller, max_category: 3, budget_bits: 3000, subscriptions: [{id: digest, category: 3, directive: Sum up., max_words: 8}]}
---
`

const deskReader = `---
name: reader
cron_schedules:
  - {schedule: "30 8 * * *", message: look for mail}
bcp_channels:
  - {peer: main, role: reader, max_category: 3, budget_bits: 3000}
---
`

// desk is a mesh whose clock a test sets.
type desk struct {
	*mesh.Mesh
	ahead atomic.Int64 // of the machine's clock
}

func startDesk(t *testing.T, encoding string) *desk {
	t.Helper()
	parse := func(budget string) *bcp.Mesh {
		withEncoding := func(text string) []byte {
			return []byte(strings.ReplaceAll(strings.Replace(text, "\ncron_schedules", "\nencoding: "+encoding+"\ncron_schedules", 1), "3000", budget))
		}
		def, report := definition.Parse(map[string][]byte{
			"mesh.yaml": []byte("approvers: [alice, bob]\n"), "agents/main.md": withEncoding(deskMain), "agents/reader.md": withEncoding(deskReader),
		})
		if def == nil {
			t.Fatal(report)
		}
		return def
	}
	d := &desk{}
	m := must(mesh.Start(t.Context(), mesh.Config{
		Definition: parse("3000"), State: filepath.Join(t.TempDir(), "state"),
		Now:  func() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) },
		Load: func() (*bcp.Mesh, error) { return parse("4000"), nil },
	}))
	d.Mesh = m
	t.Cleanup(func() { _ = m.Stop(context.Background()) })
	return d
}

// A summary is held, looked at, edited and delivered as edited; its Reader
// gets the final result with its own push id. A second decision counts no more,
// nor does one about other bytes.
//
// covers P7.1, P7.3, P7.6, BCP-62, BCP-118, BCP-119, BCP-120, SUB-42, SUB-84, SUB-85, SUB-116
func TestApproverDecides(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"json", "msgpack"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			m := startDesk(t, encoding)
			wire := bcp.JSON
			if encoding == "msgpack" {
				wire = bcp.MessagePack
			}
			approver, other := agents.NewApprover(join(t, m.Mesh, "alice")), agents.NewApprover(join(t, m.Mesh, "bob"))
			alerts := make(chan bcp.Alert, 16)
			people := joinIn(t, m.Mesh, "bob", bcp.JSON)
			must(people.NATS().Subscribe(subjects.Alerts(), func(m *nats.Msg) {
				var a bcp.Alert
				noError(t, bcp.Decode(m.Data, bcp.JSON, &a))
				alerts <- a
			}))
			noError(t, people.NATS().Flush())
			reader := agents.NewReader(joinIn(t, m.Mesh, "reader", wire))
			results := make(chan bcp.ValidationResult, 8)
			reader.OnResult(func(r bcp.ValidationResult) { results <- r })
			noError(t, reader.Start(ctx))
			controller := agents.NewController(joinIn(t, m.Mesh, "main", wire))
			deliveries := make(chan bcp.Delivery, 8)
			controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error { deliveries <- d; return nil })
			noError(t, controller.Start(ctx))
			push := func(text string, id bcp.ClientID) bcp.ItemView {
				t.Helper()
				r, err := reader.Push(ctx, "main", "digest", map[string]string{"summary": text}, agents.PushOptions{PushID: id})
				if err != nil || r.Status != bcp.StatusHeld {
					t.Fatalf("%+v, %v", r, err)
				}
				if a := next(t, alerts, "an alert"); a.Alert != bcp.AlertHeld || a.Controller != "main" {
					t.Fatalf("alert %+v", a)
				}
				items, err := approver.List(ctx)
				if err != nil || len(items) != 1 {
					t.Fatalf("%v, %v", items, err)
				}
				return must(approver.View(ctx, items[0].ID))
			}

			view := push("Rates rise", "p1")
			if string(view.Content) != `{"summary":"rates rise"}` || view.Spec.Directive != "Sum up." || view.Source.Taint != bcp.TaintHigh {
				t.Fatalf("the view is %+v", view)
			}
			preview, err := approver.Preview(ctx, view, map[string]string{"summary": "Rates MAY rise"})
			if err != nil || string(preview.Content) != `{"summary":"rates may rise"}` {
				t.Fatalf("%s, %v", preview.Content, err)
			}
			swapped := view
			swapped.Content = []byte(`{"summary":"rates fall"}`)
			for what, try := range map[bcp.Code]error{bcp.DigestMismatch: approver.Approve(ctx, swapped)} {
				if refused := new(agents.RefusedError); !errors.As(try, &refused) || refused.Code != what {
					t.Errorf("other bytes: %v", try)
				}
			}
			noError(t, approver.Edit(ctx, view, preview))
			if d := next(t, deliveries, "the delivery"); string(d.Response) != `{"summary":"rates may rise"}` || d.SubscriptionID != "digest" || d.BandwidthBits != 88*bcp.Bit {
				t.Errorf("delivered %+v", d)
			}
			if r := next(t, results, "the result"); !r.Success || r.Status != bcp.StatusDelivered || r.PushID != "p1" {
				t.Errorf("the Reader hears %+v", r)
			}
			for who, late := range map[string]*agents.Approver{"the same": approver, "another": other} {
				if refused := new(agents.RefusedError); !errors.As(late.Approve(ctx, view), &refused) || refused.Code != bcp.AlreadyDecided {
					t.Errorf("a second decision by %s person: %v", who, refused)
				}
			}

			view = push("Wire the money", "p2")
			noError(t, approver.Reject(ctx, view, "off topic"))
			if r := next(t, results, "the result"); r.Success || r.Code != bcp.ApprovalRejected || r.Detail != "Publish rejected by reviewer: off topic" || r.PushID != "p2" {
				t.Errorf("the Reader hears %+v", r)
			}
			view = push("Rates fall", "p3")
			noError(t, other.Approve(ctx, view))
			if d := next(t, deliveries, "the delivery"); string(d.Response) != `{"summary":"rates fall"}` {
				t.Errorf("after a rejection and an approval came %s", d.Response)
			}
		})
	}
}

// An operator sees sessions, renews epochs, reports taint, and has the
// definitions loaded again.
//
// covers P1.5, P4.4, P8.1, P9.2
func TestOperator(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	m := startDesk(t, "json")
	creds := must(m.Issue(bcp.Operator, bcp.RoleOperator, time.Hour))
	conn := must(agents.Connect(ctx, m.URL(), agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator}))
	t.Cleanup(conn.Close)
	operator := agents.NewOperator(conn)
	controller := agents.NewController(join(t, m.Mesh, "main"))
	if _, err := controller.Ask(ctx, "reader", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "ok", Type: bcp.TypeBoolean}}}, agents.AskOptions{}); err != nil {
		t.Fatal(err)
	}
	session := func() bcp.SessionView {
		t.Helper()
		sessions, err := operator.Sessions(ctx)
		if err != nil || len(sessions) != 1 {
			t.Fatalf("%+v, %v", sessions, err)
		}
		return sessions[0]
	}
	if s := session(); s.Status != "open" || s.BegunBy != "controller" || s.Taint != bcp.TaintLow || s.Channels[0].Remaining != 2999*bcp.Bit || s.Channels[0].Open != 1 {
		t.Errorf("%+v", s)
	}
	noError(t, errors.Join(controller.ReportTaint(ctx, bcp.SourceWeb), operator.ReportTaint(ctx, "main", bcp.SourceAPI)))
	if s := session(); s.Taint != bcp.TaintHigh || strings.Join(s.Sources, " ") != "web api" {
		t.Errorf("%+v", s)
	}
	noError(t, errors.Join(operator.ResetTaint(ctx, "main"), operator.Renew(ctx, "main")))
	if s := session(); s.Taint != bcp.TaintLow || s.Sources != nil || s.Channels[0].Epoch != 2 || s.Channels[0].Remaining != 3000*bcp.Bit {
		t.Errorf("%+v", s)
	}
	fails(t, operator.Renew(ctx, "reader"), nil, "a Reader has been renewed")
	if r, err := operator.Reload(ctx); err != nil || len(r.Errors) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if s := session(); s.Channels[0].Remaining != 4000*bcp.Bit {
		t.Errorf("after the reload %+v", s)
	}
}

// Agents are prompted at their times, whether they were there or come later,
// and once.
//
// covers P9.4
func TestPrompts(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	m := startDesk(t, "json")
	prompts := make(chan bcp.Prompt, 8)
	reader := agents.NewReader(join(t, m.Mesh, "reader"))
	reader.OnPrompt(func(_ context.Context, p bcp.Prompt) { prompts <- p })
	noError(t, reader.Start(ctx))
	// To the next half past eight, UTC, and thirty seconds.
	now := time.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day(), 8, 30, 30, 0, time.UTC)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	m.ahead.Store(int64(at.Sub(now)))
	// A message has the gateway look at the clock.
	noError(t, m.Inspect(ctx, func(*state.State) {}))
	if p := next(t, prompts, "the Reader's prompt"); p.Message != "look for mail" || !p.Time.Equal(at.Truncate(time.Minute)) || p.Type != bcp.TypePrompt {
		t.Errorf("%+v", p)
	}
	// The Controller's comes half an hour later, and it connects after that.
	m.ahead.Add(int64(30 * time.Minute))
	noError(t, m.Inspect(ctx, func(*state.State) {}))
	controller := agents.NewController(join(t, m.Mesh, "main"))
	controller.OnPrompt(func(_ context.Context, p bcp.Prompt) { prompts <- p })
	noError(t, controller.Start(ctx))
	if p := next(t, prompts, "the Controller's prompt"); p.Message != "ask for the summary" {
		t.Errorf("%+v", p)
	}
	until(t, "the acknowledgements", func() bool {
		waiting := -1
		err := m.Inspect(ctx, func(s *state.State) {
			waiting = len(s.Notices("main", bcp.RoleController)) + len(s.Notices("reader", bcp.RoleReader))
		})
		return err == nil && waiting == 0
	})
	none(t, prompts, "a prompt twice")
}

// A list of agents that comes in parts is put together; an end that never comes is one.
//
// covers P9.2
func TestOperatorListsAgentsInParts(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	asked := g.listen(subjects.Control(bcp.ControlAgents))
	o := agents.NewOperator(connect(t, s.ClientURL(), agents.Options{Name: bcp.Operator}))
	parts := map[bcp.AgentName]status.Agents{
		"":  {Agents: []status.Agent{{Agent: "a"}, {Agent: "b"}}, Next: "c"},
		"c": {Agents: []status.Agent{{Agent: "c"}}, Next: "d"},
		"d": {Agents: []status.Agent{{Agent: "d"}}, Next: "b"}, // it would go round
	}
	type result struct {
		list []status.Agent
		err  error
	}
	ended := make(chan result, 1)
	go func() {
		list, err := o.Agents(within(t))
		ended <- result{list, err}
	}()
	for range parts {
		m := next(t, asked, "the request")
		c, ok := bcp.ParseControl(m.Data)
		if !ok {
			t.Fatalf("asked by %s", m.Data)
		}
		g.respond(m, parts[c.Agent])
	}
	r := next(t, ended, "the list")
	if r.err != nil || len(r.list) != 4 || r.list[3].Agent != "d" {
		t.Errorf("%+v, %v", r.list, r.err)
	}
}
