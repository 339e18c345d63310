package keys

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// KeysCommand returns the command keys.
func KeysCommand(p *cli.Program) *cobra.Command {
	return cli.Group("keys", keysSealCommand(p), keysRotateCommand(p))
}

func keysSealCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var undo bool
	cmd := cli.Command("seal", func(_ context.Context, _ []string) error {
		folder, store, err := where.KeyStore()
		if err != nil {
			return err
		}
		if undo {
			return unseal(p, folder, store)
		}
		if err := meshdir.SealKeys(store); err != nil {
			return err
		}
		serves := folder.Serves()
		if !serves {
			err = mesh.RemoveCommandCreds(folder.State)
			serves = errors.Is(err, server.ErrInUse)
		}
		switch {
		case serves:
			p.Out.Talkf("the mesh keeps running; to follow later key changes it needs the passphrase: restart it. Until it stops, the credentials of the agents that it starts stay in the clear, in run/")
		case err != nil:
			return cli.Failf("the keys are sealed; the credentials that a killed mesh left in run/ are not removed: %s", cli.FileReason(err))
		}
		return showSealed(p, folder, true)
	})
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "store the keys unencrypted again")
	return cmd
}

func unseal(p *cli.Program, folder meshdir.Folder, store *accounts.Store) error {
	if sealed, err := store.Sealed(); err != nil || !sealed {
		return errors.Join(err, cli.Failf("the keys are not sealed"))
	}
	passphrase, err := meshdir.ReadPassphrase("passphrase of the keys: ")
	if err != nil {
		return err
	}
	if err := store.Unseal(passphrase); err != nil {
		return cli.Failf("%s", err)
	}
	return showSealed(p, folder, false)
}

func showSealed(p *cli.Program, folder meshdir.Folder, sealed bool) error {
	return p.Out.Show(struct {
		State  string `json:"state"`
		Sealed bool   `json:"sealed"`
	}{folder.State, sealed}, func() {
		word := "sealed"
		if !sealed {
			word = "open"
		}
		p.Out.Printf("the keys in %s are %s\n", cli.Plain(folder.State), word)
	})
}

func keysRotateCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var identity bool
	overlap := cli.DurationFlag{Value: defaultKeyOverlap}
	words := []string{"operator", "account", "scope", "all"}
	cmd := &cobra.Command{
		Use: "rotate operator|account NAME|scope AGENT|all",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || !slices.Contains(words, args[0]):
				return cli.Usagef("keys rotate: expected %s", cli.JoinOr(words)).WithHint("%s --help shows an example", cmd.CommandPath())
			case args[0] == "account":
				return cli.Arguments(2, "account", "NAME")(cmd, args)
			case args[0] == "scope":
				return cli.Arguments(2, "scope", "AGENT")(cmd, args)
			}
			return cli.Arguments(1, args[0])(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch {
			case len(args) == 0:
				return words, cobra.ShellCompDirectiveNoFileComp
			case len(args) == 1 && args[0] == "account":
				return completeAccounts(&where)(cmd, args, begun)
			case len(args) == 1 && args[0] == "scope":
				return meshdir.CompleteAgents(true)(cmd, args, begun)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	where.AddTo(cmd)
	role := meshdir.RoleFlag(cmd)
	cmd.Flags().Var(&overlap, "overlap", "how long to accept what the old ones signed")
	cmd.Flags().BoolVar(&identity, "identity", false, "operator and all: also replace the operator's own key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		signed := args[0] == "operator" || args[0] == "all"
		switch {
		case identity && !signed:
			return cli.Usagef("keys rotate: --identity is of the operator's keys")
		case role.Value != "" && args[0] != "scope":
			return cli.Usagef("keys rotate: --role is of a scope")
		case cmd.Flags().Changed("overlap") && args[0] == "operator":
			return cli.Usagef("keys rotate: the operator's keys have no --overlap")
		}
		r := rotation{cluster: tellCluster, overlap: overlap.Value}
		switch args[0] {
		case "operator":
			r.done, r.cluster, r.overlap = "the operator has a new signing key", operatorOfCluster, 0
			if identity {
				r.done = "there is a new operator, with a new signing key"
			}
			r.rotate = func(store *accounts.Store) error { return store.RotateOperator(identity) }
		case "all":
			r.done, r.cluster = "the operator and all accounts have new signing keys", operatorOfCluster
			r.rotate = func(store *accounts.Store) error { return store.RotateAll(identity, overlap.Value) }
		case "account":
			r.done = args[1] + " has new signing keys"
			if args[1] == accounts.Core || args[1] == accounts.System {
				r.overlap = 0
			}
			r.rotate = func(store *accounts.Store) error { return store.RotateAccount(args[1], overlap.Value) }
		case "scope":
			agent, err := meshdir.AgentArgument("keys rotate", args[1])
			if err != nil {
				return err
			}
			r.done = string(agent) + " has a new signing key"
			r.rotate = func(store *accounts.Store) error {
				return store.RotateScope(agent, meshdir.ParsedRole(role), overlap.Value)
			}
		}
		return r.do(p, cmd, where)
	}
	return cmd
}

// defaultKeyOverlap is how long what a replaced key has signed is still taken: long
// enough to replace files by hand.
const defaultKeyOverlap = 24 * time.Hour

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

// rotation replaces keys. cluster is said where accounts were exported. What the old keys signed is good for overlap more.
type rotation struct {
	done, cluster string
	overlap       time.Duration
	rotate        func(*accounts.Store) error
}

// do replaces the keys, and has the running mesh follow.
func (r *rotation) do(p *cli.Program, cmd *cobra.Command, where meshdir.StateFlags) error {
	folder, store, err := where.KeyStore()
	if err != nil {
		return err
	}
	before, err := store.Users()
	if err != nil {
		return cli.Failf("%s", err)
	}
	if err := r.rotate(store); err != nil {
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
		p.Out.Talkf("%s", r.cluster)
	}
	return p.Out.Show(struct {
		Ending  []string  `json:"ending"` // public keys of files that end with the overlap
		Until   time.Time `json:"until"`
		Applied bool      `json:"applied"` // by a running mesh
	}{ending, time.Now().Add(r.overlap).UTC().Truncate(time.Second), running}, func() {
		p.Out.Printf("%s\n", r.done)
		when := "it takes effect at the next start: no mesh runs here"
		if running {
			when = "the mesh has applied it"
		}
		if len(ending) > 0 {
			when = strings.Join([]string{cli.Count(len(ending), "file") + " refused from " + cli.Moment(time.Now().Add(r.overlap)) + " on: bcpmesh creds rotate or creds issue makes others", when}, "; ")
		}
		p.Out.Talkf("%s", when)
	})
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
