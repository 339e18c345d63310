package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

func BenchmarkJoin(b *testing.B) {
	x, y := tainted(kernel.Influence{Origin: "p.slot", Bits: 2}), tainted(kernel.Influence{Origin: "q", Bits: 6})
	y.Readers = kernel.Only("mail.read")
	b.ReportAllocs()
	for b.Loop() {
		kernel.Join(x, y)
	}
}

func BenchmarkGate(b *testing.B) {
	call := kernel.Call{
		Tool: "send_email", Grant: kernel.NewGrant("mail.send", "mail.read"), Asker: asked, Control: kernel.Trusted(),
		Arguments: []kernel.Argument{{Name: "body", Value: val(`"x"`), Label: kernel.Trusted()}, {Name: "to", Value: val(`"kim@example.com"`), Label: kernel.Trusted()}},
	}
	for _, c := range []struct {
		name  string
		rules []kernel.Rule
		want  kernel.Code
	}{{"NoRules", nil, kernel.Permitted}, {"OneRule", []kernel.Rule{mailToSelf}, kernel.Declassified}} {
		b.Run(c.name, func(b *testing.B) {
			gate := mustKernel(b, func(d *kernel.Definition) { d.Rules = c.rules }).Gate()
			if c.rules != nil {
				call.Arguments[0].Label = tainted()
			}
			b.ReportAllocs()
			for b.Loop() {
				if v := gate.Judge(&call); v.Code != c.want {
					b.Fatal(v)
				}
			}
		})
	}
}

func BenchmarkReadPlan(b *testing.B) {
	k := mustKernel(b, nil)
	f := frame(k, "all")
	plan := []byte(strings.ReplaceAll(mailPlan, "\n", ""))
	b.ReportAllocs()
	for b.Loop() {
		if _, fault := k.ReadPlan(plan, f); fault.Code != "" {
			b.Fatal(fault)
		}
	}
}

// A run of the mail plan, with every answer at once: decide and apply, without the
// journal.
func BenchmarkRun(b *testing.B) {
	k := mustKernel(b, nil)
	s := kernel.NewState(k)
	n := 0
	moment := func() bcp.Moment {
		n++
		return bcp.Moment{Now: start.Add(time.Duration(n) * time.Minute), Fresh: fmt.Sprintf("%024d", n)}
	}
	apply := func(c kernel.Change) kernel.Change {
		if err := s.Apply(&c); err != nil || c.Code != "" {
			b.Fatal(err, c.Code)
		}
		return c
	}
	b.ReportAllocs()
	for b.Loop() {
		c := apply(s.DecideRun(moment(), "desk", kim, "all", kernel.Trusted(), []byte(`{"task":"Summarise my mail."}`)))
		c = apply(s.DecidePlan(moment(), "planner", c.Wait.ID, []byte(`{"plan_id":"`+c.Wait.ID+`","plan":`+mailPlan+`}`)))
		c = apply(s.DecideOutcome(moment(), "mail", c.Wait.ID, 1, []byte(`{"call_id":"`+c.Wait.ID+`","result":{"latest":{"sender":"a","subject":"b","body":"c"}}}`)))
		c = apply(s.DecideAnswer(moment(), c.Wait.ID, []byte(`{"text":"c"}`), ""))
		c = apply(s.DecideOutcome(moment(), "mail", c.Wait.ID, 1, []byte(`{"call_id":"`+c.Wait.ID+`","result":{"ok":true,"message_id":"x"}}`)))
		if c.End == nil || c.End.Status != kernel.Committed {
			b.Fatal(c.End)
		}
	}
}

// What a step costs that waits for nobody, of a plan of constants and merges: reading
// and checking it, and then all of a decision, in which it runs as well.
func BenchmarkSteps(b *testing.B) {
	k := mustKernel(b, func(d *kernel.Definition) { d.Limits.MaxSteps = kernel.MaxPlanSteps })
	var list []string
	for i := range kernel.MaxPlanSteps / 2 {
		list = append(list, fmt.Sprintf(`{"kind":"const","id":"c%d","value":%d}`, i, i), fmt.Sprintf(`{"kind":"merge","id":"m%d","inputs":{"a":{"ref":"c%d"},"b":{"ref":"c0"}}}`, i, i))
	}
	plan := `{"steps":[` + strings.Join(list, ",") + `],"final":"m0"}`
	perStep := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/kernel.MaxPlanSteps, "ns/step")
	}
	b.Run("Read", func(b *testing.B) {
		f := frame(k, "all")
		b.ReportAllocs()
		for b.Loop() {
			if _, fault := k.ReadPlan([]byte(plan), f); fault.Code != "" {
				b.Fatal(fault)
			}
		}
		perStep(b)
	})
	b.Run("Decide", func(b *testing.B) {
		s := kernel.NewState(k)
		c := s.DecideRun(bcp.Moment{Now: start, Fresh: "a"}, "desk", kim, "all", kernel.Trusted(), []byte(`{"task":"x"}`))
		if err := s.Apply(&c); err != nil {
			b.Fatal(err)
		}
		body := []byte(`{"plan_id":"` + c.Wait.ID + `","plan":` + plan + `}`)
		b.ReportAllocs()
		for b.Loop() {
			if done := s.DecidePlan(bcp.Moment{Now: start, Fresh: "b"}, "planner", c.Wait.ID, body); done.End == nil || done.End.Status != kernel.Committed {
				b.Fatal(done.End)
			}
		}
		perStep(b)
	})
}
