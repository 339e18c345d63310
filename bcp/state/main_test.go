package state_test

import (
	"os"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

func TestMain(m *testing.M) {
	effort.LeaveOut("FuzzApply", "FuzzRestore", "TestSlotHidesOrderAndTime", "TestSpendingAlerts")
	os.Exit(m.Run())
}
