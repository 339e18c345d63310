package audit

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

const (
	// completionTime is how long a shell waits for the running mesh.
	completionTime = 2 * time.Second
	// completedRecords is how many of the newest records are looked through.
	completedRecords = 200
)

// completeExchanges completes the ids of queries, deliveries and items in the newest
// records, newest first.
func completeExchanges(who *client.Flags) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c, err := who.Connect(ctx, bcp.RoleAuditor)
		if err != nil {
			return nil, none
		}
		defer c.Close()
		return newestExchanges(ctx, c.Auditor()), none | cobra.ShellCompDirectiveKeepOrder
	}
}

// newestExchanges returns the ids in the newest records that auditor reads.
func newestExchanges(ctx context.Context, auditor *agents.Auditor) []string {
	var ids []string
	seen := map[string]bool{}
	records, _, err := NewestRecords(ctx, auditor, completedRecords, nil)
	if err != nil {
		return nil
	}
	for i := range records {
		d := &records[i]
		for _, id := range []string{string(d.Query), string(d.Item)} {
			if id != "" && !seen[id] {
				seen[id] = true
				ids = append([]string{cobra.CompletionWithDesc(id, d.Kind.String()+" "+d.At().Local().Format(time.TimeOnly))}, ids...)
			}
		}
	}
	return ids
}
