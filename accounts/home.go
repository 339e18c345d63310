package accounts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The names of the accounts. For agents and people they are the first of their kind:
// further ones are READERS-2, READERS-3 and so on. Those of shard 1 are CORE.1,
// CONTROLLERS.1, KEEPERS.1, READERS.1, READERS.1-2 and so on; people are on all shards.
const (
	System      = "SYS"
	Core        = "CORE"
	Readers     = "READERS"
	Controllers = "CONTROLLERS"
	Keepers     = "KEEPERS"  // only if an agent has a keeper
	Planners    = "PLANNERS" // these three only if there is a kernel
	Tools       = "TOOLS"
	Dispatchers = "DISPATCH"
	Operators   = "OPERATORS"
	Joiners     = "JOIN" // of those who hold an invitation
)

var accountNames = []string{System, Core, Readers, Controllers, Operators}

// roleAccount returns the account of a role, or the empty string.
func roleAccount(r bcp.Role) string {
	switch r {
	case bcp.RoleReader, bcp.RoleSubplanner:
		return Readers
	case bcp.RoleController:
		return Controllers
	case bcp.RoleKeeper:
		return Keepers
	case bcp.RolePlanner:
		return Planners
	case bcp.RoleTool:
		return Tools
	case bcp.RoleDispatcher:
		return Dispatchers
	case bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator:
		return Operators
	}
	return ""
}

// accountName is an account's name in parts.
type accountName struct {
	kind   string // a name of accountNames, or Joiners
	shard  int
	number int // from 1; among those of a kind on a shard
}

func (n accountName) String() string {
	name := n.kind
	if n.shard > 0 {
		name += "." + strconv.Itoa(n.shard)
	}
	if n.number > 1 {
		name += "-" + strconv.Itoa(n.number)
	}
	return name
}

// parseAccount returns the parts of the name of an account of a mesh, and false for
// any other.
func parseAccount(name string) (accountName, bool) {
	rest, number, numbered := strings.Cut(name, "-")
	kind, shard, sharded := strings.Cut(rest, ".")
	n := accountName{kind: kind, number: 1}
	if numbered {
		n.number, _ = strconv.Atoi(number) // not a number: invalid
	}
	if sharded {
		n.shard, _ = strconv.Atoi(shard)
	}
	sharded, numbered = kind == Core, kind == Operators
	switch kind {
	case Readers, Controllers, Keepers, Planners, Tools, Dispatchers:
		sharded, numbered = true, true
	case Core, Operators, System, Joiners:
	default:
		return accountName{}, false
	}
	if n.shard > bcp.MaxShard || n.shard != 0 && !sharded || n.number != 1 && !numbered || n.String() != name {
		return accountName{}, false
	}
	return n, true
}

// CoreOf returns the gateway's account of a shard.
func CoreOf(shard int) string { return accountName{kind: Core, shard: shard}.String() }

// ShardOf returns the shard of an agent's or a gateway's account, and 0 for
// other accounts.
func ShardOf(account string) int {
	n, _ := parseAccount(account)
	return n.shard
}

type home struct {
	Agent   bcp.AgentName `json:"agent"`
	Role    bcp.Role      `json:"role"`
	Account string        `json:"account"`
	// Free is the first agent of its island, as long as no member was ever given creds,
	// nor a cluster their permissions: nothing can be recorded of them then, and they
	// may still move to another shard. Empty means fixed, as is everything written by
	// older versions.
	Free bcp.AgentName `json:"free,omitempty"`
}

// party is an agent, or a person, in one role.
type party struct {
	agent bcp.AgentName
	role  bcp.Role
}

// assignHomes gives every party of the scopes a home: a party that has one keeps it,
// since its creds name it, unless it is free. given makes all homes fixed.
func (st *state) assignHomes(scopes []subjects.Scope, given bool) error {
	st.releaseHomes(scopes)
	st.filled = map[string]int{}
	on := st.settled()
	for _, known := range []bool{true, false} {
		for i := range scopes {
			s := &scopes[i]
			who := party{s.Agent, s.Role}
			_, has := st.homeKnown(who)
			if has != known {
				continue
			}
			// If the agent is new in this role, the records of its other role are on
			// that shard.
			if was, settled := on[s.Agent]; settled && was != s.Shard && roleAccount(s.Role) != Operators {
				return fmt.Errorf("%w: %s is on shard %d, and was on shard %d", bcp.ErrMoved, s.Agent, s.Shard, was)
			}
			size := scopeSize(s)
			st.filled[st.homeFor(who, s.Shard, size, s.Island)] += size
		}
	}
	st.join(scopes, given)
	return nil
}

// releaseHomes forgets free homes on another shard than that of the agent in the scopes.
func (st *state) releaseHomes(scopes []subjects.Scope) {
	shards := map[bcp.AgentName]int{}
	for i := range scopes {
		if s := &scopes[i]; roleAccount(s.Role) != Operators {
			shards[s.Agent] = s.Shard
		}
	}
	st.Homes = slices.DeleteFunc(st.Homes, func(h home) bool {
		shard, ok := shards[h.Agent]
		return ok && h.Free != "" && shard != ShardOf(h.Account)
	})
	st.homes = nil
}

// join updates the islands of free homes. A home becomes fixed if any member of its
// island has a fixed one: a channel between them may have been charged.
func (st *state) join(scopes []subjects.Scope, given bool) {
	islands := map[bcp.AgentName]bcp.AgentName{}
	for i := range scopes {
		if s := &scopes[i]; roleAccount(s.Role) != Operators {
			islands[s.Agent] = s.Island
		}
	}
	kept := map[bcp.AgentName]bool{}
	for _, h := range st.Homes {
		if roleAccount(h.Role) != Operators && h.Free == "" {
			kept[islands[h.Agent]] = true
		}
	}
	for i := range st.Homes {
		h := &st.Homes[i]
		island, ok := islands[h.Agent]
		switch {
		case h.Free == "":
		case !ok: // removed, and not part of a new island
			h.Free = h.Agent
		case given || kept[island]:
			h.Free = ""
		default:
			h.Free = island
		}
	}
}

// keepHomes makes the homes of a party, and of its island, fixed.
func (st *state) keepHomes(who party) {
	i, ok := st.homeKnown(who)
	if !ok || st.Homes[i].Free == "" {
		return
	}
	island := st.Homes[i].Free
	for i := range st.Homes {
		if st.Homes[i].Free == island {
			st.Homes[i].Free = ""
		}
	}
}

// scopeSize estimates a scope's size in its account's JWT, in bytes.
func scopeSize(s *subjects.Scope) int {
	const base, each = 320, 3 // its keys and limits; quotes and a comma
	n := base
	for _, list := range [][]string{s.PubAllow, s.SubAllow} {
		for _, subject := range list {
			n += len(subject) + each
		}
	}
	return (n*4 + 2) / 3 // base64
}

// assignHome returns the account of a party. If it has none, it gets the first with
// room, and that home is fixed.
func (st *state) assignHome(who party) string { return st.homeFor(who, 0, 0, "") }

// homeKnown returns the place of a party's home in the list.
func (st *state) homeKnown(who party) (at int, ok bool) {
	if st.homes == nil {
		st.homes, st.taken = map[party]int{}, map[string]int{}
		for i, h := range st.Homes {
			st.homes[party{h.Agent, h.Role}] = i
			st.taken[h.Account]++
		}
	}
	at, ok = st.homes[who]
	return at, ok
}

// homeFor is assignHome with the shard of a party without a home, the size of its claims,
// and the island in which it is free.
func (st *state) homeFor(who party, shard, size int, free bcp.AgentName) string {
	if at, ok := st.homeKnown(who); ok {
		return st.Homes[at].Account
	}
	n := accountName{kind: roleAccount(who.role), shard: shard, number: 1}
	account := n.String()
	full := func() bool {
		return st.taken[account] >= AgentsPerAccount || st.filled[account] > 0 && st.filled[account]+size > accountRoom
	}
	for full() {
		n.number++
		account = n.String()
	}
	st.homes[who] = len(st.Homes)
	st.taken[account]++
	st.Homes = append(st.Homes, home{Agent: who.agent, Role: who.role, Account: account, Free: free})
	return account
}

// accounts returns the names of all accounts except that of invitations.
func (st *state) accounts() []string {
	names := slices.Clone(accountNames)
	for _, h := range st.Homes {
		names = append(names, h.Account)
		if shard := ShardOf(h.Account); shard > 0 {
			names = append(names, CoreOf(shard))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// shards returns the numbers of the shards with accounts.
func (st *state) shards() []int {
	var numbers []int
	for _, name := range st.accounts() {
		if n, _ := parseAccount(name); n.kind == Core {
			numbers = append(numbers, n.shard)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// Settled returns the shard of each agent with a fixed account, even if its definition
// was removed.
func (s *Store) Settled() (map[bcp.AgentName]int, error) {
	st, err := s.load()
	if err != nil {
		return nil, err
	}
	return st.settled(), nil
}

func (st *state) settled() map[bcp.AgentName]int {
	shards := map[bcp.AgentName]int{}
	for _, h := range st.Homes {
		if n, _ := parseAccount(h.Account); h.Free == "" && (n.kind == Readers || n.kind == Controllers || n.kind == Keepers) {
			shards[h.Agent] = n.shard
		}
	}
	return shards
}
