package keys

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// applyTimeout bounds how long a command waits for the running mesh to do what
// the key store says.
const applyTimeout = 30 * time.Second

// followPause is how often a command looks whether the running mesh has followed.
const followPause = 50 * time.Millisecond

func notFollowed(err error) *cli.Failure {
	return cli.Failf("the key store is changed, but the running mesh did not confirm that it follows: %s", cli.FileReason(meshdir.Failure(err))).
		WithHint("it looks for changes every second; bcpmesh audit shows them. If it does not, restart it: it follows when it starts")
}

// follow waits until the mesh of a folder, if it runs, has done what its key store says. The command has done its part: what a
// cluster needs is told, and an error says that credentials may still be taken that should not be.
func follow(ctx context.Context, p *cli.Program, folder meshdir.Folder, store *accounts.Store) (running bool, err error) {
	if meshdir.WasExported(folder.State) {
		p.Out.Talkf("a cluster follows after a push: bcpmesh accounts push")
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

// Revoke revokes credentials.
type Revoke struct {
	meshdir.StateFlags
	meshdir.RoleFlag
	User         string
	All, Gateway bool
}

func (o *Revoke) Run(ctx context.Context, p *cli.Program, args []string) error {
	if o.All && o.User != "" || o.Gateway && (o.All || o.User != "" || o.Role.Value != "") {
		return cli.Usagef("creds revoke: --user, --all and --gateway cannot be combined")
	}
	agent, err := meshdir.AgentArgument("creds revoke", args[0])
	if err != nil {
		return err
	}
	folder, store, err := o.KeyStore()
	if err != nil {
		return err
	}
	if o.Gateway {
		if err := store.RevokeGateway(agent); errors.Is(err, accounts.ErrNoUser) {
			return cli.Failf("no gateway %s was exported, or it is revoked already", cli.Quoted(string(agent)))
		} else if err != nil {
			return err
		}
		return p.Out.Show(map[string]bcp.AgentName{"revoked": agent}, func() {
			p.Out.Printf("%s\n", agent)
			p.Out.Talkf("refused from the next push on: bcpmesh accounts push")
		})
	}
	var revoked []accounts.User
	if o.All {
		revoked, err = store.RevokeAll(agent, o.Parsed())
	} else {
		var u accounts.User
		if u, err = oneUser(store, agent, o.Parsed(), o.User); err != nil {
			return err
		}
		revoked, err = []accounts.User{u}, store.Revoke(u.PublicKey)
	}
	if err != nil {
		return err
	}
	running, err := follow(ctx, p, folder, store)
	if err != nil {
		return err
	}
	remain, err := store.Users()
	if err != nil {
		return err
	}
	now := time.Now()
	remain = slices.DeleteFunc(remain, func(u accounts.User) bool { return u.Agent != agent || u.Own || !u.Valid(now) })
	return showRevoked(p, folder, revoked, remain, running)
}

func showRevoked(p *cli.Program, folder meshdir.Folder, revoked, remain []accounts.User, running bool) error {
	if p.Out.JSON {
		key := func(u accounts.User) string { return u.PublicKey }
		return p.Out.Value(struct {
			Revoked []string `json:"revoked"`
			Valid   []string `json:"still_valid,omitempty"` // other files of the agent
			Applied bool     `json:"applied"`               // by a running mesh
		}{cli.Map(revoked, key), cli.Map(remain, key), running})
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
// text, or else the only one that is valid.
func oneUser(store *accounts.Store, agent bcp.AgentName, role bcp.Role, key string) (accounts.User, error) {
	users, err := store.Users()
	if err != nil {
		return accounts.User{}, err
	}
	var found []accounts.User
	now := time.Now()
	for _, u := range users {
		if u.Agent == agent && (role == 0 || u.Role == role) && strings.HasPrefix(u.PublicKey, key) && (key != "" || u.Valid(now) && !u.Own) {
			found = append(found, u)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && key != "":
		return accounts.User{}, cli.Failf("%s has no credentials whose public key begins with %s", agent, cli.Quoted(key)).WithHint("bcpmesh creds shows them")
	case len(found) == 0:
		return accounts.User{}, cli.Failf("%s has no credentials that are valid", agent).WithHint("bcpmesh creds shows them")
	}
	return accounts.User{}, cli.Failf("%s has several credentials", agent).WithHint("revoke all with --all, or name one with --user: %s", cli.JoinOr(described(found)))
}

// described names users, and says which were replaced and are accepted for how long.
func described(users []accounts.User) []string {
	var names []string
	for _, u := range users {
		name := u.Role.String() + " " + u.PublicKey
		if u.Revoked.IsZero() && !u.Until.IsZero() {
			name += " (replaced, accepted until " + cli.Moment(u.Until) + ")"
		}
		names = append(names, name)
	}
	return names
}
