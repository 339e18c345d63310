package keys

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

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
	Servers []string `json:"servers"`          // that have all claims now
	Silent  int      `json:"silent,omitzero"`  // servers that did not answer
	Updated []string `json:"updated_accounts"` // at one of them or more
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
	hand, err := OpenHand(*f)
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
		return err
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

const (
	// handTimeout bounds the wait for what all servers have to answer.
	handTimeout = 5 * time.Second
	// handQuiet is how long more servers may take than those that there have to be.
	handQuiet = 300 * time.Millisecond
)

// hand is a connection to a cluster's system account that can change claims.
type hand struct {
	nc      *nats.Conn
	servers map[string]string // names by public key, of those that answer
	silent  int               // of those that others know
}

// OpenHand connects to the servers of a cluster to push accounts to them.
func OpenHand(f PushFlags) (*hand, error) {
	content, err := cli.ReadFile(f.Creds, cli.MaxSmallFile)
	if err != nil {
		return nil, err
	}
	if _, err := jwt.ParseDecoratedUserNKey(content); err != nil {
		return nil, cli.Failf("%s holds no credentials", cli.Quoted(f.Creds)).WithHint("bcpmesh accounts export writes %s", ExportedSystem)
	}
	secure, err := meshdir.Trust{CA: f.CA}.Options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(f.URL, append(secure, nats.Name("bcpmesh accounts push"), nats.UserCredentialBytes(content),
		nats.CustomInboxPrefix(subjects.PushInbox), nats.NoReconnect(), nats.Timeout(handTimeout),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...) // what was refused is not answered
	if err != nil {
		return nil, meshdir.NotReached(f.URL, err)
	}
	return &hand{nc: nc, servers: map[string]string{}}, nil
}

// Close disconnects.
func (h *hand) Close() { h.nc.Close() }

var errNotToPush = errors.New("these creds may not push")

// ask sends a request that each server answers, and gives the answers to take until
// that says to wait no longer, or nothing comes for as long as it last said.
func (h *hand) ask(ctx context.Context, subject string, body []byte, take func(*nats.Msg) (wait time.Duration)) error {
	replies, err := h.nc.SubscribeSync(h.nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = replies.Unsubscribe() }() // the connection may be gone
	if err := h.nc.PublishRequest(subject, replies.Subject, body); err != nil {
		return err
	}
	if err := h.nc.FlushTimeout(handTimeout); err != nil {
		return err
	}
	if err := h.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return errNotToPush
	}
	for wait := handTimeout; wait > 0; {
		patient, cancel := context.WithTimeout(ctx, wait)
		m, err := replies.NextMsgWithContext(patient)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // nobody else answers
			return nil
		case err != nil:
			return err
		case len(m.Data) == 0 && m.Header.Get("Status") == "503":
			return nats.ErrNoResponders
		}
		wait = take(m)
	}
	return nil
}

// waitTime returns how long to wait for more.
func waitTime(enough bool) time.Duration {
	if enough {
		return 0
	}
	return handTimeout
}

// serverSays is what a server says of itself in front of an answer.
type serverSays struct {
	Server struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"server"`
	Stats struct {
		// Servers counts those that it has heard of, also of before they were
		// restarted.
		Servers   int `json:"active_servers"`
		JetStream struct {
			Meta struct {
				Size int `json:"cluster_size"` // servers with JetStream, also those that are away
			} `json:"meta"`
		} `json:"jetstream"`
	} `json:"statsz"`
	Data *struct {
		Account string `json:"account"`
	} `json:"data"`
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

// Meet finds the servers that answer, and how many there should be.
func (h *hand) Meet(ctx context.Context) error {
	known, size := 1, 1
	err := h.ask(ctx, subjects.PingServers, nil, func(m *nats.Msg) time.Duration {
		var s serverSays
		if json.Unmarshal(m.Data, &s) == nil && s.Server.ID != "" {
			h.servers[s.Server.ID] = s.Server.Name
			known, size = max(known, s.Stats.Servers), max(size, s.Stats.JetStream.Meta.Size)
		}
		if len(h.servers) >= size && len(h.servers) < known {
			return handQuiet
		}
		return waitTime(len(h.servers) >= max(size, known))
	})
	if err == nil && len(h.servers) == 0 {
		err = nats.ErrTimeout
	}
	if err != nil {
		return cli.Failf("no server of the cluster says who it is: %s", err).WithHint("--creds is %s of the export, and the cluster's operator is that of this mesh", ExportedSystem)
	}
	h.silent = max(0, size-len(h.servers))
	return nil
}

// kept reports whether each server keeps an account as it is.
func (h *hand) kept(ctx context.Context, account accounts.Account) (bool, error) {
	answers, same := 0, 0
	err := h.ask(ctx, subjects.LookupClaimsOf(account.PublicKey), nil, func(m *nats.Msg) time.Duration {
		answers++
		if sameClaims(string(m.Data), account.JWT) {
			same++
		}
		return waitTime(answers >= len(h.servers))
	})
	return same == answers && answers >= len(h.servers), err
}

// Update gives an account to the servers, and returns when each has taken it.
func (h *hand) Update(ctx context.Context, account accounts.Account) error {
	taken := map[string]bool{}
	var refused error
	err := h.ask(ctx, subjects.UpdateClaims, []byte(account.JWT), func(m *nats.Msg) time.Duration {
		var s serverSays
		switch {
		case json.Unmarshal(m.Data, &s) != nil:
			refused = errors.New("a server's answer cannot be parsed")
		case s.Error != nil:
			refused = errors.New("a server refused it: " + s.Error.Description)
		case s.Data != nil && s.Data.Account == account.PublicKey:
			taken[s.Server.ID] = true
		}
		return waitTime(refused != nil || len(taken) >= len(h.servers))
	})
	switch {
	case err != nil || refused != nil:
		return errors.Join(err, refused)
	case len(taken) < len(h.servers):
		return errors.New("not all servers have answered")
	}
	kept, err := h.kept(ctx, account)
	if err == nil && !kept {
		err = errors.New("a server keeps other claims: were newer ones pushed from another copy of the keys?")
	}
	return err
}

// sameClaims reports whether two JWTs of an account say the same. Their ids are
// digests of all that they say but when.
func sameClaims(a, b string) bool {
	first, err := jwt.DecodeAccountClaims(a)
	if err != nil {
		return false
	}
	second, err := jwt.DecodeAccountClaims(b)
	return err == nil && first.ID == second.ID && first.Subject == second.Subject
}

// push compiles the accounts, and gives the servers those that one of them has
// otherwise.
func (h *hand) push(ctx context.Context, store *accounts.Store, scopes []subjects.Scope) (Pushed, error) {
	result := Pushed{Updated: []string{}}
	if err := h.Meet(ctx); err != nil {
		return result, err
	}
	result.Silent = h.silent
	next, err := accounts.CompileCluster(store, scopes, time.Now())
	if err != nil {
		return result, err
	}
	var changed []accounts.Account
	for _, account := range next.Accounts {
		kept, err := h.kept(ctx, account)
		if err != nil {
			return result, cli.Failf("account %s cannot be read: %s", account.Name, err)
		}
		if !kept {
			changed = append(changed, account)
		}
	}
	accounts.SortForUpdate(changed)
	for _, account := range changed {
		if err := h.Update(ctx, account); err != nil {
			return result, cli.Failf("account %s: %s", account.Name, err).WithHint("push again: accounts that servers already have are skipped")
		}
		result.Updated = append(result.Updated, account.Name)
	}
	result.Servers = slices.Sorted(maps.Values(h.servers))
	return result, nil
}
