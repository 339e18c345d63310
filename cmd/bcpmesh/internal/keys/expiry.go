package keys

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/client"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Expiring returns who has no creds that are good any more, and who has none for
// long, sorted; and how many have or had any. Who is not in the definitions is left
// out, where there are some.
func Expiring(users []accounts.User, def *bcp.Mesh, now time.Time) (over, soon []string, parties int) {
	type party struct {
		agent bcp.AgentName
		role  bcp.Role
	}
	last := map[party]accounts.User{}
	for _, u := range users {
		who := party{u.Agent, u.Role}
		if before, ok := last[who]; u.Revoked.IsZero() && (!ok || outlives(u, before)) {
			last[who] = u
		}
	}
	defined := map[party]bool{}
	if def != nil {
		for _, s := range subjects.Permissions(def) {
			defined[party{s.Agent, s.Role}] = true
		}
	}
	for who, u := range last {
		if def != nil && !defined[who] {
			continue // it is gone
		}
		switch name := string(who.agent) + " as " + who.role.String(); {
		case statusOf(u, now) == "expired":
			over = append(over, name)
		case EndsSoon(u.Issued, u.Expires, now):
			soon = append(soon, name+" in "+client.Within(u.Expires.Sub(now)))
		}
	}
	slices.Sort(over)
	slices.Sort(soon)
	return over, soon, len(last)
}

// WarnOfExpiry tells whose last creds do not last.
func WarnOfExpiry(o *cli.Output, soon []string) {
	if len(soon) > 0 {
		o.Talkf("warning: the last creds expire of %s: bcpmesh creds rotate AGENT --out FILE", cli.FirstOf(soon))
	}
}

// ExpiringIn is what expiring says of a state folder, or nothing where it has no keys.
func ExpiringIn(state string, def *bcp.Mesh) []string {
	store, err := accounts.Open(state)
	if err != nil {
		return nil
	}
	users, err := store.Users()
	if err != nil {
		return nil
	}
	_, soon, _ := Expiring(users, def, time.Now())
	return soon
}

func outlives(a, b accounts.User) bool {
	return a.Expires.IsZero() || !b.Expires.IsZero() && a.Expires.After(b.Expires)
}

// EndsSoon is true in the last tenth of what is good for more than a day, but a
// week at most: a tenth is in proportion, a week enough for anybody, and what lives
// for a day or less is made anew by a program.
func EndsSoon(from, to, now time.Time) bool {
	life := to.Sub(from)
	return !to.IsZero() && life > 24*time.Hour && to.Sub(now) < min(life/10, 7*24*time.Hour)
}
