// Package desk plays the research desk of the subscriptions seed with two MCP
// hosts: one for the Controller main, one for the Reader researcher. They have
// a script in place of a model; all else is as in a real host.
package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options say how the hosts reach the mesh.
type Options struct {
	Program string // bcpmesh
	URL     string // of the mesh; empty for the one of the creds files' folder
	// The creds files of the two agents.
	Main, Researcher string
	// Out gets a line for each step.
	Out io.Writer
}

// Play runs both hosts until the Controller has its answers: to a question of each
// category, and a push. A person has to approve the last one twice.
func Play(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	researcher, err := open(ctx, o, o.Researcher)
	if err != nil {
		return fmt.Errorf("the researcher's host: %w", err)
	}
	defer researcher.Close()
	main, err := open(ctx, o, o.Main)
	if err != nil {
		return fmt.Errorf("the host of main: %w", err)
	}
	defer main.Close()

	ended := make(chan error, 1)
	go func() {
		err := research(ctx, researcher)
		cancel(fmt.Errorf("the researcher's host: %w", err))
		ended <- err
	}()
	err = decide(ctx, main, o.Out)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(errOver)
	<-ended
	return err
}

var errOver = errors.New("the play is over")

// host is one MCP host.
type host struct{ *mcp.ClientSession }

// open starts the server of an agent, as the line of a host's configuration does.
func open(ctx context.Context, o Options, creds string) (host, error) {
	arguments := []string{"mcp", "--creds", creds}
	if o.URL != "" {
		arguments = append(arguments, "--url", o.URL)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(o.Program, arguments...)}, nil)
	return host{session}, err
}

// call calls a tool and decodes its result.
func (h host) call(ctx context.Context, tool string, arguments, result any) error {
	got, err := h.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	b, err := json.Marshal(got.StructuredContent)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	if got.IsError {
		return fmt.Errorf("%s: %s", tool, b)
	}
	return json.Unmarshal(b, result)
}

type object = map[string]any

// known is what the researcher has read. A model would find it in the pages.
var known = object{
	"is_confirmed": true, "mood": "calm",
	"who": "Ada Lovelace", "when": "March 15, 2026",
}

// research is the Reader's host: it publishes what is new, and answers whatever is
// asked.
func research(ctx context.Context, h host) error {
	news := object{"subscription_id": "research-alerts", "controller": "main", "response": object{"has_breaking_news": true, "priority": "high"}}
	if err := h.call(ctx, "BCPPublish", news, &object{}); err != nil {
		return err
	}
	for {
		var list struct {
			Queries []struct {
				QueryID   string `json:"query_id"`
				Category  int
				Fields    []struct{ Name string }
				Questions []struct{ ID string }
			}
		}
		if err := h.call(ctx, "BCPQueries", object{"wait_seconds": 20}, &list); err != nil {
			return err
		}
		for _, q := range list.Queries {
			answer := object{"query_id": q.QueryID}
			switch q.Category {
			case 1:
				fields := object{}
				for _, f := range q.Fields {
					fields[f.Name] = known[f.Name]
				}
				answer["fields"] = fields
			case 2:
				answers := []object{}
				for _, q := range q.Questions {
					answers = append(answers, object{"id": q.ID, "answer": known[q.ID]})
				}
				answer["answers"] = answers
			default:
				answer["summary"] = "A team has shown that larger codes make fewer errors."
			}
			if err := h.call(ctx, "BCPRespond", answer, &object{}); err != nil {
				return err
			}
		}
	}
}

// delivery is what the Controller's host needs of one.
type delivery struct {
	ID           string          `json:"delivery_id"`
	Query        string          `json:"query_id"`
	Subscription string          `json:"subscription_id"`
	Response     json.RawMessage `json:"response"`
	Outcome      string          `json:"outcome"`
	Bits         float64         `json:"bandwidth_bits"`
}

// decide is the Controller's host: it hears of the push, and asks a question of
// each category, the lowest first.
func decide(ctx context.Context, h host, out io.Writer) error {
	d, err := wait(ctx, h, func(d delivery) bool { return d.Subscription == "research-alerts" })
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "pushed: %s\n", d.Response)
	for _, question := range []object{
		{"target": "researcher", "category": 1, "fields": []object{
			{"name": "is_confirmed", "type": "boolean"}, {"name": "mood", "type": "enum", "values": []string{"calm", "worried"}},
		}},
		{"target": "researcher", "category": 2, "questions": []object{
			{"id": "who", "question": "Who wrote it?", "max_words": 3, "expected_format": "person_name"},
			{"id": "when", "question": "When?", "max_words": 3, "expected_format": "date"},
		}},
		{
			"target": "researcher", "category": 3, "directive": "Sum up the key finding.", "max_words": 20,
			"justification": "The task wants the finding in words, and nobody knows its parts beforehand.",
		},
	} {
		var accepted struct {
			QueryID string  `json:"query_id"`
			Nominal float64 `json:"nominal_bits"`
		}
		if err := h.call(ctx, "BCPQuery", question, &accepted); err != nil {
			return err
		}
		fmt.Fprintf(out, "asked in category %v: %v bits\n", question["category"], accepted.Nominal)
		d, err := wait(ctx, h, func(d delivery) bool {
			if d.Query == accepted.QueryID && d.Outcome == "held" {
				fmt.Fprintln(out, "a person has to approve it")
			}
			return d.Query == accepted.QueryID && d.Outcome != "held"
		})
		if err != nil {
			return err
		}
		if d.Outcome != "" {
			return fmt.Errorf("the question was not answered: %s", d.Outcome)
		}
		fmt.Fprintf(out, "answered: %s\n", d.Response)
	}
	return nil
}

// wait acknowledges deliveries until the one that is wanted.
func wait(ctx context.Context, h host, wanted func(delivery) bool) (delivery, error) {
	done := []string{}
	for {
		var inbox struct{ Deliveries []delivery }
		if err := h.call(ctx, "BCPInbox", object{"wait_seconds": 20, "acknowledge": done}, &inbox); err != nil {
			return delivery{}, err
		}
		done = done[:0]
		for _, d := range inbox.Deliveries {
			if wanted(d) {
				return d, h.call(ctx, "BCPInbox", object{"acknowledge": []string{d.ID}}, &object{})
			}
			done = append(done, d.ID)
		}
	}
}
