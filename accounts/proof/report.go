package proof

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// Claim is one property of a set of claims that is proved. The words are part of
// the contract; their order is that of a report.
type Claim string

// What is shown.
const (
	// Agents: nothing that an agent publishes reaches another one.
	Agents Claim = "agents"
	// Gateway: an agent reaches trusted parties only on its own subjects.
	Gateway Claim = "gateway"
	// Streams: no agent reaches JetStream or the subjects of the streams, except
	// for the reading that people may do.
	Streams Claim = "streams"
	// System: no agent reaches the system account or its services.
	System Claim = "system"
	// Hearing: no agent receives what is sent to another.
	Hearing Claim = "hearing"
	// Effects: each call of a tool has one publisher, the dispatcher of its kernel and
	// tool, which may publish nothing else. This applies to trusted parties too.
	Effects Claim = "effects"
	// Roles: each role of a kernel receives only what the isolation matrix allows, and
	// sends only along its edges (package contract).
	Roles Claim = "roles"
	// Meshes: no account of one mesh has a way into an account of another on the same
	// servers; a mesh is what one operator has signed.
	Meshes Claim = "meshes"
	// Issuers: users have the permissions of a scope, and need the key to which
	// they were issued.
	Issuers Claim = "issuers"
)

// texts say what each claim is.
var texts = map[Claim]string{
	Agents:  "nothing that an agent publishes reaches another one",
	Gateway: "an agent reaches the gateway on its own subjects alone",
	Streams: "no agent reaches JetStream or a stream's subjects",
	System:  "no agent reaches the server's system account",
	Hearing: "no agent hears what is sent to another",
	Effects: "each call has one publisher: its own dispatcher",
	Roles:   "each role sees and says what the matrix lets it",
	Meshes:  "no account of one mesh leads into another mesh",
	Issuers: "every user is held to a scope and needs its own key",
}

// All returns the claims in their order.
func All() []Claim {
	return []Claim{Agents, Gateway, Streams, System, Hearing, Effects, Roles, Meshes, Issuers}
}

// Text describes the claim.
func (c Claim) Text() string { return cmp.Or(texts[c], "nothing") }

// Step is one station of a way.
type Step struct {
	Account string `json:"account"`
	Subject string `json:"subject"` // a pattern: what can pass here
	How     string `json:"how"`     // one of: publish, service, stream, mapping, subscribe, request, key
	Who     string `json:"who,omitzero"`
}

// Hole is a forbidden path. From and To are principals; To may also be
// something else that is reached.
type Hole struct {
	Claim Claim  `json:"claim"`
	From  string `json:"from"`
	To    string `json:"to"`
	Way   []Step `json:"way"`
	// Role, in the claim roles, is the role that receives Column or reaches ToRole.
	Role   contract.Role   `json:"role,omitzero"`
	Column contract.Column `json:"column,omitzero"`
	ToRole contract.Role   `json:"to_role,omitzero"`
	// Publish is a subject to test the path with: what is published there
	// arrives as Arrives, at the end of the path. Empty if none was found.
	Publish string `json:"publish,omitzero"`
	Arrives string `json:"arrives,omitzero"`
}

// ways are the sentences of steps, by how.
var ways = map[string]string{
	"publish":   "WHO publishes SUBJECT in ACCOUNT",
	"service":   "service of ACCOUNT as SUBJECT",
	"stream":    "stream into ACCOUNT as SUBJECT",
	"mapping":   "mapped in ACCOUNT to SUBJECT",
	"subscribe": "WHO subscribes to SUBJECT in ACCOUNT",
	"request":   "WHO of ACCOUNT takes SUBJECT",
	"key":       "WHO makes users of ACCOUNT",
}

// String writes the way with arrows.
func (h Hole) String() string {
	var parts []string
	for _, s := range h.Way {
		parts = append(parts, strings.NewReplacer("WHO", s.Who, "SUBJECT", s.Subject, "ACCOUNT", s.Account).Replace(ways[s.How]))
	}
	return strings.Join(parts, " -> ")
}

// Report is the result. It is a proof if Holes is empty, under the assumptions
// in the package comment.
type Report struct {
	Accounts   int      `json:"accounts"`
	Principals []string `json:"principals"` // agents and people
	Trusted    []string `json:"trusted"`
	Pairs      int      `json:"pairs"` // ordered pairs of principals that were looked at
	Ways       int      `json:"ways"`  // stations that their publishes reach
	Refused    int      `json:"refused_users"`
	Holes      []Hole   `json:"holes"`
	// Matrix has the cells of the isolation matrix, and Edges the ways between roles.
	Matrix []Sighting `json:"matrix"`
	Edges  []Passage  `json:"edges"`
}

// Of returns the holes in one claim.
func (r Report) Of(c Claim) []Hole {
	return slices.DeleteFunc(slices.Clone(r.Holes), func(h Hole) bool { return h.Claim != c })
}
