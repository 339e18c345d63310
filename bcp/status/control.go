package status

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Erased is the result of an erasure.
type Erased struct {
	// Decision is the number of its record, 0 if nothing was erased.
	Decision uint64 `json:"decision,omitzero"`
	// Keys and RawKeys were destroyed: one for each day.
	Keys    int `json:"keys"`
	RawKeys int `json:"raw_keys"`
	// NoKeys says that the channel never had a key: nothing on it was ever sealed.
	NoKeys bool `json:"no_keys,omitzero"`
	// Reasons say why nothing was erased, a line each.
	Reasons []string `json:"reasons,omitempty"`
	// Failed says what went wrong after it was recorded: ask again.
	Failed string `json:"failed,omitempty"`
}

// Reloaded is the result of a reload.
type Reloaded struct {
	// Changes are the removed and added permissions, one a line.
	Changes []string `json:"changes"`
	// Notes list what takes effect only at the next start.
	Notes []string `json:"notes,omitempty"`
	// Errors are those of the definitions: then nothing was changed.
	Errors []string `json:"errors,omitempty"`
}

// Applied is the result of applying the key store's changes.
type Applied struct {
	// Recorded counts the changes that were added to the audit.
	Recorded int `json:"recorded"`
	// Connections are those of agents and people.
	Connections []ClientConnection `json:"connections,omitempty"`
}

// ClientConnection is an open connection.
type ClientConnection struct {
	Key   string        `json:"public_key"` // of its credentials
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"`
	Host  string        `json:"host"`
	Since time.Time     `json:"since"`
}
