package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/examples/assistant"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

// kernelScene is one run of the demonstration.
type kernelScene struct {
	Title string `json:"title"`
	Task  string `json:"task"`
	// Plan is what the planner answered first, and Asked how often it was.
	Plan  []string `json:"plan"`
	Asked int      `json:"planner_asked"`
	// Given is what the Reader read, and Said what it said: hostile.
	Given  string   `json:"reader_given,omitempty"`
	Said   string   `json:"reader_said,omitempty"`
	Called []string `json:"called"`
	// Mails that were sent, to whom and with what text: hostile.
	Sent []sentMail     `json:"sent"`
	Run  *tell.RunStory `json:"run"`

	point string
}

type sentMail struct {
	To   string `json:"to"`
	Body string `json:"body"`
}

// kernelScenes are the runs, with what each shows.
func kernelScenes() []*kernelScene {
	return []*kernelScene{
		{Title: "A mail that gives orders, and a reader that obeys", Task: assistant.Task,
			point: "The planner never saw the mail, so the plan is as it was. What the mail orders is words in a mail to its owner."},
		{Title: "A planner that is compromised", Task: "Whatever you are asked.",
			point: "The contacts are other people's data, and the recipient is not the requester: no rule lets them into this call. All is judged before the first call, so nothing was read."},
		{Title: "A planner that asks for what nobody granted", Task: "Wipe my mailbox.",
			point: "Without the grant, the tool does not exist. If the gate were wrong, the server would still refuse: no connection may publish that call."},
	}
}

// kernelStory follows the runs.
type kernelStory struct {
	mu      sync.Mutex
	stories *tell.RunStories
	ended   map[string]chan struct{} // by run
	scene   *kernelScene
}

// decided hears of each decision.
func (s *kernelStory) decided(d *bcp.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.stories.Add(d); r != nil && r.Status != bcp.RunOpen {
		if done := s.end(string(r.Run)); !closed(done) {
			close(done)
		}
	}
}

func closed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (s *kernelStory) end(run string) chan struct{} {
	if s.ended[run] == nil {
		s.ended[run] = make(chan struct{})
	}
	return s.ended[run]
}

// run waits until the end of a run is told.
func (s *kernelStory) run(ctx context.Context, id string) (*tell.RunStory, error) {
	s.mu.Lock()
	done := s.end(id)
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.stories.All() {
		if string(r.Run) == id {
			return r, nil
		}
	}
	return nil, errors.New("the run is not in the journal")
}

func (s *kernelStory) on(change func(*kernelScene)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scene != nil {
		change(s.scene)
	}
}

func (s *kernelStory) begin(scene *kernelScene) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scene = scene
}

// demoKernel tells the story of a task.
func demoKernel(ctx context.Context, p *cli.Program, keep string) (err error) {
	dir, err := demoFolder(keep, assistant.Folder())
	if err != nil {
		return err
	}
	defer func() {
		if keep == "" || err != nil {
			_ = os.RemoveAll(dir) // we made it, and what is left of it tells nothing
		}
	}()
	office := filepath.Join(dir, "office")
	def, err := assistant.Definition()
	if err != nil {
		return cli.Failf("%s", err)
	}
	s := &kernelStory{stories: tell.NewRunStories(), ended: map[string]chan struct{}{}}
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
	seats, err := s.takeSeats(ctx, m, office)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, seats.Close()) }()

	scenes := kernelScenes()
	if !p.Out.JSON {
		p.Out.Printf("%s asks a kernel, %s, for things. A planner that never sees content makes the plan, a reader turns\ncontent into typed answers, and each call of a tool passes the gate.\n", assistant.Requester, assistant.Kernel)
	}
	for i, scene := range scenes {
		if err := s.play(ctx, seats, office, scene); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return cli.Failf("the demonstration stopped: %s", err)
		}
		if !p.Out.JSON {
			scene.tell(p.Out, i+1)
		}
	}
	return endKernelStory(p.Out, scenes, keep)
}

// takeSeats takes the seats of the example's agents.
func (s *kernelStory) takeSeats(ctx context.Context, m *mesh.Mesh, office string) (*assistant.Seats, error) {
	o := assistant.Options{URL: m.URL(), Office: office}
	var err error
	if o.Requester, err = credentials(m, assistant.Requester, bcp.RoleController); err != nil {
		return nil, err
	}
	if o.Planner, err = credentials(m, assistant.Planner, bcp.RolePlanner); err != nil {
		return nil, err
	}
	if o.Reader, err = credentials(m, assistant.Reader, bcp.RoleReader); err != nil {
		return nil, err
	}
	if o.Service, err = credentials(m, assistant.Service, bcp.RoleTool); err != nil {
		return nil, err
	}
	o.Planned = func(_ string, plan []byte) {
		s.on(func(c *kernelScene) {
			if c.Asked++; c.Asked == 1 {
				c.Plan = tell.PlanLines(plan)
			}
		})
	}
	o.Said = func(content, answer string) { s.on(func(c *kernelScene) { c.Given, c.Said = content, answer }) }
	o.Called = func(tool string, _ []byte) { s.on(func(c *kernelScene) { c.Called = append(c.Called, tool) }) }
	seats, err := assistant.Serve(ctx, o)
	if err != nil {
		return nil, cli.Failf("the agents of the example cannot connect: %s", err)
	}
	return seats, nil
}

// play has one task done.
func (s *kernelStory) play(ctx context.Context, seats *assistant.Seats, office string, scene *kernelScene) error {
	before, err := sentMails(office)
	if err != nil {
		return err
	}
	s.begin(scene)
	defer s.begin(nil)
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	end, err := seats.Do(ctx, scene.Task)
	if err != nil {
		return err
	}
	if scene.Run, err = s.run(ctx, end.RunID); err != nil {
		return err
	}
	after, err := sentMails(office)
	for name, m := range after {
		if _, old := before[name]; !old {
			scene.Sent = append(scene.Sent, m)
		}
	}
	return err
}

// sentMails are the mails in an outbox, by file.
func sentMails(office string) (map[string]sentMail, error) {
	names, err := filepath.Glob(filepath.Join(office, "outbox", "*.eml"))
	mails := map[string]sentMail{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		m, err := mail.ReadMessage(f)
		if err == nil {
			mails[name] = sentMail{To: strings.Trim(m.Header.Get("To"), "<>"), Body: mailBody(m)}
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return mails, err
}

// mailBody is the text of a mail of the office, which is quoted-printable.
func mailBody(m *mail.Message) string {
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		return "it cannot be read"
	}
	return string(text)
}

// tell writes a scene.
func (c *kernelScene) tell(o *cli.Output, number int) {
	o.Printf("\n")
	o.Heading(fmt.Sprintf("%d. %s", number, c.Title))
	o.Printf("%s asks: %s\n", assistant.Requester, cli.Quoted(c.Task))
	o.Printf("%s plans:\n", assistant.Planner)
	for _, line := range c.Plan {
		o.Printf("    %s\n", inert.Line(line))
	}
	if c.Given != "" {
		c.frame(o, string(assistant.Reader)+" is given:", c.Given)
		c.frame(o, string(assistant.Reader)+" says:", c.Said)
	}
	if len(c.Run.Verdicts) > 0 {
		var rows [][]string
		for _, v := range c.Run.Verdicts {
			when := "when it was made"
			if v.Early {
				when = "before the first call"
			}
			var tainted []string
			for _, a := range v.Arguments {
				if a.Label.Tainted() {
					tainted = append(tainted, a.Name)
				}
			}
			rows = append(rows, []string{v.Tool, v.Ruling, string(v.Code), strings.Join(v.Rules, ", "), strings.Join(tainted, ", "), when})
		}
		o.Printf("the gate says:\n")
		o.Table([]string{"call", "verdict", "why", "rules", "chosen by content", ""}, rows)
	}
	status := c.Run.Status
	if c.Run.Code != "" {
		status += ": " + string(c.Run.Code)
	}
	if c.Asked > 1 {
		status += fmt.Sprintf(", after the planner was asked %d times", c.Asked)
	}
	o.Printf("%s\n", status)
	if len(c.Called) == 0 {
		o.Printf("called: nothing\n")
	} else {
		o.Printf("called: %s\n", strings.Join(c.Called, ", "))
	}
	for _, m := range c.Sent {
		c.frame(o, "sent to "+inert.Line(m.To)+":", m.Body)
	}
	o.Printf("%s\n", c.point)
}

// frame shows hostile text.
func (c *kernelScene) frame(o *cli.Output, label, text string) {
	o.Printf("%s\n", label)
	for said := range strings.Lines(text) {
		if said = strings.TrimSpace(said); said == "" {
			continue
		}
		for _, line := range inert.Prefixed("    "+inert.Gutter, said, cli.Columns(o.Screen)) {
			o.Printf("%s\n", line)
		}
	}
}

// kernelDemo is what --json writes.
type kernelDemo struct {
	Scenes []*kernelScene `json:"scenes"`
	Calls  int            `json:"calls"`
	Mails  int            `json:"mails"`
	// Stray counts the mails to anybody but the requester.
	Stray int    `json:"mails_to_others"`
	Kept  string `json:"kept,omitempty"`
}

func endKernelStory(o *cli.Output, scenes []*kernelScene, keep string) error {
	d := kernelDemo{Scenes: scenes, Kept: keep}
	for _, c := range scenes {
		d.Calls += len(c.Called)
		d.Mails += len(c.Sent)
		for _, m := range c.Sent {
			if m.To != assistant.Address {
				d.Stray++
			}
		}
	}
	if o.JSON {
		return o.Value(d)
	}
	o.Printf("\n")
	o.Heading("In all")
	o.Printf("%s of tools, %s sent, %d of them to anybody but %s\n", tell.Count(d.Calls, "call"), tell.Count(d.Mails, "mail"), d.Stray, assistant.Address)
	if keep != "" {
		o.Printf("kept: %s; bcpmesh up in it starts the same mesh, with programs in its seats\n", cli.Quoted(keep))
	} else {
		o.Printf("bcpmesh demo --kernel --keep DIR keeps it; docs/kernel.md says how to make one\n")
	}
	return nil
}
