package mesh

import (
	"context"
	"sync"
	"time"
)

// nowAndEvery is runEvery, and f is called at once, too.
func (m *Mesh) nowAndEvery(interval time.Duration, f func(context.Context)) {
	m.inBackground(func(ctx context.Context) {
		for more := true; more; more = sleep(ctx, interval) {
			f(ctx)
		}
	})
}

// runEvery calls f at an interval until the mesh stops, which cancels its context and
// waits for it.
func (m *Mesh) runEvery(interval time.Duration, f func(context.Context)) {
	m.inBackground(func(ctx context.Context) {
		for sleep(ctx, interval) {
			f(ctx)
		}
	})
}

// inBackground runs f until the mesh stops, which cancels its context and waits
// for it.
func (m *Mesh) inBackground(f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	m.onStop(func() error { cancel(); running.Wait(); return nil })
}

// onStop makes Stop call undo, before the undo functions of earlier steps. Once Stop
// has begun, undo is called at once: a start in progress then undoes its own steps.
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
