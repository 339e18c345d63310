package definition

import (
	"errors"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// defaultEgressBudget is that of an agent with hosts whose definition names none.
const defaultEgressBudget = 16384 * bcp.Bit

// reach sets what an agent may reach, also as people read it. A word for its network lists no
// host, and limits of an agent without hosts mean nothing.
func (a *agentForm) reach() {
	if a.Network = a.word("network"); a.Network == "" || len(a.Egress.Hosts) > 0 {
		a.Network = strings.Join(a.Egress.Hosts, ", ")
	}
	if len(a.Egress.Hosts) == 0 {
		a.Egress = bcp.Egress{}
	} else if !a.has("egress_budget_bits") {
		a.Egress.Budget = defaultEgressBudget
	}
	a.Egress.BudgetStated = a.has("egress_budget_bits")
}

// egress checks the keys of what an agent may reach against each other.
func (b *builder) egress(a *agentForm) {
	if a.wrong["network"] {
		return
	}
	e := a.Egress
	policy, _ := guard.ParsePolicy(e.Hosts)
	check := func(key string, urls []string) {
		seen := map[string]bool{}
		for i, url := range urls {
			target, err := guard.Check(url, policy)
			switch {
			case errors.Is(err, guard.DenyAll):
				a.errorf(index(key, i), CodeBadValue, "the agent's network has no hosts: list the host of this URL there")
			case err != nil:
				a.errorf(index(key, i), CodeBadValue, "expected a URL within network, got %s: %s", quote(url), err)
			case seen[target.String()]:
				a.errorf(index(key, i), CodeDuplicate, "%s is listed twice", quote(url))
			}
			seen[target.String()] = true
		}
	}
	check("start_urls", e.StartURLs)
	if a.has("egress_host_bytes") && len(e.Hosts) > 0 && e.MaxHostBytes > e.MaxBytes {
		a.warnf("egress_host_bytes", CodeNoEffect, "no effect: the agent may have %s of all hosts", formatBytes(e.MaxBytes))
	}
	if e.LinksOnly && len(e.Hosts) > 0 && len(e.StartURLs) == 0 {
		a.warnf("links_only", CodeNoEffect, "the agent can fetch nothing: there are no start_urls, from which it could get links")
	}
}
