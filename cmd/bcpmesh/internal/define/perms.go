package define

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// PermsCommand returns the command perms.
func PermsCommand(p *cli.Program) *cobra.Command {
	var agent string
	var prove proveFlags
	cmd := &cobra.Command{
		Use:               "perms [DIR]",
		Args:              cli.Arguments(0, "DIR"),
		ValidArgsFunction: cli.CompleteFolders,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case prove.prove && agent != "":
				return cli.Usagef("perms: --prove is of all agents, and takes no --agent")
			case prove.prove:
				return provePermissions(p, prove, args)
			case len(prove.jwts)+len(prove.trust)+len(prove.through) > 0:
				return cli.Usagef("perms: --jwts, --trust and --through need --prove")
			}
			folder, err := meshdir.Argument(args)
			if err != nil {
				return err
			}
			mesh, err := folder.Load()
			if err != nil {
				return err
			}
			all, taints, reach := collectPermissions(subjects.Permissions(mesh)), agentTaints(mesh), describeReach(mesh)
			if agent != "" {
				roles, ok := all[bcp.AgentName(agent)]
				if !ok {
					return cli.UnknownAgent(agent, slices.Sorted(maps.Keys(all)))
				}
				all = permissions{bcp.AgentName(agent): roles}
				taints = slices.DeleteFunc(taints, func(t agentTaint) bool { return t.agent != bcp.AgentName(agent) })
				reach = slices.DeleteFunc(reach, func(r reachInfo) bool { return r.Agent != bcp.AgentName(agent) })
			}
			if p.Out.JSON {
				return p.Out.Value(withReach(withTaints(all, taints), reach))
			}
			showPermissions(p, all)
			showTaints(p, taints)
			showEgress(p, reach)
			showPartners(p, reach, "\n", "")
			return nil
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "show this agent or person only")
	cli.Complete(cmd, "agent", meshdir.CompleteAgents(true))
	prove.addTo(cmd)
	return cmd
}

// permissions are all rights of a mesh, by agent or person and role.
type permissions map[bcp.AgentName]map[string]rights

// rights are those of one agent in one role.
type rights struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	// Respond: one message may be sent to the reply subject of each message
	// received, for RespondFor seconds after it.
	Respond          bool  `json:"respond"`
	RespondFor       int64 `json:"respond_for_seconds"`
	MaxSubscriptions int   `json:"max_subscriptions"`
}

// agentTaint is the taint of one agent at worst.
type agentTaint struct {
	agent    bcp.AgentName
	Base     bcp.Taint       `json:"base"`
	Exposure bcp.Taint       `json:"exposure"`
	Way      []bcp.AgentName `json:"way"` // empty where the exposure is low
}

func agentTaints(mesh *bcp.Mesh) []agentTaint {
	flow := lint.FlowOf(mesh)
	var taints []agentTaint
	for i, a := range flow.Agents {
		taints = append(taints, agentTaint{agent: a.Name, Base: a.Base, Exposure: a.Exposure, Way: flow.Way(i)})
	}
	return taints
}

// withTaints is the JSON form of perms: no role is called taint.
func withTaints(all permissions, taints []agentTaint) map[bcp.AgentName]map[string]any {
	result := map[bcp.AgentName]map[string]any{}
	for agent, roles := range all {
		result[agent] = map[string]any{}
		for role, r := range roles {
			result[agent][role] = r
		}
	}
	for _, t := range taints {
		if result[t.agent] == nil { // an agent without a channel
			result[t.agent] = map[string]any{}
		}
		result[t.agent]["taint"] = t
	}
	return result
}

func collectPermissions(scopes []subjects.Scope) permissions {
	all := permissions{}
	for _, s := range scopes {
		if all[s.Agent] == nil {
			all[s.Agent] = map[string]rights{}
		}
		all[s.Agent][s.Role.String()] = rights{
			Publish: s.PubAllow, Subscribe: s.SubAllow, Respond: s.Respond, RespondFor: cli.Seconds(s.RespondFor), MaxSubscriptions: s.MaxSubscriptions,
		}
	}
	return all
}

func showPermissions(p *cli.Program, all permissions) {
	p.Out.Heading("Permissions")
	var rows [][]string
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		for _, role := range slices.Sorted(maps.Keys(all[agent])) {
			r := all[agent][role]
			publish, replies := strings.Join(r.Publish, "\n"), "none"
			if len(r.Publish) == 0 {
				publish = "nothing"
			}
			if r.Respond {
				replies = "one within " + cli.Duration(r.RespondFor)
			}
			rows = append(rows, []string{string(agent), role, publish, strings.Join(r.Subscribe, "\n"), replies})
		}
	}
	p.Out.Table([]string{"agent", "role", "may publish", "may subscribe", "replies"}, rows)
}

func showTaints(p *cli.Program, taints []agentTaint) {
	var rows [][]string
	for _, t := range taints {
		var way []string
		for _, name := range t.Way {
			way = append(way, string(name))
		}
		rows = append(rows, []string{string(t.agent), t.Base.String(), t.Exposure.String(), cmp.Or(strings.Join(way, " > "), "nobody")})
	}
	if len(rows) == 0 {
		return // a person
	}
	p.Out.Printf("\n")
	p.Out.Heading("Taint")
	p.Out.Table([]string{"agent", "base", "exposure at worst", "by way of"}, rows)
}
