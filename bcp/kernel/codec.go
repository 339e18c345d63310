package kernel

import (
	"encoding/base64"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A change is stored as two JSON objects: what everybody reads who may read the
// journal, and what is sealed. Each type says its fields once, for both directions.
// A field may be added, never renamed or given another meaning; one that is empty is
// left out.

// ErrRecord says that bytes are no stored change; it quotes nothing.
var ErrRecord = errors.New("kernel: no record of a change")

// AppendJSON appends the open part of the change.
func (c *Change) AppendJSON(dst []byte) []byte { return encode(dst, c.fields) }

// AppendJSON appends the private part of a change.
func (p *Private) AppendJSON(dst []byte) []byte { return encode(dst, p.fields) }

// ParseChange reads what the two AppendJSON wrote. private is nil where it was
// erased.
func ParseChange(open, private []byte) (Change, error) {
	var c Change
	if !decode(open, c.fields) || private != nil && !decode(private, c.Private.fields) {
		return Change{}, ErrRecord
	}
	return c, nil
}

func encode(dst []byte, fields func(*codec)) []byte {
	v := new(codec).encode(fields)
	return v.AppendJSON(dst)
}

func decode(b []byte, fields func(*codec)) bool {
	v, err := ParseValue(b)
	return err == nil && new(codec).decode(&v, fields)
}

// codec writes the fields of one object, or reads them.
type codec struct {
	object  Value
	reading bool
	known   int // members that were read
	ok      bool
	apart   *apart // of what is saved
}

// encode writes an object in this one.
func (c *codec) encode(fields func(*codec)) Value {
	inner := codec{object: object(), ok: true, apart: c.apart}
	fields(&inner)
	return inner.object
}

// decode reads an object in this one.
func (c *codec) decode(v *Value, fields func(*codec)) bool {
	inner := codec{object: *v, reading: true, ok: v.kind == ObjectValue, apart: c.apart}
	fields(&inner)
	return inner.ok && inner.known == len(v.keys)
}

// field writes a member, unless it is empty, or reads it, if it is there.
func (c *codec) field(key string, kind ValueKind, write func() Value, empty bool, read func(*Value) bool) {
	if !c.reading {
		if !empty {
			c.object.add(key, write())
		}
		return
	}
	if v := c.object.member(key); v != nil {
		c.known++
		c.ok = c.ok && v.kind == kind && read(v)
	}
}

func text[T ~string](c *codec, key string, p *T) {
	c.field(key, TextValue, func() Value { return Text(string(*p)) }, *p == "", func(v *Value) bool {
		*p = T(v.text)
		return true
	})
}

func number[T ~int | ~int64 | ~uint8](c *codec, key string, p *T) {
	c.field(key, IntValue, func() Value { return Int(int64(*p)) }, *p == 0, func(v *Value) bool {
		*p = T(v.n)
		return int64(*p) == v.n
	})
}

func (c *codec) flag(key string, p *bool) {
	c.field(key, BoolValue, func() Value { return Bool(true) }, !*p, func(v *Value) bool {
		*p = true
		return v.flag
	})
}

func (c *codec) bytes(key string, p *[]byte) {
	c.field(key, TextValue, func() Value { return Text(base64.StdEncoding.EncodeToString(*p)) }, *p == nil, func(v *Value) bool {
		b, err := base64.StdEncoding.DecodeString(v.text)
		*p = b
		return err == nil
	})
}

// eachBytes is a list of bytes; nil is written as no bytes.
func (c *codec) eachBytes(key string, p *[][]byte) {
	list(c, key, p, func(b *[]byte) Value { return Text(base64.StdEncoding.EncodeToString(*b)) }, func(v *Value, b *[]byte) (ok bool) {
		if v.text == "" {
			return v.kind == TextValue
		}
		decoded, err := base64.StdEncoding.DecodeString(v.text)
		*b = decoded
		return v.kind == TextValue && err == nil
	})
}

func (c *codec) digest(key string, p *bcp.Digest) {
	c.field(key, TextValue, func() Value { return digestValue(*p) }, *p == bcp.Digest{}, func(v *Value) bool { return p.UnmarshalText([]byte(v.text)) == nil && *p != bcp.Digest{} })
}

func digestValue(d bcp.Digest) Value {
	b, _ := d.MarshalText()
	return Text(string(b))
}

func (c *codec) label(key string, p *Label) {
	c.field(key, ObjectValue, p.recorded, false, func(v *Value) bool {
		l, err := parseLabel(v)
		*p = l
		return err == nil
	})
}

// someLabel is a label that may be absent.
func (c *codec) someLabel(key string, p **Label) {
	c.field(key, ObjectValue, func() Value { return (*p).recorded() }, *p == nil, func(v *Value) bool {
		l, err := parseLabel(v)
		*p = &l
		return err == nil
	})
}

func (c *codec) grant(key string, p *Grant) {
	c.field(key, ListValue, func() Value { return texts(p.held) }, len(p.held) == 0, func(v *Value) bool {
		readers, ok := parseReaders(v)
		*p = Grant{readers.Capabilities()}
		return ok && len(p.held) > 0
	})
}

// word writes a number as its word.
func word[T ~uint8](c *codec, key string, p *T, words []string) {
	c.field(key, TextValue, func() Value { return Text(words[*p]) }, *p == 0, func(v *Value) bool {
		i := slices.Index(words, v.text)
		*p = T(max(i, 0))
		return i > 0
	})
}

func list[T any](c *codec, key string, p *[]T, encode func(*T) Value, decode func(*Value, *T) bool) {
	c.field(key, ListValue, func() Value {
		v := List()
		for i := range *p {
			v.list = append(v.list, encode(&(*p)[i]))
		}
		return v
	}, len(*p) == 0, func(v *Value) bool {
		*p = make([]T, len(v.list))
		for i := range v.list {
			if !decode(&v.list[i], &(*p)[i]) {
				return false
			}
		}
		return len(v.list) > 0
	})
}

func (c *codec) texts(key string, p *[]string) {
	list(c, key, p, func(s *string) Value { return Text(*s) }, func(v *Value, s *string) bool {
		*s = v.text
		return v.kind == TextValue
	})
}

func objects[T any](c *codec, key string, p *[]T, fields func(*T, *codec)) {
	list(c, key, p, func(e *T) Value { return c.encode(func(c *codec) { fields(e, c) }) },
		func(v *Value, e *T) bool { return c.decode(v, func(c *codec) { fields(e, c) }) })
}

// nested writes an object that is there even if all of it is empty.
func nested[T any](c *codec, key string, p **T, fields func(*T, *codec)) {
	c.field(key, ObjectValue, func() Value { return c.encode(func(c *codec) { fields(*p, c) }) }, *p == nil, func(v *Value) bool {
		*p = new(T)
		return c.decode(v, func(c *codec) { fields(*p, c) })
	})
}

func (c *Change) fields(f *codec) {
	number(f, "kind", &c.Kind)
	number(f, "time", &c.Time)
	text(f, "run", &c.Run)
	text(f, "code", &c.Code)
	text(f, "input", &c.Input)
	number(f, "attempt", &c.Attempt)
	nested(f, "start", &c.Start, (*Start).fields)
	nested(f, "result", &c.Result, (*Result).fields)
	nested(f, "plan", &c.Plan, (*Accepted).fields)
	objects(f, "steps", &c.Steps, (*StepRecord).fields)
	nested(f, "told", &c.Told, (*PlanError).fields)
	nested(f, "sub", &c.Sub, (*Frame).fields)
	nested(f, "wait", &c.Wait, (*Wait).fields)
	nested(f, "leave", &c.Leave, (*Leave).fields)
	nested(f, "end", &c.End, (*End).fields)
	totals := &c.Totals
	if f.reading || c.Totals != (Totals{}) {
		nested(f, "totals", &totals, (*Totals).fields)
		c.Totals = *totals
	}
	number(f, "deadline", &c.Deadline)
	text(f, "alert", &c.Alert)
	nested(f, "place", &c.Place, (*RulePlace).fields)
}

func (l *Leave) fields(f *codec) {
	f.digest("key", &l.Key)
	text(f, "step", &l.Step)
	text(f, "by", &l.By)
	number(f, "until", &l.Until)
}

func (p *RulePlace) fields(f *codec) {
	number(f, "rule", &p.Rule)
	number(f, "line", &p.Line)
	number(f, "column", &p.Column)
}

func (t *Totals) fields(f *codec) {
	number(f, "steps", &t.Steps)
	number(f, "effects", &t.Effects)
	number(f, "q_parses", &t.Parses)
	number(f, "plans", &t.Plans)
	number(f, "planner_bits", &t.PlannerBits)
	number(f, "control", &t.Control)
	number(f, "control_worst", &t.ControlWorst)
	number(f, "questions", &t.Questions)
	number(f, "told", &t.Told)
	number(f, "told_control", &t.ToldControl)
}

func (s *Start) fields(f *codec) {
	text(f, "kernel", &s.Kernel)
	text(f, "requester", &s.Requester.Name)
	text(f, "address", &s.Requester.Address)
	text(f, "grant_name", &s.GrantName)
	f.grant("grant", &s.Grant)
	text(f, "request_id", &s.Request)
	f.label("task", &s.Task)
	limits := &s.Limits
	nested(f, "limits", &limits, (*Limits).fields)
	s.Limits = *limits
	f.flag("plan_only", &s.PlanOnly)
	f.flag("new_session", &s.Anew)
}

func (l *Limits) fields(f *codec) {
	number(f, "max_steps", &l.MaxSteps)
	number(f, "max_effects", &l.MaxEffects)
	number(f, "max_q_parses", &l.MaxParses)
	number(f, "max_depth", &l.MaxDepth)
	number(f, "max_plans", &l.MaxPlans)
	number(f, "max_planner_bits", &l.MaxPlannerBits)
	number(f, "max_value_bytes", &l.MaxValueBytes)
	number(f, "max_pending_approvals", &l.MaxPendingApprovals)
	number(f, "planner_timeout", &l.PlannerTimeout)
	number(f, "run_ttl", &l.RunTTL)
	number(f, "approval_ttl", &l.ApprovalTTL)
	number(f, "control_budget_bits", &l.ControlBits)
	number(f, "max_questions", &l.MaxQuestions)
}

func (o *Result) fields(f *codec) {
	f.digest("key", &o.Key)
	text(f, "code", &o.Code)
}

func (a *Accepted) fields(f *codec) {
	number(f, "attempt", &a.Attempt)
	number(f, "steps", &a.Steps)
}

func (s *StepRecord) fields(f *codec) {
	text(f, "path", &s.Path)
	word(f, "kind", &s.Kind, stepWords)
	text(f, "tool", &s.Tool)
	nested(f, "judged", &s.Judged, (*Verdict).fields)
	f.flag("early", &s.Early)
	objects(f, "arguments", &s.Arguments, (*NamedLabel).fields)
	f.flag("done", &s.Done)
	if s.Done {
		f.label("label", &s.Label)
	}
	f.texts("inputs", &s.Inputs)
	f.digest("key", &s.Key)
	f.flag("reused", &s.Reused)
	f.someLabel("control", &s.Control)
	number(f, "control_bits", &s.Bits)
}

func (v *Verdict) fields(f *codec) {
	word(f, "ruling", &v.Ruling, rulingWords)
	text(f, "code", &v.Code)
	f.texts("rules", &v.Rules)
}

func (n *NamedLabel) fields(f *codec) {
	text(f, "name", &n.Name)
	f.label("label", &n.Label)
}

func (e *PlanError) fields(f *codec) {
	number(f, "attempt", &e.Attempt)
	text(f, "step", &e.Step)
	text(f, "code", &e.Code)
	f.someLabel("control", &e.Control)
}

// fields of a frame are those that a sub-run begins with.
func (s *Frame) fields(f *codec) {
	text(f, "path", &s.Path)
	number(f, "depth", &s.Depth)
	f.grant("grant", &s.Grant)
	f.label("query", &s.Query)
	f.someLabel("control", &s.Control)
	f.someLabel("steer", &s.Steer)
}

func (w *Wait) fields(f *codec) {
	word(f, "kind", &w.Kind, waitWords)
	text(f, "id", &w.ID)
	text(f, "call", &w.Call)
	text(f, "step", &w.Step)
	text(f, "agent", &w.Agent)
	text(f, "tool", &w.Tool)
	f.digest("key", &w.Key)
	number(f, "attempt", &w.Attempt)
	number(f, "since", &w.Since)
	number(f, "deadline", &w.Deadline)
	f.flag("approved", &w.Approved)
	text(f, "endorsed", &w.Endorsed)
	f.flag("overruled", &w.Overruled)
	f.flag("tainted", &w.Tainted)
	number(f, "outages", &w.Outages)
	number(f, "not_before", &w.NotBefore)
	number(f, "tells", &w.Tells)
}

func (e *End) fields(f *codec) {
	text(f, "status", &e.Status)
	text(f, "code", &e.Code)
	text(f, "step", &e.Step)
	text(f, "cause", &e.Cause)
	if e.Status == Committed {
		f.label("label", &e.Label)
		text(f, "result", &e.Result)
	}
}

func (p *Private) fields(f *codec) {
	text(f, "task", &p.Task)
	f.digest("digest", &p.Digest)
	f.digest("salt", &p.Salt)
	objects(f, "rules", &p.Rules, (*RunRule).fields)
	f.bytes("plan", &p.Plan)
	f.bytes("value", &p.Value)
	f.eachBytes("sub", &p.Sub)
	text(f, "instruction", &p.Instruction)
	f.bytes("content", &p.Content)
	f.bytes("arguments", &p.Arguments)
	f.bytes("final", &p.Final)
	text(f, "note", &p.Note)
}

func (r *RunRule) fields(f *codec) {
	text(f, "tool", &r.Tool)
	text(f, "when", &r.When)
}
