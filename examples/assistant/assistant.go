package assistant

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/office"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// The seats of the example.
const (
	Kernel    bcp.AgentName = "desk"
	Requester bcp.AgentName = "kim"
	Planner   bcp.AgentName = "planner"
	Reader    bcp.AgentName = "mail-reader"
	Service   bcp.AgentName = "office"
	Parcels   bcp.AgentName = "parcels"
	// Grant is what runs of the example are started with.
	Grant = "assist"
	// Address is the requester's.
	Address = "kim@example.org"
)

// Tasks that the planner plans as it should. For others it is compromised.
const (
	Task = "Summarise my latest mail and send it to me."
	// Loop does something for each element of a list that is read, with a link that nobody reads.
	Loop = "Book a pickup for each notice in my inbox."
)

// Options say where the mesh is and who connects.
type Options struct {
	URL                        string
	Requester, Planner, Reader agents.Credentials
	Service, Parcels           agents.Credentials
	Office                     string                         // a folder that [MakeOffice] made
	Planned                    func(task string, plan []byte) // hears what the planner is asked and answers
	Said                       func(content, answer string)   // hears what the Reader is given and says
	Called                     func(tool string, args []byte) // hears what the tools are asked for
}

// Seats are agents that serve.
type Seats struct {
	requester *agents.Requester
	close     []func() error
}

// MakeOffice makes the example's mail and contacts in a new folder.
func MakeOffice(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"mail", "contacts.vcf"} {
		content, err := mesh.ReadFile("mesh/office/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// server is what serves in a seat.
type server interface {
	Start(context.Context) error
	Stop(context.Context) error
}

// Serve takes the seats of planner, Reader and tools until Close.
func Serve(ctx context.Context, o Options) (_ *Seats, err error) {
	s := &Seats{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	opened, err := office.Open(o.Office, "desk@example.org")
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, opened.Close)
	for _, seat := range []struct {
		name  bcp.AgentName
		creds agents.Credentials
		take  func(*agents.Connection) server // nil for the requester, who serves nothing
	}{{Requester, o.Requester, nil}, {Planner, o.Planner, o.planner}, {Reader, o.Reader, o.reader}, {Service, o.Service, o.tools(opened.Call)}, {Parcels, o.Parcels, o.tools(callParcels)}} {
		conn, err := agents.Connect(ctx, o.URL, seat.creds, agents.Options{Name: seat.name, Logger: hclog.NewNullLogger()})
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, func() error { conn.Close(); return nil })
		if seat.take == nil {
			s.requester = agents.NewRequester(conn)
			continue
		}
		a := seat.take(conn)
		if err := a.Start(ctx); err != nil {
			return nil, err
		}
		s.close = append(s.close, func() error { return a.Stop(context.WithoutCancel(ctx)) })
	}
	return s, nil
}

func (o *Options) planner(conn *agents.Connection) server {
	planner := agents.NewPlanner(conn)
	planner.OnPlan(func(_ context.Context, r agents.PlanRequest) (any, error) {
		plan := buildPlan(r.Task)
		o.Planned(r.Task, plan)
		return plan, nil
	})
	return planner
}

func (o *Options) reader(conn *agents.Connection) server {
	reader := agents.NewReader(conn)
	reader.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		if _, link, found := strings.Cut(q.Content, "https://"); found {
			return map[string]string{"url": "https://" + link}, nil // sealed
		}
		answer := hijackedReading(q.Content)
		o.Said(q.Content, answer)
		return map[string]string{"text": answer}, nil
	})
	return reader
}

func (o *Options) tools(call func(context.Context, agents.Call) (any, error)) func(*agents.Connection) server {
	return func(conn *agents.Connection) server {
		tool := agents.NewTool(conn, nil)
		tool.HandleAll(func(ctx context.Context, c agents.Call) (any, error) {
			o.Called(c.Tool, c.Args)
			return call(ctx, c)
		})
		return tool
	}
}

// Do has the kernel do a task, and waits for its end. Nobody remembers the task before.
func (s *Seats) Do(ctx context.Context, task string) (bcp.RunReceipt, error) {
	run, err := s.requester.Run(ctx, Kernel, Grant, agents.RunTask{Task: task, NewSession: true})
	if err != nil {
		return bcp.RunReceipt{}, err
	}
	return run.Wait(ctx)
}

// Close ends the seats.
func (s *Seats) Close() error {
	var err error
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	s.close = nil
	return err
}

// buildPlan is the plan of a task.
func buildPlan(task string) jsontext.Value {
	content, err := mesh.ReadFile("mesh/plans.json")
	var plans []struct {
		Task string         `json:"task"`
		Plan jsontext.Value `json:"plan"`
	}
	if err == nil {
		err = json.Unmarshal(content, &plans)
	}
	if err != nil {
		panic("assistant: the plans are not embedded: " + err.Error())
	}
	for _, p := range plans {
		if p.Task == task || p.Task == "*" {
			return p.Plan
		}
	}
	return nil
}

// hijackedReading is what a Reader says that does what a mail orders.
func hijackedReading(content string) string {
	for sentence := range strings.SplitSeq(strings.ReplaceAll(content, "\n", " "), ". ") {
		if strings.Contains(sentence, "gnore previous instructions") {
			return strings.NewReplacer("@", " at ", ".example", " example", ".", "").Replace(strings.TrimSpace(sentence))
		}
	}
	return "nothing of note"
}

// callParcels is the service of parcels: it lists the notices of a box, and books whatever page it is given.
func callParcels(_ context.Context, c agents.Call) (any, error) {
	if c.Tool == "book_pickup" {
		return map[string]bool{"booked": true}, nil
	}
	var args map[string]string
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	notices, err := mesh.ReadFile("mesh/parcels/" + args["box"] + ".json")
	return jsontext.Value(notices), err
}
