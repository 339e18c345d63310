package mesh

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
)

// setBackFile lists who has seen more of the journal than there is. It is in the
// tree's folder, and in no backup: after a restore everything is checked again.
const setBackFile = "set-back"

// openMarks prepares to detect a rollback of the journal by the marks of agents and
// people.
func (m *Mesh) openMarks() (*gateway.Marks, error) {
	folder := filepath.Join(m.config.State, treeFolder)
	secret, err := m.store.MarkSecret()
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	var marks *gateway.Marks
	if err == nil {
		marks, err = gateway.OpenMarks(filepath.Join(folder, setBackFile), secret)
	}
	if err != nil {
		return nil, fmt.Errorf("start the mesh: %w", err)
	}
	return marks, nil
}

// acceptRollback lets the mesh serve although a witness, or agents and people in an earlier
// run, have seen more of the journal, if the operator accepts that. It is recorded first,
// and nobody is served yet. Whoever has seen even more closes it again.
func (m *Mesh) acceptRollback(ctx context.Context, marks *gateway.Marks, w *witnesses) error {
	log := m.config.Logger.Named("marks")
	seen := w.seenMore()
	switch {
	case !marks.Pending() && len(seen) == 0:
		return nil
	case !m.config.AcceptRollback:
		log.Error("the journal was set back, as witnesses, agents or people have shown; what this closes waits for up --accept-rollback")
		return nil
	}
	err := m.recordAccepted(ctx)
	if err == nil {
		err = marks.Accept(time.Now(), seen)
	}
	if err != nil {
		return fmt.Errorf("start the mesh: %w", err)
	}
	w.accept()
	log.Warn("the operator has accepted that the journal was set back")
	return nil
}

// recordAccepted returns once the journal records that the operator accepts a rollback.
func (m *Mesh) recordAccepted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	recorded := make(chan struct{})
	m.gateway.Alert(bcp.AlertRollbackAccepted, sync.OnceFunc(func() { close(recorded) }))
	select {
	case <-recorded:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("record that the journal was set back: %w", ctx.Err())
	}
}
