package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// pushFlags are those of accounts push.
type pushFlags struct {
	where          accountsFlags
	url, creds, ca string
	wait           durationFlag
}

// pushed is what a push did.
type pushed struct {
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

func accountsPushCommand(p *program) *cobra.Command {
	var f pushFlags
	cmd := &cobra.Command{
		Use:   "push [DIR]",
		Short: "Give a NATS cluster the accounts as they are now",
		Long: `Give the servers of a NATS cluster the accounts of the mesh of a folder as they are
now: after an edit of the definitions, and after credentials were revoked,
restricted or rotated. It shows what is gone (-) and what is new (+), and ends when
each server that answers has said that it keeps them and was read again. Accounts
that every server has are left alone, so a push that was cut off is completed by
the next.

Servers know of no overlap: replaced credentials are good until the first push after
its end. The command says when that is.

From then on the commands beside the keys find the cluster by themselves.

Then it has the gateway that serves record what was done with credentials. Where
none answers, the servers hold the accounts all the same and the changes wait for
the next push; the exit code is 4. So it is where a server does not answer, of
those that others know: it gets the accounts from them when it comes back.

After an edit of the definitions, give them to the gateways too, and then:
bcpmesh reload.`,
		Example: `  bcpmesh accounts push --url nats://node-1:4222,nats://node-2:4222 --creds ./cluster/system.creds
  bcpmesh accounts push ./office --state /secure/office --url tls://node-1:4222 --creds system.creds`,
		Args:              arguments(0, "DIR"),
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.push(cmd.Context(), f, args)
		},
	}
	f.where.addTo(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "`URL` of a server of the cluster, or of several with commas between them")
	cmd.Flags().StringVar(&f.creds, "creds", "", "system.creds of the export, a `FILE`")
	cmd.Flags().StringVar(&f.ca, "ca", "", "trust the certificates of this PEM `FILE` alone")
	waitFlag(cmd, &f.wait, 10*time.Second, "how long to try to have changes of credentials recorded")
	return cmd
}

func (p *program) push(ctx context.Context, f pushFlags, args []string) error {
	if f.url == "" || f.creds == "" {
		return usagef("accounts push: expected --url and --creds").withHint("for example --url nats://node-1:4222 --creds ./cluster/%s", exportedSystem)
	}
	folder, err := f.where.folder(args)
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	store, err := accounts.Open(folder.state, unlock())
	if err != nil {
		return keysFailure(err, folder.state)
	}
	if remotes, err := store.Remotes(); err != nil {
		return failf("%s", err)
	} else if len(remotes) == 0 {
		return failf("the accounts in %s were never exported", quoted(folder.state)).withHint("bcpmesh accounts export")
	}
	hand, err := openHand(f)
	if err != nil {
		return err
	}
	defer hand.close()
	result, err := hand.push(ctx, store, subjects.Permissions(def))
	if err != nil {
		return err
	}
	if err := f.remember(folder); err != nil {
		return err
	}
	var unrecorded error
	result.Recorded, result.Waiting, unrecorded = f.record(ctx, store)
	if _, result.Due, err = store.Pending(time.Now()); err != nil {
		return failf("%s", err)
	}
	return p.showPushed(result, unrecorded)
}

// remember has the commands beside the keys find the cluster, unless a mesh of one
// process runs there.
func (f *pushFlags) remember(folder meshFolder) error {
	if about, err := folder.running(); err == nil && !about.Cluster && about.alive() {
		return nil
	}
	about := ready{URL: f.url, State: absolute(folder.state), Cluster: true}
	if f.ca != "" {
		about.CA = absolute(f.ca)
	}
	name := filepath.Join(folder.state, readyName)
	if err := writeReady(name, about); err != nil {
		return failf("%s cannot be written: %s", quoted(name), reasonOf(err))
	}
	return nil
}

// record has a gateway of the cluster record what was done with credentials.
func (f *pushFlags) record(ctx context.Context, store *accounts.Store) (recorded, waiting int, err error) {
	changes, _, err := store.Pending(time.Now())
	if err != nil || len(changes) == 0 {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait.value)
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
func (f *pushFlags) operator(ctx context.Context, store *accounts.Store) (*agents.Connection, error) {
	secure, err := trust{CA: f.ca}.options()
	if err != nil {
		return nil, err
	}
	creds, err := store.Issue(bcp.Operator, bcp.RoleOperator, ownCredsTTL, accounts.ForItself)
	if err != nil {
		return nil, err
	}
	for {
		// Asked again, a gateway would record the changes again.
		conn, err := agents.Connect(ctx, f.url, agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator, Attempt: f.wait.value, NATS: secure, Logger: hclog.NewNullLogger()})
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(clusterPause):
		}
	}
}

// showPushed shows what was done, and fails with what was not.
func (p *program) showPushed(r pushed, unrecorded error) error {
	if p.out.json {
		if err := p.out.value(r); err != nil {
			return err
		}
	} else {
		p.out.printf("%s of claims; %s updated at %s\n", count(len(r.Changes), "change"), count(len(r.Updated), "account"), count(len(r.Servers), "server"))
		for _, line := range r.Changes {
			p.out.printf("  %s\n", plain(line))
		}
		if r.Recorded > 0 {
			p.out.printf("%s of credentials recorded\n", count(r.Recorded, "change"))
		}
	}
	if !r.Due.IsZero() {
		p.out.talkf("credentials that others have replaced are good until the push after %s", moment(r.Due))
	}
	partly := func(format string, args ...any) *failure {
		f := failf(format, args...)
		f.code = exitPartly
		return f
	}
	switch {
	case r.Waiting > 0:
		return partly("the servers have the accounts, but no gateway has recorded %s of credentials: %s", count(r.Waiting, "change"), reasonOf(outcomeOf(unrecorded))).
			withHint("push again when a gateway serves; nothing is lost until then")
	case unrecorded != nil:
		return failf("%s", unrecorded)
	case r.Silent > 0:
		return partly("%s did not answer: it gets the accounts from the others when it is back", count(r.Silent, "server")).withHint("push again then, to see that it has")
	}
	return nil
}
