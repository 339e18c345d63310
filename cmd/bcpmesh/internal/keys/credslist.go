package keys

import (
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// askTimeout bounds how long a list waits for what only the running mesh knows.
const askTimeout = 5 * time.Second

// List lists what was issued, or shows what a file holds.
type List struct {
	meshdir.StateFlags
	All bool
}

func (o *List) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch {
	case len(args) > 0 && o.All:
		return cli.Usagef("creds: --all is for the list")
	case len(args) > 0:
		return showCreds(p, o.StateFlags, args[0])
	}
	folder, store, err := o.KeyStore()
	if err != nil {
		return err
	}
	users, err := store.Users()
	if err != nil {
		return err
	}
	invitations, err := store.Invitations(time.Now())
	if err != nil {
		return err
	}
	return showUsers(p, append(users, invited(invitations)...), connections(ctx, o.StateFlags, folder), o.All)
}

// connections returns the connections of the running mesh by public key, or
// nothing if it cannot be asked.
func connections(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) map[string][]status.ClientConnection {
	about, err := folder.Running()
	if err != nil || !about.Alive() {
		return nil
	}
	open := map[string][]status.ClientConnection{}
	_ = client.AsOperator(ctx, where, askTimeout, func(ctx context.Context, c *client.Client) error { // without an answer nobody is shown as connected
		applied, err := c.Operator().ApplyCredentials(ctx)
		for _, conn := range applied.Connections {
			open[conn.Key] = append(open[conn.Key], conn)
		}
		return err
	})
	return open
}

// invited lists invitations as users that are yet to come.
func invited(invitations []accounts.Invitation) []accounts.User {
	return cli.Map(invitations, func(i accounts.Invitation) accounts.User {
		return accounts.User{PublicKey: i.PublicKey, Agent: i.Agent, Role: i.Role, Issued: i.Made, Expires: i.Ends, Restriction: i.Restriction, Invitation: true}
	})
}

type listedUser struct {
	accounts.User
	Status string `json:"status"` // valid, replaced, expired, revoked or invited
	// ExpiresSoon: in the last tenth of its time, a week at most, if that is more than
	// a day in all.
	ExpiresSoon bool `json:"expires_soon,omitzero"`
	// PasskeyWords are those that people compare.
	PasskeyWords string `json:"passkey_words,omitempty"`
	// Connected are its connections to the mesh, if that runs.
	Connected []status.ClientConnection `json:"connected,omitempty"`
}

func showUsers(p *cli.Program, users []accounts.User, open map[string][]status.ClientConnection, all bool) error {
	list, now := []listedUser{}, time.Now()
	var rows [][]string
	for _, u := range users {
		if u.Own && !all {
			continue
		}
		l := listedUser{User: u, Status: u.Status(now), Connected: open[u.PublicKey]}
		l.ExpiresSoon = l.Status == "valid" && accounts.EndsSoon(u.Issued, u.Expires, now)
		warning, only := "", u.Restriction.Lines()
		if !u.Passkey.IsZero() {
			l.PasskeyWords = accounts.PasskeyWords(u.Passkey)
			only = append(only, "passkey "+l.PasskeyWords)
		}
		if l.ExpiresSoon {
			warning = "expires in " + tell.Within(u.Expires.Sub(now))
		}
		list = append(list, l)
		ends := "never"
		for _, end := range []time.Time{u.Expires, u.Until, u.Revoked} { // the last counts
			if !end.IsZero() {
				ends = cli.Moment(end)
			}
		}
		from := cli.Map(l.Connected, func(c status.ClientConnection) string { return cli.Plain(c.Host) + " since " + cli.Moment(c.Since) })
		rows = append(rows, []string{string(u.Agent), u.Role.String(), cli.Moment(u.Issued), ends, l.Status, warning, strings.Join(from, ", "), strings.Join(only, ", "), u.PublicKey})
	}
	return cli.ShowList(p.Out, list, "none issued yet", func(o *cli.Output, _ []listedUser) {
		o.Table([]string{"agent", "role", "issued", "ends", "status", "warning", "connected from", "only", "public key"}, rows)
	})
}

// usersOf reads what was issued with the keys in a state folder.
func usersOf(state string) ([]accounts.User, error) {
	store, err := accounts.Open(state)
	if err != nil {
		return nil, err
	}
	return store.Users()
}

// WithoutCreds tells of each agent with which no program could connect, and what to do.
func WithoutCreds(state string, def *bcp.Mesh) map[bcp.AgentName]string {
	users, err := usersOf(state)
	if err != nil {
		return nil
	}
	now := time.Now()
	issued := map[bcp.AgentName]string{}
	for _, u := range users {
		if u.Own {
			continue
		}
		if status := u.Status(now); issued[u.Agent] != "valid" {
			issued[u.Agent] = status
		}
	}
	missing := map[bcp.AgentName]string{}
	for _, a := range def.Agents {
		if def.IsKernel(a.Name) {
			continue
		}
		issue := "bcpmesh creds issue " + string(a.Name) + " --out " + string(a.Name) + ".creds"
		switch status := issued[a.Name]; status {
		case "valid", "replaced", "invited":
		case "":
			missing[a.Name] = "it was issued no creds: " + issue
		default:
			missing[a.Name] = "its last creds are " + status + ": " + issue
		}
	}
	return missing
}

// showCreds shows whose credentials a file holds.
func showCreds(p *cli.Program, where meshdir.StateFlags, name string) error {
	shown, err := meshdir.ReadCreds(name)
	if err != nil {
		return err
	}
	folder, err := where.Folder()
	if err == nil {
		err = meshdir.Judge(&shown, folder.State)
	}
	if err != nil && where != (meshdir.StateFlags{}) { // without flags that name a mesh there need be none
		return err
	}
	if info, err := os.Stat(name); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		p.Out.Talkf("warning: others may read %s: chmod 600 %s", name, name)
	}
	err = p.Out.Show(shown, func() {
		expires := "never"
		if !shown.Expires.IsZero() {
			expires = cli.Moment(shown.Expires)
		}
		p.Out.Printf("agent       %s\nrole        %s\nstatus      %s\nissued      %s\nexpires     %s\npublic key  %s\nissuer key  %s\naccount key %s\n",
			shown.Agent, shown.Role, shown.Status, cli.Moment(shown.Issued), expires, shown.PublicKey, shown.IssuerKey, shown.AccountKey)
	})
	switch {
	case err != nil:
		return err
	case shown.Status == "unknown":
		return cli.Failf("the credentials are not of this mesh")
	case shown.Status == "expired" || shown.Status == "revoked":
		return cli.Failf("the credentials are %s", shown.Status)
	}
	return nil
}

// WarnOfExpiry tells whose last creds do not last.
func WarnOfExpiry(o *cli.Output, soon []string) {
	if len(soon) > 0 {
		o.Talkf("warning: the last creds expire soon: %s: bcpmesh creds issue AGENT --out FILE", cli.FirstNames(soon, 3))
	}
}

// ExpiringIn is what expiring says of a state folder, or nothing if it has no keys.
func ExpiringIn(state string, def *bcp.Mesh) []string {
	users, _ := usersOf(state) // nobody's creds expire
	_, soon, _ := mesh.Expiring(users, def, time.Now())
	return soon
}
