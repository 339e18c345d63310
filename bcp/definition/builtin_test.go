package definition_test

import (
	"errors"
	"strings"
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
	unopened := definition.Site{Open: func(m bcp.Model) error { return errors.New("no key for " + m.Name) }}
	if _, report := unopened.Load(folderOf(readerWith("command: builtin\nmodel: small\n"))); len(report.Errors) != 1 || report.Errors[0].Code != definition.CodeNoModel || !strings.Contains(report.Errors[0].String(), "no key for small") {
		t.Errorf("%v", report.Errors)
	}
}

// The keeper of a command that the mesh confines asks the model of its definition, within its budget; of any other command a
// model is what people call it.
//
// covers P7.5, P15.1
func TestModelOfACommand(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]struct {
		asks    bool
		problem string
	}{
		"command: [./r]\nsandbox: required\nmodel: small\n":                                         {true, ""},
		"command: [./r]\nsandbox: required\nmodel: ollama/m\ncost_budget: 1\ntoken_budget: 5\n":     {true, ""},
		"command: [./r]\nsandbox: required\nmodel: small\nmax_output_tokens: 16\ncost_window: 1h\n": {true, ""},
		"command: [./r]\nsandbox: required\nmodel: small\ncost_budget: 1\n":                         {true, `nobody knows what "small" costs`},
		"command: [./r]\nsandbox: required\nmodel: small\nmax_turns: 2\n":                           {true, "max_turns: no effect"},
		"command: [./r]\nsandbox: required\nmodel: sonnet\n":                                        {false, ""},
		"command: [./r]\nsandbox: required\nmodel: sonnet\ntoken_budget: 5\n":                       {false, "token_budget: no effect"},
		"command: [./r]\nsandbox: required\n":                                                       {false, ""},
		"command: [./r]\nsandbox: none\nmodel: small\ncost_window: 1h\n":                            {false, "cost_window: no effect"},
		"command: [docker, run, r]\nsandbox: own\nmodel: small\nmax_output_tokens: 16\n":            {false, "max_output_tokens: no effect"},
		"model: small\ncost_budget: 1\n":                                                            {false, "cost_budget: no effect"},
	} {
		m, report := definition.Parse(readerWith(front))
		got := strings.Join(append(messages(report.Errors), messages(report.Warnings)...), "\n")
		failIf(t, want.problem == "" && strings.Contains(got, "model") || !strings.Contains(got, want.problem),
			"%q: %s", front, got)
		if m == nil {
			continue // it is refused
		}
		agent, _ := m.Agent("reader")
		failIf(t, agent.AsksModel() != want.asks || agent.Kept() != want.asks, "%q: %+v", front, agent)
	}
	unopened := definition.Site{Open: func(m bcp.Model) error { return errors.New("no key for " + m.Name) }}
	_, report := unopened.Load(folderOf(readerWith("command: [./r]\nsandbox: required\nmodel: openai/x\n")))
	failIf(t, len(report.Errors) != 1 || report.Errors[0].Code != definition.CodeNoModel, "%v", report.Errors)
}

// What a tool reads is named, is there, and has no keys of the mesh below it.
//
// covers ALF-78
func TestWhatToolsRead(t *testing.T) {
	t.Parallel()
	site := definition.Site{
		Key: func(place, _ string) error {
			if place == "env:GONE" {
				return errors.New("the environment variable GONE is not set")
			}
			return nil
		},
		Read: func(tool, path string) error {
			if path == "gone" || tool == "mailbox" && path == "documents" {
				return errors.New("no such file or directory")
			}
			return nil
		},
	}
	for front, want := range map[string]string{
		"tools: [files]\nfiles: [documents, /srv/public]\n":                                  "",
		"tools: Read\nfiles: [documents]\n":                                                  "",
		"tools: [files]\n":                                                                   "the tool files reads below folders: list them in `files`",
		"tools: [files]\nfiles: [documents, gone]\n":                                         "files[1]: it cannot be read: no such file or directory",
		"tools: [files]\nfiles: [documents, .]\n":                                            `files[1]: "." holds what no agent may read`,
		"tools: [files]\nfiles: [../other]\n":                                                `files[0]: "../other" begins with .., which may lead back to the keys of the mesh: write the whole path`,
		"tools: [mailbox]\nmailbox: ../mail\n":                                               `mailbox: "../mail" begins with ..`,
		"tools: [files]\nfiles: [a/../.bcpmesh/x]\n":                                         "holds what no agent may read",
		"tools: [files]\nfiles: [/]\n":                                                       "holds what no agent may read",
		"tools: [mailbox]\nmailbox: mail\n":                                                  "",
		"tools: Mailbox\nmailbox: /var/mail/me\n":                                            "",
		"tools: [mailbox]\n":                                                                 "the tool mailbox reads a Maildir or a mailbox of an IMAP server: name it in `mailbox`",
		"tools: [mailbox]\nmailbox: documents\n":                                             "mailbox: it cannot be read: no such file or directory",
		"tools: [mailbox]\nmailbox: .bcpmesh/x\n":                                            `mailbox: ".bcpmesh/x" holds what no agent may read`,
		"tools: [mailbox]\nmailbox: imaps://me@mail.test/INBOX\nmailbox_key: env:MAIL_KEY\n": "",
		"tools: [mailbox]\nmailbox: imaps://me@mail.test\nmailbox_key: file:mail.key\n":      "",
		"tools: [mailbox]\nmailbox: imaps://me@mail.test\n":                                  "mailbox_key: the server asks for a password: say where it is",
		"tools: [mailbox]\nmailbox: imaps://me@mail.test\nmailbox_key: env:GONE\n":           "mailbox_key: the environment variable GONE is not set",
		"tools: [mailbox]\nmailbox: imaps://me@mail.test\nmailbox_key: swordfish1\n":         "and not the key itself",
		"tools: [mailbox]\nmailbox: imap://me@mail.test\nmailbox_key: env:MAIL_KEY\n":        "mailbox: only imaps",
		"tools: [mailbox]\nmailbox: imaps://me:x@mail.test\nmailbox_key: env:MAIL_KEY\n":     "mailbox: only a user's name stands before the @",
		"tools: [mailbox]\nmailbox: imaps://mail.test\nmailbox_key: env:MAIL_KEY\n":          "mailbox: expected imaps://user@host/INBOX",
		"tools: [mailbox]\nmailbox: imaps://me@10.1.2.3\nmailbox_key: env:MAIL_KEY\n":        "mailbox: 10.1.2.3 is no public address: list its prefix in allow_addresses",
		"tools: [mailbox]\nmailbox: imaps://me@192.168.1.2:993\nmailbox_key: env:MAIL_KEY\n": "",
		"tools: [mailbox]\nmailbox: 'imaps://me@[fe80::1]:993'\nmailbox_key: env:MAIL_KEY\n": "fe80::1 is no public address",
		"tools: [mailbox]\nmailbox: mail\nmailbox_key: env:MAIL_KEY\n":                       "mailbox_key: no effect: the mailbox is none of a server",
		"mailbox: mail\n":      "no effect: the agent has not the tool mailbox",
		"files: [documents]\n": "no effect: the agent has not the tool files",
	} {
		_, report := site.Load(folderOf(map[string][]byte{
			"agents/main.md":   []byte("---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 9}\n---\n"),
			"agents/reader.md": []byte("---\nname: reader\ncommand: builtin\nmodel: ollama/m\n" + front + "bcp_channels:\n- {peer: main, role: reader}\n---\n"),
			"mesh.yaml":        []byte("allow_addresses: [192.168.0.0/16]\n"),
		}))
		got := strings.Join(messages(append(report.Errors, report.Warnings...)), "\n")
		failIf(t, want == "" && len(report.Errors) > 0 || !strings.Contains(got, want), "%q: %s", front, got)
	}
}

func folderOf(files map[string][]byte) fstest.MapFS {
	folder := fstest.MapFS{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: content}
	}
	return folder
}

func messages(list []definition.Problem) (texts []string) {
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return texts
}
