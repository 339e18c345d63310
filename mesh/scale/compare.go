package scale

// Point is a load that a machine was measured under: so many exchanges in flight, with
// the agents' processes beside, all sharing its cores.
type Point struct {
	Ask      bool `json:"ask"` // or a push
	InFlight int  `json:"in_flight"`
	// Connections is how many the messages came over.
	Connections int     `json:"connections"`
	P50         Span    `json:"p50"`
	P99         Span    `json:"p99"`
	Rate        float64 `json:"rate"` // exchanges a second
	Batch       float64 `json:"batch"`
}

// Comparison is a point and what the simulation makes of it.
type Comparison struct {
	Measured  Point   `json:"measured"`
	Simulated Outcome `json:"simulated"`
}

// Compare plays points that were measured on a machine with so many cores.
func Compare(c Costs, cores int, points []Point) []Comparison {
	all := make([]Comparison, 0, len(points))
	for _, p := range points {
		x := c.Push
		if p.Ask {
			x = c.Ask
		}
		s := Shard{Costs: c, Exchange: x, Cores: cores, Connections: p.Connections, Beside: true}
		all = append(all, Comparison{p, Simulate(s, p.InFlight, 0, simulated, 1)})
	}
	return all
}

// Off is how far a figure of a simulation is from the measured one, as a part of it.
func Off(simulated, measured float64) float64 {
	if measured == 0 {
		return 0
	}
	return simulated/measured - 1
}

// Basis is what a model computes with, and what it is compared with: loads that were
// measured on a machine with so many cores.
type Basis struct {
	Costs  Costs
	Points []Point
	Cores  int
}
