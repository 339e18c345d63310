package roles

import (
	"errors"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func revokeCommand(p *cli.Program) *cobra.Command {
	f := signing{expiry: cli.DurationFlag{Least: time.Second, Value: 24 * time.Hour}}
	cmd := &cobra.Command{
		Use:   "revoke [AGENT|SERIAL|NKEY]",
		Short: "Revoke attestations, and sign the revocation list",
		Long: `Revoke attestations, and sign the list that says so.

AGENT, such as desk@org1.example, revokes all attestations of that agent that have not
expired; SERIAL one of them; NKEY, for good, whatever the user with this public key
may speak for. Without an argument, the list is signed again: it also has the keys of
creds that bcpmesh creds revoke has revoked.

The list goes to the folder attest of the state folder, which the gateway gives to
every challenger. Each list has a greater number than the one before, and others
refuse an older one. After --expires nothing of the organisation is current any more,
until there is a newer list.`,
		Example: "  bcpmesh role revoke desk@org1.example\n  bcpmesh role revoke",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return f.revoke(p, args) },
	}
	f.where.AddTo(cmd)
	cmd.Flags().Var(&f.expiry, "expires", "when the next list is due: 1s to 7d")
	return cmd
}

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
