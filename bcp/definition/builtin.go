package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// BuiltinTools are the tools that `command: builtin` can give a model, with other names
// that definitions may have for them.
var builtinTools = map[string]string{"web_fetch": "web_fetch", "WebFetch": "web_fetch", filesTool: filesTool, "Read": filesTool, "mailbox": mailboxTool, "Mailbox": mailboxTool}

// The tools that read what other keys name: `files` and `mailbox`.
const (
	filesTool   = "files"
	mailboxTool = "mailbox"
)

// BuiltinTools returns their names, in alphabetical order.
func BuiltinTools() []string {
	return slices.Compact(slices.Sorted(maps.Values(builtinTools)))
}

// models judges the models of mesh.yaml.
func (b *builder) models(m *bcp.Mesh) {
	for _, model := range b.mesh.ModelEntries {
		if _, err := guard.ParseTarget(model.BaseURL); model.BaseURL != "" && (err != nil || strings.ContainsAny(model.BaseURL, "?#")) {
			model.errorf("base_url", CodeBadValue, "expected an http or https URL such as http://127.0.0.1:8080/v1")
		}
		price := valueOf(model.node, "price")
		if valueOf(price, "cache_read").Tag == "" && model.Stated != nil {
			model.Stated.CacheRead = model.Stated.Input
		}
		if valueOf(price, "cache_write").Tag == "" && model.Stated != nil {
			model.Stated.CacheWrite = model.Stated.Input
		}
		m.Models = append(m.Models, model.WithKey())
	}
}

// programModel judges the model of an agent whose command somebody else wrote. Its keeper asks it for the command, if the
// mesh confines that; otherwise a model is what people call it.
func (b *builder) programModel(m *bcp.Mesh, a *agentForm) {
	_, known := m.ModelOf(a.Model)
	asks := known && len(a.Command) > 0 && a.Sandbox == bcp.SandboxRequired
	a.Run.MaxTurns, a.Run.MaxParallel = 0, 0 // of conversations that the mesh holds
	if asks {
		b.callable(m, a)
	} else {
		a.Run = bcp.Run{}
	}
	a.noEffect("no effect: the agent has no `command: builtin`", "mailbox", "mailbox_key", "max_turns", "max_parallel")
	if !asks {
		a.noEffect("no effect: the agent has no `command: builtin`, and no command with `sandbox: required` and a model that mesh.yaml has", "max_output_tokens", "cost_budget", "token_budget", "cost_window")
	}
}

// noEffect warns of keys.
func (a *agentForm) noEffect(why string, keys ...string) {
	for _, key := range keys {
		if a.has(key) {
			a.warnf(key, CodeNoEffect, "%s", why)
		}
	}
}

// callable judges the model that an agent's keeper calls, and reports whether there is one.
func (b *builder) callable(m *bcp.Mesh, a *agentForm) bool {
	if b.site.Model != "" {
		a.Model = b.site.Model
	}
	model, ok := m.ModelOf(a.Model)
	if !ok {
		if b.site.Model != "" {
			a.errorf("model", CodeBadValue, "there is no model %s: expected a name of models in mesh.yaml, or provider/model with a provider of %s", quote(b.site.Model), strings.Join(bcp.Providers(), ", "))
		}
		return false
	}
	if _, priced := model.Price(); !priced && a.Run.CostBudget > 0 {
		a.errorf("cost_budget", CodeNoPrice, "nobody knows what %s costs: state its price under models in mesh.yaml, or use token_budget", quote(a.Model))
	}
	if b.site.Open != nil {
		if err := b.site.Open(model); err != nil {
			a.errorf("model", CodeNoModel, "%s", err)
		}
	}
	return true
}

// builtin judges an agent that the mesh itself runs.
func (b *builder) builtin(m *bcp.Mesh, a *agentForm) {
	if !a.Builtin {
		b.programModel(m, a)
		return
	}
	if !b.callable(m, a) && b.site.Model == "" && !a.wrong["model"] {
		a.errorf("model", CodeBadValue, "builtin needs a model: a name of models in mesh.yaml, or provider/model with a provider of %s", strings.Join(bcp.Providers(), ", "))
	}
	if b.plans(a.Name, "planner") || b.plans(a.Name, "sub_planner") {
		a.builtinPlanner()
		return
	}
	if !a.Reader && len(a.Tools) > 0 {
		a.errorf("tools", CodeBadValue, "a Controller that a model runs has the tools of the protocol and no others: what reads hostile text is a Reader")
	}
	for i, name := range a.Tools {
		tool, known := builtinTools[name]
		if _, of := m.MCPTool(name); !known && of != nil {
			tool, known = name, true
		}
		if !known {
			a.errorf(index("tools", i), CodeBadValue, "builtin has no tool %s: expected %s, or mcp__SERVER__TOOL of mcp_servers in mesh.yaml", quote(name), strings.Join(BuiltinTools(), ", "))
			continue
		}
		a.Tools[i] = tool
	}
	b.readByTools(m, a)
	switch a.Sandbox {
	case "":
		a.Sandbox = bcp.SandboxRequired
	case bcp.SandboxOwn:
		a.errorf("sandbox", CodeBadValue, "builtin is confined by the mesh: expected required or none")
	}
	if !a.Reader && !a.Controller {
		a.errorf("command", CodeBadValue, "builtin has nothing to do: the agent has no channel")
	}
	a.OnDemand = !a.Reader && len(a.CronSchedules) == 0 && !slices.ContainsFunc(a.Channels, func(c *channelForm) bool { return len(c.SubscriptionEntries) > 0 })
}

// plans reports whether a kernel names an agent in a key, planner or sub_planner.
func (b *builder) plans(name bcp.AgentName, key string) bool {
	return slices.ContainsFunc(b.agents, func(a *agentForm) bool {
		return a.has("kernel") && a.Kernel.word(key) == string(name)
	})
}

// builtinPlanner judges a planner or sub-planner that a model runs. Its model has no tools,
// and all that it can do is to make a plan: nothing has to confine it.
func (a *agentForm) builtinPlanner() {
	for _, key := range []string{"tools", "cron_schedules"} {
		if a.has(key) {
			a.errorf(key, CodeKernel, "a planner has no %s: it makes plans, and does nothing else", key)
		}
	}
	a.noEffect("no effect: a planner that a model runs asks its model once for each plan, and its model has no tools", "sandbox", "network", "max_turns")
	a.Sandbox = bcp.SandboxOwn
}

// readByTools judges what the tools of an agent that the mesh runs read.
func (b *builder) readByTools(m *bcp.Mesh, a *agentForm) {
	if a.has("mailbox_key") && !guard.IsMailServer(a.Mailbox) {
		a.warnf("mailbox_key", CodeNoEffect, "no effect: the mailbox is none of a server")
	}
	mailbox := []string{a.Mailbox}
	if a.Mailbox == "" {
		mailbox = nil
	}
	for _, reads := range []struct {
		tool, missing string // the key is called as the tool
		names         []string
	}{
		{filesTool, "the tool files reads below folders: list them in `files`, such as files: [documents]", a.Files},
		{mailboxTool, "the tool mailbox reads a Maildir or a mailbox of an IMAP server: name it in `mailbox`, such as mailbox: mail", mailbox},
	} {
		switch has := slices.Contains(a.Tools, reads.tool); {
		case has && len(reads.names) == 0:
			a.source.errorf(a.at("tools"), CodeMissingKey, reads.tool, "%s", reads.missing)
		case !has && len(reads.names) > 0:
			a.warnf(reads.tool, CodeNoEffect, "no effect: the agent has not the tool %s", reads.tool)
		case has && reads.tool == mailboxTool && guard.IsMailServer(a.Mailbox):
			b.mailServer(m, a)
		case has:
			b.readable(a, reads.tool, reads.names)
		}
	}
}

// mailServer judges a mailbox of an IMAP server, and where its key is.
func (b *builder) mailServer(m *bcp.Mesh, a *agentForm) {
	server, err := guard.ParseMailServer(a.Mailbox)
	if err != nil {
		a.errorf("mailbox", CodeBadValue, "%s", strings.TrimPrefix(err.Error(), "guard: "))
		return
	}
	if address, ok := server.Target.Address(); ok && !guard.Reachable(address, m.AllowAddresses) {
		a.errorf("mailbox", CodeBadValue, "%s is no public address: list its prefix in allow_addresses of mesh.yaml", address)
	}
	switch {
	case !a.written("mailbox_key"):
		a.source.errorf(a.at("mailbox"), CodeMissingKey, "mailbox_key", "the server asks for a password: say where it is, such as mailbox_key: env:MAIL_PASSWORD")
	case a.has("mailbox_key") && b.site.Key != nil:
		if err := b.site.Key(a.MailboxKey, "the key of the mailbox"); err != nil {
			a.errorf("mailbox_key", CodeNoFile, "%s", err)
		}
	}
}

// readable judges what an agent reads by a tool.
func (b *builder) readable(a *agentForm, tool string, names []string) {
	for i, name := range names {
		at := tool
		if tool == filesTool {
			at = index(tool, i)
		}
		if why := holdsKeys(name); why != "" {
			a.errorf(at, CodeSandbox, "%s %s that the agent needs", quote(name), why)
			continue
		}
		if b.site.Read == nil {
			continue
		}
		if err := b.site.Read(tool, name); err != nil {
			a.errorf(at, CodeNoFile, "it cannot be read: %s", err)
		}
	}
}
