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
	"github.com/bcpmesh/bcpmesh/jetstream/witness"
)

const (
	// witnessTimeout bounds one question to a witness.
	witnessTimeout = 10 * time.Second
	// firstWitness bounds what a start, and the end of a mesh, wait for witnesses.
	firstWitness = 3 * time.Second
	// witnessRetry is the time until one that is away is asked again.
	witnessRetry = 30 * time.Second
	// witnessRefresh is the age at which a cosignature is asked for again, where nothing
	// new was signed.
	witnessRefresh = time.Hour
)

// cosign has the witnesses cosign the newest checkpoint of a tree, where they have not
// done so within the time that refresh says, and keeps the cosignatures. It returns what
// each of the others says ([witness.ErrRolledBack] and so on), by name.
func cosign(ctx context.Context, tree *jetstream.Tree, peers []*witness.Peer, refresh time.Duration) (map[string]error, error) {
	signed, newest, err := tree.Signed()
	if err != nil {
		return nil, fmt.Errorf("ask witnesses: %w", err)
	}
	known, err := tree.Cosignatures()
	if err != nil {
		return nil, fmt.Errorf("ask witnesses: %w", err)
	}
	var all sync.WaitGroup
	lines, errs := make([][]byte, len(peers)), make([]error, len(peers))
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
			lines[i], _, errs[i] = peer.Cosign(ctx, signed, old, tree.ProveFrom)
		})
	}
	all.Wait()
	failed := make(map[string]error)
	for i, line := range lines {
		if errs[i] == nil && line != nil {
			errs[i] = tree.AddCosignature(jetstream.Cosignature{Size: newest.N, Root: newest.Hash, Line: string(line)})
		}
		if errs[i] != nil {
			failed[peers[i].Name] = errs[i]
		}
	}
	return failed, nil
}

// CosignNewest has the witnesses cosign the newest checkpoint of a shard in a state folder
// in which no mesh signs: that of a cluster.
func CosignNewest(ctx context.Context, state string, shard int, peers []*witness.Peer) error {
	failed, err := cosign(ctx, Tree(state, shard), peers, 0)
	return errors.Join(err, errors.Join(slices.Collect(maps.Values(failed))...))
}

// witnesses has checkpoints cosigned while a mesh runs. Nobody's decision waits for it;
// where none is heard of for longer than require, asks and pushes are refused.
type witnesses struct {
	tree    *jetstream.Tree
	peers   []*witness.Peer
	require time.Duration // 0: they stop nothing
	alert   func(bcp.AlertKind)
	log     hclog.Logger
	now     func() time.Time
	signed  chan struct{} // has room for one

	mu      sync.Mutex
	newest  time.Time         // of all cosignatures
	told    map[string]string // what was said last of each witness that fails
	refused bool              // one has seen another history, or more of this one
}

func newWitnesses(config Config, tree *jetstream.Tree, alert func(bcp.AlertKind), log hclog.Logger) *witnesses {
	w := &witnesses{tree: tree, peers: config.Witnesses, require: config.Definition.RequireWitness, alert: alert, log: log.Named("witnesses"),
		now: config.Now, signed: make(chan struct{}, 1), told: make(map[string]string)}
	if w.now == nil {
		w.now = time.Now
	}
	return w
}

// ErrRequireWitness says that definitions require a witness and none is configured.
var ErrRequireWitness = errors.New("the definitions say require_witness, and there is no witness")

var errWitnessOnCluster = errors.New("require_witness is for a mesh of one process: on a cluster, checkpoints are signed and cosigned by bcpmesh audit checkpoint")

// sign tells that a checkpoint was signed.
func (w *witnesses) sign() {
	select {
	case w.signed <- struct{}{}:
	default: // it is looked at anyway
	}
}

// refresh is the age at which the newest cosignature is made again.
func (w *witnesses) refresh() time.Duration {
	if w.require > 0 {
		return min(witnessRefresh, w.require/4)
	}
	return witnessRefresh
}

// ask asks those that have not cosigned the newest checkpoint, and tells whom it misses.
func (w *witnesses) ask(ctx context.Context) (missing bool) {
	failed, err := cosign(ctx, w.tree, w.peers, w.refresh())
	switch {
	case errors.Is(err, jetstream.ErrNoCheckpoint):
		return false // the first is about to be signed
	case err != nil:
		w.log.Error("no witness was asked", "error", err)
		return true
	case !errors.Is(ctx.Err(), context.Canceled): // the mesh ends
		w.note(failed)
	}
	return len(failed) > 0
}

func (w *witnesses) note(failed map[string]error) {
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
	refused := false
	for _, peer := range w.peers {
		err := failed[peer.Name]
		kind := bcp.AlertKind("")
		switch {
		case errors.Is(err, witness.ErrRolledBack), errors.Is(err, witness.ErrForked):
			kind, refused = bcp.AlertWitnessRefused, true
		case err != nil:
			kind = bcp.AlertWitnessMissing
		}
		if kind != "" && w.told[peer.Name] != string(kind) {
			w.log.Error("a witness has not cosigned", "error", err)
			alerts = append(alerts, kind)
		}
		w.told[peer.Name] = string(kind)
	}
	w.refused = refused
	w.mu.Unlock()
	for _, kind := range alerts {
		w.alert(kind)
	}
}

// run asks whenever a checkpoint was signed, and again those that were away.
func (w *witnesses) run(ctx context.Context) {
	for {
		pause := w.refresh() / 2
		if w.ask(ctx) {
			pause = min(pause, witnessRetry)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.signed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// stops reports whether nothing new may be let through: no witness has been heard of for
// too long.
func (w *witnesses) stops() bool {
	if w.require == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused || w.now().Sub(w.newest) > w.require
}

// startWitnesses begins to ask, before anybody is served: a journal of which a witness has
// seen more is known as such from the first message on.
func (m *Mesh) startWitnesses(ctx context.Context, w *witnesses) {
	if len(w.peers) == 0 {
		return
	}
	first, cancel := context.WithTimeout(ctx, firstWitness)
	defer cancel()
	w.ask(first)
	m.meanwhile(w.run)
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
