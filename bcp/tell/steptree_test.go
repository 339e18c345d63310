package tell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

const forkingPlan = `{"steps":[
{"kind":"tool","id":"read","tool":"read"},
{"kind":"when","id":"way","on":{"ref":"read","path":"kind"},"cases":{"a b":[{"kind":"tool","id":"drop","tool":"drop"}],"go":[{"kind":"tool","id":"send","tool":"send"}]},"else":[]},
{"kind":"each","id":"loop","over":{"ref":"read","path":"all"},"as":"one","max":12,"do":[
 {"kind":"when","id":"if","on":{"ref":"one"},"cases":{"yes":[{"kind":"tool","id":"mail","tool":"send"}]},"else":[{"kind":"tool","id":"note","tool":"note"}]},
 {"kind":"tool","id":"log","tool":"log"}]},
{"kind":"each","id":"none","over":{"ref":"read","path":"all"},"as":"one","max":2,"do":[{"kind":"tool","id":"never","tool":"log"}]},
{"kind":"tool","id":"last","tool":"last"}],"final":"last"}`

// run tells a run of a plan, which viewers know if the record was opened, from its steps.
func run(t *testing.T, plan string, steps ...kernel.StepRecord) *tell.RunStory {
	t.Helper()
	stories := tell.NewRunStories()
	for i, c := range []kernel.Change{
		{Kind: bcp.KindRun, Start: &kernel.Start{Kernel: "desk", Requester: kernel.Requester{Name: "kim"}, GrantName: "all"}},
		{Kind: bcp.KindPlan, Plan: &kernel.Accepted{Attempt: 1, Steps: len(steps)}, Steps: steps, Private: kernel.Private{Plan: []byte(plan)}},
	} {
		c.Run = "r1"
		d := &bcp.Decision{Seq: uint64(i + 1), Time: time.Now().UnixNano(), Kind: c.Kind, Verdict: bcp.Accept, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", Change: c.AppendJSON(nil)}}
		if plan != "" {
			d.RunSaid = c.Private.AppendJSON(nil)
		}
		stories.Add(d)
	}
	return stories.All()[0]
}

func did(kind kernel.StepKind, path string, done bool) kernel.StepRecord {
	return kernel.StepRecord{Path: path, Kind: kind, Done: done, Bits: map[kernel.StepKind]bcp.Bits{kernel.WhenStep: 2 * bcp.Bit}[kind]}
}

// The tree of a run is that of its plan: what was done, the cases that were not taken, and
// what it did not come to. Whoever may not read the plan sees what was done. An each says how
// many elements were begun.
func TestTheTreeOfARunHasTheWaysNotTaken(t *testing.T) {
	t.Parallel()
	steps := []kernel.StepRecord{
		did(kernel.ToolStep, "read", false), did(kernel.ToolStep, "read", true),
		did(kernel.WhenStep, "way", true), did(kernel.ToolStep, "way/go/send", true), did(kernel.EndStep, "way", true),
		did(kernel.EachStep, "loop", true), did(kernel.ItemStep, "loop/0/one", true), did(kernel.WhenStep, "loop/0/if", true),
		did(kernel.ToolStep, "loop/0/if/yes/mail", true), did(kernel.EndStep, "loop/0/if", true), did(kernel.ToolStep, "loop/0/log", true),
		did(kernel.ItemStep, "loop/1/one", true), did(kernel.WhenStep, "loop/1/if", true), did(kernel.ToolStep, "loop/1/if/_else/note", false),
	}
	for _, tt := range []struct {
		name, plan string
		steps      []kernel.StepRecord
		want       string
	}{
		{"known", forkingPlan, steps, `
done         read  tool
done         way  when  2.0
not taken      _0:
not taken        drop  tool
               go:
done             send  tool
not taken      _else:
done         loop  each  2 of at most 12
               0:
done             one  item
done             if  when  2.0
                   yes:
done                 mail  tool
not taken          _else:
done             log  tool
               1:
done             one  item
done             if  when  2.0
not taken          yes:
                   _else:
begun                note  tool
not reached      log  tool
not reached  none  each  0 of at most 2
not reached    0:
not reached      never  tool
not reached  last  tool
`},
		{"not known", "", steps, `
done         read  tool
done         way  when  2.0
               go:
done             send  tool
done         loop  each
               0:
done             one  item
done             if  when  2.0
                   yes:
done                 mail  tool
done             log  tool
               1:
done             one  item
done             if  when  2.0
                   _else:
begun                note  tool
`},
		{"nothing to do", forkingPlan, []kernel.StepRecord{
			did(kernel.ToolStep, "read", true), did(kernel.WhenStep, "way", true), did(kernel.EndStep, "way", true),
			did(kernel.EachStep, "loop", true), did(kernel.EndStep, "loop", true), did(kernel.EachStep, "none", false),
		}, `
done         read  tool
done         way  when  2.0
not taken      _0:
not taken        drop  tool
not taken      go:
not taken        send  tool
               _else:
done         loop  each  0 of at most 12
not taken      0:
not taken        if  when
not taken          yes:
not taken          _else:
not taken        log  tool
begun        none  each  0 of at most 2
not reached    0:
not reached      never  tool
not reached  last  tool
`},
	} {
		got := strings.Join(tell.TreeLines(run(t, tt.plan, tt.steps...).Tree()), "\n") + "\n"
		diff := cmp.Diff(tt.want[1:], got)
		failIf(t, diff != "", "%s: got\n%s\n%s", tt.name, got, diff)
	}
	got := strings.Join(tell.TreeLines(tell.StepTree([]tell.TreeStep{{Path: "a", Kind: "each", Bits: bcp.Bit}, {Path: "a/0/b", Kind: "tool"}, {Path: "a", Kind: "end"}})), "\n")
	failIf(t, got != "a  each  1.0\n  0:\n    b  tool", "a plan that is not run is\n%s", got)
}
