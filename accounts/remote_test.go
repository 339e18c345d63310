package accounts_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const patience = 45 * time.Second

func remote(t *testing.T, store *accounts.Store, name bcp.AgentName) (core, system accounts.Creds) {
	t.Helper()
	core, system, err := store.Gateway(name)
	noError(t, err)
	return core, system
}

func push(t *testing.T, store *accounts.Store) accounts.Creds {
	t.Helper()
	return must(store.Push())(t)
}

// A guest of the cluster has two logins to the system account and to no other, which stay the
// same, need no new claims, and are revoked without those of others.
//
// covers BCP-19, A-REVOKED, A-SYS
func TestGuestsOfAClusterAreLetInToTheSystemAccountAlone(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	_, own := remote(t, store, "one")
	before := claimsOf(t, compileCluster(t, store, scopes()), accounts.System)
	var keys []string
	for range 2 {
		system, push, err := store.Guest("lab")
		noError(t, err)
		keys = append(keys, system.PublicKey, push.PublicKey)
	}
	failIf(t, keys[0] != keys[2] || keys[1] != keys[3] || keys[0] == keys[1] || keys[0] == own.PublicKey, "logins %q", keys)
	list := must(store.Remotes())(t)
	for _, r := range list {
		failIf(t, r.Gateway == "lab" && r.Account != accounts.System, "a guest is let in to %s", r.Account)
	}
	expect(t, cmp.Diff(before.SigningKeys, claimsOf(t, compileCluster(t, store, scopes()), accounts.System).SigningKeys), "",
		"the claims changed")
	noError(t, store.RevokeGateway("lab"))
	b := compileCluster(t, store, scopes())
	revoked := claimsOf(t, b, accounts.System).Revocations
	failIf(t, len(revoked) != 2 || revoked[keys[0]] == 0 || revoked[keys[1]] == 0, "revoked are %v", revoked)
	_, _, err := store.Guest("no name")
	failIf(t, err == nil, "a guest has any name")
}

// A gateway's logins stay the same until it is revoked, which leaves those of others
// alone, and are noted once.
//
// covers BCP-19, A-REVOKED
func TestGatewaysOfAClusterAreLetInAndRevokedAlone(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	one, oneSystem := remote(t, store, "one")
	remote(t, store, "two")
	push(t, store)
	again := openStore(t, folder)
	core, system := remote(t, again, "one")
	failIf(t, core.PublicKey != one.PublicKey || system.PublicKey != oneSystem.PublicKey, "the second call made other logins")
	refused := func() []string {
		var keys []string
		b := compileCluster(t, store, scopes())
		for _, name := range []string{accounts.Core, accounts.System} {
			for key := range claimsOf(t, b, name).Revocations {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	keys := refused()
	failIf(t, len(keys) > 0, "refused before anybody was revoked: %q", keys)
	noError(t, store.RevokeGateway("one"))
	want := []string{one.PublicKey, oneSystem.PublicKey}
	slices.Sort(want)
	equal(t, want, refused())
	if core, system := remote(t, store, "one"); core.PublicKey == one.PublicKey || system.PublicKey == oneSystem.PublicKey {
		t.Error("a revoked gateway was given its old logins again")
	}
	for _, name := range []bcp.AgentName{"three", ""} {
		fails(t, store.RevokeGateway(name), accounts.ErrNoUser, "revoked %q", name)
	}
	for _, name := range []bcp.AgentName{"", "a.b", "../x", "*", "gateway"} {
		_, _, err := store.Gateway(name)
		failIf(t, err == nil, "made a gateway %q", name)
	}
	changes, _, err := store.Pending(now)
	noError(t, err)
	var acts []string
	for _, c := range changes {
		acts = append(acts, fmt.Sprint(c.Act, " ", c.Agent, " ", c.Limits))
	}
	if diff := cmp.Diff([]string{
		"issue gateway [account CORE gateway one]", "issue gateway [account SYS gateway one]",
		"issue gateway [account CORE gateway two]", "issue gateway [account SYS gateway two]",
		"issue operator [account SYS]",
		"revoke gateway [account CORE gateway one]", "revoke gateway [account SYS gateway one]",
		"issue gateway [account CORE gateway one]", "issue gateway [account SYS gateway one]",
	}, acts); diff != "" {
		t.Error(diff)
	}
}

// The logins from outside are in the claims of a cluster and in no others, and those
// of inside are not in a cluster's. With the gateway and the two of the system account
// trusted, those claims leave no way past the gateway.
//
// covers A-JWTSELF, BCP-7, SUB-8, A-SYS
func TestLoginsFromOutsideAreOfAClusterAlone(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	core, system := remote(t, store, "one")
	pusher := push(t, store)
	embedded, cluster := compile(t, store, scopes()), compileCluster(t, store, scopes())
	for _, c := range []accounts.Creds{core, system, pusher} {
		user, _ := userOf(t, c)
		for _, name := range []string{accounts.Core, accounts.System} {
			_, ok := claimsOf(t, embedded, name).SigningKeys[user.Issuer]
			failIf(t, ok, "an embedded mesh lets in %s", user.Name)
		}
		found := false
		for _, name := range []string{accounts.Core, accounts.System} {
			scope, ok := claimsOf(t, cluster, name).SigningKeys[user.Issuer].(*jwt.UserScope)
			if ok {
				found = claimsOf(t, cluster, name).Subject == user.IssuerAccount
				equal(t, jwt.StringList{jwt.ConnectionTypeStandard}, scope.Template.AllowedConnectionTypes)
			}
		}
		failIf(t, !found, "a cluster does not let in %s", user.Name)
	}
	failIf(t, cluster.Gateway.JWT != "" || cluster.Monitor.JWT != "", "the bundle of a cluster has logins")
	user := must(jwt.DecodeUserClaims(embedded.Gateway.JWT))(t)
	_, ok := claimsOf(t, cluster, accounts.Core).SigningKeys[user.Issuer]
	failIf(t, ok, "a cluster lets in the gateway of an embedded mesh")
	var claims proof.Claims
	noError(t, claims.Add(strings.Join(append(tokensOf(cluster), cluster.Operator), "\n")))
	report, err := proof.Prove(claims, proof.Policy{Trusted: []string{"gateway", "monitor", "push"}})
	failIf(t, err != nil || len(report.Holes) > 0, "%v: %v", err, report.Holes)
}

// outsideServer is a stock server that enforces the claims of a bundle.
func outsideServer(t *testing.T, b accounts.Bundle) string {
	t.Helper()
	operator := must(jwt.DecodeOperatorClaims(b.Operator))(t)
	resolver := must(natsserver.NewDirAccResolver(t.TempDir(), 0, time.Hour, natsserver.NoDelete))(t)
	for _, a := range b.Accounts {
		noError(t, resolver.Store(a.PublicKey, a.JWT))
	}
	s := must(natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		TrustedOperators: []*jwt.OperatorClaims{operator}, SystemAccount: operator.SystemAccount, AccountResolver: resolver,
	}))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	stopIf(t, !s.ReadyForConnections(patience), "the server was not ready")
	return s.ClientURL()
}

func dial(url string, c accounts.Creds, inbox string, options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.UserCredentialBytes(c.Text()), nats.CustomInboxPrefix(inbox), nats.NoReconnect(), nats.Timeout(patience),
	}, options...)...)
}

func mustDial(t *testing.T, url string, c accounts.Creds, inbox string) *nats.Conn {
	t.Helper()
	nc := must(dial(url, c, inbox, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))(t)
	t.Cleanup(nc.Close)
	return nc
}

// refuses reports whether a server refuses to publish to a subject.
func refuses(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	err := nc.Publish(subject, nil)
	if err == nil {
		err = nc.FlushTimeout(patience)
	}
	noError(t, err)
	// The refusal comes before the flush is answered.
	last := nc.LastError()
	return errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), `"`+subject+`"`)
}

// On a stock server the gateway does its work in CORE and reads the claims that are
// enforced, but changes none, and cannot cut the journal; whoever pushes does that
// alone.
//
// covers A-SYS, A-JSAPI, A-JWTSELF, BCP-19
func TestServerHoldsLoginsFromOutsideToTheirScopes(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	core, system := remote(t, store, "one")
	pusher := push(t, store)
	b := compileCluster(t, store, scopes())
	url := outsideServer(t, b)

	gateway := mustDial(t, url, core, subjects.GatewayInbox)
	js := must(natsjs.New(gateway))(t)
	if _, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: subjects.JournalStream, Subjects: []string{subjects.All(subjects.KindCommit)}}); err != nil {
		t.Error(err)
	}
	must(js.Publish(t.Context(), subjects.Commit(), nil))(t)
	for _, subject := range []string{
		"$JS.API.STREAM.PURGE." + subjects.JournalStream, "$JS.API.STREAM.DELETE." + subjects.JournalStream,
		"$JS.API.STREAM.MSG.DELETE." + subjects.JournalStream, subjects.UpdateClaims, subjects.KickAt("ABC"),
	} {
		failIf(t, !refuses(t, gateway, subject), "the gateway may publish %s", subject)
	}

	monitor := mustDial(t, url, system, subjects.MonitorInbox)
	for _, pattern := range []string{subjects.Connections, subjects.Shutdowns} {
		_, err := monitor.SubscribeSync(pattern)
		failIf(t, err != nil, "%v", err)
	}
	err := monitor.FlushTimeout(patience)
	failIf(t, err != nil || monitor.LastError() != nil, "%v, %v", err, monitor.LastError())
	var tokens []string
	for _, a := range b.Accounts {
		reply := must(monitor.Request(subjects.LookupClaimsOf(a.PublicKey), nil, patience))(t)
		tokens = append(tokens, string(reply.Data))
	}
	if read, err := accounts.Enforced(b.Operator, tokens); err != nil || len(read.Differences(scopes())) > 0 {
		t.Errorf("what the server enforces: %v, %q", err, read.Differences(scopes()))
	}
	for _, subject := range []string{subjects.PingServers, subjects.PingConnections, subjects.ListClaims, subjects.PackClaims} {
		reply, err := monitor.Request(subject, nil, patience)
		failIf(t, err != nil, "%s: %v, %+v", subject, err, reply)
	}
	for _, subject := range []string{subjects.UpdateClaims, "$SYS.REQ.CLAIMS.DELETE", "$SYS.REQ.ACCOUNT.ABC.CLAIMS.UPDATE", "$SYS.ACCOUNT.ABC.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING.VARZ", "x"} {
		failIf(t, !refuses(t, monitor, subject), "the monitor may publish %s", subject)
	}

	hand := mustDial(t, url, pusher, subjects.PushInbox)
	next := compileCluster(t, store, scopes()[1:])
	controllers, _ := next.Account(accounts.Controllers)
	reply, err := hand.Request(subjects.UpdateClaims, []byte(controllers.JWT), patience)
	failIf(t, err != nil || !strings.Contains(string(reply.Data), `"code":200`), "push: %v, %s", err, reply.Data)
	for _, subject := range []string{"$SYS.REQ.CLAIMS.DELETE", subjects.PackClaims, subjects.KickAt("ABC"), "x"} {
		failIf(t, !refuses(t, hand, subject), "whoever pushes may publish %s", subject)
	}
}
