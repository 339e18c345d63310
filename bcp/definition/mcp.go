package definition

import (
	"encoding/hex"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// mcpPrefix begins the names of tools of MCP servers: mcp__SERVER__TOOL.
const mcpPrefix = "mcp__"

// maxToolName bounds the whole name of a tool, in bytes: providers of models take no more.
const maxToolName = 64

// mcpServers judges the MCP servers of mesh.yaml.
func (b *builder) mcpServers(m *bcp.Mesh) {
	for _, s := range b.mesh.ServerEntries {
		s.File = s.source.path
		switch {
		case s.bad:
		case s.URL != "":
			b.remote(s)
		default:
			b.startable(&s.object, s.Command, s.Sandbox)
		}
		for _, t := range s.ToolEntries {
			t.complete(s.Service.Name)
			s.Tools = append(s.Tools, t.MCPTool)
		}
		m.MCPServers = append(m.MCPServers, s.MCPServer)
	}
}

// remote judges where a server at a URL is.
func (b *builder) remote(s *serverForm) {
	switch at, err := guard.ParseTarget(s.URL); {
	case err != nil || strings.ContainsAny(s.URL, "?#"):
		s.errorf("url", CodeBadValue, "expected an https URL such as https://mcp.example.com/mcp, without a query: a key has a place of its own")
	case at.Scheme() != "https" && !onThisMachine(at):
		s.errorf("url", CodeBadValue, "expected https: what the model sends, the answers and the key would be in the clear; http is for this machine, such as http://127.0.0.1:8000/mcp")
	case s.has("key") && b.site.Key != nil:
		if err := b.site.Key(s.Key, "the key of the server"); err != nil {
			s.errorf("key", CodeNoFile, "%s", err)
		}
	}
}

func onThisMachine(at guard.Target) bool {
	address, literal := at.Address()
	return literal && address.IsLoopback() || at.Name() == "localhost"
}

// complete sets and judges what the keys of a tool of a server say together.
func (t *mcpToolForm) complete(server bcp.AgentName) {
	name := t.Name
	t.Name = mcpPrefix + string(server) + "__" + name
	if !t.has("listed") {
		t.Listed = name
	}
	if t.Input != nil {
		t.InputSchema = string(t.Input.AppendJSONSchema(nil))
	}
	if t.bad {
		return
	}
	if strings.Contains(name, "__") || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	}) || len(t.Name) > maxToolName {
		t.errorf("name", CodeBadValue, "expected letters, digits, hyphens and single underscores, so that %s has at most %d", boundedKey(t.Name), maxToolName)
	}
	if _, err := hex.DecodeString(t.SHA256); err != nil || strings.ToLower(t.SHA256) != t.SHA256 {
		t.errorf("sha256", CodeBadValue, "expected 64 digits of 0-9 and a-f, as `bcpmesh tool import --reader` writes them")
	}
	if t.Input.Kind != kernel.ObjectType || t.Input.Nullable {
		t.errorf("input_schema", CodeBadValue, "expected an object, such as {type: object, properties: {text: {type: string}}}")
	}
}
