package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func permsCommand(p *program) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "perms [DIR]",
		Short: "Show what each agent may publish and subscribe to",
		Long: `Show what each agent and each person may publish and subscribe to, in each of
their roles. The lists are exact: everything else is refused by the server.
"replies" says for how long one answer may be sent to each message received.
They follow from the definitions alone. Without DIR it is the mesh of the
current folder.

With --json the result is {AGENT: {ROLE: {publish, subscribe, ...}}}.`,
		Example: `  bcpmesh perms
  bcpmesh perms ./office --agent researcher --json`,
		Args:              arguments(0, "DIR"),
		ValidArgsFunction: completeFolders,
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := meshArgument(args)
			if err != nil {
				return err
			}
			mesh, err := folder.load()
			if err != nil {
				return err
			}
			all := permissionsOf(subjects.Permissions(mesh))
			if agent != "" {
				roles, ok := all[bcp.AgentName(agent)]
				if !ok {
					return unknownAgent(agent, slices.Sorted(maps.Keys(all)))
				}
				all = permissions{bcp.AgentName(agent): roles}
			}
			if p.out.json {
				return p.out.value(all)
			}
			p.showPermissions(all)
			return nil
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "show this agent or person only")
	complete(cmd, "agent", completeAgents(true))
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

func permissionsOf(scopes []subjects.Scope) permissions {
	all := permissions{}
	for _, s := range scopes {
		if all[s.Agent] == nil {
			all[s.Agent] = map[string]rights{}
		}
		all[s.Agent][s.Role.String()] = rights{
			Publish: s.PubAllow, Subscribe: s.SubAllow, Respond: s.Respond, RespondFor: seconds(s.RespondFor), MaxSubscriptions: s.MaxSubscriptions,
		}
	}
	return all
}

func (p *program) showPermissions(all permissions) {
	p.out.heading("Permissions")
	var rows [][]string
	for _, agent := range slices.Sorted(maps.Keys(all)) {
		for _, role := range slices.Sorted(maps.Keys(all[agent])) {
			r := all[agent][role]
			publish, replies := strings.Join(r.Publish, "\n"), "none"
			if len(r.Publish) == 0 {
				publish = "nothing"
			}
			if r.Respond {
				replies = "one within " + duration(r.RespondFor)
			}
			rows = append(rows, []string{string(agent), role, publish, strings.Join(r.Subscribe, "\n"), replies})
		}
	}
	p.out.table([]string{"agent", "role", "may publish", "may subscribe", "replies"}, rows)
}

// unknownAgent says that a mesh has no such agent, and which one may be meant.
func unknownAgent[T ~string](name string, known []T) error {
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	f := failf("the mesh has no agent %s", quoted(name))
	if near := suggestion(name, names); near != "" {
		return f.withHint("did you mean %s?", near)
	}
	if len(names) == 0 {
		return f
	}
	return f.withHint("it has %s", strings.Join(names, ", "))
}
