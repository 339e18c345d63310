package gateway

import (
	"context"
	"time"
)

const (
	// keysAhead is how long before midnight, in UTC, tomorrow's sealing keys are made.
	keysAhead = 2 * time.Hour
	// keysInterval is how often to look for channels that will need keys.
	keysInterval = time.Minute
)

// makeKeysAhead makes the sealing keys of a day before it begins, concurrently with
// deciding: otherwise the first message of each channel would wait for two writes to
// disk, and so would everybody after it.
func (g *Gateway) makeKeysAhead(ctx context.Context) {
	ticker := time.NewTicker(keysInterval)
	defer ticker.Stop()
	for {
		now := g.clock().UTC()
		if now.Add(keysAhead).Day() != now.Day() {
			if n, err := g.keys.MakeAhead(ctx, now); err != nil && ctx.Err() == nil {
				g.log.Warn("making tomorrow's sealing keys; trying again", "error", err)
			} else if n > 0 {
				g.log.Debug("tomorrow's sealing keys are made", "keys", n)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
