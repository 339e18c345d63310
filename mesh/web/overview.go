package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
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
	f := newFacts(s.logins.now(), mesh.Definition(), said, entries)
	f.Total, f.fault = total, describeFault(connected, unread, said)
	return f
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	f := s.facts()
	p := page{facts: f, Title: f.name(), Channels: f.channels, Story: events(newest(f.entries, 0, 10, exceptConnections)), Nothing: "Nothing was decided yet.", Of: maxPicture}
	if len(f.Agents) <= maxPicture {
		p.Picture = topology(f.channels, f.taints())
	}
	s.show(w, r, http.StatusOK, "overview", p)
}

func anyEntry(*entry) bool { return true }

func exceptConnections(e *entry) bool { return !tell.Connection(&e.Decision) }

// NewAlerts counts the alerts of a day, and NewDecisions the decisions of a minute.
func (f *facts) NewAlerts() int {
	return f.since(24*time.Hour, func(e *entry) bool { return e.Kind == bcp.KindAlert })
}

func (f *facts) NewDecisions() int { return f.since(time.Minute, anyEntry) }

// Connected says how many agents are connected, if the viewer may know.
func (f *facts) Connected() string {
	here, all := 0, 0
	for _, a := range f.Agents {
		if a.Status != nil {
			if all++; a.Status.State == status.Connected {
				here++
			}
		}
	}
	if all == 0 {
		return "?"
	}
	return fmt.Sprintf("%d of %d", here, all)
}

// Disk describes how full the journal is.
func (f *facts) Disk() string {
	k := f.known.storage
	if k.JournalLimit <= 0 {
		return ""
	}
	return fmt.Sprintf("The journal holds %s in %s, %d %% of its limit.", tell.Count(int(k.Records), "record"), size(k.Journal), 100*k.Journal/k.JournalLimit)
}

func size(bytes int64) string {
	if bytes < 1<<20 {
		return strconv.FormatInt((bytes+1<<10-1)>>10, 10) + " KiB"
	}
	return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB"
}

func (f *facts) taints() map[bcp.AgentName]bcp.Taint {
	taints := make(map[bcp.AgentName]bcp.Taint, len(f.Agents))
	for _, a := range f.Agents {
		taints[a.Name] = a.Taint
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
