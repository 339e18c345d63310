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
		if a.Sandbox != 0 && !a.Builtin {
			a.warnf("sandbox", CodeNoEffect, "no effect: the agent has no command")
		}
		return
	}
	if a.Sandbox == bcp.SandboxRequired {
		a.confined()
	}
	b.startable(&a.object, a.Command, &a.Sandbox, confinable)
}

// confinable is what to do about a command that nothing confines.
const confinable = "have the mesh confine it with `sandbox: required`; or start it through sudo -u, docker, bwrap or the like; or accept that with `sandbox: none`; or, where it confines itself, say `sandbox: own`"

// startable judges a command with what confines it; remedy is what to do if nothing does.
func (b *builder) startable(o *object, command []string, sandbox *bcp.Sandbox, remedy string) {
	if *sandbox == 0 {
		if o.written("sandbox") {
			return // it is wrong, as was said
		}
		if !confines(command) {
			o.errorf("command", CodeCommandUser, "it would run as the user of the mesh, who can read its keys and its journal: %s", remedy)
			return
		}
		*sandbox = bcp.SandboxOwn
	}
	if b.find == nil {
		return
	}
	if err := b.find(command, *sandbox); err != nil {
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

// confining are programs that run another one as somebody else, or apart. Those with
// switches do so only where one of these names a user; without it they run the other
// program as whoever they are started by, or as root.
var confining = map[string][]string{
	"docker": nil, "podman": nil, "nerdctl": nil, "bwrap": nil, "firejail": nil, "ssh": nil,
	"sudo": {"-u", "--user"}, "doas": {"-u"}, "runuser": {"-u", "--user"}, "setpriv": {"--reuid"}, "systemd-run": {"--uid"},
}

// confines reports whether a command is known to run its agent as another user, or
// apart. What else it is told is the operator's to get right.
func confines(command []string) bool {
	program := command[0]
	if strings.Contains(program, "/") && !path.IsAbs(program) {
		return false // one of the folder: anything may be called so
	}
	switches, known := confining[path.Base(program)]
	return known && (switches == nil || slices.ContainsFunc(switches, func(name string) bool { return namesUser(command[1:], name) }))
}

// namesUser reports whether the words have a switch with a user who is not root: as
// -u USER, -uUSER, --user USER or --user=USER.
func namesUser(words []string, name string) bool {
	for i, word := range words {
		user, found := strings.CutPrefix(word, name)
		switch {
		case !found:
			continue
		case user == "" && i+1 < len(words):
			user = words[i+1]
		case strings.HasPrefix(name, "--"):
			if user, found = strings.CutPrefix(user, "="); !found {
				continue // another switch
			}
		}
		return !slices.Contains([]string{"", "root", "0", "#0"}, user) && !strings.HasPrefix(user, "-")
	}
	return false
}
