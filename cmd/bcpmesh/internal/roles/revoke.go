package roles

import (
	"errors"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// revoke revokes attestations, and signs the list that says so.
func (f *signing) revoke(p *cli.Program, args []string) error {
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
			return cli.Failf("%s", err)
		}
	}
	list, err := f.list(folder, store, def.Organisation)
	if err != nil {
		return err
	}
	if p.Out.JSON {
		return p.Out.Value(list)
	}
	p.Out.Printf("list %d: %s and %s are revoked; the next one is due by %s\n", list.Number, cli.Count(len(list.Serials), "attestation"), cli.Count(len(list.Keys), "key"), list.Next.UTC().Format(time.RFC3339))
	return nil
}
