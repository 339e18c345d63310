package mcp_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// Before there is a mesh a host is answered at once, and what it asks about the agent
// waits for twenty seconds: then it hears that it has no tools, and what to do.
func TestBeforeTheMesh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := sdk.NewInMemoryTransports()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mcp.New("main", bcp.RoleController, mcp.Options{}).Serve(ctx, there) }()
		begun := time.Now()
		host := must(sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, nil).Connect(ctx, here, nil))
		bcptest.Expect(t, time.Since(begun), 0, "the host was answered after")
		list, err := host.ListTools(ctx, nil)
		failIf(t, err != nil || len(list.Tools) != 0, "it has %v, %v", list, err)
		bcptest.Expect(t, time.Since(begun), 20*time.Second, "the list came after")
		result := must(host.CallTool(ctx, &sdk.CallToolParams{Name: bcp.ToolBudget}))
		text := result.Content[0].(*sdk.TextContent).Text
		failIf(t, !result.IsError || !strings.HasPrefix(text, "unavailable: there is no mesh yet."), "a call says %q", text)
		_ = host.Close() // the server's end says what matters
		cancel()
		<-done
	})
}
