package state

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Behind the checkpoint of any decision the charges of the others amount to the
// state's books.
//
// covers P4.5
func TestRecountBeginsBehindACheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	w.play(`
		ask planner mail name
		push mail planner alarm {"ok":true}
		ask planner mail num
		answer mail 1 {"q":"ada"}
		close planner
		due => out:cancelled`)
	for n := 1; n < len(w.journal); n++ {
		checkpoint := must(w.upTo(n).Checkpoint())
		var r Recount
		noError(t, r.Begin(checkpoint))
		for _, record := range w.journal[n:] {
			d, err := bcp.DecodeDecision(record)
			if err == nil {
				err = r.Add(&d)
			}
			failIf(t, err != nil, "behind decision %d: %v", n, err)
		}
		for _, p := range w.state.Pools() {
			expect(t, r.Pools[p.Key()], p.Balance, "behind decision %d: %+v amounts to", n, p)
		}
	}
	fails(t, new(Recount).Begin([]byte{0x90}), ErrCheckpoint, "no checkpoint")
}

// Whatever a record says wrongly of what it moves is found.
//
// covers P4.5
func TestRecountFindsWhatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	w.play(`
		ask planner mail name
		push mail planner alarm {"ok":true}
		answer mail 1 {"q":"ada"}
		ask planner mail num
		close planner
		due => out:cancelled`)
	for i := range w.journal {
		for name, lie := range map[string]func(*bcp.Decision){
			"settled":  func(d *bcp.Decision) { d.Balance.Settled++ },
			"reserved": func(d *bcp.Decision) { d.Balance.Reserved-- },
			"capacity": func(d *bcp.Decision) { d.Balance.SettledCapacity++ },
			"pushed":   func(d *bcp.Decision) { d.Balance.Pushed++ },
			"nominal":  func(d *bcp.Decision) { d.Nominal++ },
			"epoch":    func(d *bcp.Decision) { d.Epoch++ },
			"query":    func(d *bcp.Decision) { d.Query += "x" },
		} {
			var r Recount
			moved, found := false, false
			for k, record := range w.journal {
				d := must(bcp.DecodeDecision(record))
				if k == i {
					if _, moved = d.Line(); !moved || name == "query" && d.Kind == bcp.KindPush {
						moved = false
						break
					}
					lie(&d)
				}
				found = r.Add(&d) != nil || found
			}
			failIf(t, moved && !found, "decision %d with another %s is not found", i+1, name)
		}
	}
}
