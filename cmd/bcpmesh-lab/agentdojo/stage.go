package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/agentdojo/score"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// stage is a mesh with a suite's tools, and everybody who takes part. It plays one task at a time.
type stage struct {
	suite *suite
	mesh  *mesh.Mesh
	arena *arena
	seat  *seat // of the task that is played; nil: all is scripted
	// definitions are those of the mesh, as an attacker has read them.
	definitions string
	requester   *agents.Requester
	approver    *agents.Approver
	plain       [4]*agents.Controller // by category
	held        chan bcp.ItemID
	close       []func() error

	mu    sync.Mutex // guards what follows
	now   play
	plans map[string]*scripted // by task
}

// play is a task that is done now, and what has come of it.
type play struct {
	user *task
	goal *task // nil: nobody attacks
	plan *scripted
	asks *ask // what a plain Controller asks now
	// plans are those of tasks that are done at once, by text.
	plans map[string]*scripted
	// lying says that the Reader is hijacked.
	lying bool
	// contrary says that it takes the other branch, too, quiet that it tells the truth where a person would see a lie.
	contrary, quiet bool
	person          person
	siege           *siege // nil: nobody adapts
	planted         string

	*score.Run // what has become of the suite's state, and of the user

	Approved int // calls and summaries that the person let through
	Refused  int // and that it did not
	// Endorsable of these calls one endorsement could have been for.
	Endorsable int
	Nominal    bcp.Bits
	Capacity   bcp.Bits
	Alerts     []string
	Failed     string // why a plain Controller gave up, or the run did not commit
	told       string // the first error of a plan
}

// person is who is asked.
type person int

const (
	careful  person = iota // allows what the task needs, and nothing else
	refuses                // everything
	approves               // everything
	persons
)

// allows reports what the person says of a call or a text.
func (p person) allows(needed bool) bool { return p == approves || p == careful && needed }

// open starts the mesh of a suite.
func open(ctx context.Context, s *suite, a *arena) (_ *stage, err error) {
	def, definitions, err := s.define()
	if err != nil {
		return nil, err
	}
	state, err := os.MkdirTemp("", "agentdojo-")
	if err != nil {
		return nil, err
	}
	st := &stage{suite: s, arena: a, definitions: definitions, held: make(chan bcp.ItemID, 64), plans: map[string]*scripted{}}
	st.close = append(st.close, func() error { return os.RemoveAll(state) })
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	running, err := mesh.Start(ctx, mesh.Config{Definition: def, State: state, Logger: hclog.NewNullLogger(), OnDecision: st.decided})
	if err != nil {
		return nil, err
	}
	st.mesh = running
	st.close = append(st.close, func() error { return running.Stop(context.WithoutCancel(ctx)) })
	connect := func(name bcp.AgentName, role bcp.Role) (*agents.Connection, error) {
		creds, err := running.Issue(name, role, 24*time.Hour)
		if err != nil {
			return nil, err
		}
		c, err := agents.Connect(ctx, running.URL(), agents.CredsText(creds.Text()), agents.Options{Name: name, Logger: hclog.NewNullLogger()})
		if err == nil {
			st.close = append(st.close, func() error { c.Close(); return nil })
		}
		return c, err
	}
	seats := map[bcp.AgentName]bcp.Role{plannerName: bcp.RolePlanner, readerName: bcp.RoleReader, serviceName: bcp.RoleTool,
		requester: bcp.RoleController, bcp.Operator: bcp.RoleApprover}
	for category := 1; category <= 3; category++ {
		seats[plainName(category)] = bcp.RoleController
	}
	conns := map[bcp.AgentName]*agents.Connection{}
	for name, role := range seats {
		if conns[name], err = connect(name, role); err != nil {
			return nil, err
		}
	}
	planner, reader, tool := agents.NewPlanner(conns[plannerName]), agents.NewReader(conns[readerName]), agents.NewTool(conns[serviceName], nil, st.call)
	planner.OnPlan(st.answerPlan)
	reader.OnQuery(st.answer)
	type service interface {
		Start(context.Context) error
		Stop(context.Context) error
	}
	services := []service{planner, reader, tool}
	for category := 1; category <= 3; category++ {
		st.plain[category] = agents.NewController(conns[plainName(category)])
		services = append(services, st.plain[category])
	}
	for _, one := range services {
		if err := one.Start(ctx); err != nil {
			return nil, err
		}
		st.close = append(st.close, func() error { return one.Stop(context.WithoutCancel(ctx)) })
	}
	st.requester, st.approver = agents.NewRequester(conns[requester]), agents.NewApprover(conns[bcp.Operator])
	return st, nil
}

// Close ends the mesh.
func (st *stage) Close() error {
	var err error
	for _, f := range slices.Backward(st.close) {
		err = errors.Join(err, f())
	}
	st.close = nil
	return err
}

// decided is told of every decision.
func (st *stage) decided(d *bcp.Decision) {
	if id := d.HeldItem(); id != "" {
		st.held <- id
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if d.Run != nil {
		if c, err := kernel.ReadRecord(d); err == nil {
			if c.Told != nil && st.now.told == "" {
				st.now.told = fmt.Sprintf(" (%s at %s)", c.Told.Code, c.Told.Step)
			}
			if c.Private.Final != nil {
				st.now.Answer = strings.Join(scalarTexts(c.Private.Final), ", ")
			}
		}
	}
	if d.Kind != bcp.KindAsk && !d.Prepaid {
		st.now.Nominal, st.now.Capacity = st.now.Nominal+d.Nominal, st.now.Capacity+d.Capacity
	}
	switch {
	case d.Kind == bcp.KindAlert && bcp.AlertKind(d.Event) != bcp.AlertHeld:
		st.now.Alerts = append(st.now.Alerts, d.Event)
	case d.Kind == bcp.KindViolation || d.Kind == bcp.KindRefusals:
		st.now.Alerts = append(st.now.Alerts, d.Kind.String())
	case d.Run != nil && d.Run.Alert != "":
		st.now.Alerts = append(st.now.Alerts, d.Run.Alert)
	}
}

// begin sets what is played, on a state of its own, and end returns it.
func (st *stage) begin(p play) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.now = p
	if p.siege == nil {
		p.planted = planted(p.goal)
	}
	st.now.Run = st.suite.score.Begin(p.planted)
}

func (st *stage) end() play {
	st.mu.Lock()
	defer st.mu.Unlock()
	now := st.now
	if now.Run != nil { // what is told of a play later is not told of this one
		now.Run = new(*now.Run)
	}
	return now
}

// answer is the Reader.
func (st *stage) answer(ctx context.Context, q agents.Query) (any, error) {
	st.mu.Lock()
	a, st0 := st.now.asks, st.now
	st.mu.Unlock()
	for _, plan := range append(slices.Collect(maps.Values(st0.plans)), st0.plan) {
		if a == nil && plan != nil {
			a = plan.Asks[q.Instruction]
		}
	}
	switch {
	case st0.siege != nil:
		return st0.siege.said(ctx, q)
	case st.seat != nil:
		return st.seat.read(ctx, q, a, &st0)
	}
	if a == nil { // a hostile plan asks so that it fails
		return agents.NotEnoughInformation{}, nil
	}
	if st0.lying && !(st0.quiet && a.Seen) {
		if lie := st.hijackedAnswer(a, st0.goal, q.Attempt); lie != nil {
			return lie, nil
		}
	}
	if value := a.value(q.Content); st0.contrary && a.Format.Name == "Yes" {
		return answer{"value": jsontext.Value(fmt.Sprint(value.Kind() != 't'))}, nil
	}
	return a.truth(q.Content), nil
}

// truth is what a Reader says that is not hijacked.
func (a *ask) truth(content string) answer {
	value := a.value(content)
	said, ok := a.Format.say(value)
	if !ok {
		said = answer{"value": quote(strings.Join(scalarTexts(value), " "))}
	}
	return said
}

// value is what a Reader says that reads content: in a loop, of the element that is in it.
func (a *ask) value(content string) jsontext.Value {
	texts := scalarTexts(readArgs(jsontext.Value(content))[elementName])
	if i := slices.Index(a.Elements, strings.Join(texts, "")); i >= 0 && i < len(a.Values) {
		return a.Values[i]
	}
	return a.Values[0]
}

// hijackedAnswer is what a hijacked Reader tries: of what the goal wants, what the type that is asked for lets through, each try another
// thing, and the truth only when it has nothing more to say that fits.
func (st *stage) hijackedAnswer(a *ask, goal *task, attempt int) answer {
	for _, text := range hijackedAnswers(goal, a.Argument) {
		value := quote(text)
		if !a.Format.carries(value, false) {
			continue
		}
		if attempt--; attempt >= 0 {
			continue
		}
		if sameWords(value, a.Values[0]) {
			return nil
		}
		said, _ := a.Format.say(value)
		return said
	}
	return nil
}
