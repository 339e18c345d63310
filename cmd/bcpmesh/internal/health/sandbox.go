package health

import (
	"context"

	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cell"
)

// confinement looks at what this machine offers to confine agents' commands, and tries what a hijacked one would.
func (c *checkup) confinement(ctx context.Context) {
	offers := sandbox.Detect()
	offers.UserNamespaces = sandbox.UserNamespaces()
	c.Sandbox = &offers
	if missing := offers.Missing(); missing != nil {
		c.add("sandbox", failed, sandbox.Remedy, "`sandbox: required` starts nothing here: %s", missing)
		return
	}
	c.ok("sandbox", "%s, Landlock version %d, seccomp: `sandbox: required` works", offers.System, offers.Landlock)
	may := "may"
	if !offers.UserNamespaces {
		may = "may not"
	}
	c.ok("sandbox-user-namespaces", "this user %s make user namespaces, which the sandbox needs not", may)
	outcomes, err := cell.Attempts(ctx)
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
}
