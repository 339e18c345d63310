package agents

import "github.com/bcpmesh/bcpmesh/bcp"

// recent remembers the last size keys. Its owner guards it.
type recent[K comparable] struct {
	size  int
	known map[K]struct{}
	order []K // oldest first
}

func newRecent[K comparable](size int) *recent[K] {
	return &recent[K]{size: size, known: make(map[K]struct{})}
}

func (r *recent[K]) has(key K) bool {
	_, ok := r.known[key]
	return ok
}

func (r *recent[K]) add(key K) {
	if r.has(key) {
		return
	}
	if len(r.order) == r.size {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.known[key] = struct{}{}
	r.order = append(r.order, key)
}

// answered is what a Reader remembers of one query. Its Reader guards it.
type answered struct {
	running  bool    // a handler is at work
	newest   sending // of the query
	message  []byte  // the encoded answer, nil if there is none yet
	rejected bool    // the gateway refused message
	attempt  int     // how many were refused
	detail   string  // of the last refusal
}

// answers remembers queries, the newest of them, within maxAnswers and
// maxAnswerBytes. It is guarded by its Reader.
type answers struct {
	byQuery map[bcp.QueryID]*answered
	order   []bcp.QueryID // oldest first
	bytes   int
}

// findOrAdd returns the entry of a query, and adds it if necessary.
func (a *answers) findOrAdd(id bcp.QueryID) *answered {
	if entry := a.byQuery[id]; entry != nil {
		return entry
	}
	if a.byQuery == nil {
		a.byQuery = make(map[bcp.QueryID]*answered)
	}
	entry := &answered{}
	a.byQuery[id] = entry
	a.order = append(a.order, id)
	a.trim()
	return entry
}

// setMessage replaces the message of an entry, which may have been evicted.
func (a *answers) setMessage(id bcp.QueryID, entry *answered, message []byte) {
	if a.byQuery[id] == entry {
		a.bytes += len(message) - len(entry.message)
	}
	entry.message, entry.rejected = message, false
	a.trim()
}

// trim never forgets the newest query.
func (a *answers) trim() {
	for len(a.order) > 1 && (len(a.order) > maxAnswers || a.bytes > maxAnswerBytes) {
		oldest := a.order[0]
		a.order = a.order[1:]
		a.bytes -= len(a.byQuery[oldest].message)
		delete(a.byQuery, oldest)
	}
}

// rejected remembers that the answer to a query was refused, and why. If queries are
// shared, it may be another's answer, and the query may come here next.
func (a *answers) rejected(id bcp.QueryID, detail string, shared bool) {
	entry := a.byQuery[id]
	if entry == nil && shared {
		entry = a.findOrAdd(id)
	}
	if entry != nil && (shared || entry.message != nil && !entry.rejected) {
		entry.rejected, entry.detail = true, detail
		entry.attempt++
	}
}

// restart forgets which handlers were running when the last run ended.
func (a *answers) restart() {
	for _, entry := range a.byQuery {
		entry.running = false
	}
}
