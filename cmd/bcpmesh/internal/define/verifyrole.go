package define

import (
	"context"
	"errors"
	"strings"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// RoleVerify judges an agent of another organisation.
type RoleVerify struct {
	elsewhere
	Trust []string
}

func (f *RoleVerify) Run(ctx context.Context, p *cli.Program, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("role verify: expected FILE or AGENT").WithHint("bcpmesh role verify --help shows an example")
	}
	files, name := args[:len(args)-1], args[len(args)-1]
	agent, ok := contract.ParseAgentID(name)
	if !ok {
		return cli.Usagef("role verify: %s is not an agent", cli.Quoted(name)).WithHint("expected a name and an organisation, such as agent-a@org1.example")
	}
	var err error
	by := agents.RoleTrust{Requirement: contract.DualLLMRequirement()}
	if by.Keys, err = readTrust(f.Trust); err != nil {
		return err
	}
	if len(files) == 0 {
		return f.challenge(ctx, p, agent, by)
	}
	papers, err := readPapers(files)
	if err != nil {
		return err
	}
	v, list := agents.JudgePapers(agent, papers, by)
	err = showVerdict(p.Out, v, list.Number)
	if refused, ok := errors.AsType[*cli.Failure](err); ok {
		refused.Hint = missingPapers[v.Code]
	}
	return err
}

// missingPapers says which file to look for, where the files do not show what an agent is.
var missingPapers = map[contract.VerdictCode]string{
	contract.UnknownOrganisation: "--trust ORGANISATION=FILE names a file with its key, which must come from somebody you trust",
	contract.NotCurrent:          "the second FILE is the organisation's newest revocation list, which a key of --trust has signed",
	contract.ContractMissing:     "a FILE behind the list holds a contract, byte for byte as the organisation published it",
}

// challenge has the agent's mesh prove what it is, and judges the answer.
func (f *RoleVerify) challenge(ctx context.Context, p *cli.Program, agent contract.AgentID, by agents.RoleTrust) error {
	if f.Creds == "" {
		return cli.Usagef("role verify: expected FILE, or --creds").WithHint("use the creds that the other mesh has issued")
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	c, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	v, list, err := c.JudgeRole(ctx, agent, by)
	if err != nil {
		return err
	}
	return showVerdict(p.Out, v, list.Number)
}

// readTrust reads the flags --trust: ORGANISATION=FILE, with a public key in
// PEM.
func readTrust(words []string) (keys []bcp.Trust, err error) {
	for _, word := range words {
		organisation, file, found := strings.Cut(word, "=")
		if !found || !contract.IsOrganisation(organisation) {
			return nil, cli.Usagef("role verify: --trust: %s names no organisation", cli.Quoted(word)).WithHint("expected ORGANISATION=FILE, such as org1.example=org1.pem")
		}
		b, err := cli.ReadFile(file, contract.MaxEnvelope)
		if err != nil {
			return nil, err
		}
		key, ok := simulate.ParsePublicKey(b)
		if !ok {
			return nil, cli.Failf("%s has no public ed25519 key in PEM", cli.Quoted(file)).WithHint("openssl pkey -in KEY -pubout writes one")
		}
		keys = append(keys, bcp.Trust{Organisation: organisation, Key: key})
	}
	return keys, nil
}
