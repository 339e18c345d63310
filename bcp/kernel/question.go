package kernel

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A question goes to whoever gave the task, and waits like a call that a person decides
// about: for as long, as an item of the same queue, which the kernel's approvers see too.
// The requester answers with a message about its run, a person with a signed decision.
// The planner wrote the words, and content only by what steered it there and by which
// errors: so much the question tells, and the answer has that label and the task's.

// questionBits is what it tells that there is a question and not an end: with it the
// weights of [Change.tells] add up to less than 1.
const questionBits = 7

// mayAsk reports whether plans of the frame may ask the requester: what asks in a sub-run
// has read content, and would speak for it.
func (f *Frame) mayAsk() bool { return f.Questions > 0 && f.Depth == 0 }

// answerWords is how many words an answer has where a plan does not say.
const answerWords = 20

// readQuestions reads what a step asks: the questions of a spec of category 2.
func readQuestions(v *Value) (*Schema, bool) {
	asks := object(member{"category", Int(2)}, member{"max_words", Int(answerWords)}, member{"questions", *v})
	spec, err := bcp.ParseSpec(asks.JSON())
	if err != nil || v.kind != ListValue || len(v.list) == 0 {
		return nil, false
	}
	s := &Schema{Spec: spec}
	return s, s.prepare(false) == nil
}

// questions are those of a schema, in canonical JSON.
func (s *Schema) questions() []byte { return s.told.member("questions").JSON() }

// asks is what the requester is asked; nil if it is not asked anything.
func (r *run) asks() *Schema {
	if r.End != nil || r.Wait.Kind != WaitQuestion {
		return nil
	}
	v, err := ParseValue(r.Args)
	if err != nil { // it was erased
		return nil
	}
	s, ok := readQuestions(&v)
	if !ok {
		return nil
	}
	return s
}

// asked is what a question comes to: it has the label of the plan, which is that of the
// task and of the errors before, and of what steers.
func (v *view) asked(s *Step, answer *Value, at Origin) node {
	return node{typ: s.Asks.typ, value: answer, label: v.steered(s, *v.query), hazy: v.steerHaze(s), at: at}
}

// ask asks the requester, unless it answered an earlier plan the same.
func (d *draft) ask(f *frame, s *Step, at Origin) {
	record := StepRecord{Path: string(at), Kind: AskStep}
	questions := s.Asks.questions()
	record.Key = nth(f.keys(), func(nth int) bcp.Digest { return d.run.hashKey(nth, "question", string(d.run.ID), string(questions)) })
	if answer, made := d.run.value(record.Key); made && answer != nil {
		record.Reused = true
		d.finish(record, f.view.asked(s, answer, at))
		return
	}
	t := &d.run.Totals
	if t.Questions >= d.run.Start.Limits.MaxQuestions {
		d.abort(LimitQuestions, record.Path)
		return
	}
	d.change.Steps = append(d.change.Steps, record)
	w := Wait{Step: record.Path, Key: record.Key, Agent: bcp.AgentName(d.run.Start.Requester.Name)}
	if t.Questions++; t.Parses+t.Effects > 0 {
		w.Tells = (questionBits*bcp.Bit + f.errorsTold() + t.Control - t.ToldControl + bcp.Bit - 1) / bcp.Bit * bcp.Bit
		t.Told, t.ToldControl = t.Told+w.Tells, t.Control
	}
	d.askPerson(w, WaitQuestion, questions)
}

// errorsTold is what content told the planner of the frame by errors, which may be in the
// words of its questions.
func (f *frame) errorsTold() (sum bcp.Bits) {
	for _, i := range f.Query.Influence {
		if strings.HasPrefix(string(i.Origin), errorOrigin) {
			sum += bcp.Bits(i.Bits) * bcp.Bit
		}
	}
	return sum
}

// reply takes what a requester answers to a question of its run. One that was told more
// since the task than by the run's own questions may not answer for the task's label.
// Nobody is kept from refusing.
func (s *State) reply(m bcp.Moment, from string, message *runMessage, told Label) Change {
	id := string(message.question)
	r := s.open(id, WaitQuestion)
	switch {
	case r == nil || r.Start.Requester.Name != from:
		c := s.refused(m, bcp.KindStep, id, UnknownItem)
		c.Run = "" // it is not its own
		return c
	case message.refused:
		return s.DecidePerson(m, id, Reject, nil)
	case told.Width() > r.Start.Task.Width().add(Width(r.Totals.Told/bcp.Bit)):
		return s.refused(m, bcp.KindStep, id, ToldSince)
	}
	return s.DecidePerson(m, id, Answer, message.answer)
}

// answerQuestion takes the answer to the question that the run waits with; it is false for
// one that does not fit.
func (d *draft) answerQuestion(answer []byte) bool {
	f := d.run.top()
	s, at := f.next()
	if s.Kind != AskStep {
		return false
	}
	value, ok := s.Asks.judge(answer)
	if ok {
		d.answer(StepRecord{Path: string(at), Kind: AskStep}, f.view.asked(s, &value, at))
	}
	return ok
}
