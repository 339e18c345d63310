package main

import (
	"os/exec"
	"testing"
)

// What is written about proofs and conformance works as it stands there, as in
// the other documents. Their meshes have one port: it runs by itself.
func TestCommandsOfProofsWork(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for document, least := range map[string]int{"docs/conformance.md": 18, "docs/permissions.md": 7} {
		t.Run(document, func(t *testing.T) {
			if typed := typeDocument(t, document, bin); typed < least {
				t.Errorf("typed only %d commands: are they still in blocks of sh?", typed)
			}
		})
	}
}
