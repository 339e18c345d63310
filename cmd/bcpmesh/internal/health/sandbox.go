package health

import (
	"context"

	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cell"
)

// confinement looks at what this machine offers to confine agents' commands, and tries what a hijacked one would.
func (c *checkup) confinement(ctx context.Context) {
	if cell.Killed() {
		c.add("sandbox", failed, "a unit allows these by name: SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp",
			"the system calls of this process are filtered, and a program that confines itself is killed: `sandbox: required` starts nothing here")
		return
	}
	offers := sandbox.Detect()
	offers.UserNamespaces = sandbox.UserNamespaces()
	c.Sandbox = &offers
	if missing := offers.Missing(); missing != nil {
		c.add("sandbox", failed, sandbox.Remedy, "`sandbox: required` starts nothing here: %s", missing)
		return
	}
	c.ok("sandbox", "%s, Landlock version %d, seccomp: `sandbox: required` works", offers.System, offers.Landlock)
	c.localConfinement(ctx, offers.UserNamespaces)
	outcomes, err := cell.Attempts(ctx, false)
	if err != nil {
		c.add("sandbox-attempts", failed, "report this, with the machine's kernel and bcpmesh version", "a program was not confined: %s", err)
		return
	}
	for _, o := range outcomes {
		id := "sandbox-" + o.Attempt
		if o.Reached {
			c.add(id, failed, "do not rely on the sandbox here, and report this", "a confined program could %s", o.Does)
			continue
		}
		c.ok(id, "refused: %s", o.Does)
	}
	const id, remedy = "sandbox-outlive", "stop agents by stopping the mesh, and do not kill it"
	switch outlives, err := cell.Outlives(ctx); {
	case err != nil:
		c.add(id, failed, remedy, "what a killed keeper leaves could not be tried: %s", err)
	case outlives:
		c.add(id, failed, remedy, "a confined program could go on after its keeper was killed")
	default:
		c.ok(id, "refused: go on after its keeper was killed")
	}
}

// localConfinement tries the same from a network with the keeper alone, which commands have that ask a model or hosts.
func (c *checkup) localConfinement(ctx context.Context, namespaces bool) {
	const id, remedy = "sandbox-local", "allow user namespaces, such as by a profile of AppArmor; or have the mesh run the agent: `command: builtin`"
	if !namespaces {
		c.add(id, warned, remedy, "this user may not make user namespaces: a confined command that has a model or hosts is not started")
		return
	}
	outcomes, err := cell.Attempts(ctx, true)
	if err != nil {
		c.add(id, warned, remedy, "a confined command that has a model or hosts is not started: %s", err)
		return
	}
	for _, o := range outcomes {
		if o.Reached {
			c.add(id, failed, "do not rely on the sandbox here, and report this", "a confined program with a model or hosts could %s", o.Does)
			return
		}
	}
	c.ok(id, "a confined command that has a model or hosts can reach only its keeper over the network: all %d attempts below are refused there, too", len(outcomes))
}
