package cell

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// mcp is a tool of an MCP server. The keeper checks its arguments and calls it;
// everything from a server is content.
func (t *talk) mcp(of MCPTool) llm.Executable {
	return llm.Executable{
		Tool: llm.Tool{Name: of.Name, Description: llm.FromOperator(of.Description), Schema: of.Schema},
		Run: func(ctx context.Context, arguments jsontext.Value) llm.Output {
			if !arguments.IsValid() { // it has no way over the door
				return tool.BadArguments.Output()
			}
			var r tool.Result
			if err := t.cell.door.Call(ctx, "mcp", params{Conversation: t.id, Call: &tool.Call{Tool: of.Name, Arguments: arguments}}, &r); err != nil {
				return tool.Unavailable.Output()
			}
			if r.Failure != "" {
				return r.Failure.Output()
			}
			text, parts, err := tool.NewText(r.Text, t.cell.config.Redact).Part(1)
			if err != nil || parts > 1 {
				return tool.TooLarge.Output()
			}
			return llm.Output{Untrusted: text, Source: guard.MCP, Failed: r.Failed}
		},
	}
}
