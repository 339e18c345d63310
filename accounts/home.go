package accounts

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The names of the accounts. For agents and people they are the first of their kind:
// further ones are READERS-2, READERS-3 and so on.
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

// roleAccounts are the accounts of the roles.
var roleAccounts = map[bcp.Role]string{
	bcp.RoleReader: Readers, bcp.RoleSubplanner: Readers, bcp.RoleController: Controllers, bcp.RoleKeeper: Keepers,
	bcp.RolePlanner: Planners, bcp.RoleTool: Tools, bcp.RoleDispatcher: Dispatchers,
	bcp.RoleApprover: Operators, bcp.RoleAuditor: Operators, bcp.RoleOperator: Operators,
}

// kindOf returns a name of accountNames or roleAccounts, or Joiners, for the name of an account of a mesh, and false for
// any other.
func kindOf(account string) (kind string, ok bool) {
	kind, number, numbered := strings.Cut(account, "-")
	ok = slices.Contains(slices.Collect(maps.Values(roleAccounts)), kind)
	if n, _ := strconv.Atoi(number); numbered { // not a number: 0
		ok = ok && n > 1 && strconv.Itoa(n) == number
	} else {
		ok = ok || kind == Core || kind == System || kind == Joiners
	}
	if !ok {
		return "", false
	}
	return kind, true
}

type home struct {
	Agent   bcp.AgentName `json:"agent"`
	Role    bcp.Role      `json:"role"`
	Account string        `json:"account"`
}

// party is an agent, or a person, in one role.
type party struct {
	agent bcp.AgentName
	role  bcp.Role
}

// assignHomes gives every party of the scopes a home: a party that has one keeps it,
// since its creds name it.
func (st *state) assignHomes(scopes []subjects.Scope) {
	st.filled = map[string]int{}
	for _, known := range []bool{true, false} {
		for i := range scopes {
			s := &scopes[i]
			who := party{s.Agent, s.Role}
			if _, has := st.homeKnown(who); has != known {
				continue
			}
			size := scopeSize(s)
			st.filled[st.homeFor(who, size)] += size
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

// homeFor returns the account of a party. If it has none, it gets the first with room for
// its claims of a size.
func (st *state) homeFor(who party, size int) string {
	if at, ok := st.homeKnown(who); ok {
		return st.Homes[at].Account
	}
	kind := roleAccounts[who.role]
	account := kind
	full := func() bool {
		return st.taken[account] >= AgentsPerAccount || st.filled[account] > 0 && st.filled[account]+size > accountRoom
	}
	for n := 2; full(); n++ {
		account = kind + "-" + strconv.Itoa(n)
	}
	st.homes[who] = len(st.Homes)
	st.taken[account]++
	st.Homes = append(st.Homes, home{Agent: who.agent, Role: who.role, Account: account})
	return account
}

// accounts returns the names of all accounts except that of invitations.
func (st *state) accounts() []string {
	names := slices.Clone(accountNames)
	for _, h := range st.Homes {
		names = append(names, h.Account)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
