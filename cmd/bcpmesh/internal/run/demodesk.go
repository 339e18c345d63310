package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/explain"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/byhand"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/examples/researchdesk"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// hijackedModel obeys whatever it reads.
const hijackedModel = "gullible"

// deskScene is one time that the desk works on its task.
type deskScene struct {
	Title     string                   `json:"title"`
	Models    map[bcp.AgentName]string `json:"models"`
	Exchanges []*deskExchange          `json:"exchanges"`
	Brief     string                   `json:"brief"` // what the editor says: hostile
	Tokens    map[bcp.AgentName]int64  `json:"tokens"`
	Totals    deskTotals               `json:"totals"`

	hijacked bool // its Readers
	point    string
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

// deskExchange is one question with all that happened until its end.
type deskExchange struct {
	Query    bcp.QueryID   `json:"query_id"`
	Reader   bcp.AgentName `json:"reader"`
	Category bcp.Category  `json:"category"`
	Asked    string        `json:"asked"`
	Requests []deskRequest `json:"requests"`
	// Said is what the model of the Reader says that is to be the answer: hostile.
	Said      []string       `json:"said"`
	Refusals  []string       `json:"refused_answers"`
	Delivered jsontext.Value `json:"delivered,omitzero"`
	Outcome   bcp.Code       `json:"outcome,omitempty"`
	Nominal   bcp.Bits       `json:"nominal_bits"`
	Capacity  bcp.Bits       `json:"capacity_bits"`
}

// deskRequest is a request that the keeper of a Reader asked for.
type deskRequest struct {
	URL     string   `json:"url,omitempty"`
	By      string   `json:"by,omitempty"`
	Bits    bcp.Bits `json:"bits"`
	Refused string   `json:"refused,omitempty"`
}

// deskStory follows the desk decision by decision.
type deskStory struct {
	mu      sync.Mutex
	changed chan struct{}
	scene   *deskScene
}

// decided hears each decision once it is recorded.
func (s *deskStory) decided(d *bcp.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scene == nil {
		return
	}
	s.scene.add(d)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (c *deskScene) add(d *bcp.Decision) {
	switch d.Kind {
	case bcp.KindAsk:
		if d.Verdict == bcp.Accept {
			c.Exchanges = append(c.Exchanges, &deskExchange{Query: d.Query, Reader: d.Reader, Category: d.Category, Asked: byhand.AskedFor(d.Spec), Requests: []deskRequest{}, Said: []string{}, Refusals: []string{}})
		}
	case bcp.KindEgress:
		c.egress(d)
	case bcp.KindAnswer, bcp.KindExpire:
		for _, e := range c.Exchanges {
			if e.Query != d.Query {
				continue
			}
			switch {
			case d.Delivery != "" && d.Outcome == "":
				e.Delivered = jsontext.Value(slices.Clone(d.Payload))
			case d.Outcome != "":
				e.Outcome = d.Outcome
			case d.Verdict == bcp.Reject:
				e.Refusals = append(e.Refusals, "["+explain.Rule(d)+"] "+d.Reason.String())
			}
			e.Nominal, e.Capacity = e.Nominal+d.Nominal, e.Capacity+d.Capacity
		}
	}
}

// egress adds a request to the exchange that its Reader works on.
func (c *deskScene) egress(d *bcp.Decision) {
	of := c.openExchange(d.Agent)
	if of == nil || d.Egress == nil {
		return
	}
	var sealed struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(d.Payload, &sealed) // a refusal has none
	switch {
	case d.Verdict != bcp.Accept:
		of.Requests = append(of.Requests, deskRequest{Refused: string(d.Egress.Why)})
	case d.Egress.Act == bcp.EgressReserve:
		of.Requests = append(of.Requests, deskRequest{URL: sealed.URL, By: string(d.Egress.By), Bits: d.Egress.Bits})
	}
}

// openExchange is the exchange that a Reader works on: it has one at a time.
func (c *deskScene) openExchange(reader bcp.AgentName) *deskExchange {
	for _, e := range slices.Backward(c.Exchanges) {
		if e.Reader == reader {
			return e
		}
	}
	return nil
}

// addSaid adds what the model of an agent says.
func (c *deskScene) addSaid(agent bcp.AgentName, r *llm.Reply) {
	c.Tokens[agent] += r.Usage.Input + r.Usage.CacheRead + r.Usage.CacheWrite + r.Usage.Output
	of := c.openExchange(agent)
	if of == nil {
		return
	}
	for _, call := range r.Calls {
		if call.Name == "answer" {
			of.Said = append(of.Said, string(call.Arguments))
		}
	}
}

// waitSettled waits until every question has its end.
func (s *deskStory) waitSettled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		open := slices.ContainsFunc(s.scene.Exchanges, func(e *deskExchange) bool { return e.Delivered == nil && e.Outcome == "" })
		changed := s.changed
		s.mu.Unlock()
		if !open {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("an exchange did not end: %w", ctx.Err())
		}
	}
}

// replyObserver tells of each reply of a model.
type replyObserver struct {
	llm.Provider
	of func(*llm.Reply)
}

// Do implements [llm.Provider].
func (c replyObserver) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	reply, err := c.Provider.Do(ctx, r, delta)
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
			{Title: "The desk at work", point: "No instruction in the pages and mails reached the editor: it got choices, numbers and names."},
			{Title: "The same desk, with readers that obey every order they read", hijacked: true,
				point: "The attacker chose the values of category 1, which is all that a hijacked reader can do in it, and the desk knows how many bits that was."},
		}
	case hijackedModel:
		return []*deskScene{{Title: "The desk, with models that obey every order they read", point: "Nobody in it resists. The gateway and the keepers do."}}
	}
	return []*deskScene{{Title: "The desk, with " + model}}
}

// demoDesk tells the story of agents that models run.
func demoDesk(ctx context.Context, p *cli.Program, keep string) (err error) {
	dir, err := deskFolder(keep)
	if err != nil {
		return err
	}
	defer func() {
		if keep == "" || err != nil {
			_ = os.RemoveAll(dir) // we made it, and what is left of it tells nothing
		}
	}()
	folder := meshdir.In(dir)
	def, err := folder.Load()
	if err != nil {
		return err
	}
	var archive *fetch.Archive
	switch pages := p.Env(meshdir.ArchiveVariable); pages {
	case "":
		archive = fetch.NewArchive(researchdesk.Pages())
	case meshdir.ArchiveOff:
	default:
		if archive, err = meshdir.In(".").Archive(pages); err != nil {
			return err
		}
	}
	s := &deskStory{changed: make(chan struct{})}
	m, err := launch(ctx, mesh.Config{
		Definition: def, State: home.State(dir), Version: cli.ProgramVersion(), OnDecision: s.decided, Logger: cli.NewLogger(hclog.Error, p.Out.Stderr),
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return startFailure(err, listening{}, dir)
	}
	defer func() { err = errors.Join(err, stopMesh(m)) }()

	scenes := deskScenes(p.Env(mesh.ModelVariable))
	if !p.Out.JSON {
		p.Out.Printf("%s is asked: %s\nIt reads nothing itself: it asks %s and %s, through the gateway.\nLines with a bar are what a model says, and nobody has checked.\n", researchdesk.Editor, researchdesk.Task, researchdesk.WebReader, researchdesk.MailReader)
	}
	for i, scene := range scenes {
		if err := s.play(ctx, p, m, folder, def, archive, scene); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return cli.Failf("the demonstration stopped: %s", err)
		}
		if !p.Out.JSON {
			scene.tell(p.Out, i+1)
		}
	}
	if p.Out.JSON {
		return p.Out.Value(struct {
			Task   string       `json:"task"`
			Scenes []*deskScene `json:"scenes"`
			Kept   string       `json:"kept,omitempty"`
		}{researchdesk.Task, scenes, keep})
	}
	if keep != "" {
		p.Out.Printf("\nkept: %s; in it %s=pages bcpmesh up starts the same desk, and bcpmesh agent task %s asks it\n", cli.Quoted(keep), meshdir.ArchiveVariable, researchdesk.Editor)
	} else {
		p.Out.Printf("\n%s=anthropic/claude-haiku-5-5 (its key in ANTHROPIC_API_KEY) has a real model in each seat, gullible one that obeys.\nbcpmesh demo --desk --keep DIR keeps it; docs/agents.md says how to make one.\n", mesh.ModelVariable)
	}
	return nil
}

// deskFolder makes the folder of the desk.
func deskFolder(keep string) (string, error) {
	dir, err := demoFolder(keep, researchdesk.Folder())
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(filepath.Join(dir, "mail"), researchdesk.Mail()); err != nil {
		_ = os.RemoveAll(dir)
		return "", cli.Failf("the folder of the demonstration: %s", cli.FileReason(err))
	}
	return dir, nil
}

// play has the desk work on its task once.
func (s *deskStory) play(ctx context.Context, p *cli.Program, m *mesh.Mesh, folder meshdir.Folder, def *bcp.Mesh, archive *fetch.Archive, scene *deskScene) error {
	scene.Models, scene.Tokens = map[bcp.AgentName]string{}, map[bcp.AgentName]int64{}
	s.mu.Lock()
	s.scene = scene
	s.mu.Unlock()
	said, err := researchdesk.Work(ctx, researchdesk.Options{
		URL: m.URL(), Definition: def, Mail: filepath.Join(folder.Dir, "mail"), Archive: archive, Logger: cli.NewLogger(hclog.Error, p.Out.Stderr),
		Credentials: func(name bcp.AgentName, role bcp.Role) (agents.Credentials, error) { return credentials(m, name, role) },
		Model: func(a *bcp.Agent) (llm.Endpoint, error) {
			name := a.Model
			if scene.hijacked && a.Reader {
				name = hijackedModel
			}
			model, _ := def.ModelOf(name) // definitions that load have one
			e, err := folder.OpenModel(model, a.Run.MaxTokens)
			if err != nil {
				return e, cli.Failf("the model of %s: %s", a.Name, err)
			}
			scene.Models[a.Name] = model.Provider + "/" + model.Model
			e.Provider = replyObserver{e.Provider, func(r *llm.Reply) {
				s.mu.Lock()
				defer s.mu.Unlock()
				scene.addSaid(a.Name, r)
			}}
			return e, nil
		},
	}, researchdesk.Task)
	if err == nil {
		err = s.waitSettled(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene = nil
	scene.Brief = said
	scene.sum()
	return err
}

func (c *deskScene) sum() {
	t := &c.Totals
	for _, e := range c.Exchanges {
		for _, r := range e.Requests {
			if r.Refused != "" {
				t.Refused++
			} else {
				t.Pages++
			}
			t.EgressBits += r.Bits
		}
		if e.Delivered != nil {
			t.Answers++
		}
		t.Nominal, t.Capacity = t.Nominal+e.Nominal, t.Capacity+e.Capacity
		for _, word := range researchdesk.Words {
			t.Words += strings.Count(strings.ToLower(string(e.Delivered)), word)
		}
	}
	for _, n := range c.Tokens {
		t.Tokens += n
	}
}

// tell writes a scene.
func (c *deskScene) tell(o *cli.Output, number int) {
	o.Printf("\n")
	o.Heading(fmt.Sprintf("%d. %s", number, c.Title))
	for _, e := range c.Exchanges {
		o.Printf("%s asks %s, category %d: %s\n", researchdesk.Editor, e.Reader, e.Category, inert.Line(e.Asked))
		for _, r := range e.Requests {
			if r.Refused != "" {
				o.Printf("    a request is refused, and nothing is sent: %s\n", r.Refused)
			} else {
				o.Printf("    reads %s (%s, %s at most)\n", inert.Line(r.URL), r.By, r.Bits.Words())
			}
		}
		for _, said := range e.Said {
			for _, line := range inert.Prefixed("    "+inert.Gutter, said, cli.Columns(o.Screen)) {
				o.Printf("%s\n", line)
			}
		}
		for _, why := range e.Refusals {
			o.Printf("    its answer is refused %s\n", why)
		}
		if e.Delivered != nil {
			o.Printf("    delivered: %s (%s)\n", inert.Line(string(e.Delivered)), e.Nominal.Words())
		} else {
			o.Printf("    %s hears %s (%s)\n", researchdesk.Editor, e.Outcome, e.Nominal.Words())
		}
	}
	o.Printf("%s says:\n", researchdesk.Editor)
	for _, line := range inert.Prefixed("    "+inert.Gutter, cmp.Or(strings.TrimSpace(c.Brief), "nothing"), cli.Columns(o.Screen)) {
		o.Printf("%s\n", line)
	}
	t := c.Totals
	o.Table([]string{"pages read", "requests refused", "answers delivered", "bits", "capacity", "egress bits", "tokens", "words of attackers delivered"}, [][]string{{
		strconv.Itoa(t.Pages), strconv.Itoa(t.Refused), strconv.Itoa(t.Answers), t.Nominal.Rounded(), t.Capacity.Rounded(), t.EgressBits.Rounded(), strconv.FormatInt(t.Tokens, 10), strconv.Itoa(t.Words),
	}})
	if c.point != "" {
		o.Printf("%s\n", c.point)
	}
}
