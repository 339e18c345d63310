package kernel

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Items returns the calls and questions that wait for people, in any order, and later calls
// of the loops of these.
func (s *State) Items() []bcp.RunItem {
	var items []bcp.RunItem
	for _, r := range s.runs {
		if r.End != nil || !r.Wait.Kind.Person() {
			continue
		}
		items = append(items, s.buildItem(r))
		more := 0
		s.later(r, func(g *given) bool {
			more++
			items = append(items, s.buildLater(r, g, more))
			return more < bcp.MaxBatch-1
		})
	}
	return items
}

// EachHeld calls f with the kernel of each run that waits for a person, the kind of its item, and since
// when: no plan is read again for it, as for [State.Items].
func (s *State) EachHeld(f func(kernel bcp.AgentName, kind bcp.ItemKind, since time.Time)) {
	for _, r := range s.runs {
		if r.End == nil && r.Wait.Kind.Person() {
			f(r.Start.Kernel, r.Wait.itemKind(), time.Unix(0, r.Wait.Since).UTC())
		}
	}
}

func (w *Wait) itemKind() bcp.ItemKind {
	switch w.Kind {
	case WaitDoubt:
		return bcp.ItemInDoubt
	case WaitQuestion:
		return bcp.ItemQuestion
	}
	return bcp.ItemEffect
}

// Item returns what waits for a person under this id, if something does.
func (s *State) Item(id bcp.ItemID) (bcp.RunItem, bool) {
	if r := s.open(string(id), WaitApproval, WaitDoubt, WaitQuestion); r != nil {
		return s.buildItem(r), true
	}
	if r, g := s.laterCall(string(id)); r != nil {
		return s.buildLater(r, g, 0), true
	}
	return bcp.RunItem{}, false
}

// buildLater shows a call whose turn has not come.
func (s *State) buildLater(r *run, g *given, nth int) bcp.RunItem {
	of := *r
	of.Wait, of.Args = g.wait(&draft{change: &Change{}}), g.bytes
	of.Wait.Kind, of.Wait.ID, of.Wait.Since, of.Wait.Deadline = WaitApproval, r.listed(g.record.Key), r.Wait.Since+int64(nth), r.Wait.Since+int64(r.Start.Limits.ApprovalTTL)
	it := s.itemOf(&of, &g.call)
	it.Effect.Element, it.Effect.Elements, it.Effect.Early = g.element, g.elements, true
	return it
}

// buildItem shows what a run waits for.
func (s *State) buildItem(r *run) bcp.RunItem {
	k := s.kernels[r.Start.Kernel]
	if k == nil || r.asks() != nil {
		return s.itemOf(r, nil)
	}
	it := s.itemOf(r, s.openCall(k, r))
	if f, _ := s.waitsAt(k, r); f != nil {
		it.Effect.Element, it.Effect.Elements = f.checked.elementOf(len(f.Done))
	}
	return it
}

// itemOf shows a call, or a question, to a person. What the definitions of today do not have any more is
// tainted, and can only be refused.
func (s *State) itemOf(r *run, call *Call) bcp.RunItem {
	w := &r.Wait
	it := bcp.RunItem{Content: effectJSON(r), Item: bcp.Item{
		ID: bcp.ItemID(w.ID), Kind: w.itemKind(), Controller: r.Start.Kernel, Taint: bcp.TaintHigh,
		Since: time.Unix(0, w.Since).UTC(), Deadline: time.Unix(0, w.Deadline).UTC(),
	}}
	e := &it.Effect
	*e = bcp.Effect{
		Run: string(r.ID), Requester: bcp.AgentName(r.Start.Requester.Name), Grant: r.Start.GrantName, Step: w.Step, Tool: w.Tool, Attempt: w.Attempt, Changed: true,
	}
	k := s.kernels[r.Start.Kernel]
	if k == nil {
		return it
	}
	it.Approvers = k.definition.Approvers
	if asks := r.asks(); asks != nil {
		it.Reader, it.Taint, it.Content, e.Changed = e.Requester, bcp.TaintLow, questionJSON(r), false
		e.Questions, e.Result = asks.Spec.Questions, asks.typ.AppendJSONSchema(nil)
		return it
	}
	t := k.tools[w.Tool]
	if t == nil {
		return it
	}
	it.Reader = bcp.AgentName(t.Service)
	e.Service, e.Description, e.Level, e.Result = it.Reader, t.Description, string(t.Level), t.Output.AppendJSONSchema(nil)
	if call == nil {
		return it
	}
	e.Changed, it.Taint = false, bcp.TaintLow
	for i := range call.Arguments {
		a := &call.Arguments[i]
		e.Arguments = append(e.Arguments, bcp.EffectArgument{Name: a.Name, Critical: t.isCritical(a), Tainted: a.Label.Tainted(), ThirdParty: a.Label.ThirdParty(), Influence: a.Label.Width().String(), Sealed: a.Sealed})
		if a.Label.Tainted() {
			it.Taint = bcp.TaintHigh
		}
	}
	v := k.Gate().Judge(call)
	if e.Rules, e.Person = v.Rules, t.person(call, &v); e.Person == "" {
		_, e.Bits, _ = t.chosen(call)
	}
	return it
}

// effectJSON is what a person signs: this call of this run, in canonical JSON.
func effectJSON(r *run) []byte {
	key, _ := r.Wait.Key.MarshalText()
	return object(member{"run_id", Text(string(r.ID))}, member{"key", Text(string(key))}, member{"tool", Text(r.Wait.Tool)}, member{"args", recordedArguments(r.Args)}).JSON()
}

// questionJSON is what a person is shown of a question: of this run, in canonical JSON.
func questionJSON(r *run) []byte {
	return object(member{"run_id", Text(string(r.ID))}, member{"step", Text(r.Wait.Step)}, member{"questions", recordedArguments(r.Args)}).JSON()
}

// Result reads what a person says that a call returned: {"result": …}, of the type that
// its tool returns, or answers: {"answer": …}.
func (s *State) Result(id bcp.ItemID, response []byte) ([]byte, bool) {
	r := s.open(string(id), WaitDoubt, WaitQuestion)
	if r == nil {
		return nil, false
	}
	if asks := r.asks(); asks != nil {
		answer, ok := parseSaid(response, "answer")
		if !ok {
			return nil, false
		}
		value, ok := asks.judge(answer.JSON())
		return object(member{"answer", value}).JSON(), ok
	}
	k := s.kernels[r.Start.Kernel]
	if k == nil || k.tools[r.Wait.Tool] == nil {
		return nil, false
	}
	result, ok := parseSaid(response, "result")
	if !ok || !k.tools[r.Wait.Tool].Output.Has(result) {
		return nil, false
	}
	return object(member{"result", *result}).JSON(), true
}

// parseSaid reads an object with one key.
func parseSaid(response []byte, key string) (*Value, bool) {
	v, err := ParseValue(response)
	if err != nil || v.kind != ObjectValue || len(v.keys) != 1 {
		return nil, false
	}
	said := v.member(key)
	return said, said != nil
}

// DecideItem decides what a person decided about an item. The person's right and
// signature are judged before.
func (s *State) DecideItem(m bcp.Moment, id bcp.ItemID, act bcp.Act, by bcp.AgentName, until time.Time, content []byte) Change {
	decision, result := PersonDecision(""), []byte(nil)
	item, _ := s.Item(id)
	if item.Effect.Early && act == bcp.Approve {
		return s.decideLater(m, string(id), by, until.UnixNano())
	}
	switch {
	case act == bcp.RejectItem:
		decision = Reject
	case act == bcp.Approve && item.Kind == bcp.ItemEffect:
		decision = Approve
	case act == bcp.Approve && item.Kind == bcp.ItemInDoubt:
		decision = NotDone
	case act == bcp.EditItem:
		if v, ok := parseSaid(content, "result"); ok && item.Kind == bcp.ItemInDoubt {
			decision, result = Done, v.JSON()
		} else if v, ok := parseSaid(content, "answer"); ok && item.Kind == bcp.ItemQuestion {
			decision, result = Answer, v.JSON()
		}
	}
	return s.DecidePerson(m, string(id), decision, result)
}

// held is the item that a change has wait for a person.
func (c *Change) held() bcp.ItemID {
	if c.Code != "" || c.Wait == nil || !c.Wait.Kind.Person() {
		return ""
	}
	return bcp.ItemID(c.Wait.ID)
}

// settledItem is the item that no longer waits for a person once the change is
// made.
func (s *State) settledItem(c *Change) bcp.ItemID {
	r := s.runs[c.Run]
	if r == nil || c.Code != "" || !r.Wait.Kind.Person() || r.Wait.ID != c.Input {
		return ""
	}
	return bcp.ItemID(c.Input)
}
