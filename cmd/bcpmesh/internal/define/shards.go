package define

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// ShardsCommand returns the command shards.
func ShardsCommand(p *cli.Program) *cobra.Command {
	var where keys.AccountsFlags
	var s spreading
	cmd := &cobra.Command{
		Use:   "shards [DIR]",
		Short: "Show how a mesh is split into shards, and propose how to split it",
		Long: `Show the islands of a mesh: agents that channels connect, directly or through others,
and on which shard they are. Without DIR, use the mesh of the current folder. A shard
is a journal of its own on a cluster; both ends of a channel are on one, so an island
is the smallest unit that can be moved to another core. It is named after its agent
with the most channels.

With --spread N, islands that have no shard get one of N, so that all shards have
about the same load: by the pushes that max_rate allows, if all subscriptions of the
mesh have one, and by channels otherwise. Agents keep a shard that their file names,
or that they have because creds were issued in their island or a cluster got their
permissions. Without --write, the lines are only shown. With it, they are written into
the agents' files, and no other line is touched.

From then on an agent keeps its shard for good: its records are in that journal.`,
		Example: `  bcpmesh shards ./office
  bcpmesh shards ./office --spread 4
  bcpmesh shards ./office --spread 4 --write && bcpmesh check ./office`,
		Args:              cli.Arguments(0, "DIR"),
		ValidArgsFunction: cli.CompleteFolders,
	}
	cmd.Flags().Var(&s.shards, "spread", "propose one of NUMBER shards for each island that has none")
	cmd.Flags().BoolVar(&s.write, "write", false, "with --spread, write the lines into the agents' files")
	where.AddTo(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		spread := cmd.Flags().Changed("spread")
		switch {
		case s.write && !spread:
			return cli.Usagef("shards: --write needs --spread").WithHint("for example --spread 4 --write")
		case spread && (s.shards.Value < 1 || s.shards.Value > bcp.MaxShard+1):
			return cli.Usagef("shards: --spread: expected a number from 1 to %d, got %d", bcp.MaxShard+1, s.shards.Value)
		}
		folder, err := where.Folder(args)
		if err != nil {
			return err
		}
		if spread {
			return s.run(p, folder)
		}
		mesh, err := folder.Load()
		if err != nil {
			return err
		}
		return showShards(p.Out, currentPlan(mesh))
	}
	return cmd
}

// shardsPlan says which islands are on which shard: its keys are a contract.
type shardsPlan struct {
	Shards  []shardInfo  `json:"shards"`
	Islands []islandInfo `json:"islands"`
}

type shardInfo struct {
	Shard    int `json:"shard"`
	Islands  int `json:"islands"`
	Agents   int `json:"agents"`
	Channels int `json:"channels"`
}

type islandInfo struct {
	Name     bcp.AgentName   `json:"name"` // of its agent with the most channels
	Shard    int             `json:"shard"`
	Agents   []bcp.AgentName `json:"agents"`
	Channels int             `json:"channels"`
}

// currentPlan is the plan of a mesh as it is.
func currentPlan(mesh *bcp.Mesh) shardsPlan {
	all := mesh.Islands()
	on := make([]int, len(all))
	for i, island := range all {
		first, _ := mesh.Agent(island.Agents[0])
		on[i] = first.Shard
	}
	return newPlan(all, on)
}

// newPlan is the plan of islands, each on a shard.
func newPlan(islands []bcp.Island, on []int) shardsPlan {
	plan := shardsPlan{Shards: make([]shardInfo, slices.Max(on)+1)}
	for i, island := range islands {
		name, _ := busiest(island)
		plan.Islands = append(plan.Islands, islandInfo{Name: name, Shard: on[i], Agents: island.Agents, Channels: len(island.Channels)})
		s := &plan.Shards[on[i]]
		s.Islands++
		s.Agents += len(island.Agents)
		s.Channels += len(island.Channels)
	}
	for shard := range plan.Shards {
		plan.Shards[shard].Shard = shard
	}
	return plan
}

func showShards(o *cli.Output, plan shardsPlan) error {
	if o.JSON {
		return o.Value(plan)
	}
	o.Heading("Islands")
	var rows [][]string
	for _, i := range plan.Islands {
		rows = append(rows, []string{string(i.Name), strconv.Itoa(i.Shard), strconv.Itoa(len(i.Agents)), strconv.Itoa(i.Channels)})
	}
	o.Table([]string{"island", "shard", "agents", "channels"}, rows)
	o.Printf("\n")
	plan.showTotals(o)
	return nil
}

func (plan shardsPlan) showTotals(o *cli.Output) {
	o.Heading("Shards")
	var rows [][]string
	for _, s := range plan.Shards {
		rows = append(rows, []string{strconv.Itoa(s.Shard), strconv.Itoa(s.Islands), strconv.Itoa(s.Agents), strconv.Itoa(s.Channels)})
	}
	o.Table([]string{"shard", "islands", "agents", "channels"}, rows)
}
