package scale

import (
	"errors"
	"fmt"
)

// Load is the load of a mesh, and its machines.
type Load struct {
	Agents   int `json:"agents"`
	Channels int `json:"channels"`
	// Rate is decisions a second at the busiest time, Mean over the day; 0 is Rate.
	Rate float64 `json:"rate"`
	Mean float64 `json:"mean"`
	// Asks is the fraction of the exchanges that are questions, from 0 to 1; the others
	// are pushes.
	Asks float64 `json:"asks"`
	// Answer is how long a Reader takes to answer.
	Answer Span `json:"answer"`
	// Days is how long the journal is kept before it is truncated.
	Days float64 `json:"days"`

	// Shards is the number of shards, each with an active gateway on its own machine;
	// 0 is as many as the deciding needs. Replicas is the number of replicas of each
	// stream.
	Shards   int `json:"shards"`
	Replicas int `json:"replicas"`
	// Machine describes each of the machines.
	Machine Machine `json:"machine"`
}

// Machine is one machine of a mesh: memory and disk in bytes, the disk's write
// rate in bytes a second, and the network in bits a second.
type Machine struct {
	Cores    int     `json:"cores"`
	Memory   float64 `json:"memory_bytes"`
	Disk     float64 `json:"disk_bytes"`
	DiskRate float64 `json:"disk_bytes_a_second"`
	Network  float64 `json:"network_bits_a_second"`
}

// The maximum inputs of a model: larger figures mean nothing, and a mesh has no
// more shards.
const (
	MaxAgents   = 1_000_000
	MaxChannels = 100_000_000
	MaxRate     = 10_000_000
	MaxShards   = 64
)

var errLoad = errors.New("the load")

// Check returns an error for an invalid load.
func (l Load) Check() error {
	switch {
	case l.Agents < 2 || l.Agents > MaxAgents:
		return fmt.Errorf("%w: expected from 2 to %d agents", errLoad, MaxAgents)
	case l.Channels < 1 || l.Channels > MaxChannels:
		return fmt.Errorf("%w: expected from 1 to %d channels", errLoad, MaxChannels)
	case float64(l.Channels) > float64(l.Agents)*float64(l.Agents-1):
		return fmt.Errorf("%w: %d agents have at most %d channels", errLoad, l.Agents, l.Agents*(l.Agents-1))
	case !(l.Rate > 0 && l.Rate <= MaxRate):
		return fmt.Errorf("%w: expected up to %d decisions a second", errLoad, MaxRate)
	case !(l.Mean >= 0 && l.Mean <= l.Rate):
		return fmt.Errorf("%w: expected a mean of at most the rate", errLoad)
	case !(l.Asks >= 0 && l.Asks <= 1):
		return fmt.Errorf("%w: expected a part from 0 to 1 of questions", errLoad)
	case l.Answer < 0 || !(l.Days >= 0):
		return fmt.Errorf("%w: expected times that are not negative", errLoad)
	case l.Shards < 0 || l.Shards > MaxShards:
		return fmt.Errorf("%w: expected up to %d shards", errLoad, MaxShards)
	case l.Replicas != 1 && l.Replicas != 3 && l.Replicas != 5:
		return fmt.Errorf("%w: expected 1, 3 or 5 replicas", errLoad)
	case l.Machine.Cores < 1 || !(l.Machine.Memory > 0 && l.Machine.Disk > 0 && l.Machine.DiskRate > 0 && l.Machine.Network > 0):
		return fmt.Errorf("%w: expected machines with cores, memory, a disk and a network", errLoad)
	}
	return nil
}
