package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// host is a mesh or a floor.
type host struct {
	mesh  *mesh.Mesh
	floor *floor
	// operator speaks to a mesh.
	operator *agents.Connection
}

// startHost makes a host's keys and creds for all its agents, and runs it. took
// is the time of the start, without that preparation.
func startHost(ctx context.Context, o order) (*host, reply, error) {
	def, err := o.Shape.definition(o.Interval)
	if err != nil {
		return nil, reply{}, err
	}
	if o.History > 0 {
		if err := writeHistory(ctx, o.State, def, o.Shape, o.History); err != nil {
			return nil, reply{}, fmt.Errorf("writing %d decisions: %w", o.History, err)
		}
	}
	begin := time.Now()
	store, _, err := mesh.Keys(o.State, def)
	if err != nil {
		return nil, reply{}, err
	}
	r := reply{Compiled: time.Since(begin)}
	begin = time.Now()
	var everybody []bcp.AgentName
	for _, scope := range subjects.Permissions(def) {
		if scope.Role != bcp.RoleDispatcher {
			everybody = append(everybody, scope.Agent)
		}
	}
	all, err := store.IssueTo(slices.Compact(everybody), 0, 0, accounts.ForItself)
	if err != nil {
		return nil, reply{}, err
	}
	r.Issued = time.Since(begin)
	for _, c := range all {
		r.Parties = append(r.Parties, party{Name: c.Agent, Role: c.Role, Creds: string(c.Text())})
	}
	h := &host{}
	begin = time.Now()
	if o.Kind == kindMesh {
		if h.mesh, err = mesh.Start(ctx, mesh.Config{Definition: def, State: o.State, Version: "bench"}); err != nil {
			return nil, reply{}, err
		}
		r.URL = h.mesh.URL()
		if h.operator, err = operate(ctx, h.mesh); err != nil {
			h.stop()
			return nil, reply{}, err
		}
	} else {
		if h.floor, err = startFloor(ctx, o, def); err != nil {
			return nil, reply{}, err
		}
		r.URL = h.floor.server.URL()
	}
	r.Took = time.Since(begin)
	// Catching up is not part of the next measurement.
	if o.History > 0 {
		if err := h.projected(ctx); err != nil {
			h.stop()
			return nil, reply{}, err
		}
	}
	return h, r, nil
}

// operate connects a mesh's operator.
func operate(ctx context.Context, m *mesh.Mesh) (*agents.Connection, error) {
	creds, err := m.Issue(bcp.Operator, bcp.RoleOperator, 0)
	if err != nil {
		return nil, err
	}
	return agents.Connect(ctx, m.URL(), agents.CredsText(creds.Text()), agents.Options{Name: bcp.Operator, Logger: hclog.NewNullLogger()})
}

// projected waits until a mesh's projections show every decision.
func (h *host) projected(ctx context.Context) error {
	if h.mesh == nil {
		return nil
	}
	var last uint64
	if err := h.mesh.Inspect(ctx, func(s *state.State) { last = s.Last() }); err != nil {
		return err
	}
	return h.mesh.Projected(ctx, last)
}

// stored is what a mesh has decided and stored, as its operator sees it.
type stored struct {
	Decisions uint64 `json:"decisions,omitempty"`
	Records   uint64 `json:"records,omitempty"` // of the journal
	Journal   int64  `json:"journal,omitempty"` // bytes
	Streams   int64  `json:"streams,omitempty"` // bytes, with the journal
}

// stored asks a mesh; a floor has nothing to tell.
func (h *host) stored(ctx context.Context) (s stored, err error) {
	if h.mesh == nil {
		return s, nil
	}
	if err := h.mesh.Inspect(ctx, func(state *state.State) { s.Decisions = state.Last() }); err != nil {
		return s, err
	}
	held, err := agents.NewOperator(h.operator).Storage(ctx)
	s.Records, s.Journal, s.Streams = held.Records, held.Journal, held.Used
	return s, err
}

// connected is how many agents of a mesh are there.
func (h *host) connected() int {
	if h.mesh == nil {
		return 0
	}
	in := h.mesh.Connected()
	return in[bcp.RoleReader] + in[bcp.RoleController]
}

// stop stops it; its state is discarded, so errors do not matter.
func (h *host) stop() {
	if h.operator != nil {
		h.operator.Close()
	}
	if h.mesh != nil {
		_ = h.mesh.Stop(context.Background())
	}
	if h.floor != nil {
		_ = h.floor.stop()
	}
}
