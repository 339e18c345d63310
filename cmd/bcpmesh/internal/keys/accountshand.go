package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

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
	content, err := cli.ReadSmall(f.Creds)
	if err != nil {
		return nil, cli.Failf("%s cannot be read: %s", cli.Quoted(f.Creds), cli.FileReason(err))
	}
	if _, err := jwt.ParseDecoratedUserNKey(content); err != nil {
		return nil, cli.Failf("%s holds no credentials", cli.Quoted(f.Creds)).WithHint("bcpmesh accounts export writes %s", ExportedSystem)
	}
	secure, err := meshdir.Trust{CA: f.ca}.Options()
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
		m, err := h.next(ctx, replies, wait)
		switch {
		case errors.Is(err, nats.ErrTimeout):
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

func (h *hand) next(ctx context.Context, replies *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, nats.ErrTimeout)
	defer cancel()
	m, err := replies.NextMsgWithContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m, err
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

// kept returns what each server keeps of an account, in no order.
func (h *hand) kept(ctx context.Context, key string) ([]string, error) {
	var tokens []string
	err := h.ask(ctx, subjects.LookupClaimsOf(key), nil, func(m *nats.Msg) time.Duration {
		tokens = append(tokens, string(m.Data))
		return waitTime(len(tokens) >= len(h.servers))
	})
	return tokens, err
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
	tokens, err := h.kept(ctx, account.PublicKey)
	if err != nil {
		return err
	}
	if len(tokens) < len(h.servers) || slices.ContainsFunc(tokens, func(t string) bool { return !sameClaims(t, account.JWT) }) {
		return errors.New("a server keeps other claims: were newer ones pushed from another copy of the keys?")
	}
	return nil
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

// signedBy reports whether an operator has signed an account's JWT.
func signedBy(operator, token string) bool {
	root, err := jwt.DecodeOperatorClaims(operator)
	if err != nil {
		return false
	}
	claims, err := jwt.DecodeAccountClaims(token)
	return err == nil && root.DidSign(claims)
}

// push compiles the accounts, and gives the servers those that one of them has
// otherwise.
func (h *hand) push(ctx context.Context, store *accounts.Store, scopes []subjects.Scope) (Pushed, error) {
	result := Pushed{Updated: []string{}, Changes: []string{}}
	if err := h.Meet(ctx); err != nil {
		return result, err
	}
	result.Silent = h.silent
	next, err := accounts.CompileCluster(store, scopes, time.Now())
	if err != nil {
		return result, cli.Failf("%s", err)
	}
	var before []string
	var changed []accounts.Account
	for _, account := range next.Accounts {
		tokens, err := h.kept(ctx, account.PublicKey)
		if err != nil {
			return result, cli.Failf("account %s cannot be read: %s", account.Name, err)
		}
		other := slices.IndexFunc(tokens, func(t string) bool { return !sameClaims(t, account.JWT) })
		if other >= 0 || len(tokens) < len(h.servers) {
			changed = append(changed, account)
		}
		switch {
		case other < 0:
			before = append(before, account.JWT)
		case tokens[other] != "":
			if !signedBy(next.Operator, tokens[other]) {
				return result, cli.Failf("the servers keep account %s as another key of the operator has signed it", account.Name).
					WithHint("if that key was replaced: bcpmesh accounts export --force, then give its resolver.conf to each node and start it again")
			}
			before = append(before, tokens[other])
		}
	}
	if current, err := accounts.Enforced(next.Operator, before); err == nil {
		result.Changes = append(result.Changes, current.Changes(next)...)
	}
	accounts.SortForUpdate(changed)
	for _, account := range changed {
		if err := h.Update(ctx, account); err != nil {
			return result, cli.Failf("account %s: %s", account.Name, err).WithHint("push again: accounts that servers already have are skipped")
		}
		result.Updated = append(result.Updated, account.Name)
	}
	for _, name := range h.servers {
		result.Servers = append(result.Servers, name)
	}
	slices.Sort(result.Servers)
	return result, nil
}
