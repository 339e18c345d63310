package run

import (
	"context"

	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// Reload has a running mesh load its definitions.
type Reload struct{ client.OperatorFlags }

func (f *Reload) Run(ctx context.Context, p *cli.Program, _ []string) error {
	return f.Act(ctx, func(ctx context.Context, o *client.Client) error {
		result, err := o.Operator().Reload(ctx)
		if err != nil {
			return err
		}
		return showReloaded(p, result)
	})
}

func showReloaded(p *cli.Program, r status.Reloaded) error {
	var failed error
	if len(r.Errors) > 0 {
		failed = cli.Failf("the definitions were not loaded: %s", r.Errors[0]).WithHint("nothing has changed; bcpmesh check shows all errors")
	}
	return p.Out.Report(r, failed, func() {
		p.Out.Printf("definitions loaded; %s of permissions and budgets\n", cli.Count(len(r.Changes), "change"))
		for _, line := range r.Changes {
			p.Out.Printf("  %s\n", cli.Plain(line))
		}
		for _, note := range r.Notes {
			p.Out.Talkf("note: %s", note)
		}
	})
}
