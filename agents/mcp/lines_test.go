package mcp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a host has asked before it leaves is answered, under its own ids. A line that is no message, or that is longer than 1 MiB,
// ends its session and no other.
func TestLinesOfHosts(t *testing.T) {
	t.Parallel()
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	wide := func(more int) string { return strings.Repeat(" ", 1<<20-len(ping("1"))+more) + ping("1") }
	for line, ends := range map[string]bool{
		"hello": true, "{": true, "5": true, "[]": true, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: true, `{"jsonrpc":"2.0","id":{},"method":"ping"}`: true,
		"": false, "  \r": false, ping("9007199254740991"): false, ping(`"\u0041\n"`): false, "[" + ping("1") + "," + ping("2") + "]": false,
		wide(0): false, wide(1): true, "[" + strings.Repeat("1,", 1<<17) + "1]": true,
	} {
		var out bytes.Buffer
		err := mcp.New("main", bcp.RoleController, mcp.Options{}).ServeLines(t.Context(), strings.NewReader(line+"\n"+ping(`"after"`)+"\n"), &out)
		answered := strings.Contains(out.String(), `"id":"after","result":{}`)
		if (err != nil) != ends || answered == ends {
			t.Errorf("%.60q: %v, %.200q", line, err, out.String())
		}
		if strings.HasPrefix(line, `{"jsonrpc":"2.0","id":9`) && !strings.Contains(out.String(), `"id":9007199254740991,"result"`) {
			t.Errorf("%s", out.String())
		}
	}
}
