package measure

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/mesh/plot"
	"github.com/bcpmesh/bcpmesh/mesh/scale"
)

// The tables and plots of docs/scale.md are what the command writes today.
func TestScaleDocument(t *testing.T) {
	t.Parallel()
	const folder = "../../../../docs/scale"
	text, err := os.ReadFile(folder + ".md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := plot.Section(text, "scale", scaleSection(scale.MeasuredBasis, scaleDefaults(), "scale"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("bcpmesh scale --plots docs/scale writes the tables (-want +got):\n%s", diff)
	}
	for _, p := range scalePlots(scale.MeasuredBasis, scaleDefaults()) {
		got, err := os.ReadFile(filepath.Join(folder, p.file))
		if err != nil || !bytes.Equal(got, plot.SVG(p.Plot)) {
			t.Errorf("%s is not of these costs: %v", p.file, err)
		}
	}
}
