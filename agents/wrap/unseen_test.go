package wrap_test

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// A draft shows nothing that a person does not see, wherever a server puts it.
//
// covers P7.2
func TestDraftsHaveNoUnseenCharacters(t *testing.T) {
	t.Parallel()
	const hidden = "\u202e\u200b\u2063\U000e0041"
	properties := map[string]any{"a" + hidden: map[string]any{"type": "string", "enum": []any{"x" + hidden, "y"}, "description": "d" + hidden}}
	listed := []*sdk.Tool{
		{Name: "read" + hidden, Description: "r" + hidden, InputSchema: map[string]any{"type": "object", "properties": properties, "required": []any{"a" + hidden}}},
		{Name: "write", Title: "t" + hidden, InputSchema: map[string]any{"type": "object", "properties": properties}, OutputSchema: map[string]any{"type": "object", "properties": properties}},
	}
	kernels := must(wrap.Draft("notes", []string{"TOKEN"}, []string{"server", "a" + hidden}, listed))
	var server bcp.MCPServer
	server.Name, server.Command = "notes", []string{"server", "a" + hidden}
	readers := must(wrap.DraftServer(&server, listed))
	failIf(t, !strings.Contains(string(readers), `listed: "read\U0000202E\U0000200B\U00002063\U000E0041"`),
		"the server's own name is lost: %s", readers)
	for _, line := range strings.Split(string(kernels)+string(readers), "\n") {
		failIf(t, guard.Clean(line) != line, "%+q", line)
	}
}
