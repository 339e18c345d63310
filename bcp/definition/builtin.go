package definition

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// BuiltinTools are the tools that `command: builtin` can give a model, with other names
// that definitions may have for them.
var builtinTools = map[string]string{"web_fetch": "web_fetch", "WebFetch": "web_fetch", filesTool: filesTool, "Read": filesTool, "mailbox": mailboxTool, "Mailbox": mailboxTool, feedsTool: feedsTool}

// The tools that read what other keys name: `files`, `mailbox` and `feeds`.
const (
	filesTool   = "files"
	mailboxTool = "mailbox"
	feedsTool   = "feeds"
)

// BuiltinTools returns their names, in alphabetical order.
func BuiltinTools() []string {
	var names []string
	for _, name := range builtinTools {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keyPlace is where a key may be. It takes milliseconds to compile, which no program pays that reads none.
var keyPlace = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:.{1,200}|command:.{1,200})$`)
})

// buildModels returns the models of mesh.yaml.
func (b *builder) buildModels(o *object) []bcp.Model {
	var models []bcp.Model
	seen := map[string]bool{}
	for _, m := range o.get("models").objects {
		var model bcp.Model
		m.fill(&model)
		if seen[model.Name] {
			b.meshSource.errorf(m.at("name"), CodeDuplicate, join(m.path, "name"), "two models have this name")
		}
		seen[model.Name] = true
		if model.Key != "" && !keyPlace().MatchString(model.Key) {
			b.meshSource.errorf(m.at("key"), CodeBadValue, join(m.path, "key"), "expected where the key is, env:NAME, file:PATH or command:WORDS, and not the key itself")
		}
		if _, err := guard.ParseTarget(model.BaseURL); model.BaseURL != "" && (err != nil || strings.ContainsAny(model.BaseURL, "?#")) {
			b.meshSource.errorf(m.at("base_url"), CodeBadValue, join(m.path, "base_url"), "expected an http or https URL such as http://127.0.0.1:8080/v1")
		}
		for _, p := range m.get("price").objects { // one, or none
			input := cost.USD(p.get("input").number)
			model.Stated = &cost.Price{CacheRead: input, CacheWrite: input}
			p.fill(model.Stated)
		}
		models = append(models, model.WithKey())
	}
	return models
}

// programModel judges the model of an agent whose command somebody else wrote. Its keeper asks it for the command, if the
// mesh confines that; otherwise a model is what people call it.
func (b *builder) programModel(m *bcp.Mesh, a *agent, agent *bcp.Agent) {
	o := a.object
	_, known := m.ModelOf(agent.Model)
	asks := known && len(agent.Command) > 0 && agent.Sandbox == bcp.SandboxRequired
	agent.Run.MaxTurns, agent.Run.MaxParallel = 0, 0 // of conversations that the mesh holds
	if asks {
		b.callable(m, a, agent)
	} else {
		agent.Run = bcp.Run{}
	}
	for _, key := range []string{"feeds", "mailbox", "mailbox_key", "max_turns", "max_parallel"} {
		if o.has(key) {
			a.source.warnf(o.at(key), CodeNoEffect, key, "no effect: the agent has no `command: builtin`")
		}
	}
	for _, key := range []string{"max_output_tokens", "cost_budget", "token_budget", "cost_window"} {
		if o.has(key) && !asks {
			a.source.warnf(o.at(key), CodeNoEffect, key, "no effect: the agent has no `command: builtin`, and no command with `sandbox: required` and a model that mesh.yaml has")
		}
	}
}

// callable judges the model that an agent's keeper calls, and reports whether there is one.
func (b *builder) callable(m *bcp.Mesh, a *agent, agent *bcp.Agent) bool {
	o := a.object
	if b.model != "" {
		agent.Model = b.model
	}
	model, ok := m.ModelOf(agent.Model)
	if !ok {
		if b.model != "" {
			a.source.errorf(o.at("model"), CodeBadValue, "model", "there is no model %s: expected a name of models in mesh.yaml, or provider/model with a provider of %s", quote(b.model), strings.Join(bcp.Providers(), ", "))
		}
		return false
	}
	if _, priced := model.Price(); !priced && agent.Run.CostBudget > 0 {
		a.source.errorf(o.at("cost_budget"), CodeNoPrice, "cost_budget", "nobody knows what %s costs: state its price under models in mesh.yaml, or use token_budget", quote(agent.Model))
	}
	if b.open != nil {
		if err := b.open(model); err != nil {
			a.source.errorf(o.at("model"), CodeNoModel, "model", "%s", err)
		}
	}
	return true
}

// builtin judges an agent that the mesh itself runs.
func (b *builder) builtin(m *bcp.Mesh, a *agent, agent *bcp.Agent) {
	o := a.object
	if !agent.Builtin {
		b.programModel(m, a, agent)
		return
	}
	if !b.callable(m, a, agent) && b.model == "" && (o.values["model"] == nil || !o.values["model"].bad) {
		a.source.errorf(o.at("model"), CodeBadValue, "model", "builtin needs a model: a name of models in mesh.yaml, or provider/model with a provider of %s", strings.Join(bcp.Providers(), ", "))
	}
	if b.plans(agent.Name, "planner") || b.plans(agent.Name, "sub_planner") {
		b.builtinPlanner(a, agent)
		return
	}
	if !agent.Reader && len(o.get("tools").texts) > 0 {
		a.source.errorf(o.at("tools"), CodeBadValue, "tools", "a Controller that a model runs has the tools of the protocol and no others: what reads hostile text is a Reader")
	}
	for i, e := range o.get("tools").texts {
		tool, known := builtinTools[e.text]
		if _, of := m.MCPTool(e.text); !known && of != nil {
			tool, known = e.text, true
		}
		if !known {
			a.source.errorf(e.position, CodeBadValue, index("tools", i), "builtin has no tool %s: expected %s, or mcp__SERVER__TOOL of mcp_servers in mesh.yaml", quote(e.text), strings.Join(BuiltinTools(), ", "))
			continue
		}
		agent.Tools[i] = tool
	}
	b.readByTools(m, a, agent)
	switch agent.Sandbox {
	case 0:
		agent.Sandbox = bcp.SandboxRequired
	case bcp.SandboxOwn:
		a.source.errorf(o.at("sandbox"), CodeBadValue, "sandbox", "builtin is confined by the mesh: expected required or none")
	}
	if !agent.Reader && !agent.Controller {
		a.source.errorf(o.at("command"), CodeBadValue, "command", "builtin has nothing to do: the agent has no channel")
	}
	agent.OnDemand = !agent.Reader && len(agent.CronSchedules) == 0 && !slices.ContainsFunc(o.get("bcp_channels").objects, func(c *object) bool {
		return len(c.get("subscriptions").objects) > 0
	})
}

// plans reports whether a kernel names an agent in a key, planner or sub_planner.
func (b *builder) plans(name bcp.AgentName, key string) bool {
	return slices.ContainsFunc(b.agents, func(a *agent) bool {
		return a.object.has("kernel") && !a.object.values["kernel"].bad && a.object.get("kernel").objects[0].get(key).text == string(name)
	})
}

// builtinPlanner judges a planner or sub-planner that a model runs. Its model has no tools,
// and all that it can do is to make a plan: nothing has to confine it.
func (b *builder) builtinPlanner(a *agent, agent *bcp.Agent) {
	for _, key := range []string{"tools", "cron_schedules"} {
		if a.object.has(key) {
			a.source.errorf(a.object.at(key), CodeKernel, key, "a planner has no %s: it makes plans, and does nothing else", key)
		}
	}
	for _, key := range []string{"sandbox", "network", "max_turns"} {
		if a.object.has(key) {
			a.source.warnf(a.object.at(key), CodeNoEffect, key, "no effect: a planner that a model runs asks its model once for each plan, and its model has no tools")
		}
	}
	agent.Sandbox = bcp.SandboxOwn
}

// readByTools judges what the tools of an agent that the mesh runs read.
func (b *builder) readByTools(m *bcp.Mesh, a *agent, agent *bcp.Agent) {
	o := a.object
	if o.has("mailbox_key") && !guard.IsMailServer(agent.Mailbox) {
		a.source.warnf(o.at("mailbox_key"), CodeNoEffect, "mailbox_key", "no effect: the mailbox is none of a server")
	}
	for _, reads := range []struct {
		tool, key, missing string
		names              []element
	}{
		{filesTool, "files", "the tool files reads below folders: list them in `files`, such as files: [documents]", o.get("files").texts},
		{mailboxTool, "mailbox", "the tool mailbox reads a Maildir, an mbox file or a mailbox of an IMAP server: name it in `mailbox`, such as mailbox: mail", mailboxElements(o)},
		{feedsTool, "feeds", "the tool feeds fetches feeds: list their URLs in `feeds`, such as feeds: ['https://news.example.com/feed']", o.get("feeds").texts},
	} {
		switch has := slices.Contains(agent.Tools, reads.tool); {
		case has && len(reads.names) == 0:
			a.source.errorf(o.at("tools"), CodeMissingKey, reads.key, "%s", reads.missing)
		case !has && len(reads.names) > 0:
			a.source.warnf(o.at(reads.key), CodeNoEffect, reads.key, "no effect: the agent has not the tool %s", reads.tool)
		case has && reads.tool == mailboxTool && guard.IsMailServer(agent.Mailbox):
			b.mailServer(m, a, agent)
		case has && reads.tool != feedsTool:
			b.readable(a, reads.key, reads.names)
		}
	}
}

// mailServer judges a mailbox of an IMAP server, and where its key is.
func (b *builder) mailServer(m *bcp.Mesh, a *agent, agent *bcp.Agent) {
	o := a.object
	server, err := guard.ParseMailServer(agent.Mailbox)
	if err != nil {
		a.source.errorf(o.at("mailbox"), CodeBadValue, "mailbox", "%s", strings.TrimPrefix(err.Error(), "guard: "))
		return
	}
	if address, ok := server.Target.Address(); ok && !guard.Reachable(address, m.AllowAddresses) {
		a.source.errorf(o.at("mailbox"), CodeBadValue, "mailbox", "%s is no public address: list its prefix in allow_addresses of mesh.yaml", address)
	}
	switch key := agent.MailboxKey; {
	case key == "":
		a.source.errorf(o.at("mailbox"), CodeMissingKey, "mailbox_key", "the server asks for a password: say where it is, such as mailbox_key: env:MAIL_PASSWORD")
	case !keyPlace().MatchString(key):
		a.source.errorf(o.at("mailbox_key"), CodeBadValue, "mailbox_key", "expected where the password is, env:NAME, file:PATH or command:WORDS, and not the password itself")
	case b.keys != nil:
		if err := b.keys(key, "the key of the mailbox"); err != nil {
			a.source.errorf(o.at("mailbox_key"), CodeNoFile, "mailbox_key", "%s", err)
		}
	}
}

// mailboxElements is what the key mailbox names, nothing if it is not there.
func mailboxElements(o *object) []element {
	if !o.has("mailbox") {
		return nil
	}
	return []element{{text: o.get("mailbox").text, position: o.at("mailbox")}}
}

// readable judges what an agent reads by a tool.
func (b *builder) readable(a *agent, tool string, names []element) {
	for i, name := range names {
		at := tool
		if tool == filesTool {
			at = index(tool, i)
		}
		if why := holdsKeys(name.text); why != "" {
			a.source.errorf(name.position, CodeSandbox, at, "%s %s that the agent needs", quote(name.text), why)
			continue
		}
		if b.reads == nil {
			continue
		}
		if err := b.reads(tool, name.text); err != nil {
			a.source.errorf(name.position, CodeNoFile, at, "it cannot be read: %s", err)
		}
	}
}
