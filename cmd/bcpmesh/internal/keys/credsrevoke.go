package keys

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// defaultOverlap is how long replaced credentials are still taken: a client that
// reads its file only when it connects has until then to do so.
const defaultOverlap = 10 * time.Minute

// applyTimeout bounds how long a command waits for the running mesh to do what
// the key store says.
const applyTimeout = 30 * time.Second

// followPause is how often a command looks whether the running mesh has followed.
const followPause = 50 * time.Millisecond

const tellCluster = "a cluster follows after a push: bcpmesh accounts push"

func notFollowed(err error) *cli.Failure {
	return cli.Failf("the key store is changed, but the running mesh did not confirm that it follows: %s", cli.FileReason(meshdir.Failure(err))).
		WithHint("it looks for changes every second; bcpmesh audit shows them. If it does not, restart it: it follows when it starts")
}

// follow waits until the mesh of a folder, if it runs, has done what its key store says. The command has done its part: what a
// cluster needs is told, and an error says that credentials may still be taken that should not be.
func follow(ctx context.Context, p *cli.Program, folder meshdir.Folder, store *accounts.Store, cluster string) (running bool, err error) {
	if meshdir.WasExported(folder.State) {
		p.Out.Talkf("%s", cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		about, err := folder.Running()
		if err != nil || about.Cluster || !about.Alive() {
			return false, nil
		}
		pending, _, err := store.Pending(time.Now())
		if err != nil {
			return true, notFollowed(err)
		}
		if len(pending) == 0 {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return true, notFollowed(ctx.Err())
		case <-time.After(followPause):
		}
	}
}

func credsRevokeCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var user string
	var all, gateway bool
	cmd := &cobra.Command{
		Use: "revoke AGENT|GATEWAY",
	}
	role := meshdir.RoleFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all && user != "" || gateway && (all || user != "" || role.Value != "") {
			return cli.Usagef("creds revoke: --user, --all and --gateway cannot be combined")
		}
		agent, err := meshdir.AgentArgument("creds revoke", args[0])
		if err != nil {
			return err
		}
		folder, store, err := where.KeyStore()
		if err != nil {
			return err
		}
		if gateway {
			return revokeGateway(p, store, agent)
		}
		var revoked []accounts.User
		if all {
			revoked, err = store.RevokeAll(agent, meshdir.ParsedRole(role))
		} else {
			var u accounts.User
			if u, err = oneUser(store, agent, meshdir.ParsedRole(role), user, true); err != nil {
				return err
			}
			revoked, err = []accounts.User{u}, store.Revoke(u.PublicKey)
		}
		if err != nil {
			return cli.Failf("%s", err)
		}
		running, err := follow(cmd.Context(), p, folder, store, tellCluster)
		if err != nil {
			return err
		}
		remain, err := stillValid(store, agent)
		if err != nil {
			return err
		}
		return showRevoked(p, folder, revoked, remain, running)
	}
	where.AddTo(cmd)
	cmd.Flags().StringVar(&user, "user", "", "public `KEY` of one of several, or its beginning")
	cmd.Flags().BoolVar(&gateway, "gateway", false, "revoke the logins of a gateway of a cluster")
	cmd.Flags().BoolVar(&all, "all", false, "revoke all of the agent's, and replace its signing key")
	return cmd
}

func showRevoked(p *cli.Program, folder meshdir.Folder, revoked, remain []accounts.User, running bool) error {
	if p.Out.JSON {
		keys := func(users []accounts.User) []string {
			list := []string{}
			for _, u := range users {
				list = append(list, u.PublicKey)
			}
			return list
		}
		return p.Out.Value(struct {
			Revoked []string `json:"revoked"`
			Valid   []string `json:"still_valid,omitempty"` // other files of the agent
			Applied bool     `json:"applied"`               // by a running mesh
		}{keys(revoked), keys(remain), running})
	}
	for _, u := range revoked {
		p.Out.Printf("%s\n", u.PublicKey)
	}
	when := "refused from the next start on: no mesh runs here"
	switch {
	case running:
		when = "refused from now on"
	case meshdir.WasExported(folder.State):
		when = "refused from the next push on"
	}
	p.Out.Talkf("%s %s", cli.Count(len(revoked), "valid file"), when)
	if len(remain) > 0 {
		p.Out.Talkf("still valid: %s", strings.Join(described(remain), ", "))
	}
	return nil
}

// oneUser finds the user that is meant: the one whose public key begins with a
// text, or else the only one that is valid. To revoke it, that may be one that others
// have replaced, which is accepted until its overlap ends; it is not replaced again.
func oneUser(store *accounts.Store, agent bcp.AgentName, role bcp.Role, key string, toRevoke bool) (accounts.User, error) {
	users, err := store.Users()
	if err != nil {
		return accounts.User{}, cli.Failf("%s", err)
	}
	var found []accounts.User
	replaced, now := false, time.Now()
	for _, u := range users {
		if u.Agent != agent || role != 0 && u.Role != role || !strings.HasPrefix(u.PublicKey, key) {
			continue
		}
		valid := u.Valid(now) && !u.Own
		if valid && u.ReplacedBy != "" && !toRevoke {
			valid, replaced = false, true
		}
		if key != "" || valid {
			found = append(found, u)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && key != "":
		return accounts.User{}, cli.Failf("%s has no credentials whose public key begins with %s", agent, cli.Quoted(key)).WithHint("bcpmesh creds shows them")
	case len(found) == 0 && replaced:
		return accounts.User{}, cli.Failf("%s has only credentials that were replaced already", agent).WithHint("bcpmesh creds issue makes new ones")
	case len(found) == 0:
		return accounts.User{}, cli.Failf("%s has no credentials that are valid", agent).WithHint("bcpmesh creds shows them")
	}
	hint := "name one with --user: "
	if toRevoke {
		hint = "revoke all with --all, or name one with --user: "
	}
	return accounts.User{}, cli.Failf("%s has several credentials", agent).WithHint("%s%s", hint, cli.JoinOr(described(found)))
}

// described names users, and says which were replaced and are accepted for how long.
func described(users []accounts.User) []string {
	var names []string
	for _, u := range users {
		name := u.Role.String() + " " + u.PublicKey
		if u.ReplacedBy != "" && u.Revoked.IsZero() && !u.Until.IsZero() {
			name += " (replaced, accepted until " + cli.Moment(u.Until) + ")"
		}
		names = append(names, name)
	}
	return names
}

// stillValid returns the agent's users that servers let in, but for those of commands.
func stillValid(store *accounts.Store, agent bcp.AgentName) ([]accounts.User, error) {
	users, err := store.Users()
	if err != nil {
		return nil, cli.Failf("%s", err)
	}
	now := time.Now()
	return slices.DeleteFunc(users, func(u accounts.User) bool { return u.Agent != agent || u.Own || !u.Valid(now) }), nil
}

func credsRotateCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var out, user string
	overlap := cli.DurationFlag{Value: defaultOverlap}
	expires := cli.DurationFlag{Least: time.Second}
	cmd := &cobra.Command{
		Use: "rotate AGENT",
	}
	role := meshdir.RoleFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		agent, err := meshdir.AgentArgument("creds rotate", args[0])
		if err != nil {
			return err
		}
		if out == "" {
			return cli.Usagef("creds rotate: expected --out FILE").WithHint("for example --out %s.creds", agent)
		}
		folder, store, err := where.KeyStore()
		if err != nil {
			return err
		}
		u, replace, err := rotated(store, agent, meshdir.ParsedRole(role), user, out)
		if err != nil {
			return err
		}
		creds, err := store.Rotate(u.PublicKey, overlap.Value, expires.Value)
		if err != nil {
			return cli.Failf("%s", err)
		}
		write := creds.WriteFile
		if replace {
			write = creds.ReplaceFile
		}
		if err := write(out); err != nil {
			return cli.Failf("%s cannot be written: %s", cli.Quoted(out), cli.FileReason(errors.Join(err, store.Revoke(creds.PublicKey)))).
				WithHint("the old credentials are refused from %s on: issue new ones", cli.Moment(time.Now().Add(overlap.Value)))
		}
		if _, err := follow(cmd.Context(), p, folder, store, tellCluster); err != nil {
			return err
		}
		return showRotated(p, creds.User, u, out, time.Now().Add(overlap.Value))
	}
	where.AddTo(cmd)
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write: a new one, or the one that holds the old credentials")
	cmd.Flags().StringVar(&user, "user", "", "public `KEY` of the old ones, or its beginning")
	cmd.Flags().Var(&overlap, "overlap", "how long the old ones are still accepted")
	cmd.Flags().Var(&expires, "expires", "lifetime of the new ones (default: that of the old ones)")
	return cmd
}

// rotated finds whose place is taken: of the file that is written over, or of
// the user that was named.
func rotated(store *accounts.Store, agent bcp.AgentName, role bcp.Role, user, out string) (u accounts.User, replace bool, err error) {
	content, err := cli.ReadSmall(out)
	if errors.Is(err, os.ErrNotExist) {
		if err := cli.CheckNewFile(out); err != nil {
			return u, false, err
		}
		u, err = oneUser(store, agent, role, user, false)
		return u, false, err
	}
	if err != nil {
		return u, false, cli.Failf("%s cannot be read: %s", cli.Quoted(out), cli.FileReason(err))
	}
	held, err := meshdir.ParseCreds(content)
	if err != nil || held.Agent != agent || role != 0 && held.Role != role || !strings.HasPrefix(held.PublicKey, user) {
		return u, false, cli.Failf("%s does not hold these credentials of %s", cli.Quoted(out), agent).WithHint("name another file, or remove this one")
	}
	u, err = oneUser(store, agent, held.Role, held.PublicKey, false)
	return u, true, err
}

func showRotated(p *cli.Program, next, old accounts.User, out string, until time.Time) error {
	return p.Out.Show(struct {
		accounts.User
		File     string    `json:"file"`
		Replaces string    `json:"replaces"`
		Until    time.Time `json:"until"`
	}{next, out, old.PublicKey, until.UTC().Truncate(time.Second)}, func() {
		p.Out.Printf("%s\n", cli.Plain(out))
		p.Out.Talkf("%s as %s, %s; the old ones are refused from %s on", next.Agent, next.Role, lasts(next), cli.Moment(until))
	})
}

// lasts says how long credentials are good.
func lasts(u accounts.User) string {
	if u.Expires.IsZero() {
		return "never expires"
	}
	return "expires " + cli.Moment(u.Expires)
}
