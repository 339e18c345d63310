package state_test

import (
	"os"
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

func TestMain(m *testing.M) {
	effort.LeaveOut("FuzzApply", "FuzzRestore", "TestSlotHidesOrderAndTime", "TestSpendingAlerts", "TestThrottleIsBitsAndCategory2QueriesNotRates")
	os.Exit(m.Run())
}
