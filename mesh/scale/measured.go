package scale

import "time"

// Measured are the costs of this tree on two shared cores: processor times, batches
// and sizes of `bcpmesh bench` on 2026-11-20 18:15 UTC, while about 20 processes
// waited for the cores. Figures that a busy machine cannot show are from the run of
// docs/performance.md, 13:10 UTC, with about 3 such processes: the time of a commit,
// the projections' cost of questions, replay and connections.
var Measured = Costs{
	Source: "2026-11-20 18:15 UTC (processor times, sizes; about 20 processes waiting) and 13:10 UTC (commit, replay; about 3): 2 cores, Intel(R) Xeon(R) Processor, linux/amd64, go1.26.8",
	Push:   Exchange{Decisions: 2, Answered: 1, Processor: 66.4, Apart: 194, Record: 265, Projection: 39.7, Agents: 22.5, Journal: 1027, Streams: 2567},
	Ask:    Exchange{Decisions: 3, Answered: 2, Processor: 161, Apart: 190, Record: 390, Projection: 53, Agents: 35.3, Journal: 1847, Streams: 4238},
	// From profiles of the mesh's process under these loads: 14 to 19 % of its samples,
	// 20 of those outside garbage collection.
	Serial:    0.2,
	CommitP50: 363, CommitP99: 2545,
	Connect: 1637, Connection: 164_000,
	DefinitionText: 265, DefinitionMemory: 464, DefinitionLoad: 169, StateMemory: 1661, StateRestore: 19.3, Snapshot: 105,
	Permissions: 12.9, Claim: 57.3, AgentClaim: 500, SealingKey: 1043,
	IDMemory: 207, IDSnapshot: 110, IDRestore: 1.46, QueryMemory: 771, Replay: 4.98,
}

// MeasuredBasis has the loads of docs/performance.md too, and the batches of 18:15.
var MeasuredBasis = Basis{Costs: Measured, Cores: 2, Points: []Point{
	{Connections: 16, InFlight: 1, P50: microseconds(907), P99: microseconds(2480), Rate: 968, Batch: 1.19},
	{Connections: 16, InFlight: 16, P50: microseconds(3380), P99: microseconds(10_300), Rate: 4067, Batch: 13.6},
	{Connections: 16, InFlight: 256, P50: microseconds(16_800), P99: microseconds(47_300), Rate: 13_454, Batch: 168},
	{Ask: true, Connections: 16, InFlight: 1, P50: microseconds(1750), P99: microseconds(2910), Rate: 549, Batch: 1},
	{Ask: true, Connections: 16, InFlight: 16, P50: microseconds(5750), P99: microseconds(14_500), Rate: 2610, Batch: 11.6},
	{Ask: true, Connections: 16, InFlight: 256, P50: microseconds(28_200), P99: microseconds(60_700), Rate: 8091, Batch: 126},
}}

func microseconds(n time.Duration) Span { return Span(n * time.Microsecond) }
