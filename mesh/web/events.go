package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

const (
	// maxStreams is how many pages are live at a time.
	maxStreams = 64
	// streamPause is between two messages to a page: ten in a second.
	streamPause = 100 * time.Millisecond
	// streamBeat is the interval of the messages that say that there is nothing new.
	streamBeat = 15 * time.Second
	// streamPatience is how long a page may take to read a message.
	streamPatience = 5 * time.Second
	// maxEvents is how many decisions a message has; more are only counted. Nobody reads
	// more than 200 in a second.
	maxEvents = 20
)

// event is a decision as pages show it: plain text, also for a live page.
type event struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Time string `json:"time"`
	Word string `json:"word"` // the verdict, or "event"
	Line string `json:"line"`
	Over string `json:"over,omitempty"` // the path of an item that does not wait any more
}

// news is one message to a live page.
type news struct {
	Events []event `json:"events"`          // oldest first
	Missed int     `json:"missed,omitzero"` // decisions that are not among them
	Fault  string  `json:"fault,omitempty"` // of describeFault
	Total  uint64  `json:"total"`           // decisions so far: what the next stream begins after
}

// events streams the decisions after those that a page knows.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		http.Error(w, "only a page of this server may listen", http.StatusForbidden)
		return
	}
	defer s.live.Add(-1)
	if s.live.Add(1) > maxStreams {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many pages are live", http.StatusServiceUnavailable)
		return
	}
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return // inside has seen it
	}
	w.Header().Set("Content-Type", "text/event-stream")
	seen, err := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
	if err != nil || seen > s.history.total() {
		seen = s.history.total()
	}
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	fault := ""
	for send := true; ; {
		changed := s.history.changes()
		if send {
			m := news{Fault: s.fault()}
			m.Events, m.Missed, seen = s.since(seen)
			m.Total = seen
			fault = m.Fault
			b, err := json.Marshal(m)
			if err != nil || !push(w, append(append([]byte("data: "), b...), "\n\n"...)) {
				return
			}
		}
		send = true
		select {
		case <-r.Context().Done():
			return
		case <-s.ending:
			return
		case <-changed:
			time.Sleep(streamPause)
		case <-beat.C:
			if !s.logins.isValid(cookie.Value) {
				return
			}
			send = s.fault() != fault
			if !send && !push(w, []byte(": \n\n")) {
				return
			}
		}
	}
}

// fault says why decisions may be missing, without asking the mesh.
func (s *Server) fault() string {
	mesh := s.mesh.Load()
	_, unread := s.history.all()
	return describeFault(mesh != nil && mesh.Connected(), unread, nil)
}

// since returns the decisions after a number of them, connections left out, and how many
// there are now.
func (s *Server) since(seen uint64) (events []event, missed int, total uint64) {
	entries, total := s.history.after(seen)
	missed = int(total-seen) - len(entries)
	if more := len(entries) - maxEvents; more > 0 {
		entries, missed = entries[more:], missed+more
	}
	events = []event{}
	for _, e := range entries {
		if exceptConnections(e) {
			events = append(events, e.event())
		}
	}
	return events, missed, total
}

// event returns a decision as pages show it.
func (e *entry) event() event {
	of := event{Path: "/decisions/" + strconv.FormatUint(e.Seq, 10), Name: strconv.FormatUint(e.Seq, 10), Time: written(e.At()), Word: "event", Line: tell.Sentence(&e.Decision)}
	if e.Verdict != 0 {
		of.Word = tell.Verdict(&e.Decision).String()
	}
	if e.Item != "" && (e.Kind == bcp.KindExpire || e.Kind == bcp.KindApproval && e.Verdict == bcp.Accept) {
		of.Over = itemPath(e.Item)
	}
	return of
}

func events(entries []*entry) (list []event) {
	for _, e := range entries {
		list = append(list, e.event())
	}
	return list
}

// push sends to a page, and returns false for one that is gone or too slow.
func push(w http.ResponseWriter, b []byte) bool {
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(streamPatience)) != nil {
		return false
	}
	if _, err := w.Write(b); err != nil {
		return false
	}
	return control.Flush() == nil
}
