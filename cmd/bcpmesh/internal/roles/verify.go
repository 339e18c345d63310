package roles

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/simulate"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// verifyFlags say what an attestation is judged by.
type verifyFlags struct {
	who              client.Flags
	trust, contracts []string
	revocations      string
	lastNumber       int64
	requirement      string
	at               string
}

func verifyCommand(p *cli.Program) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:  "verify [FILE] AGENT",
		Args: cli.Arguments(1, "FILE or AGENT", "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return f.verify(p, args[0], args[1])
			}
			return f.challenge(cmd, p, args[0])
		},
	}
	cli.TakeGiven(cmd, "--creds, --url: of the other mesh", cli.Into{"creds": &f.who.Creds, "url": &f.who.URL, "ca": &f.who.CA})
	flags := cmd.Flags()
	flags.StringArrayVar(&f.trust, "trust", nil, "`ORGANISATION=FILE` with its public ed25519 key in PEM; may be repeated")
	flags.StringArrayVar(&f.contracts, "contract", nil, "`FILE` with a contract that the declaration refers to; may be repeated")
	flags.StringVar(&f.revocations, "revocations", "", "`FILE` with the organisation's signed revocation list")
	flags.Int64Var(&f.lastNumber, "last-revocations", 0, "`NUMBER` of the newest list seen; older ones are refused")
	flags.StringVar(&f.requirement, "requirement", "", "JSON `FILE` with the requirement (default: the draft's six invariants)")
	flags.StringVar(&f.at, "at", "", "judge as of this `MOMENT`, such as 2026-03-01T06:00:00Z (default: now)")
	cli.Complete(cmd, "trust", cobra.NoFileCompletions)
	cli.Complete(cmd, "at", cobra.NoFileCompletions)
	cli.Complete(cmd, "last-revocations", cobra.NoFileCompletions)
	return cmd
}

// acceptanceReport is what role verify prints.
type acceptanceReport struct {
	Accepted bool                 `json:"accepted"`
	Code     contract.VerdictCode `json:"code"`
	Message  string               `json:"message,omitempty"`
	Agent    string               `json:"agent"`
	Until    string               `json:"until,omitempty"`
}

// challenge has the agent's mesh prove what it is, and judges the answer.
func (f *verifyFlags) challenge(cmd *cobra.Command, p *cli.Program, name string) error {
	for _, flag := range []string{"contract", "revocations", "at"} {
		if cmd.Flags().Changed(flag) {
			return cli.Usagef("role verify: --%s is for a FILE", flag).WithHint("without one the mesh of AGENT is challenged")
		}
	}
	agent, err := parseAgent(name)
	if err != nil {
		return err
	}
	if f.who.Creds == "" {
		return cli.Usagef("role verify: expected FILE, or --creds").WithHint("use the creds that the other mesh has issued")
	}
	by := agents.RoleTrust{LastRevocations: f.lastNumber, Requirement: contract.DualLLMRequirement()}
	if by.Keys, err = readTrust(f.trust); err != nil {
		return err
	}
	if f.requirement != "" {
		if by.Requirement, err = readRequirement(f.requirement); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), answerWithin)
	defer cancel()
	c, err := f.who.Remote(ctx, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	v, list, err := c.JudgeRole(ctx, agent, by)
	if err != nil {
		return meshdir.Failure(err)
	}
	return showVerdict(p.Out, v, list.Number)
}

func parseAgent(name string) (contract.AgentID, error) {
	id, ok := contract.ParseAgentID(name)
	if !ok {
		return id, cli.Usagef("role verify: %s is not an agent", cli.Quoted(name)).WithHint("expected a name and an organisation, such as agent-a@org1.example")
	}
	return id, nil
}

func (f *verifyFlags) verify(p *cli.Program, file, agent string) error {
	e, err := f.examination(file, agent)
	if err != nil {
		return err
	}
	a := contract.JudgeAttestation(&e)
	report := acceptanceReport{Accepted: a.Accepted, Code: a.Code, Agent: agent}
	if a.Accepted {
		report.Until = a.Until.UTC().Format(time.RFC3339)
		return p.Out.Show(report, func() { p.Out.Printf("%s is accepted until %s.\n", cli.Plain(agent), report.Until) })
	}
	report.Message = a.Code.Text()
	if err := p.Out.Show(report, func() {}); err != nil {
		return err
	}
	refusal := &cli.Failure{Code: cli.ExitRefused, Message: cli.Quoted(agent) + " is not accepted: " + a.Code.Text() + " (" + string(a.Code) + ")"}
	switch {
	case a.Code == contract.UnknownOrganisation:
		return refusal.WithHint("--trust %s=FILE names a file with its key, which must come from somebody you trust", a.Statement.Declaration.Agent.Organisation)
	case a.Code == contract.NotCurrent && f.revocations == "":
		return refusal.WithHint("--revocations names the organisation's list")
	case a.Code == contract.ContractMissing:
		return refusal.WithHint("--contract names a file with a contract, byte for byte as the organisation published it")
	default:
		return refusal
	}
}

// examination gathers what an attestation is judged by.
func (f *verifyFlags) examination(file, agent string) (contract.Examination, error) {
	e := contract.Examination{Agent: agent, LastNumber: f.lastNumber, Now: time.Now(), Requirement: contract.DualLLMRequirement(), Verify: simulate.VerifyEd25519}
	id, err := parseAgent(agent)
	if err != nil {
		return e, err
	}
	if f.at != "" {
		if e.Now, err = time.Parse(time.RFC3339, f.at); err != nil {
			return e, cli.Usagef("role verify: --at: %s is not a time", cli.Quoted(f.at)).WithHint("expected a time such as 2026-03-01T06:00:00Z")
		}
	}
	if e.Trust, err = readTrust(f.trust); err != nil {
		return e, err
	}
	if e.Envelope, err = cli.ReadFile(file, contract.MaxEnvelope); err != nil {
		return e, err
	}
	for _, b := range contract.Builtins() {
		e.Contracts = append(e.Contracts, []byte(b.Bytes))
	}
	for _, name := range f.contracts {
		b, err := cli.ReadFile(name, contract.MaxContract)
		if err != nil {
			return e, err
		}
		if _, defects := contract.Parse(b); len(defects) > 0 {
			return e, cli.Failf("%s is not a contract: %s", cli.Quoted(name), defects[0].Code.Text()).WithHint("bcpmesh role contracts %s shows all of it", cli.Plain(name))
		}
		e.Contracts = append(e.Contracts, b)
	}
	if f.requirement != "" {
		if e.Requirement, err = readRequirement(f.requirement); err != nil {
			return e, err
		}
	}
	return e, f.readRevocations(&e, id.Organisation)
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

// readRequirement reads a file with what is required.
func readRequirement(file string) (contract.Requirement, error) {
	b, err := cli.ReadFile(file, contract.MaxEnvelope)
	if err != nil {
		return contract.Requirement{}, err
	}
	r, err := simulate.ParseRequirement(b)
	if err != nil {
		return r, cli.Failf("%s: %s", cli.Quoted(file), err)
	}
	return r, nil
}

func (f *verifyFlags) readRevocations(e *contract.Examination, organisation string) error {
	if f.revocations == "" {
		return nil
	}
	b, err := cli.ReadFile(f.revocations, contract.MaxEnvelope)
	if err != nil {
		return err
	}
	list, code := contract.OpenRevocations(b, organisation, e.Trust, e.Now, e.Verify)
	switch code {
	case "":
		e.Revocations = list
	case contract.UnknownOrganisation: // is said of the attestation
	default:
		return cli.Failf("%s is not a revocation list of %s (%s)", cli.Quoted(f.revocations), organisation, code)
	}
	return nil
}
