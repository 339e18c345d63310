package run

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

// What keeps a mesh or a gateway from starting is said with what to do.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	clitest.Faults(t, startFaults)
	clitest.Faults(t, gatewayFaults)
}
