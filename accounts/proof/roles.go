package proof

import (
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Sighting is one cell of the isolation matrix, as the claims have it.
type Sighting struct {
	Role   contract.Role   `json:"role"`
	Column contract.Column `json:"column"`
	// Sees is what an agent or person of the role can see according to the permissions,
	// and May the maximum that the matrix allows. Permissions do not show that the
	// orchestrator decides by metadata.
	Sees contract.Sight `json:"sees"`
	May  contract.Sight `json:"may"`
}

// Passage is one of the ways between roles, and whether anybody can use it.
type Passage struct {
	From   contract.Role `json:"from"`
	To     contract.Role `json:"to"`
	Family string        `json:"family"`
	Open   bool          `json:"open"`
}

// carrier is a family of subjects that belongs to one edge between roles.
type carrier struct {
	pattern pattern
	column  contract.Column // its column of the matrix, or nothing
	// One end of the edge is the orchestrator. speaks is the role that sends to
	// it, and hears the role to which it sends; one of them is empty.
	speaks, hears contract.Role
	family        string
}

// carriers are the subjects of the eight edges, in the order of [contract.Edges].
var carriers = func() []carrier {
	list := []carrier{
		{pattern: parsePattern(subjects.All(subjects.KindRun)), column: contract.UserQuery, speaks: contract.User},
		{pattern: parsePattern(subjects.All(subjects.KindPlan)), column: contract.UserQuery, hears: contract.Planner},
		{pattern: parsePattern(subjects.Replies(bcp.RolePlanner)), column: contract.Plan, speaks: contract.Planner},
		{pattern: parsePattern(subjects.All(subjects.KindCall)), hears: contract.Tool},
		{pattern: parsePattern(subjects.Replies(bcp.RoleTool)), column: contract.ToolOutputs, speaks: contract.Tool},
		{pattern: parsePattern(subjects.All(subjects.KindQuery)), column: contract.ExternalData, hears: contract.Processor},
		{pattern: parsePattern(subjects.Replies(bcp.RoleReader)), speaks: contract.Processor},
		{pattern: parsePattern(subjects.DeliveriesTo(bcp.RoleController)), hears: contract.User},
	}
	for i, e := range contract.Edges() {
		list[i].family = e.Family
	}
	// A sub-planner is a processor: its requests contain content.
	subplan := list[5]
	subplan.pattern = parsePattern(subjects.All(subjects.KindSubplan))
	answer := list[6]
	answer.pattern = parsePattern(subjects.Replies(bcp.RoleSubplanner))
	return append(list, subplan, answer)
}()

// role returns the role of an agent or a person. Whoever is in an account of those who
// are trusted, without being one, is taken for the orchestrator.
func (p *principal) role() contract.Role {
	role := RoleOf(p.name)
	if role == "" && p.account.guarded {
		return contract.Orchestrator
	}
	return role
}

// RoleOf returns the role of an agent or person from the name of its scope, such
// as planner-ann; empty for others.
func RoleOf(name string) contract.Role { return played[parseIdentity(name).role] }

var played = map[bcp.Role]contract.Role{
	bcp.RolePlanner: contract.Planner, bcp.RoleReader: contract.Processor, bcp.RoleSubplanner: contract.Processor, bcp.RoleTool: contract.Tool,
	bcp.RoleController: contract.User, bcp.RoleApprover: contract.User, bcp.RoleAuditor: contract.User, bcp.RoleOperator: contract.User,
}

// roles collects the results about roles.
type roles struct {
	*prover
	sees  map[contract.Role]map[contract.Column]contract.Sight
	open  map[string]bool // edges, by their family
	found map[string]bool
}

func newRoles(v *prover) *roles {
	r := &roles{prover: v, sees: map[contract.Role]map[contract.Column]contract.Sight{}, open: map[string]bool{}, found: map[string]bool{}}
	for _, role := range contract.Roles() {
		r.sees[role] = map[contract.Column]contract.Sight{}
	}
	return r
}

// note adds a hole, once for each pair of names and the data that passes between them.
func (v *roles) note(h Hole) {
	key := strings.Join([]string{h.From, h.To, string(h.Role), string(h.Column), string(h.ToRole)}, " ")
	if !v.found[key] {
		v.found[key] = true
		v.hole(h)
	}
}

// addSight notes what a role sees; the greater of two counts.
func (v *roles) addSight(role contract.Role, column contract.Column, sees contract.Sight) {
	if of := v.sees[role]; of != nil && column != "" && of[column] != contract.SeesAll {
		of[column] = sees
	}
}

// judge compares the roles with the matrix and the edges, from what each principal
// reaches.
func (v *roles) judge(reached []reach) error {
	for i := range reached {
		v.checkPublisher(&reached[i])
	}
	for _, a := range v.order {
		if !a.guarded || a.system {
			continue
		}
		for i := range carriers {
			if err := v.followTrusted(a, &carriers[i]); err != nil {
				return err
			}
		}
	}
	v.two()
	for _, cell := range contract.Matrix() {
		sees := contract.SeesNot
		if s, ok := v.sees[cell.Role][cell.Column]; ok {
			sees = s
		}
		v.report.Matrix = append(v.report.Matrix, Sighting{cell.Role, cell.Column, sees, cell.Sees})
	}
	for _, e := range contract.Edges() {
		v.report.Edges = append(v.report.Edges, Passage{e.From, e.To, e.Family, v.open[e.Family]})
	}
	return nil
}

// checkPublisher checks what an agent publishes: whom it reaches, and with what data.
func (v *roles) checkPublisher(reached *reach) {
	from, role := reached.from, reached.from.role()
	carried := map[*carrier][]pattern{} // published messages of each carrier
	for _, s := range reached.stations {
		if !s.account.guarded || s.account.system {
			continue
		}
		for i := range carriers {
			c := &carriers[i]
			r := s.region.restrict(c.pattern).without(v.through)
			if r.empty() {
				continue
			}
			carried[c] = append(carried[c], s.back(r.pattern))
			last := Step{Account: s.account.name, Subject: r.pattern.String(), How: "request", Who: "the orchestrator"}
			foreign := r.without(from.entrances)
			switch {
			case c.hears != "":
				h := s.hole(from, Roles, string(c.hears), r, last)
				h.Role, h.ToRole = role, c.hears
				v.note(h)
			case c.speaks != role || !foreign.empty():
				h := s.hole(from, Roles, "the orchestrator as "+string(c.speaks), r, last)
				h.Role, h.ToRole = role, contract.Orchestrator
				v.note(h)
			default:
				v.open[c.family] = true
				v.addSight(role, c.column, contract.SeesOwn)
			}
		}
		if journal := s.region.restrict(journalReads); !journal.empty() && from.agent.person() {
			for _, column := range contract.Columns() {
				v.addSight(contract.User, column, contract.SeesAll)
			}
		}
	}
	for _, h := range reached.hits {
		v.checkListener(from, h, carried)
	}
}

// journalReads is how the journal is read, in the gateway's account.
var journalReads = parsePattern(subjects.DirectGet(subjects.JournalStream))

// checkListener checks one agent that can receive what another publishes.
func (v *roles) checkListener(from *principal, hit hit, carried map[*carrier][]pattern) {
	to, both := hit.to, hit.region.without(v.through)
	if both.empty() {
		return
	}
	last := Step{Account: to.account.name, Subject: both.pattern.String(), How: "subscribe", Who: to.name}
	h := hit.at.hole(from, Roles, to.name, both, last)
	origin := hit.at.back(both.pattern)
	for i := range carriers {
		c := &carriers[i]
		if c.column == "" || !slices.ContainsFunc(carried[c], func(p pattern) bool { return p.intersect(origin) != nil }) {
			continue
		}
		v.addSight(to.role(), c.column, contract.SeesAll)
		hears := h
		hears.Role, hears.Column = to.role(), c.column
		v.note(hears)
	}
	if h.Role, h.ToRole = from.role(), to.role(); h.Role != "" && h.ToRole != "" {
		v.note(h)
	}
}

// followTrusted follows the messages of a carrier to their receivers in a
// trusted account: those from the orchestrator, and those to it.
func (v *roles) followTrusted(a *account, c *carrier) error {
	gateway := &principal{name: "the orchestrator", account: a}
	first := &station{account: a, region: region{pattern: c.pattern}, how: "publish"}
	stations := []*station{first}
	for _, m := range a.mappings {
		stations = append(stations, &station{account: a, region: m.image(first.region), before: first, by: m, how: "mapping"})
	}
	for _, trusted := range v.trusted {
		if trusted.account == a && slices.ContainsFunc(trusted.subscribe, func(r region) bool { return !r.restrict(c.pattern).empty() }) {
			v.addSight(contract.Orchestrator, c.column, contract.SeesAll)
		}
	}
	return v.walkFrom(stations, func(s *station) {
		for _, to := range s.account.users {
			for _, r := range to.subscribe {
				both := s.region.intersect(r).without(v.through)
				if both.empty() {
					continue
				}
				role := to.role()
				foreign := region{pattern: s.back(both.pattern)}.without(to.outlets)
				if c.hears == role && foreign.empty() {
					v.open[c.family] = true
					v.addSight(role, c.column, contract.SeesAll)
					continue
				}
				v.addSight(role, c.column, contract.SeesAll)
				h := s.hole(gateway, Roles, to.name, both, Step{Account: s.account.name, Subject: both.pattern.String(), How: "subscribe", Who: to.name})
				if h.Role, h.Column = role, c.column; c.column == "" {
					h.Role, h.ToRole = contract.Orchestrator, role
				}
				v.note(h)
			}
		}
	})
}

// two finds agents with two roles. A Reader may also be a Controller: what it starts
// is as tainted as it is.
func (v *roles) two() {
	for i, p := range v.principals {
		for _, q := range v.principals[:i] {
			if p.agent.agent != q.agent.agent || p.account.operator != q.account.operator {
				continue
			}
			a, b := p.role(), q.role()
			apart := func(role contract.Role) bool { return role == contract.Planner || role == contract.Tool }
			if a == b || a == "" || b == "" || !apart(a) && !apart(b) {
				continue
			}
			h := Hole{Claim: Roles, From: q.name, To: p.name, Role: b, ToRole: a}
			for _, each := range []*principal{q, p} {
				for _, r := range each.subscribe {
					h.Way = append(h.Way, Step{Account: each.account.name, Subject: r.pattern.String(), How: "subscribe", Who: each.name})
				}
			}
			v.note(h)
		}
	}
}

// back returns the subjects whose publications arrive at s on subjects of p; if a
// mapping is not followed exactly, possibly more.
func (s *station) back(p pattern) pattern {
	for at := s; at.before != nil; at = at.before {
		p = at.by.origin(at.before.region.pattern, p)
	}
	return p
}
