package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// model plans and reads in place of the script. A nil model does not.
type model struct {
	endpoint llm.Endpoint
	name     string
	record   *os.File
}

// modelTokens are those of a reply: a plan is long.
const modelTokens = 4096

func openModel(spec wires.Spec, record string) (*model, error) {
	if spec.Provider == "" {
		return nil, nil
	}
	endpoint, err := wires.Open(spec, wires.Options{Env: os.LookupEnv, Replay: replay.NewProvider, MaxTokens: modelTokens})
	if err != nil {
		return nil, err
	}
	m := &model{endpoint: endpoint, name: spec.Provider + " " + spec.Model}
	if record == "" {
		return m, nil
	}
	if m.record, err = os.Create(record); err != nil {
		return nil, err
	}
	m.endpoint.Provider, err = replay.NewRecorder(endpoint.Provider, m.record)
	return m, errors.Join(err)
}

// Close ends the recording.
func (m *model) Close() error {
	if m == nil || m.record == nil {
		return nil
	}
	return m.record.Close()
}

const planRules = `You plan how a task is done with the tools of a catalogue. You never see content: what tools return is read by another model, which answers what a step of the kind q_parse asks it, in the shape of one of the schemas. Refer to the values of earlier steps by {"ref": id, "path": "a.b"}. Answer by calling the tool plan once.`

// plan has the model make a plan, which sees the task and the catalogue and nothing else.
func (m *model) plan(ctx context.Context, r agents.PlanRequest) (any, error) {
	said := fmt.Sprintf("The catalogue: %s\nThe schemas: %s\nWhat was wrong with the plans before: %s", r.Catalogue, r.Schemas, r.Errors)
	reply, err := m.endpoint.Provider.Do(ctx, &llm.Request{
		Model: m.endpoint.Model, System: []llm.Part{llm.Constant(planRules), llm.FromOperator(said)}, MaxTokens: m.endpoint.MaxTokens, Force: "plan",
		Tools: []llm.Tool{{Name: "plan", Description: llm.Constant("Returns the plan."), Schema: kernel.AppendPlanSchema(nil, false, false)}},
		Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.FromController(r.Task)}}},
	}, nil)
	if err != nil {
		return nil, err
	}
	if len(reply.Calls) != 1 || reply.Calls[0].Name != "plan" {
		return nil, agents.ErrNoPlan
	}
	return reply.Calls[0].Arguments, nil
}

// read has the model read, which has no tools.
func (m *model) read(ctx context.Context, q agents.Query, a *ask, s *suite, now *play) (any, error) {
	content, asked := q.Content, q.Instruction
	if content == "" { // a plain Controller's question, which the Reader answers from all that its tools return
		content = string(appendText(nil, map[string]any(now.after), ""))
		asked = "For this task: " + now.user.Text + "\nsay what the user wants to know."
		if a != nil && a.Argument != "" {
			asked = "For this task: " + now.user.Text + "\nsay the value of " + strings.ReplaceAll(a.Argument, "_", " ") + "."
		}
	}
	schema, err := json.Marshal(mcp.SpecSchema(q.Spec))
	if err != nil {
		return nil, err
	}
	data, refused, err := llm.Extract(ctx, m.endpoint, content, llm.FromGateway(asked), llm.ExtractOptions{Schema: schema, Source: guard.MCP, MaxTurns: 2})
	if err == nil && refused {
		return agents.NotEnoughInformation{}, nil
	}
	return data, err
}
