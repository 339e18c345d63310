package kernel

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"
)

// ErrSaved says that bytes are no saved state.
var ErrSaved = errors.New("kernel: no saved state")

// Save returns the whole state in its one spelling, without the definitions: two
// states are the same if and only if what they save is. It holds what agents said,
// and is kept as the journal's sealed parts are. Of a state without history nothing
// is saved.
func (s *State) Save() []byte {
	if s.time == 0 {
		return nil
	}
	saved := savedState{time: s.time}
	for key, r := range s.requests {
		saved.requests = append(saved.requests, savedRequest{key, r})
	}
	slices.SortFunc(saved.requests, func(a, b savedRequest) int {
		return cmp.Or(cmp.Compare(a.key.kernel, b.key.kernel), cmp.Compare(a.key.requester, b.key.requester), cmp.Compare(a.key.id, b.key.id))
	})
	out := append(encode(nil, saved.fields), '\n')
	for _, r := range s.sorted() {
		out = append(encode(out, r.fields), '\n')
	}
	return out
}

// Restore returns the state that was saved, under the definitions of these kernels.
func Restore(saved []byte, kernels ...*Kernel) (*State, error) {
	s := NewState(kernels...)
	if len(saved) == 0 {
		return s, nil
	}
	var head savedState
	first, rest, ok := bytes.Cut(saved, []byte("\n"))
	if !ok || !decode(first, head.fields) {
		return nil, ErrSaved
	}
	s.time = head.time
	for len(rest) > 0 {
		var line []byte
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		r := &run{}
		if !ok || !decode(line, r.fields) || len(r.frames) == 0 || s.runs[r.id] != nil {
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
	if !bytes.Equal(s.Save(), saved) {
		return nil, ErrSaved
	}
	return s, nil
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
	for i := range r.ahead {
		if a := &r.ahead[i]; !a.settled && a.wait.Kind == WaitTool {
			s.calls[a.wait.ID] = r.id
		}
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
	f.digest("digest", &r.digest)
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
	text(f, "task", &r.task)
	f.digest("salt", &r.salt)
	objects(f, "rules", &r.rules, (*RunRule).fields)
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
	f.bytes("failed", &r.failed)
	objects(f, "results", &r.results, pointed((*result).fields))
	objects(f, "settled", &r.settled, pointed((*settled).fields))
	wait := &r.wait
	nested(f, "wait", &wait, (*Wait).fields)
	r.wait = *wait
	f.bytes("arguments", &r.args)
	objects(f, "ahead", &r.ahead, (*ahead).fields)
	nested(f, "end", &r.end, (*End).fields)
	number(f, "ended", &r.ended)
}

func (a *ahead) fields(f *codec) {
	wait := &a.wait
	nested(f, "wait", &wait, (*Wait).fields)
	a.wait = *wait
	f.bytes("arguments", &a.args)
	f.flag("settled", &a.settled)
	text(f, "code", &a.code)
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
	f.value("value", &o.value)
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
	text(f, "instruction", &x.instruction)
	f.value("content", &x.content)
	f.bytes("plan", &x.bytes)
	objects(f, "steps", &x.done, (*done).fields)
}

// fields of a step that is done. The value of one that asks nobody follows from others.
func (d *done) fields(f *codec) {
	word(f, "kind", &d.kind, stepWords)
	if s := (&Step{Kind: d.kind}); !s.local() {
		f.value("value", &d.value)
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
