// Package scale computes what a mesh of a size needs, and what of it breaks first,
// from costs that were measured. It is a model: it has no clock and no network, runs
// nothing, and the same input gives the same output.
//
//	plan := scale.Compute(scale.Measured, scale.Load{Agents: 10_000, Channels: 1_000_000, Rate: 100_000})
//	fmt.Println(plan.First)
//
// [Compute] is arithmetic over [Costs], which `bcpmesh bench` measures. What a formula
// gets wrong, how long a message waits while others share its record, [Simulate]
// plays out event by event. docs/scale.md says what was measured, what is computed,
// and how far the model is off.
package scale
