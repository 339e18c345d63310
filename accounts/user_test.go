package accounts_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

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

// Creds are of scoped users, and say so on record. Several are issued together or not
// at all.
//
// covers P7.5, BCP-19, BCP-7, A-JWTSELF
func TestIssue(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
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
	before := time.Now().Truncate(time.Second)
	all := must(store.IssueTo(names, 0, time.Hour))(t)
	all = append(all, must(store.Issue("main", 0, 0))(t))
	homes := map[bcp.Role]*jwt.AccountClaims{bcp.RoleReader: claimsOf(t, bundle, accounts.Readers), bcp.RoleController: claimsOf(t, bundle, accounts.Controllers)}
	var parties []string
	var users []accounts.User
	keys := map[string]bool{}
	for _, c := range all {
		user, pair := userOf(t, c)
		public := must(pair.PublicKey())(t)
		failIf(t, public != user.Subject || public != c.PublicKey, "the seed is of %s, the user is %s", public, user.Subject)
		agent, role, ok := bundle.ScopeOf(user.Issuer)
		failIf(t, !ok || c.Agent != agent || c.Role != role, "%s as %s: its issuer is of %q as %s", c.Agent, c.Role, agent, role)
		scope, ok := homes[role].SigningKeys.GetScope(user.Issuer)
		failIf(t, !ok || scope.ValidateScopedSigner(user) != nil || user.IssuerAccount != homes[role].Subject || !user.HasEmptyPermissions() || user.BearerToken,
			"not a plain user of a scope: %+v", user)
		_, _, ok = bundle.ScopeOf(user.Subject)
		failIf(t, ok, "a user's key has a scope")
		if c.Agent == "main" {
			failIf(t, user.Expires != 0 || !c.Expires.IsZero(), "a user that does not expire: %+v", user)
		} else {
			failIf(t, user.Expires != c.Expires.Unix() || c.Issued.Before(before) || c.Expires.Sub(c.Issued) != time.Hour,
				"issued %v, expires %v and %d", c.Issued, c.Expires, user.Expires)
		}
		keys[user.Subject] = true
		parties, users = append(parties, string(agent)+" "+role.String()), append(users, c.User)
	}
	failIf(t, len(keys) != len(all), "%d keys for %d users", len(keys), len(all))
	equal(t, []string{"relay controller", "relay reader", "researcher reader", "main controller"}, parties)
	equal(t, users, must(openStore(t, folder).Users())(t))
	changes, _, err := store.Pending(now)
	failIf(t, err != nil || len(changes) != len(all), "the audit will show %d of %d: %v", len(changes), len(all), err)
	revoked := []string{all[0].PublicKey, all[2].PublicKey}
	fails(t, store.Revoke(append(revoked, "U")...), accounts.ErrNoUser, "one is not on record")
	noError(t, store.Revoke(revoked...))
	users, err = store.Users()
	failIf(t, err != nil || users[0].Revoked.IsZero() || !users[1].Revoked.IsZero() || users[2].Revoked.IsZero(),
		"%+v: %v", users, err)
}
