package conform

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/meshdir"
)

// witness reads what the mesh records from its making on.
type witness struct {
	auditor *agents.Auditor
	next    uint64
	records []bcp.Decision
}

func newWitness(ctx context.Context, a *agents.Auditor) (*witness, error) {
	last, err := a.Last(ctx)
	if err != nil && !errors.Is(err, agents.ErrNoRecords) {
		return nil, meshdir.Failure(err)
	}
	return &witness{auditor: a, next: last.Sequence + 1}, nil
}

// follow reads new records until done, which is asked after each of them, or for
// as long as wait.
func (w *witness) follow(ctx context.Context, wait time.Duration, done func() bool) error {
	following, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for r, err := range w.auditor.Follow(following, w.next) {
		if err != nil {
			return meshdir.Failure(err)
		}
		w.records, w.next = append(w.records, r.Decision), r.Sequence+1
		if done() {
			break
		}
	}
	return ctx.Err()
}

// newest returns the last record that was read; there is one.
func (w *witness) newest() *bcp.Decision { return &w.records[len(w.records)-1] }

// connected reports whether an agent has a connection, by the records since the
// mesh was started.
func (w *witness) connected(ctx context.Context, agent bcp.AgentName, role bcp.Role) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, conformanceReach)
	defer cancel()
	var from uint64
	for r, err := range w.auditor.Select(ctx, agents.Selection{Kind: bcp.KindStart}) {
		if err != nil {
			return false, meshdir.Failure(err)
		}
		from = r.Sequence
	}
	connections := 0
	for kind, change := range map[bcp.DecisionKind]int{bcp.KindConnect: 1, bcp.KindDisconnect: -1} {
		for r, err := range w.auditor.Select(ctx, agents.Selection{From: from, Kind: kind}) {
			if err != nil {
				return false, meshdir.Failure(err)
			}
			if r.Decision.Agent == agent && r.Decision.Role == role {
				connections += change
			}
		}
	}
	return connections > 0, nil
}
