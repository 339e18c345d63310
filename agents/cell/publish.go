package cell

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// act has the model act on a prompt: it reads with its tools, and publishes against the subscriptions of Controllers.
func (t *talk) act(ctx context.Context, message string) error {
	c := t.conversation()
	t.cell.mu.Lock()
	list := t.cell.subscriptions
	t.cell.mu.Unlock()
	names := map[string]bool{}
	for i, s := range list {
		tool, err := t.publishing(publishName(names, i, s), s)
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, tool)
	}
	_, err := c.Run(ctx, llm.FromOperator(message))
	return err
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// publishName returns publish_ and the id of the subscription, or its number if the id
// is not a valid or unique name.
func publishName(taken map[string]bool, i int, s bcp.ActiveSubscription) string {
	name := "publish_" + string(s.SubscriptionID)
	if taken[name] || !toolName.MatchString(name) {
		name = fmt.Sprintf("publish_%d", i+1)
	}
	taken[name] = true
	return name
}

// publishing is the tool that pushes against a subscription. The gateway judges its
// content.
func (t *talk) publishing(name string, s bcp.ActiveSubscription) (llm.Executable, error) {
	schema, err := json.Marshal(mcp.SpecSchema(s.Spec))
	if err != nil {
		return llm.Executable{}, fmt.Errorf("cell: %w", err)
	}
	return llm.Executable{
		Tool: llm.Tool{Name: name, Description: llm.FromController(fmt.Sprintf("Publish to %s, only if it is new and relevant.", s.Controller)), Schema: schema},
		Run: func(ctx context.Context, arguments jsontext.Value) llm.Output {
			if arguments.Kind() != '{' || !arguments.IsValid() {
				return llm.Output{Trusted: llm.Constant("The arguments are not one JSON object."), Failed: true}
			}
			var result bcp.ValidationResult
			err := t.cell.door.Call(ctx, "push", map[string]any{"controller": s.Controller, "subscription_id": s.SubscriptionID, "response": arguments}, &result)
			var refused *stdio.CallError
			switch {
			case errors.As(err, &refused):
				return llm.Output{Trusted: llm.FromGateway("It was not published: " + refused.Message), Failed: true}
			case err != nil:
				return llm.Output{Trusted: llm.Constant("It was not published: nobody answered."), Failed: true}
			case !result.Success && result.Status != bcp.StatusHeld:
				return llm.Output{Trusted: llm.FromGateway("It was not published: " + result.Detail), Failed: true}
			}
			return llm.Output{Trusted: llm.Constant("It was published.")}
		},
	}, nil
}
