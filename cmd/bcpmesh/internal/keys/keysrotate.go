package keys

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func keysRotateCommand(p *cli.Program) *cobra.Command {
	return cli.Group("rotate", "Replace keys of the mesh, whether it runs or not",
		`Replace keys of the mesh, whether it runs or not. Connected agents stay connected, or
reconnect by themselves, and lose no message.

The operator signs for accounts, an account's keys sign the files of its agents. Every
change is recorded in the audit. Sealed keys need their passphrase.`,
		`  bcpmesh keys rotate operator
  bcpmesh keys rotate account READERS --overlap 7d
  bcpmesh keys rotate scope researcher
  bcpmesh keys rotate all --overlap 0s`,
		keysRotateOperatorCommand(p), keysRotateAccountCommand(p), keysRotateScopeCommand(p), keysRotateAllCommand(p))
}

func keysRotateOperatorCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var identity bool
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Replace the operator's signing key",
		Long: `Replace the operator's signing key, which signs for the accounts. Credentials stay
good: nothing outside the mesh is signed by it.

A NATS server reads the operator's keys only when it starts. So the server of a
running mesh restarts at once: everybody is disconnected, and is back as soon as the
client reconnects. Afterwards it accepts nothing that the old key signs.

It needs the operator's own key, keys/operator.nk, back in its place if it was moved
away. With --identity that key is replaced too, and the old one is not needed: it is
worthless from then on.`,
		Example: `  bcpmesh keys rotate operator
  bcpmesh keys rotate operator --identity`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			done := "the operator has a new signing key"
			if identity {
				done = "there is a new operator, with a new signing key"
			}
			return rotateKeys(p, cmd, where, done, operatorOfCluster, 0, func(store *accounts.Store) error { return store.RotateOperator(identity) })
		},
	}
	where.AddTo(cmd)
	addIdentityFlag(cmd, &identity)
	return cmd
}

func keysRotateAccountCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	overlap := cli.DurationFlag{Value: defaultKeyOverlap}
	cmd := &cobra.Command{
		Use:   "account NAME",
		Short: "Replace all signing keys of an account",
		Long: `Replace all signing keys of an account: READERS, CONTROLLERS, OPERATORS (people), or
JOIN, of invitations. Anything the old ones signed is refused after the overlap; until
then, replace files with bcpmesh creds rotate.

The keys of CORE and SYS are the running mesh's own. They have no overlap: the server
of a running mesh restarts at once, as with the operator's.`,
		Example: `  bcpmesh keys rotate account READERS
  bcpmesh keys rotate account CONTROLLERS --overlap 7d
  bcpmesh keys rotate account CORE`,
		Args:              cli.Arguments(1, "NAME"),
		ValidArgsFunction: cli.FirstArgument(completeAccounts(&where)),
		RunE: func(cmd *cobra.Command, args []string) error {
			until := overlap.Value
			if args[0] == accounts.Core || args[0] == accounts.System {
				until = 0
			}
			return rotateKeys(p, cmd, where, args[0]+" has new signing keys", tellCluster, until, func(store *accounts.Store) error { return store.RotateAccount(args[0], overlap.Value) })
		},
	}
	where.AddTo(cmd)
	addKeyOverlapFlag(cmd, &overlap)
	return cmd
}

func keysRotateScopeCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	overlap := cli.DurationFlag{Value: defaultKeyOverlap}
	cmd := &cobra.Command{
		Use:   "scope AGENT",
		Short: "Replace the signing key of an agent or a person",
		Long: `Replace the key that signs the files of an agent or a person, in each of its roles or
the one that --role names. Anything the old one signed is refused after the overlap;
until then, replace files with bcpmesh creds rotate.`,
		Example: `  bcpmesh keys rotate scope researcher
  bcpmesh keys rotate scope main --role controller --overlap 7d`,
		Args:              cli.Arguments(1, "AGENT"),
		ValidArgsFunction: cli.FirstArgument(meshdir.CompleteAgents(true)),
	}
	role := meshdir.RoleFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		agent, err := meshdir.AgentArgument("keys rotate scope", args[0])
		if err != nil {
			return err
		}
		return rotateKeys(p, cmd, where, string(agent)+" has a new signing key", tellCluster, overlap.Value, func(store *accounts.Store) error {
			return store.RotateScope(agent, meshdir.ParsedRole(role), overlap.Value)
		})
	}
	where.AddTo(cmd)
	addKeyOverlapFlag(cmd, &overlap)
	return cmd
}

func keysRotateAllCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var identity bool
	overlap := cli.DurationFlag{Value: defaultKeyOverlap}
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Replace the operator's signing key and those of all accounts",
		Long: `Replace the operator's signing key and those of all accounts, in one step. Anything
the old ones signed is refused after the overlap. If somebody has a copy of the state
folder, use --overlap 0s: it is refused at once, and every file and every invitation
has to be issued again.

Not replaced are the key of checkpoints, the authority of TLS, and the identity
keys of accounts, which sign nothing.`,
		Example: `  bcpmesh keys rotate all --overlap 7d
  bcpmesh keys rotate all --identity --overlap 0s`,
		Args: cli.Arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return rotateKeys(p, cmd, where, "the operator and all accounts have new signing keys", operatorOfCluster, overlap.Value, func(store *accounts.Store) error { return store.RotateAll(identity, overlap.Value) })
		},
	}
	where.AddTo(cmd)
	addIdentityFlag(cmd, &identity)
	addKeyOverlapFlag(cmd, &overlap)
	return cmd
}

// defaultKeyOverlap is how long what a replaced key has signed is still taken: long
// enough to replace files by hand.
const defaultKeyOverlap = 24 * time.Hour

func addKeyOverlapFlag(cmd *cobra.Command, f *cli.DurationFlag) {
	cmd.Flags().Var(f, "overlap", "how long to accept what the old ones signed")
}

func addIdentityFlag(cmd *cobra.Command, identity *bool) {
	cmd.Flags().BoolVar(identity, "identity", false, "also replace the operator's own key")
}

// completeAccounts completes the accounts of the mesh.
func completeAccounts(where *meshdir.StateFlags) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		folder, err := where.Folder()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		store, err := accounts.Open(folder.State)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := store.Accounts() // nothing to complete
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// operatorOfCluster says what a cluster needs for other keys of the operator.
const operatorOfCluster = "the servers of a cluster have the operator in their configuration: run bcpmesh accounts export, and restart them with it"

// rotateKeys replaces keys, and has the running mesh follow; cluster is said where
// accounts were exported. What the old ones signed is good for overlap more.
func rotateKeys(p *cli.Program, cmd *cobra.Command, where meshdir.StateFlags, done, cluster string, overlap time.Duration, rotate func(*accounts.Store) error) error {
	folder, store, err := where.KeyStore()
	if err != nil {
		return err
	}
	before, err := store.Users()
	if err != nil {
		return cli.Failf("%s", err)
	}
	if err := rotate(store); err != nil {
		return cli.Failf("%s", err)
	}
	after, err := store.Users()
	if err != nil {
		return cli.Failf("%s", err)
	}
	ending := shortenedUsers(before, after)
	running, err := followed(cmd.Context(), folder, store)
	if err != nil {
		return err
	}
	if meshdir.WasExported(folder.State) {
		p.Out.Talkf("%s", cluster)
	}
	if p.Out.JSON {
		return p.Out.Value(struct {
			Ending  []string  `json:"ending"` // public keys of files that end with the overlap
			Until   time.Time `json:"until"`
			Applied bool      `json:"applied"` // by a running mesh
		}{ending, time.Now().Add(overlap).UTC().Truncate(time.Second), running})
	}
	p.Out.Printf("%s\n", done)
	when := "it takes effect at the next start: no mesh runs here"
	if running {
		when = "the mesh has applied it"
	}
	if len(ending) > 0 {
		when = strings.Join([]string{cli.Count(len(ending), "file") + " refused from " + cli.Moment(time.Now().Add(overlap)) + " on: bcpmesh creds rotate or creds issue makes others", when}, "; ")
	}
	p.Out.Talkf("%s", when)
	return nil
}

// shortenedUsers returns the users that were good for longer before.
func shortenedUsers(before, after []accounts.User) []string {
	until := map[string]time.Time{}
	for _, u := range before {
		if u.Revoked.IsZero() {
			until[u.PublicKey] = u.Until
		}
	}
	ending := []string{}
	for _, u := range after {
		if was, valid := until[u.PublicKey]; valid && !u.Own && !u.Until.IsZero() && (was.IsZero() || u.Until.Before(was)) {
			ending = append(ending, u.PublicKey)
		}
	}
	return ending
}
