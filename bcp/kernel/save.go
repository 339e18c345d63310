package kernel

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// ErrSaved says that bytes are no saved state.
var ErrSaved = errors.New("kernel: no saved state")

// Save returns the whole state, without the definitions: two states are the same if and
// only if what they save is. What agents and people said is apart, so that it can be sealed
// as it is in the records: of a run under the day when it began, of requests under that of
// the newest. Of a state without history nothing is saved.
func (s *State) Save() []bcp.SavedRun {
	if s.time == 0 {
		return nil
	}
	saved, newest := savedState{time: s.time}, int64(0)
	for key, r := range s.requests {
		saved.requests, newest = append(saved.requests, savedRequest{key, r}), max(newest, r.at)
	}
	slices.SortFunc(saved.requests, func(a, b savedRequest) int {
		return cmp.Or(cmp.Compare(a.key.kernel, b.key.kernel), cmp.Compare(a.key.requester, b.key.requester), cmp.Compare(a.key.id, b.key.id))
	})
	out := []bcp.SavedRun{save(newest, saved.fields)}
	for _, r := range s.sorted() {
		out = append(out, save(r.began, r.fields))
	}
	return out
}

// Restore returns the state that was saved, under the definitions of these kernels. Of what
// was said and is erased it has nothing, as of records.
func Restore(saved []bcp.SavedRun, kernels ...*Kernel) (*State, error) {
	s := NewState(kernels...)
	if len(saved) == 0 {
		return s, nil
	}
	var head savedState
	if !restore(&saved[0], head.fields) {
		return nil, ErrSaved
	}
	s.time = head.time
	for i := range saved[1:] {
		r := &run{}
		if !restore(&saved[1+i], r.fields) || len(r.frames) == 0 || s.runs[r.id] != nil {
			return nil, ErrSaved
		}
		s.runs[r.id] = r
		s.indexAll(r)
	}
	for _, r := range head.requests {
		s.requests[r.key] = r.request
		s.told[r.key.requester] = append(s.told[r.key.requester], requestEnd{r.at, r.key})
	}
	slices.SortFunc(s.ended, endedRun.compare)
	for _, told := range s.told {
		slices.SortFunc(told, requestEnd.compare)
	}
	heap.Init(&s.deadline)
	if !slices.EqualFunc(s.Save(), saved, func(a, b bcp.SavedRun) bool {
		return a.At == b.At && bytes.Equal(a.Open, b.Open) && (bytes.Equal(a.Said, b.Said) || len(b.Said) == 0)
	}) {
		return nil, ErrSaved
	}
	return s, nil
}

// apart is what was said of what is saved, in the order in which it is met. Reading, it is
// nothing where that was erased.
type apart struct {
	list   Value
	erased bool
}

func save(at int64, fields func(*codec)) bcp.SavedRun {
	c := codec{apart: &apart{list: List()}}
	open := c.encode(fields)
	saved := bcp.SavedRun{At: at, Open: open.JSON()}
	if slices.ContainsFunc(c.apart.list.list, func(v Value) bool { return len(v.keys) > 0 }) {
		saved.Said = c.apart.list.JSON()
	}
	return saved
}

func restore(saved *bcp.SavedRun, fields func(*codec)) bool {
	c := codec{apart: &apart{erased: len(saved.Said) == 0}}
	open, err := ParseValue(saved.Open)
	if err == nil && !c.apart.erased {
		c.apart.list, err = ParseValue(saved.Said)
	}
	return err == nil && c.decode(&open, fields) && len(c.apart.list.list) == 0
}

// said writes or reads fields that are kept apart.
func (c *codec) said(fields func(*codec)) {
	switch a := c.apart; {
	case !c.reading:
		a.list.list = append(a.list.list, c.encode(fields))
	case a.erased:
	case len(a.list.list) == 0:
		c.ok = false
	default:
		c.ok = c.decode(&a.list.list[0], fields) && c.ok
		a.list.list = a.list.list[1:]
	}
}

// indexAll finds a restored run by everything that it has to be found by.
func (s *State) indexAll(r *run) {
	s.index(r)
	for _, over := range r.settled {
		s.calls[over.call] = r.id
	}
	if call := r.wait.call(); call != "" {
		s.calls[call] = r.id
	}
}

type savedState struct {
	time     int64
	requests []savedRequest
}

type savedRequest struct {
	key requestKey
	request
}

func (s *savedState) fields(f *codec) {
	number(f, "time", &s.time)
	objects(f, "requests", &s.requests, (*savedRequest).fields)
}

func (r *savedRequest) fields(f *codec) {
	text(f, "kernel", &r.key.kernel)
	text(f, "requester", &r.key.requester)
	text(f, "id", &r.key.id)
	f.said(func(f *codec) { f.digest("digest", &r.digest) })
	text(f, "run", &r.run)
	text(f, "code", &r.code)
	number(f, "at", &r.at)
	text(f, "status", &r.status)
	text(f, "why", &r.why)
}

func (r *run) fields(f *codec) {
	text(f, "id", &r.id)
	start := &r.start
	nested(f, "start", &start, (*Start).fields)
	r.start = *start
	f.said(func(f *codec) {
		text(f, "task", &r.task)
		f.digest("salt", &r.salt)
		objects(f, "rules", &r.rules, (*RunRule).fields)
		f.bytes("failed", &r.failed)
		f.bytes("arguments", &r.args)
	})
	totals := &r.totals
	nested(f, "totals", &totals, (*Totals).fields)
	r.totals = *totals
	number(f, "began", &r.began)
	number(f, "deadline", &r.deadline)
	objects(f, "frames", &r.frames, pointed((*frame).fields))
	for _, frame := range r.frames {
		frame.Asker, frame.ControlBits, frame.Questions = r.asker(), r.start.Limits.ControlBits, r.start.Limits.MaxQuestions
	}
	objects(f, "told", &r.told, (*PlanError).fields)
	objects(f, "results", &r.results, pointed((*result).fields))
	objects(f, "settled", &r.settled, pointed((*settled).fields))
	wait := &r.wait
	nested(f, "wait", &wait, (*Wait).fields)
	r.wait = *wait
	objects(f, "leaves", &r.leaves, (*Leave).fields)
	nested(f, "end", &r.end, (*End).fields)
	number(f, "ended", &r.ended)
}

// pointed makes of fields those of a pointer.
func pointed[T any](fields func(*T, *codec)) func(**T, *codec) {
	return func(p **T, f *codec) {
		if f.reading {
			*p = new(T)
		}
		fields(*p, f)
	}
}

func (o *result) fields(f *codec) {
	f.digest("key", &o.key)
	f.said(func(f *codec) { f.value("value", &o.value) })
	text(f, "frame", &o.frame)
	text(f, "tool", &o.tool)
}

func (s *settled) fields(f *codec) {
	text(f, "call", &s.call)
	text(f, "service", &s.service)
	number(f, "attempt", &s.attempt)
	number(f, "sent", &s.sent)
	f.flag("again", &s.again)
}

func (x *frame) fields(f *codec) {
	x.Frame.fields(f)
	f.said(func(f *codec) {
		text(f, "instruction", &x.instruction)
		f.value("content", &x.content)
		f.bytes("plan", &x.bytes)
	})
	objects(f, "steps", &x.done, (*done).fields)
}

// fields of a step that is done. The value of one that asks nobody follows from others.
func (d *done) fields(f *codec) {
	word(f, "kind", &d.kind, stepWords)
	if s := (&Step{Kind: d.kind}); !s.local() {
		f.said(func(f *codec) { f.value("value", &d.value) })
	}
	f.label("label", &d.label)
	f.digest("key", &d.key)
}

// value writes a value as its canonical JSON in a text: values nest as deep as
// records do.
func (c *codec) value(key string, p **Value) {
	var b []byte
	if *p != nil {
		b = (*p).JSON()
	}
	c.bytes(key, &b)
	if c.reading && b != nil {
		v, err := ParseValue(b)
		*p, c.ok = &v, c.ok && err == nil
	}
}
