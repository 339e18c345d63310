package keys

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// askTimeout bounds how long a list waits for what only the running mesh knows.
const askTimeout = 5 * time.Second

func credsListCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	var all, gateways bool
	cmd := &cobra.Command{
		Use: "creds [COMMAND]",
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, store, err := where.KeyStore()
			if err != nil {
				return err
			}
			if gateways {
				return listLogins(p, store)
			}
			users, err := store.Users()
			if err != nil {
				return err
			}
			invitations, err := store.Invitations(time.Now())
			if err != nil {
				return err
			}
			seen, err := mesh.Seen(folder.State)
			if err != nil { // of no weight: the audit has it too
				p.Out.Talkf("warning: %s", err)
			}
			return showUsers(p, append(users, invited(invitations)...), seen, connections(cmd.Context(), where, folder), all)
		},
	}
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&gateways, "gateways", false, "the logins of a cluster's gateways, and yours to push with, in place of credentials")
	cmd.Flags().BoolVar(&all, "all", false, "also those that commands made for themselves")
	return cmd
}

// connections returns the connections of the running mesh by public key, or
// nothing if it cannot be asked.
func connections(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) map[string][]agents.ClientConnection {
	about, err := folder.Running()
	if err != nil || !about.Alive() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := client.ConnectOperator(ctx, where)
	if err != nil {
		return nil
	}
	defer c.Close()
	applied, _ := c.Operator().ApplyCredentials(ctx) // without an answer nobody is shown as connected
	open := map[string][]agents.ClientConnection{}
	for _, conn := range applied.Connections {
		open[conn.Key] = append(open[conn.Key], conn)
	}
	return open
}

// invited lists invitations as users that are yet to come.
func invited(invitations []accounts.Invitation) []accounts.User {
	var users []accounts.User
	for _, i := range invitations {
		users = append(users, accounts.User{PublicKey: i.PublicKey, Agent: i.Agent, Role: i.Role, Issued: i.Made, Expires: i.Ends, Restriction: i.Restriction, Invitation: true})
	}
	return users
}

type listedUser struct {
	accounts.User
	Status string `json:"status"` // valid, replaced, expired, revoked or invited
	// ExpiresSoon: in the last tenth of its time, a week at most, if that is more than
	// a day in all.
	ExpiresSoon bool `json:"expires_soon,omitzero"`
	// Seen is when it was last connected, to some minutes; zero: never, or not known.
	Seen time.Time `json:"last_seen,omitzero"`
	// PasskeyWords are those that people compare.
	PasskeyWords string `json:"passkey_words,omitempty"`
	// Connected are its connections to the mesh, if that runs.
	Connected []agents.ClientConnection `json:"connected,omitempty"`
}

func showUsers(p *cli.Program, users []accounts.User, seen map[string]time.Time, open map[string][]agents.ClientConnection, all bool) error {
	list, now := []listedUser{}, time.Now()
	var rows [][]string
	for _, u := range users {
		if u.Own && !all {
			continue
		}
		l := listedUser{User: u, Status: meshdir.CredsStatus(u, now), Seen: seen[u.PublicKey], Connected: open[u.PublicKey]}
		l.ExpiresSoon = l.Status == "valid" && accounts.EndsSoon(u.Issued, u.Expires, now)
		at, warning, only := "", "", u.Restriction.Lines()
		if !u.Passkey.IsZero() {
			l.PasskeyWords = accounts.PasskeyWords(u.Passkey)
			only = append(only, "passkey "+l.PasskeyWords)
		}
		switch {
		case len(l.Connected) > 0:
			l.Seen, at = now.UTC().Truncate(time.Second), "now"
		case !l.Seen.IsZero():
			at = cli.Moment(l.Seen)
		}
		if l.ExpiresSoon {
			warning = "expires in " + client.Within(u.Expires.Sub(now))
		}
		list = append(list, l)
		ends := "never"
		switch {
		case !u.Revoked.IsZero():
			ends = cli.Moment(u.Revoked)
		case !u.Until.IsZero():
			ends = cli.Moment(u.Until)
		case !u.Expires.IsZero():
			ends = cli.Moment(u.Expires)
		}
		rows = append(rows, []string{string(u.Agent), u.Role.String(), cli.Moment(u.Issued), ends, l.Status, warning, at, connectedFrom(l.Connected), strings.Join(only, ", "), u.PublicKey})
	}
	if p.Out.JSON {
		return p.Out.Value(list)
	}
	if len(rows) == 0 {
		p.Out.Talkf("none issued yet")
		return nil
	}
	p.Out.Table([]string{"agent", "role", "issued", "ends", "status", "warning", "last seen", "connected from", "only", "public key"}, rows)
	return nil
}

func connectedFrom(open []agents.ClientConnection) string {
	var hosts []string
	for _, c := range open {
		hosts = append(hosts, cli.Plain(c.Host)+" since "+cli.Moment(c.Since))
	}
	return strings.Join(hosts, ", ")
}

// WithoutCreds tells of each agent with which no program could connect, and what to do.
func WithoutCreds(state string, def *bcp.Mesh) map[bcp.AgentName]string {
	store, err := accounts.Open(state)
	if err != nil {
		return nil
	}
	users, err := store.Users()
	if err != nil {
		return nil
	}
	now := time.Now()
	issued := map[bcp.AgentName]string{}
	for _, u := range users {
		if u.Own {
			continue
		}
		if status := meshdir.CredsStatus(u, now); issued[u.Agent] != "valid" {
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
