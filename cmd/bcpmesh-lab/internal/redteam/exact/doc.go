// Package exact tries every strategy of Readers and people on small meshes,
// and compares everything that a Controller could hear with the bound of
// bcp/CAPACITY.md.
//
//	for _, c := range exact.Configurations() {
//		found, err := c.Search(0)
//		for _, defect := range found.Defects { … }
//	}
//
// Everything runs on a real [state.State] with a simulated clock: each
// decision goes through its record, and branches share their past. Results
// hold for these configurations and horizons, and say nothing of larger ones,
// of the bus or of the clock. Weights are computed in whole numbers and
// rounded up, against us.
//
// It is pure: it reads no clock, makes no connections and prints nothing.
package exact
