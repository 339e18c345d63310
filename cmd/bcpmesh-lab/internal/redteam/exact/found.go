package exact

import (
	"fmt"
	"math/big"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Found is the result of a search of a configuration.
type Found struct {
	Outcome
	Limit   int64    // of the weight: 1, or 2 for each channel with subscriptions
	Defects []string // what does not hold
}

// Search plays the configuration in every way, with more additional release
// slots. The error is that of [Game.Search].
func (c Configuration) Search(more int) (Found, error) {
	begin := time.Unix(1_800_000_000, 0)
	at := func(slot int) time.Time { return begin.Add(time.Duration(slot) * gameSlot) }
	var ticks []time.Time
	for slot := range c.slots + more {
		for tick := range c.ticks {
			ticks = append(ticks, at(slot).Add(time.Duration(tick+1)*gameSlot/time.Duration(c.ticks+1)))
		}
	}
	mesh := c.mesh()
	mesh.Compiled = []*kernel.Kernel{gameKernel}
	game := &Game{
		Config: state.Config{Mesh: mesh, Constraints: constraint.Compile}, Controller: "main", Planner: c.planner,
		Ticks: ticks, End: at(c.slots + more + 4), Moves: c.offer, Act: c.act,
	}
	out, err := game.Search()
	if c.planner {
		out.Weight = new(big.Float).SetMantExp(new(big.Float).SetInt64(int64(out.Transcripts)), -int(out.Most/bcp.Bit))
	}
	found := Found{Outcome: out, Limit: max(1, c.most)}
	if err != nil {
		return found, fmt.Errorf("%s: %w", c.ID, err)
	}
	defect := func(format string, args ...any) { found.Defects = append(found.Defects, fmt.Sprintf(format, args...)) }
	if out.Weight.Cmp(new(big.Float).SetInt64(found.Limit)) > 0 {
		defect("what the Controller can hear weighs %.6f, more than %d", out.Weight, found.Limit)
	}
	for _, p := range out.Parts {
		if !c.planner && p.Weight.Cmp(p.Limit) > 0 {
			defect("%s weighs %.6f, more than %.6f", p.Name, p.Weight, p.Limit)
		}
	}
	if out.Ambiguous != "" && !c.more {
		defect("one transcript, two charges: %s", out.Ambiguous)
	}
	if out.Clock != "" {
		defect("the Controller has a clock: %s", out.Clock)
	}
	if c.free && out.Free > 1 {
		defect("%d transcripts are free of charge", out.Free)
	}
	return found, nil
}
