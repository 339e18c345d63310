package byhand

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// completionTime is how long a shell waits for what only the running mesh knows.
const completionTime = 3 * time.Second

// completePush completes CONTROLLER, and then its subscriptions to the reader that
// the command line acts as, or to any.
func completePush(who *client.Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		mesh, err := client.LoadMesh(cmd)
		if err != nil || len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []string
		seen := map[bcp.AgentName]bool{}
		for i := range mesh.Channels {
			c := &mesh.Channels[i]
			switch {
			case who.As != "" && who.As != string(c.Reader):
			case len(args) == 0:
				if !seen[c.Controller] {
					seen[c.Controller] = true
					words = append(words, string(c.Controller))
				}
			case args[0] == string(c.Controller):
				for _, s := range c.Subscriptions {
					words = append(words, cobra.CompletionWithDesc(string(s.ID), "to "+string(c.Reader)))
				}
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeQueries completes the ids of the queries that wait for a reader.
func completeQueries(who *client.Flags) cobra.CompletionFunc {
	return cli.FirstArgument(func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c, err := who.Connect(ctx, bcp.RoleReader)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		queries, err := waitingQueries(ctx, agents.NewReader(c.Connection), listWait)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, q := range queries {
			ids = append(ids, cobra.CompletionWithDesc(string(q.QueryID), "from "+string(q.Controller)))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
}
