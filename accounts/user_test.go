package accounts_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// covers A-JWTSELF, BCP-7
func TestIssueMakesAScopedUser(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	bundle := compile(t, store, scopes())
	before := time.Now().Truncate(time.Second)
	creds := must(store.Issue("relay", bcp.RoleReader, time.Hour))(t)
	user, pair := userOf(t, creds)
	if public, err := pair.PublicKey(); err != nil || public != user.Subject || public != creds.PublicKey {
		t.Errorf("the seed is of %s, the user is %s: %v", public, user.Subject, err)
	}
	readers := claimsOf(t, bundle, accounts.Readers)
	failIf(t, user.IssuerAccount != readers.Subject || !user.HasEmptyPermissions() || user.BearerToken,
		"not a plain scoped user: %+v", user)
	scope, ok := readers.SigningKeys.GetScope(user.Issuer)
	failIf(t, !ok || scope.ValidateScopedSigner(user) != nil, "no scope stands behind it: %v", scope)
	agent, role, ok := bundle.ScopeOf(user.Issuer)
	failIf(t, agent != "relay" || role != bcp.RoleReader || !ok, "its issuer is of %q as %v, %t", agent, role, ok)
	agent, role, ok = bundle.ScopeOf(user.Subject)
	failIf(t, ok, "a user's key is the scope of %q as %v", agent, role)
	failIf(t, user.Expires != creds.Expires.Unix() || creds.Issued.Before(before) || creds.Expires.Sub(creds.Issued) != time.Hour,
		"issued %v, expires %v and %d", creds.Issued, creds.Expires, user.Expires)
	second := must(store.Issue("relay", bcp.RoleController, 0))(t)
	if user, _ := userOf(t, second); user.Expires != 0 || !second.Expires.IsZero() || second.PublicKey == creds.PublicKey {
		t.Errorf("the second user: %+v", user)
	}
	again := openStore(t, folder)
	users, err := again.Users()
	diff := cmp.Diff([]accounts.User{creds.User, second.User}, users)
	failIf(t, err != nil || diff != "", "on record: %s, %v", diff, err)
}

// covers P1.1, A-SUBJTOK
func TestIssueRefusesWhatThereIsNot(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	fails(t, errorOf(store.Issue("main", 0, 0)), accounts.ErrUnknown, "issued before anything was compiled")
	compile(t, store, scopes())
	for _, c := range []struct {
		agent bcp.AgentName
		role  bcp.Role
		says  string // empty: issued
	}{
		{"main", 0, ""},
		{"main", bcp.RoleController, ""},
		{"main", bcp.RoleReader, "main is not a reader; it has: controller"},
		{"main", 99, "main is not a invalid; it has: controller"},
		{"relay", 0, "relay has several roles, name one: controller, reader"},
		{"relay", bcp.RoleReader, ""},
		{"alice", 0, "alice has several roles, name one: approver, auditor"},
		{"alice", bcp.RoleAuditor, ""},
		{"Nobody\x1b[31m", 0, "alice (approver), alice (auditor), main (controller), operator (operator), relay (controller), relay (reader), researcher (reader)"},
		{"", 0, "it has alice (approver)"},
		{"gateway", 0, "it has alice (approver)"},
	} {
		_, err := store.Issue(c.agent, c.role, 0)
		if c.says == "" {
			failIf(t, err != nil, "%q as %v: %v", c.agent, c.role, err)
			continue
		}
		failIf(t, !errors.Is(err, accounts.ErrUnknown) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\x1b"),
			"%q as %v: %v", c.agent, c.role, err)
	}
	for expires, ok := range map[time.Duration]bool{-1: false, time.Second - 1: false, time.Second: true} {
		_, err := store.Issue("main", 0, expires)
		failIf(t, (err == nil) != ok, "expires %v: %v", expires, err)
	}
	// An agent that a later definition does not have gets nothing more.
	compile(t, store, scopes()[:1])
	fails(t, errorOf(store.Issue("main", 0, 0)), accounts.ErrUnknown, "issued for an agent that is gone")
}

// covers A-REVOKED
func TestRevokeIsInTheNextClaims(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	first := compile(t, store, scopes())
	creds := must(store.Issue("researcher", 0, 0))(t)
	fails(t, store.Revoke("UNKNOWN"), nil, "revoked what was never issued")
	for range 2 {
		noError(t, store.Revoke(creds.PublicKey))
	}
	user, _ := userOf(t, creds)
	second := compile(t, store, scopes())
	claims := claimsOf(t, second, accounts.Readers)
	failIf(t, !claims.IsClaimRevoked(user), "not revoked: %v", claims.Revocations)
	for _, name := range []string{accounts.Core, accounts.Controllers, accounts.Operators} {
		expect(t, cmp.Diff(jwt.RevocationList(nil), claimsOf(t, second, name).Revocations), "", "%s", name)
		before, _ := first.Account(name)
		after, _ := second.Account(name)
		failIf(t, after.Digest != before.Digest, "%s changed", name)
	}
	short := must(store.Issue("researcher", 0, time.Hour))(t)
	noError(t, store.Revoke(short.PublicKey))
	for at, want := range map[time.Time]int{short.Expires.Add(24*time.Hour - 1): 2, short.Expires.Add(24 * time.Hour): 1} {
		third := must(accounts.Compile(store, scopes(), at))(t)
		got := claimsOf(t, third, accounts.Readers).Revocations
		failIf(t, len(got) != want, "at %v: %v", at, got)
	}
	before, _ := first.Account(accounts.Readers)
	after, _ := second.Account(accounts.Readers)
	failIf(t, after.Digest == before.Digest, "READERS did not change")
}

// Several are issued together or not at all.
//
// covers P7.5, BCP-19, BCP-7, A-JWTSELF
func TestIssueTo(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	bundle := compile(t, store, scopes())
	for name, try := range map[string]func() ([]accounts.Creds, error){
		"one is not there": func() ([]accounts.Creds, error) { return store.IssueTo([]bcp.AgentName{"main", "nobody"}, 0, 0) },
		"one is not in a role": func() ([]accounts.Creds, error) {
			return store.IssueTo([]bcp.AgentName{"relay", "main"}, bcp.RoleReader, 0)
		},
	} {
		made, err := try()
		failIf(t, !errors.Is(err, accounts.ErrUnknown) || len(made) > 0, "%s: %d made, %v", name, len(made), err)
	}
	names := []bcp.AgentName{"relay", "researcher"}
	fails(t, errorOf(store.IssueTo(names, 0, time.Second-1)), nil, "issued for less than a second")
	made, err := store.IssueTo(names, 0, 0, accounts.Restricted(accounts.Restriction{Sources: []netip.Prefix{{}}}))
	failIf(t, err == nil || len(made) > 0, "with a restriction that is none: %d, %v", len(made), err)
	all := must(store.IssueTo(names, 0, time.Hour))(t)
	var parties []string
	var users []accounts.User
	keys := map[string]bool{}
	for _, c := range all {
		user, _ := userOf(t, c)
		agent, role, ok := bundle.ScopeOf(user.Issuer)
		failIf(t, !ok || c.Agent != agent || c.Role != role, "%s as %s: its issuer is of %q as %s", c.Agent, c.Role, agent, role)
		keys[user.Subject] = true
		parties, users = append(parties, string(agent)+" "+role.String()), append(users, c.User)
	}
	failIf(t, len(keys) != len(all), "%d keys for %d users", len(keys), len(all))
	equal(t, []string{"relay controller", "relay reader", "researcher reader"}, parties)
	recorded, err := store.Users()
	diff := cmp.Diff(users, recorded)
	failIf(t, err != nil || diff != "", "on record: %s, %v", diff, err)
	changes, _, err := store.Pending(now)
	failIf(t, err != nil || len(changes) != len(all), "the audit will show %d of %d: %v", len(changes), len(all), err)
	revoked := []string{all[0].PublicKey, all[2].PublicKey}
	fails(t, store.Revoke(append(revoked, "U")...), accounts.ErrNoUser, "one is not on record")
	noError(t, store.Revoke(revoked...))
	users, err = store.Users()
	failIf(t, err != nil || users[0].Revoked.IsZero() || !users[1].Revoked.IsZero() || users[2].Revoked.IsZero(),
		"%+v: %v", users, err)
}
