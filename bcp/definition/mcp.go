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

// mcpKeys are those of MCP servers.
var mcpKeys = []Key{
	{Level: LevelMCPServer, Name: "name", Type: TypeName, Required: true, Rule: "A1", field: of(func(s *bcp.MCPServer) any { return &s.Name }),
		Doc: "Names the server in the names of its tools."},
	{Level: LevelMCPServer, Name: "command", Type: TypeTexts, Min: 1, Max: 256, DefaultRule: "there is a url", Rule: "A1, P7.5", field: of(func(s *bcp.MCPServer) any { return &s.Command }),
		Doc: "A server on stdin and stdout."},
	{Level: LevelMCPServer, Name: "url", Type: TypeText, Min: 1, Max: 256, DefaultRule: "there is a command", Rule: "A1", field: of(func(s *bcp.MCPServer) any { return &s.URL }),
		Doc: "A server over streamable HTTP; http only on this machine."},
	{Level: LevelMCPServer, Name: "key", Type: TypeText, Min: 1, Max: 256, DefaultRule: "none", Rule: "A1", field: of(func(s *bcp.MCPServer) any { return &s.Key }),
		Doc: "Where the bearer token for the url is: `env:NAME`, `file:PATH` or `command:WORDS`."},
	{Level: LevelMCPServer, Name: "environment", Type: TypeTexts, Min: 1, Max: 64, DefaultRule: "none", Rule: "P7.5", field: of(func(s *bcp.MCPServer) any { return &s.Environment }),
		Doc: "Environment variables that the server gets besides PATH, HOME and the like."},
	{Level: LevelMCPServer, Name: "sandbox", Type: TypeWord, Words: wordsOf[bcp.Sandbox](1, 3), DefaultRule: "a command needs it, but for sudo -u, docker and the like", Rule: "P7.5", field: of(func(s *bcp.MCPServer) any { return &s.Sandbox }),
		Doc: "What confines the server, as of an agent (tools.md)."},
	{Level: LevelMCPServer, Name: "tools", Type: TypeObjects, Child: LevelMCPTool, Min: 1, Max: kernel.MaxTools, Required: true, Rule: "A7",
		Doc: "Its tools that agents may name."},

	{Level: LevelMCPTool, Name: "name", Type: TypeText, Min: 1, Max: 48, Required: true, Rule: "A7",
		Doc: "Names the tool: letters, digits, hyphens and underscores."},
	{Level: LevelMCPTool, Name: "listed", Type: TypeText, Min: 1, Max: 128, DefaultRule: "name", Rule: "A7", field: of(func(t *bcp.MCPTool) any { return &t.Listed }),
		Doc: "The server's name for it."},
	{Level: LevelMCPTool, Name: "sha256", Type: TypeText, Min: 64, Max: 64, Required: true, Rule: "A7", field: of(func(t *bcp.MCPTool) any { return &t.SHA256 }),
		Doc: "The hash of what the server declared for it (`bcpmesh tool import --reader`)."},
	{Level: LevelMCPTool, Name: "description", Type: TypeText, Min: 1, Max: 4000, Required: true, Rule: "A7", field: of(func(t *bcp.MCPTool) any { return &t.Description }),
		Doc: "Tells the model what the tool does, in your words."},
	{Level: LevelMCPTool, Name: "input_schema", Type: TypeClosed, Required: true, Rule: "A7",
		Doc: "The arguments: an object."},
}

// mcpServers returns the MCP servers of mesh.yaml.
func (b *builder) mcpServers(o *object) []bcp.MCPServer {
	var servers []bcp.MCPServer
	seen := map[string]bool{}
	for _, s := range o.get("mcp_servers").objects {
		server := bcp.MCPServer{Service: bcp.Service{File: b.meshSource.path}}
		s.fill(&server)
		if seen[string(server.Name)] {
			b.meshSource.errorf(s.at("name"), CodeDuplicate, join(s.path, "name"), "two servers have this name")
		}
		seen[string(server.Name)] = true
		if !s.bad {
			b.remote(s, &server)
		}
		for _, name := range server.Environment {
			if !passable(name) {
				b.meshSource.errorf(s.at("environment"), CodeBadValue, join(s.path, "environment"), "expected names of variables, of letters, digits and underscores, and none of the mesh's own, which begin with BCPMESH_, got %s", quote(name))
			}
		}
		if !s.bad && server.URL == "" && s.has("command") {
			b.startable(b.meshSource, s, server.Command, &server.Sandbox,
				"have the mesh confine it with `sandbox: required`; or start it through sudo -u, docker, bwrap or the like; or accept that with `sandbox: none`; or, where it confines itself, say `sandbox: own`")
		}
		for _, t := range s.get("tools").objects {
			tool := b.mcpTool(&server, t)
			if seen[tool.Name] {
				b.meshSource.errorf(t.at("name"), CodeDuplicate, join(t.path, "name"), "two tools of the server have this name")
			}
			seen[tool.Name] = true
			server.Tools = append(server.Tools, tool)
		}
		servers = append(servers, server)
	}
	return servers
}

// remote judges where a server is: a command or a URL.
func (b *builder) remote(s *object, server *bcp.MCPServer) {
	wrong := func(key, code, format string, args ...any) {
		b.meshSource.errorf(s.at(key), code, join(s.path, key), format, args...)
	}
	switch at, err := guard.ParseTarget(server.URL); {
	case !s.has("url") && !s.has("command"):
		wrong("name", CodeMissingKey, "a server has a command, which is started, or a url, which is connected to")
	case !s.has("url") && s.has("key"):
		wrong("key", CodeBadValue, "only a server at a url gets a key: name variables for a command in environment")
	case !s.has("url"):
	case s.has("command"), s.has("environment"), s.has("sandbox"):
		wrong("url", CodeBadValue, "nothing is started of a server at a url: leave out command, environment and sandbox")
	case err != nil || strings.ContainsAny(server.URL, "?#"):
		wrong("url", CodeBadValue, "expected an https URL such as https://mcp.example.com/mcp, without a query: a key has a place of its own")
	case at.Scheme() != "https" && !onThisMachine(at):
		wrong("url", CodeBadValue, "expected https: what the model sends, the answers and the key would be in the clear; http is for this machine, such as http://127.0.0.1:8000/mcp")
	case s.has("key") && !keyPlace().MatchString(server.Key):
		wrong("key", CodeBadValue, "expected where the key is, env:NAME, file:PATH or command:WORDS, and not the key itself")
	case s.has("key") && b.keys != nil:
		if err := b.keys(server.Key, "the key of the server"); err != nil {
			wrong("key", CodeNoFile, "%s", err)
		}
	}
}

func onThisMachine(at guard.Target) bool {
	address, literal := at.Address()
	return literal && address.IsLoopback() || at.Name() == "localhost"
}

func (b *builder) mcpTool(server *bcp.MCPServer, o *object) bcp.MCPTool {
	name := o.get("name").text
	t := bcp.MCPTool{Name: mcpPrefix + string(server.Name) + "__" + name, Listed: name}
	o.fill(&t)
	wrong := func(key, format string, args ...any) {
		if !o.bad {
			b.meshSource.errorf(o.at(key), CodeBadValue, join(o.path, key), format, args...)
		}
	}
	if strings.Contains(name, "__") || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", r)
	}) || len(t.Name) > maxToolName {
		wrong("name", "expected letters, digits, hyphens and single underscores, so that %s has at most %d", boundedKey(t.Name), maxToolName)
	}
	if _, err := hex.DecodeString(t.SHA256); err != nil || strings.ToLower(t.SHA256) != t.SHA256 {
		wrong("sha256", "expected 64 digits of 0-9 and a-f, as `bcpmesh tool import --reader` writes them")
	}
	if typ := o.get("input_schema").typ; typ != nil {
		if typ.Kind != kernel.ObjectType || typ.Nullable {
			wrong("input_schema", "expected an object, such as {type: object, properties: {text: {type: string}}}")
		}
		t.InputSchema = string(typ.AppendJSONSchema(nil))
	}
	return t
}
