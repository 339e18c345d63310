package roles

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// answerWithin bounds how long a gateway may take to judge.
const answerWithin = 30 * time.Second

// showing are the flags of role show.
type showing struct {
	who             client.Flags
	to, requirement string
	contracts       []string
}

func showCommand(p *cli.Program) *cobra.Command {
	var f showing
	cmd := cli.Command("show [ATTESTATION] REVOCATIONS", func(ctx context.Context, args []string) error {
		if len(args) == 1 && f.who.Creds == "" && f.to == "" {
			return f.bring(ctx, p.Out, args[0])
		}
		if len(args) == 1 || f.who.Creds == "" || f.to == "" {
			return cli.Usagef("role show: expected ATTESTATION, --creds and --to").WithHint("the creds are those that the other mesh has issued")
		}
		papers, err := readPapers(args[0], args[1], f.contracts)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		c, err := f.who.Remote(ctx, 0)
		if err != nil {
			return err
		}
		defer c.Close()
		v, err := c.ShowRole(ctx, f.to, f.requirement, papers)
		switch {
		case errors.Is(err, agents.ErrMessage):
			return cli.Failf("this is not a mesh of %s", cli.Plain(f.to)).WithHint("nothing is proved to another organisation")
		case err != nil:
			return meshdir.Failure(err)
		}
		return showVerdict(p.Out, v, 0)
	})
	cli.TakeGiven(cmd, "--creds, --url: of the other mesh", cli.Into{"creds": &f.who.Creds, "url": &f.who.URL, "ca": &f.who.CA})
	f.who.Where.AddTo(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "the `ORGANISATION` whose mesh it is")
	cmd.Flags().StringVar(&f.requirement, "requirement", bcp.DualLLMRole, "`NAME` of the other mesh's requirement")
	cmd.Flags().StringArrayVar(&f.contracts, "contract", nil, "`FILE` with a contract that is not built in; may be repeated")
	cli.Complete(cmd, "to", cobra.NoFileCompletions)
	cli.Complete(cmd, "requirement", cobra.NoFileCompletions)
	return cmd
}

// readPapers reads files; there may be no list of revocations.
func readPapers(attestation, revocations string, contracts []string) (papers agents.Papers, err error) {
	if papers.Attestation, err = readPaper(attestation); err != nil {
		return papers, err
	}
	if revocations != "" {
		if papers.Revocations, err = readPaper(revocations); err != nil {
			return papers, err
		}
	}
	for _, file := range contracts {
		text, err := readPaper(file)
		if err != nil {
			return papers, err
		}
		papers.Contracts = append(papers.Contracts, string(text))
	}
	return papers, nil
}

func readPaper(file string) ([]byte, error) { return cli.ReadFile(file, contract.MaxEnvelope) }

// shown is a verdict in JSON.
type shown struct {
	Accepted bool                 `json:"accepted"`
	Code     contract.VerdictCode `json:"code,omitempty"`
	Until    time.Time            `json:"until,omitzero"`
	// Revocations is the number of the list by which an agent was judged here.
	Revocations int64 `json:"revocations,omitzero"`
}

// showVerdict shows a verdict, and the number of the list by which it was made here, if it
// was.
func showVerdict(o *cli.Output, v agents.RoleVerdict, revocations int64) error {
	switch until := v.Until.UTC().Format(time.RFC3339); {
	case o.JSON:
		if err := o.Value(shown{v.Accepted, v.Code, v.Until, revocations}); err != nil {
			return err
		}
	case v.Accepted && revocations > 0:
		o.Printf("accepted until %s, by revocation list %d\n", until, revocations)
	case v.Accepted:
		o.Printf("accepted until %s\n", until)
	}
	if v.Accepted {
		return nil
	}
	refused := cli.Failf("not accepted: %s: %s", v.Code, v.Code.Text())
	refused.Code = cli.ExitRefused
	return refused
}

// bring takes another organisation's list of revocations to the mesh of the folder.
func (f *showing) bring(ctx context.Context, o *cli.Output, file string) error {
	list, err := readPaper(file)
	if err != nil {
		return err
	}
	if _, ok := contract.ParseEnvelope(list); !ok {
		return cli.Failf("%s is not a signed list", cli.Quoted(file)).WithHint("role attest of the other mesh writes revocations_list.json")
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	c, err := client.ConnectOperator(ctx, f.who.Where)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := refusalReason(c.Operator().BringRevocations(ctx, list)); err != nil {
		return err
	}
	return o.Show(shown{Accepted: true}, func() { o.Printf("the list is accepted\n") })
}

// refusalReason says why a list is not taken.
func refusalReason(err error) error {
	var refused *agents.RefusedError
	if !errors.As(err, &refused) || refused.Code != bcp.NotPermitted && refused.Code != bcp.Malformed {
		return meshdir.Failure(err)
	}
	why := "this list is not signed by an organisation in trust"
	if refused.Code == bcp.NotPermitted && refused.Detail == agents.OlderList {
		why = "the list is " + refused.Detail
	}
	f := cli.Failf("%s", why)
	f.Code = cli.ExitRefused
	return f.WithHint("mesh.yaml says whose keys are trusted; earlier lists stay accepted")
}
