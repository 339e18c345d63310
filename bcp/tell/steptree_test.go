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

// run tells a run of a plan from its steps.
func run(t *testing.T, steps ...kernel.StepRecord) *tell.RunStory {
	t.Helper()
	stories := tell.NewRunStories()
	for i, c := range []kernel.Change{
		{Kind: kernel.ChangeRun, Start: &kernel.Start{Kernel: "desk", Requester: kernel.Requester{Name: "kim"}, GrantName: "all"}},
		{Kind: kernel.ChangePlan, Plan: &kernel.Accepted{Attempt: 1, Steps: len(steps)}, Steps: steps},
	} {
		c.Run = "r1"
		d := &bcp.Decision{Seq: uint64(i + 1), Time: time.Now().UnixNano(), Kind: bcp.DecisionKind(c.Kind), Verdict: bcp.Accept, Run: &bcp.RunChange{Run: "r1", Kernel: "desk", Change: c.AppendJSON(nil)}}
		stories.Add(d)
	}
	return stories.All()[0]
}

func did(kind kernel.StepKind, path string, done bool) kernel.StepRecord {
	return kernel.StepRecord{Path: path, Kind: kind, Done: done, Bits: map[kernel.StepKind]bcp.Bits{kernel.WhenStep: 2 * bcp.Bit}[kind]}
}

// The tree of a run has what was done of its plan.
func TestTheTreeOfARun(t *testing.T) {
	t.Parallel()
	steps := []kernel.StepRecord{
		did(kernel.ToolStep, "read", false), did(kernel.ToolStep, "read", true),
		did(kernel.WhenStep, "way", true), did(kernel.ToolStep, "way/go/send", true), did(kernel.EndStep, "way", true),
		did(kernel.EachStep, "loop", true), did(kernel.ItemStep, "loop/0/one", true), did(kernel.WhenStep, "loop/0/if", true),
		did(kernel.ToolStep, "loop/0/if/yes/mail", true), did(kernel.EndStep, "loop/0/if", true), did(kernel.ToolStep, "loop/0/log", true),
		did(kernel.ItemStep, "loop/1/one", true), did(kernel.WhenStep, "loop/1/if", true), did(kernel.ToolStep, "loop/1/if/_else/note", false),
	}
	want := `
done   read  tool
done   way  when  2.0
         go:
done       send  tool
done   loop  each
         0:
done       one  item
done       if  when  2.0
             yes:
done           mail  tool
done       log  tool
         1:
done       one  item
done       if  when  2.0
             _else:
begun          note  tool
`
	if diff := cmp.Diff(want[1:], strings.Join(tell.TreeLines(run(t, steps...).Tree()), "\n")+"\n"); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(tell.TreeLines(tell.StepTree([]tell.TreeStep{{Path: "a", Kind: "each", Bits: bcp.Bit}, {Path: "a/0/b", Kind: "tool"}, {Path: "a", Kind: "end"}})), "\n"); got != "a  each  1.0\n  0:\n    b  tool" {
		t.Errorf("a plan that is not run is\n%s", got)
	}
}
