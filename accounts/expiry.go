package accounts

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Lasting returns, of each agent or person in each role, the credentials that last longest
// of those that were not revoked, sorted by name and role.
func Lasting(users []User) []User {
	last := map[party]User{}
	for _, u := range users {
		if before, ok := last[u.party()]; u.Revoked.IsZero() && (!ok || outlives(u, before)) {
			last[u.party()] = u
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b User) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Role, b.Role))
	})
}

func outlives(a, b User) bool {
	return a.Expires.IsZero() || !b.Expires.IsZero() && a.Expires.After(b.Expires)
}

// EndsSoon is true in the last tenth of what is good for more than a day, but a
// week at most: a tenth is in proportion, a week enough for anybody, and what lives
// for a day or less is made anew by a program.
func EndsSoon(from, to, now time.Time) bool {
	life := to.Sub(from)
	return !to.IsZero() && life > 24*time.Hour && to.Sub(now) < min(life/10, 7*24*time.Hour)
}
