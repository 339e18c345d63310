package mesh

import (
	"fmt"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
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
		check func(*Checkup)
		want  Health
	}{
		"the clock a minute behind":   {func(c *Checkup) { c.Clock(now.Add(skew), "x") }, Healthy},
		"the clock more behind":       {func(c *Checkup) { c.Clock(now.Add(skew+time.Second), "x") }, Failed},
		"half of an account's claims": {func(c *Checkup) { c.size(accounts.MaxAccountJWT / 2) }, Healthy},
		"more than half":              {func(c *Checkup) { c.size(accounts.MaxAccountJWT/2 + 1) }, Warned},
		"all of an account's claims":  {func(c *Checkup) { c.size(accounts.MaxAccountJWT) }, Warned},
		"more than all":               {func(c *Checkup) { c.size(accounts.MaxAccountJWT + 1) }, Failed},
		"a disk with room":            {func(c *Checkup) { c.Storage(status.Storage{DiskFree: 21, DiskSize: 100}) }, Healthy},
		"a disk that is low":          {func(c *Checkup) { c.Storage(status.Storage{DiskFree: 20, DiskSize: 100}) }, Warned},
		"a full disk":                 {func(c *Checkup) { c.Storage(status.Storage{DiskFree: 5, DiskSize: 100}) }, Failed},
		"a full journal":              {func(c *Checkup) { c.Storage(status.Storage{Journal: 95, JournalLimit: 100}) }, Failed},
		"creds for ever":              {func(c *Checkup) { c.expiry([]accounts.User{user(-day, 0)}, nil) }, Healthy},
		"creds of an hour":            {func(c *Checkup) { c.expiry([]accounts.User{user(-time.Hour, time.Second)}, nil) }, Healthy},
		"creds that have expired":     {func(c *Checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second)}, nil) }, Warned},
		"others that are good":        {func(c *Checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second), user(-time.Hour, day)}, nil) }, Healthy},
		"revoked creds alone":         {func(c *Checkup) { c.expiry([]accounts.User{revoked}, nil) }, Healthy},
		"creds in their last tenth":   {func(c *Checkup) { c.expiry([]accounts.User{user(-19*day, day)}, nil) }, Warned},
		"creds before that":           {func(c *Checkup) { c.expiry([]accounts.User{user(-8*day, 2*day)}, nil) }, Healthy},
		"an agent that is gone":       {func(c *Checkup) { c.expiry([]accounts.User{user(-day, 0-time.Second)}, &bcp.Mesh{}) }, Healthy},
		"a file for ever":             {func(c *Checkup) { c.CredsEnd(file(-day, 0)) }, Healthy},
		"a file's last second":        {func(c *Checkup) { c.CredsEnd(file(-time.Hour, time.Second)) }, Healthy},
		"a file that has expired":     {func(c *Checkup) { c.CredsEnd(file(-time.Hour, -time.Second)) }, Failed},
		"a file in its last tenth":    {func(c *Checkup) { c.CredsEnd(file(-19*day, day)) }, Warned},
	} {
		c := &Checkup{Now: now}
		tt.check(c)
		if len(c.Findings) != 1 || c.Findings[0].Health != tt.want || (tt.want == Healthy) != (c.Findings[0].Todo == "") {
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
			if over, _, parties := Expiring(users, def, now); len(over) != agents || parties != agents {
				t.Fatalf("%d of %d have expired", len(over), parties)
			}
		})
	}
	if few, many := work(50), work(500); many > 20*few {
		t.Errorf("%.0f allocations for 50 agents, %.0f for 500", few, many)
	}
}
