package health

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

const (
	// modelPatience bounds the call of one model.
	modelPatience = 20 * time.Second
	// modelTokens are what a model may answer: there are providers that refuse fewer.
	modelTokens = 16
)

// models calls each model of the agents once: it is paid, and in no budget.
func (c *checkup) models(ctx context.Context, folder meshdir.Folder) error {
	def, err := folder.Load()
	if err != nil {
		return err
	}
	var names []string
	for i := range def.Agents {
		if a := &def.Agents[i]; a.AsksModel() && !slices.Contains(names, a.Model) {
			names = append(names, a.Model)
			m, _ := def.ModelOf(a.Model) // definitions that load have one
			c.model(ctx, folder, a.Model, m)
		}
	}
	if len(names) == 0 {
		return cli.Failf("no agent of this mesh has a model").WithHint("docs/agents.md, \"A model in the seat\"")
	}
	return nil
}

func (c *checkup) model(ctx context.Context, folder meshdir.Folder, name string, m bcp.Model) {
	const id = "models"
	model, err := folder.OpenModel(m, modelTokens)
	if err != nil {
		c.add(id, failed, "give the key, or say where it is: `key` of models in mesh.yaml", "%s: %s", name, err)
		return
	}
	once := model.Provider // without retries: who waits wants to know
	wires.Each(model, func(one llm.Provider) llm.Provider { once = one; return one })
	ctx, cancel := context.WithTimeout(ctx, modelPatience)
	defer cancel()
	begun := time.Now()
	_, err = once.Do(ctx, &llm.Request{Model: model.Model, MaxTokens: modelTokens, Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Constant("Answer with the word yes.")}}}}, nil)
	fault, known := keeper.FaultOf(err)
	if errors.Is(err, context.DeadlineExceeded) {
		fault, known = bcp.ModelFault{Fault: bcp.FaultSilent}, true
	}
	says := fault.String()
	switch {
	case err == nil:
		c.ok(id, "%s answers, in %s", name, time.Since(begun).Round(time.Millisecond))
		return
	case !known:
		says = err.Error()
	}
	if answered, ok := errors.AsType[*llm.Answered](err); ok && answered.Said != "" {
		says += "; it says: " + cli.Plain(answered.Said)
	}
	c.add(id, failed, modelTodo[fault.Fault], "%s: %s", name, says)
}

// modelTodo says what to do about a fault.
var modelTodo = map[bcp.Fault]string{
	bcp.FaultKey:        "look at the key, and for which models it is; then start the mesh again",
	bcp.FaultRate:       "wait, or ask the provider for more; queries are asked again by themselves",
	bcp.FaultOverloaded: "wait; queries are asked again by themselves",
	bcp.FaultUnreached:  "is base_url right, does it run, and is the network there?",
	bcp.FaultSilent:     "is base_url right? a local model may take its time to load",
	bcp.FaultRefused:    "look at the name of the model, at base_url, and at the account",
	bcp.FaultReply:      "is base_url that of the API? something else answers there",
}
