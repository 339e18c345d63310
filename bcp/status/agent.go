package status

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// State says how an agent is, in a word.
type State string

// The states of an agent.
const (
	Connected   State = "connected"   // in one of its roles at least
	Starting    State = "starting"    // its command is about to be started
	Running     State = "running"     // its command runs, and is not connected
	Crashed     State = "crashed"     // its command failed, and is started again at a known time
	Unavailable State = "unavailable" // its command failed too often
	Resting     State = "resting"     // its command ended well, and is started when something waits for it
	Stopping    State = "stopping"    // its command was told to end
	Away        State = "away"        // not connected; the mesh does not start it
)

// Agent is how one agent is.
type Agent struct {
	Agent bcp.AgentName `json:"agent"`
	State State         `json:"state"`
	// Roles are those that the agent has, and how it is connected in each.
	Roles []Role `json:"roles"`
	// Command is what became of the agent's command, where the mesh starts one.
	Command *Command `json:"command,omitzero"`
	// NotStarted says why the mesh does not start the agent.
	NotStarted string `json:"not_started,omitempty"`
	Waits      Wait   `json:"waits"`
	// Model is what the agent's model takes, where the mesh has counted any.
	Model *ModelUse `json:"model,omitzero"`
	// Failing says why the agent's model fails, if it does.
	Failing *ModelFailing `json:"model_failing,omitzero"`
	// Suspended says that nothing is taken from it until the operator lifts it.
	Suspended bool `json:"suspended,omitzero"`
}

// Connected reports whether the agent is connected in a role.
func (a *Agent) Connected(role bcp.Role) bool {
	for _, r := range a.Roles {
		if r.Role == role {
			return r.Connections > 0
		}
	}
	return false
}

// Role is how an agent is connected in one of its roles.
type Role struct {
	Role        bcp.Role  `json:"role"`
	Connections int       `json:"connections"`
	Since       time.Time `json:"since,omitzero"` // of the newest
}

// Command is what became of an agent's command.
type Command struct {
	PID   int       `json:"pid,omitzero"` // while it runs
	Since time.Time `json:"since"`        // when this began
	// Starts counts the attempts to start it, Failures those that failed in a row.
	Starts   int `json:"starts"`
	Failures int `json:"failures"`
	// Exit says how the last attempt ended, such as "exit status 3", "signal: killed"
	// or "not found"; empty before the first end.
	Exit string `json:"exit,omitempty"`
	// Next is when it is started again; of an unavailable one, from when on it is
	// started if something waits for it.
	Next time.Time `json:"next,omitzero"`
	// LastLine is what the process that ended last printed last: an attacker's text,
	// escaped and cut. It never leaves the operator's hands.
	LastLine string `json:"untrusted_last_line,omitempty"`
}

// ModelUse is what counts of an agent's model now, and what its definition allows in a
// window (PROTOCOL P15). Calls that are not settled count as the most that they can take.
type ModelUse struct {
	Tokens      int64   `json:"tokens"`
	USD         bcp.USD `json:"usd"`
	TokenBudget int64   `json:"token_budget,omitzero"` // 0: no limit
	CostBudget  bcp.USD `json:"cost_budget_usd,omitzero"`
}

// ModelFailing is why an agent's model fails, as its keeper says, and since when.
type ModelFailing struct {
	bcp.ModelFault `json:",inline"`
	Since          time.Time `json:"since"`
	// Said is what the provider says: text from outside, without secrets, empty after the
	// gateway has begun again until the model is called.
	Said string `json:"untrusted_provider_says,omitempty"`
}

// Wait counts what waits for an agent, and what it waits for.
type Wait struct {
	Queries    int `json:"queries"`    // for its answers, as a Reader
	Deliveries int `json:"deliveries"` // for its acknowledgement, as a Controller
	Answers    int `json:"answers"`    // that it waits for, as a Controller
	Held       int `json:"held_items"` // of its channels, which wait for a person
}

// Agents is a part of the list of a mesh's agents, sorted by name.
type Agents struct {
	Agents []Agent `json:"agents"`
	// Next is the agent that the next part begins with; empty if there is none.
	Next bcp.AgentName `json:"next,omitempty"`
}
