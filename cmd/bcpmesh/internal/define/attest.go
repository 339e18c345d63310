package define

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// RoleAttest attests kernels, or revokes that.
type RoleAttest struct {
	meshdir.StateFlags
	Expires     cli.DurationFlag `default:"24h" least:"1s"`
	User        []string
	Key, Revoke bool
}

func (f *RoleAttest) Run(_ context.Context, p *cli.Program, args []string) error {
	switch {
	case f.Key:
		return f.printKey(p)
	case f.Revoke && len(f.User) > 0:
		return cli.Usagef("role attest: --revoke takes no --user")
	case f.Revoke:
		return f.revoke(p, args)
	}
	return f.attest(p, args)
}

func (f *RoleAttest) printKey(p *cli.Program) error {
	_, store, err := f.KeyStore()
	if err != nil {
		return err
	}
	signer, err := store.Attester()
	if err != nil {
		return err
	}
	p.Out.Printf("%s", signer.PublicPEM())
	return nil
}

// signed is one attestation in JSON.
type signed struct {
	Agent   string    `json:"agent"`
	Serial  string    `json:"serial"`
	Expires time.Time `json:"expires"`
	Holes   int64     `json:"holes"`
	File    string    `json:"file"`
}

func (f *RoleAttest) attest(p *cli.Program, names []string) error {
	folder, store, def, err := f.open()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !def.IsKernel(bcp.AgentName(name)) {
			return cli.Usagef("role attest: there is no kernel %s", cli.Quoted(name)).WithHint("kernels are attested, with their planner and their processors")
		}
	}
	proven, jwts, err := prove(folder.State)
	if err != nil {
		return err
	}
	if proven == nil {
		return cli.Failf("the permissions cannot be proven: the mesh was never started").WithHint("start it once: what its server serves is proven")
	}
	gateway, err := store.GatewaySigner()
	if err != nil {
		return err
	}
	keys := []string{gateway.PublicKey()}
	for _, key := range f.User {
		if !nkeys.IsValidPublicUserKey(key) {
			return cli.Usagef("role attest: --user: %s is not the public key of a user", cli.Quoted(key)).WithHint("bcpmesh creds FILE shows the public key of creds")
		}
		keys = append(keys, key)
	}
	holes := int64(len(proven.Holes))
	evidence := contract.AttestedEvidence{
		Proof:       &contract.PermissionProof{Claims: int64(len(proof.All())), Holes: holes, JWTs: hex.EncodeToString(jwts[:])},
		Definitions: definition.Digest(def), Build: cli.ProgramVersion(),
	}
	newest, err := mesh.Tree(folder.State).Newest()
	if err != nil && !errors.Is(err, jetstream.ErrNoCheckpoint) { // the first is signed soon after the mesh was started
		return cli.Failf("the newest checkpoint cannot be read: %s", err)
	}
	evidence.Checkpoint = string(newest)
	var all []signed
	for _, k := range def.Kernels {
		if len(names) > 0 && !slices.Contains(names, string(k.Kernel)) {
			continue
		}
		declaration, err := definition.Declaration(def, k.Kernel)
		if err != nil {
			return err
		}
		s := contract.Statement{Declaration: declaration, Keys: keys}
		envelope, err := store.Attest(&s, evidence, f.Expires.Value)
		if err != nil {
			return err
		}
		file := filepath.Join(server.AttestOf(folder.State), mesh.AttestationFile(k.Kernel))
		if err := write(file, envelope); err != nil {
			return err
		}
		all = append(all, signed{declaration.Agent.String(), s.Serial, s.Expires, holes, file})
	}
	if len(all) == 0 {
		return cli.Failf("the mesh has no kernel").WithHint("docs/kernel.md says what one is")
	}
	if _, err := f.list(folder, store, def.Organisation); err != nil {
		return err
	}
	return p.Out.Show(all, func() {
		for _, s := range all {
			p.Out.Printf("%s until %s, serial %s\n", s.Agent, s.Expires.UTC().Format(time.RFC3339), s.Serial)
		}
		if holes > 0 {
			p.Out.Talkf("%s past the permissions: nobody who requires a permission proof accepts this. bcpmesh perms --prove shows them", cli.Count(int(holes), "way"))
		}
	})
}

// open returns the mesh of the flags, which has to have an organisation.
func (f *RoleAttest) open() (meshdir.Folder, *accounts.Store, *bcp.Mesh, error) {
	folder, store, err := f.KeyStore()
	if err != nil {
		return folder, nil, nil, err
	}
	def, err := folder.Load()
	if err == nil && def.Organisation == "" {
		err = cli.Failf("mesh.yaml names no organisation").WithHint("add a line such as organisation: org1.example")
	}
	return folder, store, def, err
}

// list signs a newer list of revocations.
func (f *RoleAttest) list(folder meshdir.Folder, store *accounts.Store, organisation string) (contract.Revocations, error) {
	envelope, list, err := store.Revocations(organisation, f.Expires.Value)
	if err != nil {
		return list, err
	}
	return list, write(filepath.Join(server.AttestOf(folder.State), mesh.RevocationsFile), envelope)
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return cli.NotWritten(file, err)
	}
	return cli.WriteOver(file, content, 0o600)
}

// revoke revokes attestations, and signs the list that says so.
func (f *RoleAttest) revoke(p *cli.Program, args []string) error {
	folder, store, def, err := f.open()
	if err != nil {
		return err
	}
	for _, what := range args {
		if nkeys.IsValidPublicUserKey(what) {
			err = store.RevokeAttestedKey(what)
		} else {
			_, err = store.RevokeAttestations(what)
		}
		if errors.Is(err, accounts.ErrNotAttested) {
			return cli.Failf("no unexpired attestation of %s was signed", cli.Quoted(what)).WithHint("expected an agent such as desk@%s, a serial, or the public key of a user", def.Organisation)
		}
		if err != nil {
			return err
		}
	}
	list, err := f.list(folder, store, def.Organisation)
	if err != nil {
		return err
	}
	return p.Out.Show(list, func() {
		p.Out.Printf("list %d: %s and %s are revoked; the next one is due by %s\n", list.Number, cli.Count(len(list.Serials), "attestation"), cli.Count(len(list.Keys), "key"), list.Next.UTC().Format(time.RFC3339))
	})
}
