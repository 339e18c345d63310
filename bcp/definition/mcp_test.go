package definition_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

const hashOfNotes = "5d41402abc4b2a76b9719d911017c592ae1f0d2f4d1e2b3c4d5e6f708192a3b4"

// A tool of an MCP server is the operator's definition of it, and a Reader that a model runs may name it; nobody else.
//
// covers ALF-78
func TestMCPServers(t *testing.T) {
	t.Parallel()
	folder := readerWith("command: builtin\nmodel: ollama/m\ntools: [mcp__notes__find]\n")
	const finds = "  tools: [{name: find, listed: 'find it', sha256: " + hashOfNotes + ", description: Finds., input_schema: {type: object, properties: {words: {type: string, maxLength: 9}}}}]\n"
	folder["mesh.yaml"] = []byte("mcp_servers:\n- name: notes\n  command: [./notes]\n  environment: [A_B]\n  sandbox: required\n" + finds +
		"- name: far\n  url: https://mcp.example.com/mcp\n  key: env:NOTES_KEY\n" + finds)
	m, report := definition.Parse(folder)
	stopIf(t, m == nil, "%v", report.Errors)
	server, tool := m.MCPTool("mcp__notes__find")
	if server == nil || server.Sandbox != bcp.SandboxRequired || server.Environment[0] != "A_B" || *tool != (bcp.MCPTool{
		Name: "mcp__notes__find", Listed: "find it", SHA256: hashOfNotes, Description: "Finds.",
		InputSchema: `{"additionalProperties":false,"properties":{"words":{"maxLength":9,"type":"string"}},"required":["words"],"type":"object"}`}) {
		t.Errorf("%+v %+v", server, tool)
	}
	far, _ := m.MCPTool("mcp__far__find")
	failIf(t, far == nil || far.URL != "https://mcp.example.com/mcp" || far.Key != "env:NOTES_KEY" || far.Sandbox != "", "%+v", far)
	a, _ := m.Agent("reader")
	failIf(t, a.Tools[0] != "mcp__notes__find", "%+v", a)

	_, block, _ := strings.Cut(readFile("../../docs/tools.md"), "```yaml\nmcp_servers:")
	block, _, _ = strings.Cut(block, "```")
	folder["mesh.yaml"] = []byte("mcp_servers:" + block)
	m, report = definition.Parse(folder)
	failIf(t, m == nil, "what docs/tools.md shows: %v", report.Errors)
}
