package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
)

// What a check says at each of its limits.
func TestDoctorAtItsLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC)
	user := func(issued, expires time.Duration) accounts.User {
		u := accounts.User{Agent: "main", Role: bcp.RoleController, Issued: now.Add(issued)}
		if expires != 0 {
			u.Expires = now.Add(expires)
		}
		return u
	}
	revoked := user(-time.Hour, 0)
	revoked.Revoked = now
	const day = 24 * time.Hour
	file := func(issued, expires time.Duration) *accounts.Holder {
		u := &accounts.Holder{Issued: now.Add(issued)}
		if expires != 0 {
			u.Expires = now.Add(expires)
		}
		return u
	}
	for name, tt := range map[string]struct {
		check func(*checkup)
		want  health
	}{
		"the clock a minute behind":   {func(c *checkup) { c.clock(now.Add(skew), "x") }, healthy},
		"the clock more behind":       {func(c *checkup) { c.clock(now.Add(skew+time.Second), "x") }, failed},
		"half of an account's claims": {func(c *checkup) { c.size(accounts.MaxAccountJWT / 2) }, healthy},
		"more than half":              {func(c *checkup) { c.size(accounts.MaxAccountJWT/2 + 1) }, warned},
		"all of an account's claims":  {func(c *checkup) { c.size(accounts.MaxAccountJWT) }, warned},
		"more than all":               {func(c *checkup) { c.size(accounts.MaxAccountJWT + 1) }, failed},
		"a disk with room":            {func(c *checkup) { c.storage(status.Storage{DiskFree: 21, DiskSize: 100}) }, healthy},
		"a disk that is low":          {func(c *checkup) { c.storage(status.Storage{DiskFree: 20, DiskSize: 100}) }, warned},
		"a full disk":                 {func(c *checkup) { c.storage(status.Storage{DiskFree: 5, DiskSize: 100}) }, failed},
		"a full journal":              {func(c *checkup) { c.storage(status.Storage{Journal: 95, JournalLimit: 100}) }, failed},
		"creds for ever":              {func(c *checkup) { c.expiry([]accounts.User{user(-day, 0)}, nil) }, healthy},
		"creds of an hour":            {func(c *checkup) { c.expiry([]accounts.User{user(-time.Hour, time.Second)}, nil) }, healthy},
		"creds that have expired":     {func(c *checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second)}, nil) }, warned},
		"others that are good":        {func(c *checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second), user(-time.Hour, day)}, nil) }, healthy},
		"revoked creds alone":         {func(c *checkup) { c.expiry([]accounts.User{revoked}, nil) }, healthy},
		"creds in their last tenth":   {func(c *checkup) { c.expiry([]accounts.User{user(-19*day, day)}, nil) }, warned},
		"creds before that":           {func(c *checkup) { c.expiry([]accounts.User{user(-8*day, 2*day)}, nil) }, healthy},
		"an agent that is gone":       {func(c *checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second)}, &bcp.Mesh{}) }, healthy},
		"a file for ever":             {func(c *checkup) { c.credsEnd(file(-day, 0)) }, healthy},
		"a file's last second":        {func(c *checkup) { c.credsEnd(file(-time.Hour, time.Second)) }, healthy},
		"a file that has expired":     {func(c *checkup) { c.credsEnd(file(-time.Hour, -time.Second)) }, failed},
		"a file in its last tenth":    {func(c *checkup) { c.credsEnd(file(-19*day, day)) }, warned},
	} {
		c := &checkup{now: now}
		tt.check(c)
		if len(c.Findings) != 1 || c.Findings[0].Health != tt.want || (tt.want == healthy) != (c.Findings[0].Todo == "") {
			t.Errorf("%s: %+v, want %s", name, c.Findings, tt.want)
		}
	}
}

// To look for creds that end soon takes work in proportion to a mesh: at each start
// it is done for thousands of agents, and nothing else of the command goes on.
//
// covers BCP-19
func TestLookingForExpiryIsLinear(t *testing.T) {
	now := time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC)
	work := func(agents int) float64 {
		def, users := &bcp.Mesh{}, []accounts.User{}
		for i := range agents {
			name := bcp.AgentName(fmt.Sprintf("reader-%d", i))
			def.Agents = append(def.Agents, bcp.Agent{Name: name, Reader: true})
			users = append(users, accounts.User{Agent: name, Role: bcp.RoleReader, Issued: now, Expires: now})
		}
		return testing.AllocsPerRun(1, func() {
			if over, _, parties := keys.Expiring(users, def, now); len(over) != agents || parties != agents {
				t.Fatalf("%d of %d have expired", len(over), parties)
			}
		})
	}
	if few, many := work(50), work(500); many > 20*few {
		t.Errorf("%.0f allocations for 50 agents, %.0f for 500", few, many)
	}
}
