package kernel

// Dump returns the whole state in one spelling, without the definitions and what is
// made of them. Two states are the same if and only if their dumps are.
func (s *State) Dump() []byte {
	v := object(member{"time", Int(s.time)})
	runs := List()
	for _, r := range s.sorted() {
		c := codec{object: object(), ok: true}
		r.fields(&c)
		runs.list = append(runs.list, c.object)
	}
	v.add("runs", runs)
	v.add("due", Int(s.NextDue()))
	requests := object()
	for key, made := range s.requests {
		requests.add(string(key.kernel)+" "+key.requester+" "+string(key.id), List(digestOf(made.digest), Text(string(made.run)), Text(string(made.code))))
	}
	v.add("requests", requests)
	return v.JSON()
}

func (r *run) fields(f *codec) {
	text(f, "id", &r.id)
	start := &r.start
	nested(f, "start", &start, (*Start).fields)
	text(f, "task", &r.task)
	objects(f, "rules", &r.rules, (*RunRule).fields)
	totals := &r.totals
	nested(f, "totals", &totals, (*Totals).fields)
	number(f, "deadline", &r.deadline)
	objects(f, "frames", &r.frames, func(p **frame, f *codec) { (*p).fields(f) })
	objects(f, "told", &r.told, (*PlanError).fields)
	objects(f, "results", &r.results, func(p **result, f *codec) { (*p).fields(f) })
	objects(f, "settled", &r.settled, func(p **settled, f *codec) { (*p).fields(f) })
	wait := &r.wait
	nested(f, "wait", &wait, (*Wait).fields)
	f.bytes("arguments", &r.args)
	nested(f, "end", &r.end, (*End).fields)
	number(f, "ended", &r.ended)
}

func (o *result) fields(f *codec) {
	f.digest("key", &o.key)
	value := dumped(o.value)
	f.bytes("value", &value)
	text(f, "frame", &o.frame)
	text(f, "tool", &o.tool)
}

func (s *settled) fields(f *codec) {
	text(f, "call", &s.call)
	number(f, "attempt", &s.attempt)
	number(f, "sent", &s.sent)
	f.flag("again", &s.again)
}

func (x *frame) fields(f *codec) {
	x.Frame.fields(f)
	text(f, "instruction", &x.instruction)
	content := dumped(x.content)
	f.bytes("content", &content)
	f.bytes("plan", &x.bytes)
	objects(f, "steps", &x.done, (*done).fields)
}

// fields of a step that is done. That of a constant or a merge is in the plan.
func (d *done) fields(f *codec) {
	word(f, "kind", &d.kind, stepWords)
	if d.kind != ConstStep && d.kind != MergeStep {
		value := dumped(d.value)
		f.bytes("value", &value)
	}
	f.label("label", &d.label)
	f.digest("key", &d.key)
}

func dumped(v *Value) []byte {
	if v == nil {
		return nil
	}
	return v.JSON()
}
