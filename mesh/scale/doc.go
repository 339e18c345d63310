// Package scale computes from measured costs what a mesh of a given size
// needs, and which part breaks first. It is a model: it has no clock and no
// network, runs nothing, and the same input gives the same output.
//
//	plan := scale.Compute(scale.Measured, scale.Load{Agents: 10_000, Channels: 1_000_000, Rate: 100_000})
//	fmt.Println(plan.First)
//
// [Compute] is arithmetic over [Costs], which `bcpmesh bench` measures.
// [Simulate] simulates events where a formula is too crude: how long a message
// waits while others share its record. docs/scale.md says what was measured,
// what is computed, and the model's error.
package scale
