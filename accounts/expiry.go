package accounts

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Lasting returns, for each agent or person in each role, the unrevoked credentials that
// last longest, sorted by name and role.
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

// EndsSoon reports whether now is in the last tenth, and at most the last week, of
// a lifetime of more than a day. Credentials that live a day or less are renewed by
// programs.
func EndsSoon(from, to, now time.Time) bool {
	life := to.Sub(from)
	return !to.IsZero() && life > 24*time.Hour && to.Sub(now) < min(life/10, 7*24*time.Hour)
}
