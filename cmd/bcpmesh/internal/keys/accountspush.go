package keys

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/home"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// PushFlags are those of accounts push.
type PushFlags struct {
	where          AccountsFlags
	URL, Creds, ca string
	Wait           cli.DurationFlag
}

// Pushed is what a push did.
type Pushed struct {
	Servers []string `json:"servers"`          // that have all claims now
	Silent  int      `json:"silent,omitzero"`  // servers that did not answer
	Updated []string `json:"updated_accounts"` // at one of them or more
	Changes []string `json:"changes"`          // of what claims say, a line each
	// Recorded counts changes of credentials that the audit shows now, Waiting
	// those that it does not.
	Recorded int `json:"recorded"`
	Waiting  int `json:"waiting"`
	// Due is when an overlap ends next: no server knows of it until the push after.
	Due time.Time `json:"due,omitzero"`
}

func accountsPushCommand(p *cli.Program) *cobra.Command {
	var f PushFlags
	cmd := &cobra.Command{
		Use:               "push [DIR]",
		Args:              cli.Arguments(0, "DIR"),
		ValidArgsFunction: cli.CompleteFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			return pushAccounts(p, cmd.Context(), f, args)
		},
	}
	f.where.AddTo(cmd)
	cli.TakeGiven(cmd, "--url URLS of servers of the cluster, with commas; --creds: system.creds of the export", cli.Into{"url": &f.URL, "creds": &f.Creds, "ca": &f.ca})
	cli.WaitFlag(cmd, &f.Wait, 30*time.Second, "how long to wait for credential changes to be recorded")
	return cmd
}

func pushAccounts(p *cli.Program, ctx context.Context, f PushFlags, args []string) error {
	if f.URL == "" || f.Creds == "" {
		return cli.Usagef("accounts push: expected --url and --creds").WithHint("for example --url nats://node-1:4222 --creds ./cluster/%s", ExportedSystem)
	}
	folder, err := f.where.Folder(args)
	if err != nil {
		return err
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	store, err := accounts.Open(folder.State, meshdir.Unlock())
	if err != nil {
		return meshdir.KeysFailure(err, folder.State)
	}
	if remotes, err := store.Remotes(); err != nil {
		return cli.Failf("%s", err)
	} else if len(remotes) == 0 {
		return cli.Failf("the accounts in %s were never exported", cli.Quoted(folder.State)).WithHint("bcpmesh accounts export")
	}
	hand, err := OpenHand(f)
	if err != nil {
		return err
	}
	defer hand.Close()
	result, err := hand.push(ctx, store, subjects.Permissions(def))
	if err != nil {
		return err
	}
	if err := f.remember(folder); err != nil {
		return err
	}
	var unrecorded error
	result.Recorded, result.Waiting, unrecorded = f.Record(ctx, store)
	if _, result.Due, err = store.Pending(time.Now()); err != nil {
		return cli.Failf("%s", err)
	}
	return showPushed(p, result, unrecorded)
}

// remember has the commands with the keys find the cluster, unless a mesh of one
// process runs there.
func (f *PushFlags) remember(folder meshdir.Folder) error {
	if about, err := folder.Running(); err == nil && !about.Cluster && about.Alive() {
		return nil
	}
	about := meshdir.Ready{URL: f.URL, State: cli.Absolute(folder.State), Cluster: true}
	if f.ca != "" {
		about.CA = cli.Absolute(f.ca)
	}
	name := home.Ready(folder.State)
	if err := meshdir.WriteReady(name, about); err != nil {
		return cli.Failf("%s cannot be written: %s", cli.Quoted(name), cli.FileReason(err))
	}
	return nil
}

// Record has a gateway of the cluster record what was done with credentials.
func (f *PushFlags) Record(ctx context.Context, store *accounts.Store) (recorded, waiting int, err error) {
	changes, _, err := store.Pending(time.Now())
	if err != nil || len(changes) == 0 {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Wait.Value)
	defer cancel()
	conn, err := f.operator(ctx, store)
	if err != nil {
		return 0, len(changes), err
	}
	defer conn.Close()
	operator := agents.NewOperator(conn)
	for len(changes) > 0 {
		body, n := bcp.CredentialRecordsOf(changes)
		done, err := operator.RecordCredentials(ctx, body)
		if err == nil && done.Recorded != n {
			err = errors.New("the gateway has recorded others")
		}
		if err == nil {
			err = store.Recorded(changes[n-1].Number)
		}
		if err != nil {
			return recorded, len(changes), err
		}
		recorded, changes = recorded+n, changes[n:]
	}
	return recorded, 0, nil
}

// operator connects as the operator, again and again until ctx ends: a server that is
// busy closes a connection that it was about to let in. The caller closes it.
func (f *PushFlags) operator(ctx context.Context, store *accounts.Store) (*agents.Connection, error) {
	secure, err := meshdir.Trust{CA: f.ca}.Options()
	if err != nil {
		return nil, err
	}
	creds, err := store.Issue(bcp.Operator, bcp.RoleOperator, client.OwnCredsTTL, accounts.ForItself)
	if err != nil {
		return nil, err
	}
	for {
		// Asked again, a gateway would record the changes again.
		conn, err := agents.Connect(ctx, f.URL, agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator, Attempt: f.Wait.Value, NATS: secure, Logger: hclog.NewNullLogger()})
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(client.ClusterPause):
		}
	}
}

// showPushed shows what was done, and fails with what was not.
func showPushed(p *cli.Program, r Pushed, unrecorded error) error {
	if p.Out.JSON {
		if err := p.Out.Value(r); err != nil {
			return err
		}
	} else {
		p.Out.Printf("%s of claims; %s updated at %s\n", cli.Count(len(r.Changes), "change"), cli.Count(len(r.Updated), "account"), cli.Count(len(r.Servers), "server"))
		for _, line := range r.Changes {
			p.Out.Printf("  %s\n", cli.Plain(line))
		}
		if r.Recorded > 0 {
			p.Out.Printf("%s of credentials recorded\n", cli.Count(r.Recorded, "change"))
		}
	}
	if !r.Due.IsZero() {
		p.Out.Talkf("replaced credentials are valid until the push after %s", cli.Moment(r.Due))
	}
	partly := func(format string, args ...any) *cli.Failure {
		f := cli.Failf(format, args...)
		f.Code = cli.ExitPartly
		return f
	}
	switch {
	case r.Waiting > 0:
		return partly("the servers have the accounts, but no gateway has recorded %s of credentials: %s", cli.Count(r.Waiting, "change"), cli.FileReason(meshdir.Failure(unrecorded))).
			WithHint("push again when a gateway serves; nothing is lost until then")
	case unrecorded != nil:
		return cli.Failf("%s", unrecorded)
	case r.Silent > 0:
		return partly("%s did not answer: it gets the accounts from the others when it is back", cli.Count(r.Silent, "server")).WithHint("push again then, to check")
	}
	return nil
}
