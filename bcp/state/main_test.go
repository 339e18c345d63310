package state_test

import (
	"os"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func TestMain(m *testing.M) {
	bcptest.LeaveOut("FuzzApply", "FuzzRestore", "TestSlotHidesOrderAndTime", "TestSpendingAlerts")
	os.Exit(m.Run())
}
