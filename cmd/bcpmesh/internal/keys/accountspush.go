package keys

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// PushFlags are those of accounts push.
type PushFlags struct {
	Where          meshdir.StateFlags
	URL, Creds, CA string           `how:"given"`
	Wait           cli.DurationFlag `default:"30s"`
}

// Pushed is what a push did.
type Pushed struct {
	server.Pushed
	// Recorded counts changes of credentials that the audit shows now, Waiting
	// those that it does not.
	Recorded int `json:"recorded"`
	Waiting  int `json:"waiting"`
	// Due is when an overlap ends next: no server knows of it until the push after.
	Due time.Time `json:"due,omitzero"`
}

// Run gives the servers of a cluster the accounts.
func (f *PushFlags) Run(ctx context.Context, p *cli.Program, args []string) error {
	if f.URL == "" || f.Creds == "" {
		return cli.Usagef("accounts push: expected --url and --creds").WithHint("for example --url nats://node-1:4222 --creds ./cluster/%s", ExportedSystem)
	}
	if err := f.Where.Take(args); err != nil {
		return err
	}
	folder, def, err := f.Where.Load()
	if err != nil {
		return err
	}
	store, err := accounts.Open(folder.State, meshdir.Unlock())
	if err != nil {
		return meshdir.KeysFailure(err, folder.State)
	}
	if remotes, err := store.Remotes(); err != nil {
		return err
	} else if len(remotes) == 0 {
		return cli.Failf("the accounts in %s were never exported", cli.Quoted(folder.State)).WithHint("bcpmesh accounts export")
	}
	pusher, err := f.pusher(ctx)
	if err != nil {
		return err
	}
	defer pusher.Close()
	next, err := accounts.CompileCluster(store, subjects.Permissions(def), time.Now())
	if err != nil {
		return err
	}
	var result Pushed
	if result.Pushed, err = pusher.Push(ctx, next.Accounts); err != nil {
		return cli.Failf("%s", err).WithHint("push again: accounts that servers already have are skipped")
	}
	if err := f.remember(folder); err != nil {
		return err
	}
	var unrecorded error
	result.Recorded, result.Waiting, unrecorded = f.Record(ctx, store)
	if _, result.Due, err = store.Pending(time.Now()); err != nil {
		return err
	}
	return showPushed(p, result, unrecorded)
}

// pusher connects to the servers.
func (f *PushFlags) pusher(ctx context.Context) (*server.Pusher, error) {
	creds, err := cli.ReadFile(f.Creds, cli.MaxSmallFile)
	if err != nil {
		return nil, err
	}
	if _, err := jwt.ParseDecoratedUserNKey(creds); err != nil {
		return nil, cli.Failf("%s holds no credentials", cli.Quoted(f.Creds)).WithHint("bcpmesh accounts export writes %s", ExportedSystem)
	}
	secure, err := meshdir.Trust{CA: f.CA}.Options()
	if err != nil {
		return nil, err
	}
	pusher, err := server.ConnectPusher(ctx, f.URL, creds, secure...)
	switch {
	case errors.Is(err, server.ErrNoServer):
		return nil, cli.Failf("%s", err).WithHint("--creds is %s of the export, and the cluster's operator is that of this mesh", ExportedSystem)
	case err != nil:
		return nil, meshdir.NotReached(f.URL, err)
	}
	return pusher, nil
}

// remember has the commands with the keys find the cluster, unless a mesh of one
// process runs there.
func (f *PushFlags) remember(folder meshdir.Folder) error {
	if about, err := folder.Running(); err == nil && !about.Cluster && about.Alive() {
		return nil
	}
	about := meshdir.Ready{URL: f.URL, State: cli.Absolute(folder.State), Cluster: true}
	if f.CA != "" {
		about.CA = cli.Absolute(f.CA)
	}
	name := server.ReadyOf(folder.State)
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
	// Asked again, a gateway would record the changes again.
	who := client.Flags{Where: f.Where, URL: f.URL, CA: f.CA, Attempt: f.Wait.Value}
	c, err := who.Connect(ctx, bcp.RoleOperator)
	for err != nil { // a server that is busy closes a connection that it was about to let in
		select {
		case <-ctx.Done():
			return 0, len(changes), err
		case <-time.After(client.ClusterPause):
		}
		c, err = who.Connect(ctx, bcp.RoleOperator)
	}
	defer c.Close()
	for len(changes) > 0 {
		body, n := bcp.CredentialRecordsOf(changes)
		done, err := c.Operator().RecordCredentials(ctx, body)
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

// showPushed shows what was done, and fails with what was not.
func showPushed(p *cli.Program, r Pushed, unrecorded error) error {
	if err := p.Out.Show(r, func() {
		p.Out.Printf("%s updated at %s\n", cli.Count(len(r.Updated), "account"), cli.Count(len(r.Servers), "server"))
		for _, name := range r.Updated {
			p.Out.Printf("  %s\n", name)
		}
		if r.Recorded > 0 {
			p.Out.Printf("%s of credentials recorded\n", cli.Count(r.Recorded, "change"))
		}
	}); err != nil {
		return err
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
