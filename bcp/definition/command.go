package definition

import (
	"path"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// command judges what starts an agent, and what confines it (PROTOCOL P7.5).
func (b *builder) command(a *agentForm) {
	if len(a.Files) > 0 && !a.Builtin && a.Sandbox != bcp.SandboxRequired {
		a.warnf("files", CodeNoEffect, "no effect: only a command with `sandbox: required` is kept from other files")
	}
	if len(a.Command) == 0 {
		if a.Sandbox != "" && !a.Builtin {
			a.warnf("sandbox", CodeNoEffect, "no effect: the agent has no command")
		}
		return
	}
	if a.Sandbox == bcp.SandboxRequired {
		a.confined()
	}
	b.startable(&a.object, a.Command, a.Sandbox)
}

// startable judges a command, and whether something is said to confine it.
func (b *builder) startable(o *object, command []string, sandbox bcp.Sandbox) {
	if sandbox == "" {
		if !o.written("sandbox") { // else it is wrong, as was said
			o.errorf("command", CodeCommandUser, "it would run as the user of the mesh, who can read its keys and its journal: say what confines it, as `sandbox: required` (the mesh; no service of tools), `sandbox: own` (itself, or sudo -u, docker, bwrap and the like), or `sandbox: none`, which accepts that")
		}
		return
	}
	if b.site.Find == nil {
		return
	}
	if err := b.site.Find(command, sandbox); err != nil {
		o.errorf("command", CodeNoCommand, "it cannot be started: %s", err)
	}
}

// confined judges what the mesh shall confine.
func (a *agentForm) confined() {
	if a.Controller && a.Reader {
		a.errorf("sandbox", CodeSandbox, "a confined command speaks for one role, and %s is a Controller and a Reader: make two agents of it", a.Name)
	}
	for _, name := range a.Files {
		if why := holdsKeys(name); why != "" {
			a.errorf("files", CodeSandbox, "%s %s that the command needs", quote(name), why)
		}
	}
}

// holdsKeys says why an agent may not read a path: it has the keys of the mesh below it, or may have. Empty: it may.
func holdsKeys(name string) string {
	switch clean := path.Clean(name); {
	case strings.HasPrefix(clean, "../"):
		return "begins with .., which may lead back to the keys of the mesh: write the whole path, from / on, of what is there"
	case clean == "/" || clean == "." || clean == ".." || slices.Contains(strings.Split(clean, "/"), stateFolder):
		return "holds what no agent may read, such as the keys of the mesh: name what is below it"
	}
	return ""
}

// stateFolder is where a mesh keeps its keys, unless it is told otherwise.
const stateFolder = ".bcpmesh"
