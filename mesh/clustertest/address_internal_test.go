package clustertest

import "testing"

// Two processes never give away the same port, also where nobody listens there yet.
func TestPortsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	var processes [2]portRange
	t.Cleanup(func() {
		for i := range processes {
			for _, held := range processes[i].held {
				if err := held.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	given := map[string]bool{}
	for range blockPorts + 1 { // of more than one block each
		for i := range processes {
			address := processes[i].free(t)
			if given[address] {
				t.Fatalf("%s is given away twice", address)
			}
			given[address] = true
		}
	}
}
