package define

import (
	"os"
	"path/filepath"
	"testing"
)

// A mesh is made whole or not at all, also where a later part fails.
//
// covers P1.2
func TestInitTakesBack(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	// mesh.yaml is there as a link to nowhere: it cannot be replaced by
	// a careless writer, nor read.
	if err := os.Symlink("nowhere", filepath.Join(root, "mesh.yaml")); err != nil {
		t.Fatal(err)
	}
	if files, err := writeExample(root, "research", (&modelSeat{}).edit); err == nil {
		t.Errorf("wrote %v", files)
	}
	sub, err := exampleFiles("research")
	if err != nil {
		t.Fatal(err)
	}
	if files, err := placeWhole(root, sub, "", (&modelSeat{}).edit); err == nil {
		t.Errorf("placed %v", files)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "mesh.yaml" {
		t.Errorf("left %v, %v", left, err)
	}
}
