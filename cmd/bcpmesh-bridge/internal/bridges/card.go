package bridges

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/a2aserver"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Card signs an agent card that names a kernel's attestation.
type Card struct {
	Where meshdir.StateFlags
	URL   string `how:"own"`
}

// Run prints it.
func (o *Card) Run(_ context.Context, p *cli.Program, args []string) error {
	kernel, origin := args[0], o.URL
	if at, err := url.Parse(origin); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.Path != "" || at.RawQuery != "" {
		return cli.Usagef("a2a card: expected --url with an origin, such as https://org1.example")
	}
	folder, store, err := o.Where.KeyStore()
	if err != nil {
		return err
	}
	def, err := folder.Load()
	switch {
	case err != nil:
		return err
	case def.Organisation == "":
		return cli.Failf("mesh.yaml names no organisation").WithHint("add a line such as organisation: org1.example")
	}
	if !def.IsKernel(bcp.AgentName(kernel)) {
		return cli.Usagef("a2a card: there is no kernel %s", cli.Quoted(kernel))
	}
	file := filepath.Join(server.AttestOf(folder.State), mesh.AttestationFile(bcp.AgentName(kernel)))
	attestation, err := disk.ReadFile(file, contract.MaxEnvelope)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failf("%s was not attested", kernel).WithHint("bcpmesh role attest %s", kernel)
	case err != nil:
		return cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
	}
	envelope, ok := contract.ParseEnvelope(attestation)
	if !ok {
		return cli.Failf("%s is not an attestation", cli.Quoted(file)).WithHint("bcpmesh role attest %s writes it again", kernel)
	}
	signer, err := store.Attester()
	if err != nil {
		return cli.Failf("%s", err)
	}
	agent := contract.AgentID{Name: bcp.AgentName(kernel), Organisation: def.Organisation}
	c := a2aserver.Card(origin, cli.ProgramVersion())
	a2aserver.Attest(c, agent.String(), contract.RoleType, sha256.Sum256(envelope.Payload))
	signed, err := a2aserver.Sign(c, signer.KeyID(), signer.Sign)
	if err != nil {
		return cli.Failf("%s", err)
	}
	p.Out.Printf("%s\n", signed)
	return nil
}
