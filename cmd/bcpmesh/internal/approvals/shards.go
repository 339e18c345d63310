package approvals

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// approvers is one person on shards, to whom the mesh is one: what is held is looked for
// on all. It may be used concurrently.
type approvers struct {
	c    *client.Client
	mu   sync.Mutex
	seen map[bcp.ItemID]int // shards of items
}

// ApproverOf decides and lists on the shards that c is connected to.
func ApproverOf(c *client.Client) *approvers { return &approvers{c: c, seen: map[bcp.ItemID]int{}} }

// OnShard is the approver of one shard.
func (a *approvers) OnShard(shard int) *agents.Approver {
	return agents.NewApprover(a.c.Connection).OnShard(shard)
}

// list returns what waits: oldest first on each shard, and shards take turns.
func (a *approvers) list(ctx context.Context) ([]client.Sharded[bcp.Item], error) {
	lists, err := client.OnShards(ctx, a.c.Shards, func(ctx context.Context, shard int) ([]bcp.Item, error) { return a.OnShard(shard).List(ctx) })
	if lists == nil {
		return nil, err
	}
	items := []client.Sharded[bcp.Item]{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, more := 0, true; more; n++ {
		more = false
		for i := range lists {
			if n < len(lists[i].Of) {
				more = true
				items = append(items, client.Sharded[bcp.Item]{Of: lists[i].Of[n], Shard: lists[i].Shard, Several: lists[i].Several})
				a.seen[lists[i].Of[n].ID] = lists[i].Shard
			}
		}
	}
	return items, err
}

// List implements decider. Where some of several shards did not answer, there are items
// and an error.
func (a *approvers) List(ctx context.Context) ([]bcp.Item, error) {
	items, err := a.list(ctx)
	if items == nil {
		return nil, err
	}
	return client.OfAll(items), err
}

// View implements decider.
func (a *approvers) View(ctx context.Context, id bcp.ItemID) (bcp.ItemView, error) {
	if approver := a.findApprover(id); approver != nil {
		return approver.View(ctx, id)
	}
	type looked struct {
		shard int
		view  bcp.ItemView
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan looked, len(a.c.Shards))
	var looking sync.WaitGroup
	for _, shard := range a.c.Shards {
		looking.Go(func() {
			view, err := a.OnShard(shard).View(ctx, id)
			found <- looked{shard, view, err}
		})
	}
	defer looking.Wait()
	defer cancel()
	var nowhere, unheard error
	for range a.c.Shards {
		l := <-found
		var refused *agents.RefusedError
		switch {
		case l.err == nil:
			a.mu.Lock()
			a.seen[id] = l.shard
			a.mu.Unlock()
			return l.view, nil
		case errors.As(l.err, &refused) && refused.Code == bcp.ItemNotFound:
			nowhere = l.err
		case refused != nil:
			return bcp.ItemView{}, l.err // by the shard that knows it
		default:
			unheard = l.err
		}
	}
	return bcp.ItemView{}, cmp.Or(unheard, nowhere)
}

// findApprover decides about an item; nobody if its shard is not known.
func (a *approvers) findApprover(id bcp.ItemID) *agents.Approver {
	a.mu.Lock()
	defer a.mu.Unlock()
	if shard, ok := a.seen[id]; ok {
		return a.OnShard(shard)
	}
	if len(a.c.Shards) == 1 {
		return a.OnShard(a.c.Shards[0])
	}
	return nil
}

// withApprover has somebody decide about an item.
func (a *approvers) withApprover(ctx context.Context, id bcp.ItemID, decide func(*agents.Approver) error) error {
	if a.findApprover(id) == nil {
		if _, err := a.View(ctx, id); err != nil {
			return err
		}
	}
	return decide(a.findApprover(id))
}

// Approve implements decider.
func (a *approvers) Approve(ctx context.Context, view bcp.ItemView) error {
	return a.withApprover(ctx, view.ID, func(on *agents.Approver) error { return on.Approve(ctx, view) })
}

// Reject implements decider.
func (a *approvers) Reject(ctx context.Context, view bcp.ItemView, reason string) error {
	return a.withApprover(ctx, view.ID, func(on *agents.Approver) error { return on.Reject(ctx, view, reason) })
}

// Preview implements decider.
func (a *approvers) Preview(ctx context.Context, view bcp.ItemView, response any) (preview bcp.EditPreview, err error) {
	err = a.withApprover(ctx, view.ID, func(on *agents.Approver) error {
		preview, err = on.Preview(ctx, view, response)
		return err
	})
	return preview, err
}

// Edit implements decider.
func (a *approvers) Edit(ctx context.Context, view bcp.ItemView, preview bcp.EditPreview) error {
	return a.withApprover(ctx, view.ID, func(on *agents.Approver) error { return on.Edit(ctx, view, preview) })
}
