package pages

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

const (
	// renewal is how long connections are used whose credentials this process made for
	// itself: half as long as these are good.
	renewal = client.OwnCredsTTL / 2
	// lookPause is between two looks whether the mesh is there.
	lookPause = time.Second
	// silence is how long a connection may be lost before another is made: the mesh may
	// have started again at another address.
	silence = 5 * time.Second
)

// source is where the pages get the mesh from: a creds file, or the folder of the mesh,
// whose owner has credentials made.
type source struct {
	who      client.Flags
	approver string // who decides; empty for the only approver of the mesh
}

// connected are connections to one mesh.
type connected struct {
	auditor  *client.Client
	operator *client.Client // nil with a creds file
	approver *client.Client // nil with a creds file, and if it is not known who decides
}

func (c *connected) close() {
	c.auditor.Close()
	for _, more := range []*client.Client{c.operator, c.approver} {
		if more != nil {
			more.Close()
		}
	}
}

func (s *source) connect(ctx context.Context) (*connected, error) {
	who := s.who
	if who.Creds == "" && who.As == "" {
		who.As = anyAuditor(who.Where)
	}
	auditor, err := who.Connect(ctx, bcp.RoleAuditor)
	if err != nil || s.who.Creds != "" {
		return &connected{auditor: auditor}, err
	}
	c := &connected{auditor: auditor}
	owner := client.Flags{Where: s.who.Where, URL: s.who.URL, CA: s.who.CA}
	if c.operator, err = owner.Connect(ctx, bcp.RoleOperator); err != nil {
		c.close()
		return nil, err
	}
	if owner.As = s.decider(auditor.Definition); owner.As == "" {
		return c, nil
	}
	if c.approver, err = owner.Connect(ctx, bcp.RoleApprover); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// decider is who decides about what is held: who was named, or the mesh's only approver.
func (s *source) decider(def *bcp.Mesh) string {
	if s.approver == "" && def != nil && len(def.Approvers) == 1 {
		return string(def.Approvers[0])
	}
	return s.approver
}

// anyAuditor is the first auditor of a folder's mesh: all of them see the same.
func anyAuditor(where meshdir.StateFlags) string {
	folder, err := where.Folder()
	if err != nil {
		return ""
	}
	def, err := folder.Load()
	if err != nil || len(def.Auditors) == 0 {
		return ""
	}
	return string(def.Auditors[0])
}

func (c *connected) mesh() web.Mesh {
	m := web.Mesh{Auditor: c.auditor.Auditor(), Budgets: c.auditor.Operator(), Connected: c.auditor.NATS().IsConnected, Definition: func() *bcp.Mesh { return c.auditor.Definition }}
	if c.approver != nil {
		m.Owner = &web.Person{Name: c.approver.Name, Approver: agents.NewApprover(c.approver.Connection)}
	}
	if c.operator != nil {
		m.Operator = c.operator.Operator()
	}
	return m
}

// attendUntil has the server attend to connections until ctx ends: other ones before the
// credentials of these expire, and if the mesh is lost.
func (s *source) attendUntil(ctx context.Context, server *web.Server, c *connected) {
	for c != nil {
		attending, stop := context.WithCancel(ctx)
		attended := make(chan struct{})
		go func() {
			defer close(attended)
			shown := c.mesh()
			if folder, err := s.who.Where.Folder(); err == nil && s.who.Creds == "" {
				shown.Proof = func() web.Proof { return proof(folder.State) }
			}
			server.Attend(attending, shown)
		}()
		next := s.reconnect(ctx, c)
		stop()
		<-attended
		c.close()
		c = next
	}
}

// proof is the newest checkpoint of a state folder. One that cannot be read is none.
func proof(state string) (p web.Proof) {
	store, err := accounts.Open(state)
	tree := mesh.Tree(state)
	if newest, wrong := tree.Newest(); wrong == nil && err == nil {
		p.Checkpoint = string(newest)
		p.Signed, _ = tree.SignedAt()
		p.Key, _ = store.CheckpointPublic()
	}
	return p
}

// reconnect returns the connections that follow, nil when ctx has ended.
func (s *source) reconnect(ctx context.Context, c *connected) *connected {
	due := time.Now().Add(renewal)
	seen := time.Now()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		now := time.Now()
		if c.auditor.NATS().IsConnected() {
			seen = now
		}
		if s.who.Creds != "" || now.Before(due) && now.Sub(seen) < silence {
			continue // the creds file is read at every connect
		}
		next, err := s.connect(ctx)
		if err == nil {
			return next
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
	}
}
