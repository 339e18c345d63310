package tell

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// whoseRun says who sent what about a run of a kernel.
func whoseRun(d *bcp.Decision) string {
	if d.Run == nil {
		return "the gateway " + d.Kind.String()
	}
	from := string(d.Run.From)
	verb := map[bcp.DecisionKind]string{
		bcp.KindRun: "asks for", bcp.KindPlan: "plans", bcp.KindStep: "answers", bcp.KindCall: "decides about", bcp.KindOutcome: "returns to",
	}[d.Kind]
	if from == "" {
		from, verb = "the gateway", "goes on with"
	}
	kernel := ""
	if d.Run.Kernel != "" {
		kernel = "of " + string(d.Run.Kernel)
	}
	return words(inert.Line(from), verb, "run", inert.Line(d.Run.Run), inert.Line(kernel))
}

// ofRun says what a kernel made of it: the events of the run, and what it waits for.
func ofRun(d *bcp.Decision) string {
	if d.Run == nil {
		return ""
	}
	if d.Run.Code != "" && d.Capacity == 0 {
		return "refused: " + inert.Line(d.Run.Code)
	}
	change, err := kernel.ParseChange(d.Run.Change, nil)
	if err != nil {
		return "a change that cannot be read"
	}
	var parts []string
	for _, e := range change.Events() {
		parts = append(parts, inert.Line(e.String()))
	}
	if d.Capacity > 0 {
		parts = append(parts, "tells its requester "+d.Capacity.Words())
	}
	if change.Told != nil {
		parts = append(parts, "told the planner "+inert.Line(string(change.Told.Code)))
	}
	if w := change.Wait; w != nil {
		parts = append(parts, "waits for "+words(string(w.Kind), inert.Line(string(w.Agent)), inert.Line(w.Tool)))
	}
	if e := change.End; e != nil && e.Code != "" {
		parts = append(parts, inert.Line(string(e.Code)))
	}
	if change.Alert != "" {
		parts = append(parts, "alert "+inert.Line(string(change.Alert)))
	}
	return strings.Join(parts, "; ")
}
