package agents

import (
	"crypto/sha256"
	"os"
	"time"

	"github.com/nats-io/nkeys"
)

// fileInterval is how often a creds file is looked at, and its mark is written.
const fileInterval = time.Second

// fileDigest returns the digest of the creds in a file, or zero if it has none: a
// file that is being written is read again.
func fileDigest(name string) (d [sha256.Size]byte) {
	content, err := os.ReadFile(name)
	if err != nil {
		return d
	}
	pair, err := nkeys.ParseDecoratedUserNKey(content)
	if err != nil {
		return d
	}
	pair.Wipe()
	return sha256.Sum256(content)
}

// watchFile switches to new creds in the file, and writes its mark, until the connection is closed and once more.
func (c *Connection) watchFile(name string, held [sha256.Size]byte) {
	defer c.marks.write()
	ticker := time.NewTicker(fileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-ticker.C:
		}
		c.marks.write()
		now := fileDigest(name)
		if now == held || now == ([sha256.Size]byte{}) {
			continue
		}
		held = now
		c.log.Info("going over to other credentials")
		if err := c.nc.ForceReconnect(); err != nil {
			c.log.Warn("going over to other credentials", "error", err)
		}
	}
}
