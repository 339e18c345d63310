package mesh

import (
	"context"
	"time"
)

// fromNow has f called at once and then at an interval, as every does. On a cluster
// nobody waits for the first time.
func (m *Mesh) fromNow(interval time.Duration, f func(context.Context)) {
	if !m.clustered() {
		f(context.Background())
		m.runEvery(interval, f)
		return
	}
	m.inBackground(func(ctx context.Context) {
		f(ctx)
		atIntervals(ctx, interval, f)
	})
}

// runEvery has f called at an interval until the mesh stops, which ends its context and
// waits for it.
func (m *Mesh) runEvery(interval time.Duration, f func(context.Context)) {
	m.inBackground(func(ctx context.Context) { atIntervals(ctx, interval, f) })
}

func atIntervals(ctx context.Context, interval time.Duration, f func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f(ctx)
		}
	}
}

// inBackground runs f until the mesh stops, which ends f's context and waits
// for it.
func (m *Mesh) inBackground(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	m.onStop(func() error { cancel(); <-done; return nil })
}

// onStop has Stop call undo, before what was begun earlier is undone. Once Stop has
// begun, it is called at once: a start that is in progress undoes what it begins from
// then on.
func (m *Mesh) onStop(undo func() error) {
	m.undoing.Lock()
	if !m.stopBegun {
		m.undo = append(m.undo, undo)
		m.undoing.Unlock()
		return
	}
	m.undoing.Unlock()
	if err := undo(); err != nil {
		m.config.Logger.Warn("stopping what was just started", "error", err)
	}
}
