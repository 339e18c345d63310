package run

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

// Addresses beyond this machine need TLS or the one flag.
//
// covers BCP-19
func TestListeningBeyondLoopback(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"[::1]:0": true, "127.0.0.1:0": true, "0.0.0.0:0": false, ":0": false, "mesh.example:0": false} {
		for sealed, l := range map[bool]listening{false: {Listen: address}, true: {Listen: address, TLS: true}} {
			if err := l.check(); (err == nil) != (ok || sealed) {
				t.Errorf("%s, with TLS %t: %v", address, sealed, err)
			}
		}
	}
}

// What keeps a mesh or a gateway from starting is said with what to do.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	clitest.Faults(t, startFaults)
	clitest.Faults(t, gatewayFaults)
}
