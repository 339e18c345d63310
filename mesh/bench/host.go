package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// issuer makes creds: a running mesh, or the key store of a floor.
type issuer interface {
	Issue(bcp.AgentName, bcp.Role, time.Duration) (accounts.Creds, error)
}

// host is a mesh or a floor.
type host struct {
	mesh    *mesh.Mesh
	floor   *floor
	profile *os.File // nil where none is made
}

// startHost runs one and makes creds for all its agents. Took is how long the
// start took, without the creds.
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
	h := &host{}
	begin := time.Now()
	var url string
	var store issuer
	if o.Kind == kindMesh {
		if h.mesh, err = mesh.Start(ctx, mesh.Config{Definition: def, State: o.State, Version: "bench"}); err != nil {
			return nil, reply{}, err
		}
		url, store = h.mesh.URL(), h.mesh
	} else {
		if h.floor, err = startFloor(ctx, o, def); err != nil {
			return nil, reply{}, err
		}
		url, store = h.floor.server.URL(), h.floor.store
	}
	r := reply{URL: url, Took: time.Since(begin)}
	issue := func(name bcp.AgentName, role bcp.Role) error {
		creds, err := store.Issue(name, role, 0)
		if err == nil {
			r.Parties = append(r.Parties, party{Name: name, Role: role, Creds: string(creds.Text())})
		}
		return err
	}
	for i := range max(o.Shape.Readers, o.Shape.Controllers) {
		if i < o.Shape.Readers {
			err = issue(readerName(i), bcp.RoleReader)
		}
		if err == nil && i < o.Shape.Controllers {
			err = issue(controllerName(i), bcp.RoleController)
		}
		if err != nil {
			h.stop()
			return nil, reply{}, err
		}
	}
	// What has to be caught up with is no part of what is measured next.
	if h.mesh != nil && o.History > 0 {
		if err := h.mesh.Projected(ctx, uint64(o.History)); err != nil {
			h.stop()
			return nil, reply{}, err
		}
	}
	if o.Profile != "" {
		if h.profile, err = os.Create(o.Profile); err == nil {
			err = pprof.StartCPUProfile(h.profile)
		}
		if err != nil {
			h.stop()
			return nil, reply{}, err
		}
	}
	return h, r, nil
}

// stop ends it; its state is thrown away, so that an error harms nobody.
func (h *host) stop() {
	if h.profile != nil {
		pprof.StopCPUProfile()
		_ = h.profile.Close()
	}
	if h.mesh != nil {
		_ = h.mesh.Stop(context.Background())
	}
	if h.floor != nil {
		_ = h.floor.stop()
	}
}
