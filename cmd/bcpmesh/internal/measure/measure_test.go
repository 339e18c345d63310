package measure

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/mesh/meshtest/effort"
)

func TestMain(m *testing.M) {
	effort.LeaveOut("TestScaleDocument")
	m.Run()
}
