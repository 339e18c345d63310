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
		if took := time.Since(begun); took != 0 {
			t.Errorf("the host was answered after %s", took)
		}
		if list, err := host.ListTools(ctx, nil); err != nil || len(list.Tools) != 0 {
			t.Errorf("it has %v, %v", list, err)
		}
		if took := time.Since(begun); took != 20*time.Second {
			t.Errorf("the list came after %s", took)
		}
		result := must(host.CallTool(ctx, &sdk.CallToolParams{Name: bcp.ToolBudget}))
		if text := result.Content[0].(*sdk.TextContent).Text; !result.IsError || !strings.HasPrefix(text, "unavailable: there is no mesh yet.") {
			t.Errorf("a call says %q", text)
		}
		_ = host.Close() // the server's end says what matters
		cancel()
		<-done
	})
}
