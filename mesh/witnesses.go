package mesh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

const (
	// witnessTimeout bounds one question to a witness.
	witnessTimeout = 10 * time.Second
	// firstWitness is how long a start, and the end of a mesh, wait for witnesses.
	firstWitness = 3 * time.Second
	// acceptTimeout is the timeout for recording that the operator accepts a rollback.
	acceptTimeout = 15 * time.Second
	// witnessRetry is the time between requests to an unreachable witness.
	witnessRetry = 30 * time.Second
	// witnessRefresh is the age at which a cosignature is renewed if nothing new was
	// signed.
	witnessRefresh = time.Hour
)

// uncosigned is the reply of a witness that has not cosigned, and the size of the journal
// that it has seen, if it said so.
type uncosigned struct {
	err  error
	seen int64
}

// refuses reports whether the witness has seen another history, or more of this one.
func (u uncosigned) refuses() bool {
	return errors.Is(u.err, ErrRolledBack) || errors.Is(u.err, ErrForked)
}

// cosign asks the witnesses that have not done so within refresh to cosign the newest
// checkpoint of a tree, and stores the cosignatures. It returns the errors of the others
// ([ErrRolledBack] and so on), by name.
func cosign(ctx context.Context, tree *jetstream.Tree, peers []*Witness, refresh time.Duration) (map[string]uncosigned, error) {
	signed, newest, err := tree.Signed()
	if err != nil {
		return nil, fmt.Errorf("ask witnesses: %w", err)
	}
	known, err := tree.Cosignatures()
	if err != nil {
		return nil, fmt.Errorf("ask witnesses: %w", err)
	}
	var all sync.WaitGroup
	lines, seen, errs := make([][]byte, len(peers)), make([]int64, len(peers)), make([]error, len(peers))
	for i, peer := range peers {
		var old int64
		var at time.Time
		for j := range known {
			if known[j].Witness() == peer.Name {
				old, at = known[j].Size, known[j].Time()
			}
		}
		if old == newest.N && time.Since(at) < refresh {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
			defer cancel()
			lines[i], seen[i], errs[i] = peer.Cosign(ctx, signed, newest.N, old, tree.ProveFrom)
		})
	}
	all.Wait()
	failed := make(map[string]uncosigned)
	for i, line := range lines {
		if errs[i] == nil && line != nil {
			errs[i] = tree.AddCosignature(jetstream.Cosignature{Size: newest.N, Root: newest.Hash, Line: string(line)})
		}
		if errs[i] != nil {
			failed[peers[i].Name] = uncosigned{errs[i], seen[i]}
		}
	}
	return failed, nil
}

// CosignNewest asks the witnesses to cosign the newest checkpoint in a state
// folder in which no mesh signs: that of a cluster.
func CosignNewest(ctx context.Context, state string, peers []*Witness) error {
	failed, err := cosign(ctx, Tree(state), peers, 0)
	errs := []error{err}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		errs = append(errs, failed[name].err)
	}
	return errors.Join(errs...)
}

// witnesses has checkpoints cosigned while a mesh runs. No decision waits for it; if no
// witness answers for longer than require, asks and pushes are refused.
type witnesses struct {
	tree    *jetstream.Tree
	peers   []*Witness
	require time.Duration // 0: they stop nothing
	alert   func(bcp.AlertKind)
	log     hclog.Logger
	now     func() time.Time
	signed  chan struct{} // has room for one

	marks *gateway.Marks // with what the operator accepts

	mu     sync.Mutex
	newest time.Time         // of all cosignatures
	told   map[string]string // last error of each failing witness
	// seen are the sizes of the journal seen by witnesses that refuse, unless the operator
	// has accepted that.
	seen map[string]int64
}

func newWitnesses(config Config, tree *jetstream.Tree, marks *gateway.Marks, alert func(bcp.AlertKind), log hclog.Logger) *witnesses {
	w := &witnesses{tree: tree, peers: config.Witnesses, require: config.Definition.RequireWitness, alert: alert, log: log.Named("witnesses"),
		now: config.Now, signed: make(chan struct{}, 1), told: make(map[string]string), seen: make(map[string]int64), marks: marks}
	if w.now == nil {
		w.now = time.Now
	}
	return w
}

// ErrRequireWitness says that definitions require a witness but none is configured.
var ErrRequireWitness = errors.New("the definitions say require_witness, and there is no witness")

var errWitnessOnCluster = errors.New("require_witness is for a mesh of one process: on a cluster, checkpoints are signed and cosigned by bcpmesh audit export --checkpoint")

// sign notes that a checkpoint was signed.
func (w *witnesses) sign() {
	select {
	case w.signed <- struct{}{}:
	default: // it is looked at anyway
	}
}

// refresh is the age at which the newest cosignature is renewed.
func (w *witnesses) refresh() time.Duration {
	if w.require > 0 {
		return min(witnessRefresh, w.require/4)
	}
	return witnessRefresh
}

// ask asks the witnesses that have not cosigned the newest checkpoint, and reports
// which are missing.
func (w *witnesses) ask(ctx context.Context) (missing bool) {
	failed, err := cosign(ctx, w.tree, w.peers, w.refresh())
	switch {
	case errors.Is(err, jetstream.ErrNoCheckpoint):
		return false // the first is about to be signed
	case err != nil:
		w.log.Error("no witness was asked", "error", err)
		return true
	case !errors.Is(ctx.Err(), context.Canceled): // the mesh ends
		w.recordFailures(failed)
	}
	return len(failed) > 0
}

func (w *witnesses) recordFailures(failed map[string]uncosigned) {
	list, err := w.tree.Cosignatures()
	if err != nil {
		w.log.Error("cosignatures cannot be read", "error", err)
	}
	w.mu.Lock()
	for i := range list {
		if at := list[i].Time(); at.After(w.newest) {
			w.newest = at
		}
	}
	var alerts []bcp.AlertKind
	for _, peer := range w.peers {
		of := failed[peer.Name]
		kind := bcp.AlertKind("")
		switch {
		case of.refuses():
			kind = bcp.AlertWitnessRefused
			if of.seen > w.marks.Witnessed(peer.Name) {
				w.seen[peer.Name] = of.seen
			}
		case of.err != nil:
			kind = bcp.AlertWitnessMissing
		default:
			delete(w.seen, peer.Name)
		}
		if kind != "" && w.told[peer.Name] != string(kind) {
			w.log.Error("a witness has not cosigned", "error", of.err)
			alerts = append(alerts, kind)
		}
		w.told[peer.Name] = string(kind)
	}
	w.mu.Unlock()
	for _, kind := range alerts {
		w.alert(kind)
	}
}

// run asks after every checkpoint, and retries unreachable witnesses.
func (w *witnesses) run(ctx context.Context) {
	for {
		pause := w.refresh() / 2
		if w.ask(ctx) {
			pause = min(pause, witnessRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.signed:
		case <-time.After(pause):
		}
	}
}

// closed returns what must be refused: everything while the journal is not the newest,
// and everything new while no witness has answered for too long.
func (w *witnesses) closed() gateway.Closing {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.seen) > 0:
		return gateway.ClosedToAll
	case w.require > 0 && w.now().Sub(w.newest) > w.require:
		return gateway.ClosedToNew
	}
	return gateway.Open
}

// seenMore returns the sizes of the journal that witnesses have seen which refuse.
func (w *witnesses) seenMore() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.seen)
}

// accept notes that the operator has accepted what witnesses have seen so far.
func (w *witnesses) accept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.seen, func(witness string, size int64) bool { return size <= w.marks.Witnessed(witness) })
}

// startWitnesses begins to ask before anybody is served: if a witness has seen more of
// the journal, that is known from the first message on.
func (m *Mesh) startWitnesses(ctx context.Context, w *witnesses) {
	if len(w.peers) == 0 {
		return
	}
	first, cancel := context.WithTimeout(ctx, firstWitness)
	defer cancel()
	w.ask(first)
	m.inBackground(w.run)
}

// lastWitness asks once more when the last checkpoint of a mesh is signed.
func (w *witnesses) lastWitness() {
	if len(w.peers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstWitness)
	defer cancel()
	if failed, err := cosign(ctx, w.tree, w.peers, w.refresh()); len(failed) > 0 || err != nil && !errors.Is(err, jetstream.ErrNoCheckpoint) {
		w.log.Warn("the last checkpoint was not cosigned by all witnesses; the next start asks again", "error", err, "witnesses", len(failed))
	}
}
