package definition_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// readerWith is a folder with models, and with a Reader whose definition begins so.
func readerWith(front string) map[string][]byte {
	const models = "models:\n- {name: small, provider: openai, model: qwen, base_url: 'http://127.0.0.1:1/v1', key: 'file:key.txt'}\n- {name: far, provider: anthropic, model: large}\n- {name: own, provider: openai, model: qwen, base_url: 'http://127.0.0.1:1/v1'}\n"
	return map[string][]byte{
		"mesh.yaml":      []byte(models),
		"agents/main.md": []byte("---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 9}\n---\n"),
		"agents/reader.md": []byte("---\nname: reader\n" + front +
			"bcp_channels:\n- {peer: main, role: reader}\n---\n"),
	}
}

// An agent that the mesh runs has a model, tools that there are, a channel to read for, and a sandbox unless its definition
// says otherwise.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	mesh, report := definition.Parse(readerWith("command: builtin\nmodel: small\ntools: WebFetch\nmax_turns: 3\n"))
	stopIf(t, mesh == nil || len(report.Warnings) > 0, "%v", report)
	agent, _ := mesh.Agent("reader")
	failIf(t, !agent.Builtin || agent.Sandbox != bcp.SandboxRequired || agent.Command != nil || agent.Tools[0] != "web_fetch" || agent.Run != (bcp.Run{MaxTurns: 3, MaxTokens: 1024, MaxParallel: 2, Window: 24 * time.Hour}),
		"%+v", agent)
	for name, want := range map[string]bcp.Model{
		"small":        {Name: "small", Provider: "openai", Model: "qwen", BaseURL: "http://127.0.0.1:1/v1", Key: "file:key.txt"},
		"far":          {Name: "far", Provider: "anthropic", Model: "large", Key: "env:ANTHROPIC_API_KEY"},
		"own":          {Name: "own", Provider: "openai", Model: "qwen", BaseURL: "http://127.0.0.1:1/v1"}, // no host gets a key that is not for it
		"google/gem/2": {Name: "google/gem/2", Provider: "google", Model: "gem/2", Key: "env:GEMINI_API_KEY"},
		"ollama/qwen":  {Name: "ollama/qwen", Provider: "ollama", Model: "qwen"},
	} {
		got, ok := mesh.ModelOf(name)
		failIf(t, !ok || got != want, "%s: %+v", name, got)
	}
	for front, want := range map[string]*bcp.Price{
		"price: {input: 1, output: 2.5}":                                 {Input: bcp.Dollar, CacheRead: bcp.Dollar, CacheWrite: bcp.Dollar, Output: bcp.Dollar * 5 / 2},
		"price: {input: 1, cache_read: 0, cache_write: 1.25, output: 2}": {Input: bcp.Dollar, CacheWrite: bcp.Dollar * 5 / 4, Output: 2 * bcp.Dollar},
	} {
		files := readerWith("command: builtin\nmodel: a\ncost_budget: 1\n")
		files["mesh.yaml"] = []byte("models:\n- {name: a, provider: openai, model: x, base_url: 'http://x/', key: 'env:A_KEY_1', " + front + "}\n")
		m, report := definition.Parse(files)
		stopIf(t, len(report.Errors) > 0, "%v", report.Errors)
		model, _ := m.ModelOf("a")
		price, known := model.Price()
		failIf(t, !known || price != *want, "%s: %+v", front, price)
	}
	for _, name := range []string{"", "large", "openai", "openai/", "other/x", "/x"} {
		got, ok := mesh.ModelOf(name)
		failIf(t, ok, "%q is %+v", name, got)
	}
}

// The keeper of a command that the mesh confines asks the model of its definition, within its budget; of any other command a
// model is what people call it.
//
// covers P7.5, P15.1
func TestModelOfACommand(t *testing.T) {
	t.Parallel()
	for front, asks := range map[string]bool{
		"command: [./r]\nsandbox: required\nmodel: small\n":       true,
		"command: [./r]\nsandbox: required\nmodel: ollama/m\n":    true,
		"command: [./r]\nsandbox: required\nmodel: sonnet\n":      false,
		"command: [./r]\nsandbox: required\n":                     false,
		"command: [./r]\nsandbox: none\nmodel: small\n":           false,
		"command: [docker, run, r]\nsandbox: own\nmodel: small\n": false,
		"model: small\n": false,
	} {
		m, report := definition.Parse(readerWith(front))
		stopIf(t, m == nil, "%q: %v", front, report.Errors)
		agent, _ := m.Agent("reader")
		failIf(t, agent.AsksModel() != asks || agent.Kept() != asks, "%q: %+v", front, agent)
	}
}

func folderOf(files map[string][]byte) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: content}
	}
	return folder
}
