// Package exact plays small meshes in every way that Readers and people can, and
// holds the bound of bcp/CAPACITY.md against all that a Controller could hear.
//
//	for _, c := range exact.Configurations() {
//		found, err := c.Search(0)
//		for _, defect := range found.Defects { … }
//	}
//
// Everything runs on a real [state.State] under a clock of its own: each decision goes
// through its record, and branches share what came before them. What is found holds for
// these configurations and horizons, and says nothing of larger ones, of the bus or of
// the clock. Weights are computed in whole numbers and rounded up, against us.
//
// It is pure: it has no clock, makes no connections and prints nothing.
package exact
