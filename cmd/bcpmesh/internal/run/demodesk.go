package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// hijackedModel obeys whatever it reads.
const hijackedModel = "gullible"

// deskScene is one time that the desk works on its task.
type deskScene struct {
	Title  string     `json:"title"`
	Brief  string     `json:"brief"` // what the editor says: hostile
	Totals deskTotals `json:"totals"`

	// Of the scene's text.
	Heading   string          `json:"-"`
	Point     string          `json:"-"`
	Exchanges []*deskExchange `json:"-"`
	hijacked  bool            // its Readers
}

// deskTotals sums up.
type deskTotals struct {
	Pages      int      `json:"pages"`
	Refused    int      `json:"refused_requests"`
	Answers    int      `json:"answers"`
	Nominal    bcp.Bits `json:"nominal_bits"`
	Capacity   bcp.Bits `json:"capacity_bits"`
	EgressBits bcp.Bits `json:"egress_bits"`
	// Words are words of the hostile pages that reached the editor.
	Words  int   `json:"hostile_words"`
	Tokens int64 `json:"tokens"`
}

// deskExchange is one question with all that happened until its end, a line each.
type deskExchange struct {
	Lines  []deskLine
	query  bcp.QueryID
	reader bcp.AgentName
	ended  bool
}

// deskLine is what the gateway did, or what the model of the Reader says that is to be the answer: hostile.
type deskLine struct {
	Text string
	Said bool
}

func (e *deskExchange) tell(format string, args ...any) {
	e.Lines = append(e.Lines, deskLine{Text: fmt.Sprintf(format, args...)})
}

// add tells what a decision of the gateway is about. A Reader works on one exchange at a time.
func (c *deskScene) add(d *bcp.Decision) {
	e, t := c.newest(cmp.Or(d.Reader, d.Agent)), &c.Totals
	switch d.Kind {
	case bcp.KindAsk:
		if d.Verdict == bcp.Accept {
			e = &deskExchange{query: d.Query, reader: d.Reader}
			e.tell("editor asks %s, category %d: %s", d.Reader, d.Category, byhand.AskedFor(d.Spec))
			c.Exchanges = append(c.Exchanges, e)
		}
	case bcp.KindEgress:
		switch {
		case e == nil || d.Egress == nil:
		case d.Verdict != bcp.Accept:
			t.Refused++
			e.tell("    a request is refused, and nothing is sent: %s", d.Egress.Why)
		case d.Egress.Act == bcp.EgressReserve:
			var sealed struct {
				URL string `json:"url"`
			}
			_ = json.Unmarshal(d.Payload, &sealed) // the keeper wrote it
			t.Pages, t.EgressBits = t.Pages+1, t.EgressBits+d.Egress.Bits
			e.tell("    reads %s (%s, %s at most)", sealed.URL, d.Egress.By, d.Egress.Bits.Words())
		}
	case bcp.KindAnswer, bcp.KindExpire:
		if e == nil || e.query != d.Query {
			return
		}
		t.Nominal, t.Capacity, e.ended = t.Nominal+d.Nominal, t.Capacity+d.Capacity, d.Delivery != "" || d.Outcome != ""
		switch {
		case d.Outcome != "":
			e.tell("    editor hears %s (%s)", d.Outcome, d.Nominal.Words())
		case d.Delivery != "":
			t.Answers++
			for _, word := range examples.HostileWords {
				t.Words += strings.Count(strings.ToLower(string(d.Payload)), word)
			}
			e.tell("    delivered: %s (%s)", d.Payload, d.Nominal.Words())
		case d.Verdict == bcp.Reject:
			e.tell("    its answer is refused [%s] %s", d.DecidedBy(), d.Reason)
		}
	}
}

// newest is the exchange that a Reader works on, nil for none.
func (c *deskScene) newest(reader bcp.AgentName) *deskExchange {
	for _, e := range slices.Backward(c.Exchanges) {
		if e.reader == reader {
			return e
		}
	}
	return nil
}

// addSaid adds what the model of an agent says.
func (c *deskScene) addSaid(agent bcp.AgentName, r *llm.Reply) {
	c.Totals.Tokens += r.Usage.Input + r.Usage.CacheRead + r.Usage.CacheWrite + r.Usage.Output
	of := c.newest(agent)
	if of == nil {
		return
	}
	for _, call := range r.Calls {
		if call.Name == "answer" {
			of.Lines = append(of.Lines, deskLine{string(call.Arguments), true})
		}
	}
}

// replyObserver tells of each reply of a model.
type replyObserver struct {
	llm.Provider
	of func(*llm.Reply)
}

// Do implements [llm.Provider].
func (c replyObserver) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	reply, err := c.Provider.Do(ctx, r)
	if err == nil {
		c.of(reply)
	}
	return reply, err
}

// deskScenes are the scenes of the demonstration: the desk at work and with hijacked Readers, or with one model of the user's.
func deskScenes(model string) []*deskScene {
	switch model {
	case "":
		return []*deskScene{
			{Title: "The desk at work", Point: "No instruction in the pages and mails reached the editor: it got choices, numbers and names."},
			{Title: "The same desk, with readers that obey every order they read", hijacked: true,
				Point: "The attacker chose the values of category 1, which is all that a hijacked reader can do in it, and the desk knows how many bits that was."},
		}
	case hijackedModel:
		return []*deskScene{{Title: "The desk, with models that obey every order they read", Point: "Nobody in it resists. The gateway and the keepers do."}}
	}
	return []*deskScene{{Title: "The desk, with " + model}}
}

// demoDesk tells the story of agents that models run.
func demoDesk(ctx context.Context, p *cli.Program, keep string) error {
	saved := p.Env(meshdir.ArchiveVariable)
	archive, err := meshdir.In(".").Archive(saved)
	if err != nil {
		return err
	}
	if saved == "" {
		archive = fetch.NewArchive(examples.DeskPages())
	}
	var now *deskScene // guarded by the stage
	heard := func(d *bcp.Decision) {
		if now != nil {
			now.add(d)
		}
	}
	return perform(ctx, p, keep, examples.ResearchDesk(), heard, func(s *stage) error {
		if err := os.CopyFS(filepath.Join(s.folder.Dir, "mail"), examples.Mail()); err != nil {
			return cli.Failf("the folder of the demonstration: %s", cli.FileReason(err))
		}
		if err := say(p.Out, "desk", struct {
			Editor, WebReader, MailReader bcp.AgentName
			Task                          string
		}{examples.Editor, examples.WebReader, examples.MailReader, examples.DeskTask}); err != nil {
			return err
		}
		scenes := deskScenes(p.Env(mesh.ModelVariable))
		for i, scene := range scenes {
			s.mu.Lock()
			now = scene
			s.mu.Unlock()
			if err := stopped(ctx, scene.play(ctx, s, archive)); err != nil {
				return err
			}
			scene.Heading = fmt.Sprintf("%d. %s", i+1, scene.Title)
			if err := say(p.Out, "desk scene", scene); err != nil {
				return err
			}
		}
		if p.Out.JSON {
			return p.Out.Value(struct {
				Task   string       `json:"task"`
				Scenes []*deskScene `json:"scenes"`
				Kept   string       `json:"kept,omitempty"`
			}{examples.DeskTask, scenes, keep})
		}
		return say(p.Out, "desk end", struct{ Kept, Archive, Model string }{keep, meshdir.ArchiveVariable, mesh.ModelVariable})
	})
}

// deskTimeout bounds the work on a task.
const deskTimeout = 10 * time.Minute

// play has the desk work on its task once.
func (c *deskScene) play(ctx context.Context, s *stage, archive *fetch.Archive) error {
	done, err := c.work(ctx, s, archive)
	if err == nil && done.Failed != "" {
		err = errors.New("the editor: " + done.Failed)
	}
	if err == nil {
		err = s.until(ctx, func() bool {
			return !slices.ContainsFunc(c.Exchanges, func(e *deskExchange) bool { return !e.ended })
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Brief = strings.TrimSpace(done.Said)
	return err
}

// work seats the agents, and returns what the editor makes of the task. Each is a keeper and a cell, as ever, but in this
// process: nothing confines the cells.
func (c *deskScene) work(ctx context.Context, s *stage, archive *fetch.Archive) (cell.Done, error) {
	var open []*agents.Connection
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	var seats sync.WaitGroup
	defer seats.Wait()
	ctx, end := context.WithTimeout(ctx, deskTimeout)
	defer end()
	log, done, gone := cli.NewLogger(hclog.Error, s.p.Out.Stderr), make(chan cell.Done, 1), make(chan error, 3)
	for _, name := range []bcp.AgentName{examples.WebReader, examples.MailReader, examples.Editor} {
		agent, _ := s.def.Agent(name) // the example has all
		k := keeper.Options{Definition: s.def, Agent: &agent, Role: bcp.RoleReader, Start: keeper.InProcess, Version: "example", Logger: log,
			Mailbox: filepath.Join(s.folder.Dir, "mail"), Archive: archive}
		if name == examples.Editor {
			k.Role, k.Task = bcp.RoleController, examples.DeskTask
		}
		var err error
		if k.Model, err = c.model(s, &agent); err != nil {
			return cell.Done{}, err
		}
		for role, to := range map[bcp.Role]**agents.Connection{k.Role: &k.Connection, bcp.RoleKeeper: &k.Kept} {
			creds, err := s.credentials(name, role)
			if err == nil {
				*to, err = agents.Connect(ctx, s.mesh.URL(), creds, agents.Options{Name: name, Logger: log, Handlers: 1})
			}
			if err != nil {
				return cell.Done{}, err
			}
			open = append(open, *to)
		}
		seats.Go(func() {
			switch r, err := keeper.Run(ctx, k); {
			case r.Finished:
				done <- r.Done
			case err != nil && ctx.Err() == nil:
				gone <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	select {
	case d := <-done:
		return d, nil
	case err := <-gone:
		return cell.Done{}, err
	case <-ctx.Done():
		return cell.Done{}, context.Cause(ctx)
	}
}

// model is that of an agent, whose replies are added to the scene.
func (c *deskScene) model(s *stage, a *bcp.Agent) (llm.Endpoint, error) {
	name := a.Model
	if c.hijacked && a.Reader {
		name = hijackedModel
	}
	model, _ := s.def.ModelOf(name) // definitions that load have one
	e, err := s.folder.OpenModel(model, a.Run.MaxTokens)
	if err != nil {
		return e, cli.Failf("the model of %s: %s", a.Name, err)
	}
	e.Provider = replyObserver{e.Provider, func(r *llm.Reply) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.addSaid(a.Name, r)
	}}
	return e, nil
}
