package definition_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

const hashOfNotes = "5d41402abc4b2a76b9719d911017c592ae1f0d2f4d1e2b3c4d5e6f708192a3b4"

func notesServer(server, tool string) string {
	if server == "" {
		server = "sandbox: none"
	}
	if tool == "" {
		tool = "name: find, sha256: " + hashOfNotes + ", description: Finds., input_schema: {type: object, properties: {}}"
	}
	return "mcp_servers:\n- name: notes\n  command: [./notes]\n  " + server + "\n  tools:\n  - {" + tool + "}\n"
}

// A tool of an MCP server is the operator's definition of it, and a Reader that a model runs may name it; nobody else.
//
// covers ALF-78
func TestMCPServers(t *testing.T) {
	t.Parallel()
	load := func(mesh, tools, more string) (*bcp.Mesh, string) {
		m, report := definition.Parse(map[string][]byte{
			"mesh.yaml":        []byte(mesh),
			"agents/main.md":   []byte("---\nname: main\n" + more + "bcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 9}\n---\n"),
			"agents/reader.md": []byte("---\nname: reader\ncommand: builtin\nmodel: ollama/m\ntools: " + tools + "\nbcp_channels:\n- {peer: main, role: reader}\n---\n"),
		})
		return m, strings.Join(messages(report.Errors), "\n")
	}
	schema := "{type: object, properties: {words: {type: string, maxLength: 9}}}"
	m, errs := load(notesServer("environment: [A_B]\n  sandbox: required", "name: find, listed: 'find it', sha256: "+hashOfNotes+", description: Finds., input_schema: "+schema), "[mcp__notes__find]", "")
	stopIf(t, m == nil, "%v", errs)
	server, tool := m.MCPTool("mcp__notes__find")
	if server == nil || server.Sandbox != bcp.SandboxRequired || server.Environment[0] != "A_B" || *tool != (bcp.MCPTool{
		Name: "mcp__notes__find", Listed: "find it", SHA256: hashOfNotes, Description: "Finds.",
		InputSchema: `{"additionalProperties":false,"properties":{"words":{"maxLength":9,"type":"string"}},"required":["words"],"type":"object"}`}) {
		t.Errorf("%+v %+v", server, tool)
	}
	a, _ := m.Agent("reader")
	failIf(t, a.Tools[0] != "mcp__notes__find", "%+v", a)
	named := func(name, sha256, rest string) string {
		return notesServer("", "name: "+name+", sha256: "+sha256+", description: Finds., input_schema: "+rest)
	}
	const object = "{type: object, properties: {}}"
	fits := strings.Repeat("a", 64-len("mcp__notes__")-6)
	for mesh, want := range map[string]string{
		notesServer("", ""):                                                                                                   "",
		named("a-B_9", hashOfNotes, object):                                                                                   `builtin has no tool "mcp__notes__find"`,
		named("a__b", hashOfNotes, object):                                                                                    "tools[0].name: expected letters",
		named("a.b", hashOfNotes, object):                                                                                     "tools[0].name: expected letters",
		named("find", strings.ToUpper(hashOfNotes), object):                                                                   "expected 64 digits",
		named("find", "'"+strings.Repeat("x", 64)+"'", object):                                                                "expected 64 digits",
		named("find", hashOfNotes, "{type: string}"):                                                                          "expected an object",
		named("find", hashOfNotes, "{type: object, properties: {}, nullable: true}"):                                          "expected an object",
		named("find", hashOfNotes, "{type: object, patternProperties: {}}"):                                                   "input_schema",
		named("find", hashOfNotes, object+", more: 1"):                                                                        "more",
		notesServer("", "name: find, sha256: "+hashOfNotes+", description: '', input_schema: "+object):                        "description",
		notesServer("", "name: find, description: Finds., input_schema: "+object):                                             "sha256",
		notesServer("environment: [BCPMESH_X]\n  sandbox: none", ""):                                                          "none of the mesh's own",
		notesServer("environment: [HOME]", ""):                                                                                "it would run as the user of the mesh",
		notesServer("", "") + "  - {name: find, sha256: " + hashOfNotes + ", description: x, input_schema: " + object + "}\n": "has the same name",
		notesServer("", "") + strings.TrimPrefix(notesServer("", ""), "mcp_servers:\n"):                                       "has the same name",
		"": `builtin has no tool "mcp__notes__find"`,
	} {
		_, got := load(mesh, "[mcp__notes__find]", "")
		failIf(t, want == "" && got != "" || !strings.Contains(got, want), "%s\n%s", mesh, got)
	}
	for n, want := range map[int]string{0: "", 1: "at most 64"} { // of the whole name
		mesh := strings.Replace(named(fits+strings.Repeat("a", n), hashOfNotes, object), "name: notes", "name: notes-long1", 1)
		_, got := load(mesh, "[]", "")
		failIf(t, want == "" && got != "" || !strings.Contains(got, want), "%d beyond the limit: %s", n, got)
	}
	at := func(server string) string {
		return strings.Replace(notesServer(server, ""), "  command: [./notes]\n", "", 1)
	}
	for mesh, want := range map[string]string{
		at("url: https://mcp.example.com/mcp"):                            "",
		at("url: https://mcp.example.com:8443/mcp\n  key: env:NOTES_KEY"): "",
		at("url: https://10.1.2.3/mcp\n  key: file:notes.key"):            "",
		at("url: http://127.0.0.1:8000/mcp"):                              "",
		at("url: 'http://[::1]:8000/mcp'"):                                "",
		at("url: http://localhost:8000/mcp"):                              "",
		at("url: http://mcp.example.com/mcp"):                             "expected https",
		at("url: http://10.1.2.3/mcp"):                                    "expected https",
		at("url: http://127.0.0.1.example.com/mcp"):                       "expected https",
		at("url: ftp://mcp.example.com/mcp"):                              "expected an https URL",
		at("url: https://user:secret@mcp.example.com/mcp"):                "expected an https URL",
		at("url: https://mcp.example.com/mcp?key=secret"):                 "expected an https URL",
		at("url: https://mcp.example.com/mcp\n  key: sk-7f3a"):            "and not the key itself",
		at("url: https://mcp.example.com/mcp\n  sandbox: none"):           "sandbox: it goes with command",
		at("url: https://mcp.example.com/mcp\n  environment: [A_B]"):      "environment: it goes with command",
		notesServer("url: https://mcp.example.com/mcp", ""):               "expected one of command, url, got 2",
		notesServer("sandbox: none\n  key: env:NOTES_KEY", ""):            "key: it goes with url",
		strings.Replace(at("url: x"), "  url: x\n", "", 1):                "expected one of command, url, got 0",
	} {
		m, got := load(mesh, "[mcp__notes__find]", "")
		failIf(t, want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "secret") || strings.Contains(got, "7f3a"),
			"%s\n%s", mesh, got)
		failIf(t, want == "" && (m == nil || !strings.HasPrefix(m.MCPServers[0].URL, "http") || m.MCPServers[0].Sandbox != 0),
			"%s\n%+v", mesh, m)
	}
	_, block, _ := strings.Cut(readFile("../../docs/tools.md"), "```yaml\nmcp_servers:")
	block, _, _ = strings.Cut(block, "```")
	if m, got := load("mcp_servers:"+block, "[mcp__notes__find]", ""); m == nil {
		t.Errorf("what docs/tools.md shows: %s", got)
	}
	if _, got := load(notesServer("", ""), "[]", "command: builtin\nmodel: ollama/m\ntools: [mcp__notes__find]\n"); !strings.Contains(got, "a Controller that a model runs has the tools of the protocol and no others") {
		t.Errorf("a Controller may have it: %s", got)
	}
}
