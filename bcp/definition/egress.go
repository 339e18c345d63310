package definition

import (
	"errors"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// networkText returns what an agent reaches as people read it.
func networkText(o *object) string {
	v := o.get("network")
	if v.word != "" {
		return v.word
	}
	return strings.Join(textsIn(v.texts), ", ")
}

// defaultEgressBudget is that of an agent with hosts whose definition names none.
const defaultEgressBudget = 16384 * bcp.Bit

// buildEgress returns what an agent may reach. A word for its network lists no host, and
// limits of an agent without hosts mean nothing.
func buildEgress(o *object, e bcp.Egress) bcp.Egress {
	if len(e.Hosts) == 0 {
		return bcp.Egress{BudgetStated: o.has("egress_budget_bits")}
	}
	if e.BudgetStated = o.has("egress_budget_bits"); !e.BudgetStated {
		e.Budget = defaultEgressBudget
	}
	return e
}

// egress checks the keys of what an agent may reach against each other.
func (b *builder) egress(a *agent, agent *bcp.Agent) {
	e, o := agent.Egress, a.object
	if v := o.values["network"]; v != nil && v.bad {
		return
	}
	policy, _ := guard.ParsePolicy(e.Hosts)
	for _, key := range []string{"start_urls", "feeds"} {
		seen := map[string]bool{}
		for i, url := range o.get(key).texts {
			target, err := guard.Check(url.text, policy)
			switch {
			case errors.Is(err, guard.DenyAll):
				a.source.errorf(url.position, CodeBadValue, index(key, i), "the agent's network has no hosts: list the host of this URL there")
			case err != nil:
				a.source.errorf(url.position, CodeBadValue, index(key, i), "expected a URL within network, got %s: %s", quote(url.text), err)
			case seen[target.String()]:
				a.source.errorf(url.position, CodeDuplicate, index(key, i), "%s is listed twice", quote(url.text))
			}
			seen[target.String()] = true
		}
	}
	if o.has("egress_host_bytes") && len(e.Hosts) > 0 && e.MaxHostBytes > e.MaxBytes {
		a.source.warnf(o.at("egress_host_bytes"), CodeNoEffect, "egress_host_bytes", "no effect: the agent may have %s of all hosts", formatBytes(e.MaxBytes))
	}
	if e.LinksOnly && len(e.Hosts) > 0 && len(e.StartURLs) == 0 && len(agent.Feeds) == 0 {
		a.source.warnf(o.at("links_only"), CodeNoEffect, "links_only", "the agent can fetch nothing: there are no start_urls, from which it could get links")
	}
}
