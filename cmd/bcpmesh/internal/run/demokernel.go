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
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/examples/assistant"
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
	// Of the scene's text.
	Heading  string     `json:"-"`
	Point    string     `json:"-"`
	Verdicts [][]string `json:"-"`
	Brief    bool       `json:"-"` // told in one line
}

type sentMail struct {
	To   string `json:"to"`
	Body string `json:"body"`
}

// kernelScenes are the runs, with what each shows.
func kernelScenes() []*kernelScene {
	return []*kernelScene{
		{Title: "A mail that gives orders, and a reader that obeys", Task: assistant.Task,
			Point: "The planner never saw the mail. What it orders is words in a mail to its owner."},
		{Title: "A list that steers, and links that nobody reads", Task: assistant.Loop,
			Point: "The list chose how many calls. Each link cost 1 bit, and went sealed from reader to tool, which takes one host's: neither planner nor kim saw it."},
		{Title: "A planner that is compromised", Task: "Whatever you are asked.",
			Point: "No rule lets other people's contacts into any mail. So nothing was even read."},
		{Title: "Five notices, and a plan for three", Task: "Book a pickup for each notice in my junk mail.", Brief: true},
		{Title: "A plan for 64 notices", Task: "Book all pickups that there are.", Brief: true},
		{Title: "A tool that nobody granted", Task: "Wipe my mailbox.", Brief: true},
	}
}

// Requester, Planner and Reader are the agents of the scene.
func (c *kernelScene) Requester() bcp.AgentName { return assistant.Requester }

func (c *kernelScene) Planner() bcp.AgentName { return assistant.Planner }

func (c *kernelScene) Reader() bcp.AgentName { return assistant.Reader }

// demoKernel tells the story of a task.
func demoKernel(ctx context.Context, p *cli.Program, keep string) error {
	stories := tell.NewRunStories()
	return perform(ctx, p, keep, assistant.Folder(), func(d *bcp.Decision) { stories.Add(d) }, func(s *stage) (err error) {
		office := filepath.Join(s.folder.Dir, "office")
		var now *kernelScene
		on := func(change func(*kernelScene)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if now != nil {
				change(now)
			}
		}
		seats, err := takeSeats(ctx, s, office, on)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, seats.Close()) }()
		if err := say(p.Out, "kernel", struct{ Requester, Kernel bcp.AgentName }{assistant.Requester, assistant.Kernel}); err != nil {
			return err
		}
		d := kernelDemo{Scenes: kernelScenes(), Kept: keep, Address: assistant.Address}
		for i, scene := range d.Scenes {
			s.mu.Lock()
			now = scene
			s.mu.Unlock()
			if err := stopped(ctx, scene.play(ctx, s, seats, office, stories)); err != nil {
				return err
			}
			scene.Heading, scene.Verdicts = fmt.Sprintf("%d. %s", i+1, scene.Title), verdictRows(scene.Run)
			if err := say(p.Out, "kernel scene", scene); err != nil {
				return err
			}
			d.Calls += len(scene.Called)
			d.Mails += len(scene.Sent)
			for _, m := range scene.Sent {
				d.Stray += one(m.To != assistant.Address)
			}
		}
		if p.Out.JSON {
			return p.Out.Value(d)
		}
		return say(p.Out, "kernel end", d)
	})
}

// takeSeats takes the seats of the example's agents.
func takeSeats(ctx context.Context, s *stage, office string, on func(func(*kernelScene))) (*assistant.Seats, error) {
	o := assistant.Options{URL: s.mesh.URL(), Office: office}
	for _, seat := range []struct {
		creds *agents.Credentials
		name  bcp.AgentName
		role  bcp.Role
	}{{&o.Requester, assistant.Requester, bcp.RoleController}, {&o.Planner, assistant.Planner, bcp.RolePlanner}, {&o.Reader, assistant.Reader, bcp.RoleReader}, {&o.Service, assistant.Service, bcp.RoleTool}, {&o.Parcels, assistant.Parcels, bcp.RoleTool}} {
		var err error
		if *seat.creds, err = s.credentials(seat.name, seat.role); err != nil {
			return nil, err
		}
	}
	o.Planned = func(_ string, plan []byte) {
		on(func(c *kernelScene) {
			if c.Asked++; c.Asked == 1 {
				c.Plan = tell.PlanLines(plan)
			}
		})
	}
	o.Said = func(content, answer string) { on(func(c *kernelScene) { c.Given, c.Said = content, answer }) }
	o.Called = func(tool string, _ []byte) { on(func(c *kernelScene) { c.Called = append(c.Called, tool) }) }
	seats, err := assistant.Serve(ctx, o)
	if err != nil {
		return nil, cli.Failf("the agents of the example cannot connect: %s", err)
	}
	return seats, nil
}

// play has one task done.
func (c *kernelScene) play(ctx context.Context, s *stage, seats *assistant.Seats, office string, stories *tell.RunStories) error {
	before, err := sentMails(office)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	end, err := seats.Do(ctx, c.Task)
	if err != nil {
		return err
	}
	err = s.until(ctx, func() bool {
		for _, r := range stories.All() {
			if string(r.Run) == end.RunID && r.Status != bcp.RunOpen {
				c.Run = r
			}
		}
		return c.Run != nil
	})
	if err != nil {
		return err
	}
	c.Run.Said = nil // it has what is sealed
	after, err := sentMails(office)
	for name, m := range after {
		if _, old := before[name]; !old {
			c.Sent = append(c.Sent, m)
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

// verdictRows are the calls that the gate judged; what it said the same of again is one row.
func verdictRows(run *tell.RunStory) (rows [][]string) {
	for _, v := range run.Verdicts {
		when := "at the call"
		if v.Early {
			when = "before any call"
		}
		var tainted []string
		for _, a := range v.Arguments {
			if a.Label.Tainted() {
				tainted = append(tainted, a.Name)
			}
		}
		rows = append(rows, []string{v.Tool, v.Ruling, string(v.Code), strings.Join(v.Rules, ", "), strings.Join(tainted, ", "), when})
	}
	return slices.CompactFunc(rows, slices.Equal)
}

// kernelDemo is what --json writes.
type kernelDemo struct {
	Scenes []*kernelScene `json:"scenes"`
	Calls  int            `json:"calls"`
	Mails  int            `json:"mails"`
	// Stray counts the mails to anybody but the requester.
	Stray   int    `json:"mails_to_others"`
	Kept    string `json:"kept,omitempty"`
	Address string `json:"-"`
}
