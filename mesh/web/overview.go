package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// facts returns the current data of pages.
func (s *Server) facts() *facts {
	mesh := s.mesh.Load()
	if mesh == nil {
		return &facts{now: s.logins.now(), known: &known{}, fault: "The mesh is not there yet. Load the page again."}
	}
	connected := mesh.Connected()
	said := s.views.current(mesh, connected)
	total := s.history.total()
	entries, unread := s.history.all()
	f := *s.drawn.current(drawnFrom{mesh, total, said}, func() *facts { return newFacts(s.logins.now(), mesh.Definition(), said, entries) })
	f.fault = describeFault(connected, unread, said)
	return &f
}

// drawnAge is how old the facts of older decisions may be: while many decisions come and
// many people look, they are computed five times a second and not for each of them.
const drawnAge = 200 * time.Millisecond

// drawnFrom identifies the data of facts.
type drawnFrom struct {
	mesh  *Mesh
	total uint64
	said  *known
}

// drawn keeps the facts of the last page. Its method may be called concurrently.
type drawn struct {
	mu    sync.Mutex
	from  drawnFrom
	at    time.Time
	facts *facts
}

func (d *drawn) current(from drawnFrom, draw func() *facts) *facts {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := d.facts != nil && d.from.mesh == from.mesh && d.from.said == from.said
	if age := time.Since(d.at); !same || age >= viewAge || d.from.total != from.total && age >= drawnAge {
		d.from, d.at, d.facts = from, time.Now(), draw()
		d.facts.total = from.total
	}
	return d.facts
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	s.show(w, r, http.StatusOK, f.name(), f.fault, overviewParts(f)...)
}

func isAlert(e *entry) bool { return e.Kind == bcp.KindAlert }

func anyEntry(*entry) bool { return true }

func exceptConnections(e *entry) bool { return !tell.Connection(&e.Decision) }

func overviewParts(f *facts) []m.Node {
	parts := []m.Node{m.El(m.Ul, []m.Attr{m.Class("tiles")},
		tile("/approvals", strconv.Itoa(f.held()), "held for a person"),
		tile("/alerts", strconv.Itoa(f.since(24*time.Hour, isAlert)), "alerts in 24 hours"),
		tile("/audit", strconv.Itoa(f.since(time.Minute, anyEntry)), "decisions in a minute"),
		tile("/agents", connected(f), "agents connected"))}
	if line := disk(f.known); line != "" {
		parts = append(parts, paragraph(line))
	}
	if len(f.channels) == 0 {
		parts = append(parts, paragraph("The mesh has no channels yet. An entry in bcp_channels of two definitions makes one."))
	} else {
		var picture m.Node
		if len(f.agents) <= maxPicture {
			picture = topology(f.channels, f.taints())
		} else {
			picture = paragraph("The mesh has more than " + strconv.Itoa(maxPicture) + " agents. The page of an agent has a picture of its channels.")
		}
		parts = append(parts, section("topology", "Who hears whom", picture, legend(), channelTable(f, f.channels)))
	}
	return append(parts, section("newest", "Newest decisions", live(f, newest(f.entries, 0, 10, exceptConnections), "Nothing was decided yet.")))
}

func tile(path, figure, of string) m.Node {
	return m.El(m.Li, nil, m.El(m.A, []m.Attr{m.Href(path)}, m.El(m.Strong, nil, m.Text(figure)), m.Text(" "+of)))
}

// taintName names the taint that the picture shows of an agent.
func taintName(reader bool) string {
	if reader {
		return "Delivered taint"
	}
	return "Exposure"
}

func legend() m.Node {
	return m.El(m.P, []m.Attr{m.Class("legend")}, m.Text("Of a Reader, the taint that its answers are delivered with; of a Controller, its exposure: "), taintMark(bcp.TaintLow), m.Text(" "), taintMark(bcp.TaintMedium), m.Text(" "), taintMark(bcp.TaintHigh),
		m.Text(" A line is wider the more bits it carried in 24 hours. Bits are those of the running epoch, reserved ones included."))
}

// connected says how many agents are connected, if the viewer may know.
func connected(f *facts) string {
	here, all := 0, 0
	for _, a := range f.agents {
		if a.status != nil {
			if all++; a.status.State == status.Connected {
				here++
			}
		}
	}
	if all == 0 {
		return "?"
	}
	return fmt.Sprintf("%d of %d", here, all)
}

// disk describes how full the journal is.
func disk(k *known) string {
	if k.storage.JournalLimit <= 0 {
		return ""
	}
	return fmt.Sprintf("The journal holds %s in %s, %d %% of its limit.", tell.Count(int(k.storage.Records), "record"), size(k.storage.Journal), 100*k.storage.Journal/k.storage.JournalLimit)
}

func size(bytes int64) string {
	if bytes < 1<<20 {
		return strconv.FormatInt((bytes+1<<10-1)>>10, 10) + " KiB"
	}
	return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB"
}

func (f *facts) taints() map[bcp.AgentName]bcp.Taint {
	taints := make(map[bcp.AgentName]bcp.Taint, len(f.agents))
	for _, a := range f.agents {
		taints[a.name] = a.taint
	}
	return taints
}

// newest returns a number of the last wanted entries, newest first, after skipping
// some.
func newest(entries []*entry, skip, number int, wanted func(*entry) bool) (found []*entry) {
	for _, e := range slices.Backward(entries) {
		if !wanted(e) {
			continue
		}
		if skip--; skip >= 0 {
			continue
		}
		if len(found) == number {
			break
		}
		found = append(found, e)
	}
	return found
}
