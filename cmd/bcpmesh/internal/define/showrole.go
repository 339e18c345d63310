package define

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// answerWithin bounds how long a gateway may take to judge.
const answerWithin = 30 * time.Second

// elsewhere are the flags that name another mesh.
type elsewhere struct {
	Creds, URL, CA string `how:"given"`
}

// connect connects to the other mesh.
func (o *elsewhere) connect(ctx context.Context) (*client.Client, error) {
	who := client.Flags{Creds: o.Creds, URL: o.URL, CA: o.CA}
	return who.Remote(ctx, 0)
}

// RoleShow shows another mesh what an agent of this one is.
type RoleShow struct {
	meshdir.StateFlags
	elsewhere
}

func (o *RoleShow) Run(ctx context.Context, p *cli.Program, args []string) error {
	if len(args) == 1 && o.Creds == "" {
		return bring(ctx, p.Out, o.StateFlags, args[0])
	}
	if len(args) < 3 || o.Creds == "" {
		return cli.Usagef("role show: expected ORGANISATION, ATTESTATION, REVOCATIONS and --creds").
			WithHint("the creds are those that the other mesh has issued")
	}
	papers, err := readPapers(args[1:])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	c, err := o.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.ShowRole(ctx, args[0], bcp.DualLLMRole, papers)
	switch {
	case errors.Is(err, agents.ErrMessage):
		return cli.Failf("this is not a mesh of %s", cli.Plain(args[0])).WithHint("nothing is proved to another organisation")
	case err != nil:
		return err
	}
	return showVerdict(p.Out, v, 0)
}

// readPapers reads an attestation, a list of revocations, if there is one, and contracts that are not built in.
func readPapers(files []string) (papers contract.Papers, err error) {
	for i, file := range files {
		text, err := readPaper(file)
		switch {
		case err != nil:
			return papers, err
		case i == 0:
			papers.Attestation = text
		case i == 1:
			papers.Revocations = text
		default:
			papers.Contracts = append(papers.Contracts, string(text))
		}
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
func showVerdict(o *cli.Output, v contract.Acceptance, revocations int64) error {
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
func bring(ctx context.Context, o *cli.Output, where meshdir.StateFlags, file string) error {
	list, err := readPaper(file)
	if err != nil {
		return err
	}
	if _, ok := contract.ParseEnvelope(list); !ok {
		return cli.Failf("%s is not a signed list", cli.Quoted(file)).WithHint("role attest of the other mesh writes revocations_list.json")
	}
	err = client.AsOperator(ctx, where, answerWithin, func(ctx context.Context, c *client.Client) error {
		return refusalReason(c.Operator().BringRevocations(ctx, list))
	})
	if err != nil {
		return err
	}
	return o.Show(shown{Accepted: true}, func() { o.Printf("the list is accepted\n") })
}

// refusalReason says why a list is not taken.
func refusalReason(err error) error {
	var refused *agents.RefusedError
	if !errors.As(err, &refused) || refused.Code != bcp.NotPermitted && refused.Code != bcp.Malformed {
		return err
	}
	why := "this list is not signed by an organisation in trust"
	if refused.Code == bcp.NotPermitted && refused.Detail == agents.OlderList {
		why = "the list is " + refused.Detail
	}
	f := cli.Failf("%s", why)
	f.Code = cli.ExitRefused
	return f.WithHint("mesh.yaml says whose keys are trusted; earlier lists stay accepted")
}
