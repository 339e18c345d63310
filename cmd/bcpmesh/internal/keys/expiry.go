package keys

import (
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Expiring returns who has no creds that are good any more, and who has none for
// long, sorted; and how many have or had any. Who is not in the definitions is left
// out, if there are some.
func Expiring(users []accounts.User, def *bcp.Mesh, now time.Time) (over, soon []string, parties int) {
	type party struct {
		agent bcp.AgentName
		role  bcp.Role
	}
	last := accounts.Lasting(users)
	defined := map[party]bool{}
	if def != nil {
		for _, s := range subjects.Permissions(def) {
			defined[party{s.Agent, s.Role}] = true
		}
	}
	for _, u := range last {
		if def != nil && !defined[party{u.Agent, u.Role}] {
			continue // it is gone
		}
		switch name := string(u.Agent) + " as " + u.Role.String(); {
		case meshdir.CredsStatus(u, now) == "expired":
			over = append(over, name)
		case accounts.EndsSoon(u.Issued, u.Expires, now):
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
		o.Talkf("warning: the last creds expire soon: %s: bcpmesh creds rotate AGENT --out FILE", cli.FirstAndCount(soon))
	}
}

// ExpiringIn is what expiring says of a state folder, or nothing if it has no keys.
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
