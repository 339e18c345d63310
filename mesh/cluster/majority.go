package cluster

import "time"

// A server that is cut off from the others still answers its clients, but stores
// nothing. A gateway leaves it for another.

// leaveCutOff leaves servers that are cut off, until quit is closed.
func (c *Cluster) leaveCutOff(quit <-chan struct{}) {
	ticker := time.NewTicker(callTime)
	defer ticker.Stop()
	for alone := 0; ; {
		r, err := c.call()
		switch {
		case err != nil: // the monitor itself is looking for a server
		case !r.cutOff():
			alone = 0
			c.noted(r)
			c.moveConnections(c.silentServers())
		default:
			c.noted(r)
			if alone++; alone >= silentCalls {
				alone = 0
				c.log.Warn("leaving a server that is cut off from the others", "answers", r.keepers, "servers", r.size)
				c.moveConnections(map[string]bool{r.at: true})
				_ = c.monitor.ForceReconnect() // unless it is closed
			}
		}
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
	}
}

// moveConnections moves the gateway's connections from servers to others. It waits for
// none of them: a reconnecting one does not answer.
func (c *Cluster) moveConnections(servers map[string]bool) {
	if len(servers) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		go func() {
			if servers[conn.ConnectedServerId()] {
				_ = conn.ForceReconnect() // unless it is closed
			}
		}()
	}
}
