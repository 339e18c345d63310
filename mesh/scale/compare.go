package scale

// Point is a measured load: the number of exchanges in flight, with the agents'
// processes on the same cores.
type Point struct {
	Ask      bool `json:"ask"` // or a push
	InFlight int  `json:"in_flight"`
	// Connections is the number of connections for the messages.
	Connections int     `json:"connections"`
	P50         Span    `json:"p50"`
	P99         Span    `json:"p99"`
	Rate        float64 `json:"rate"` // exchanges a second
	Batch       float64 `json:"batch"`
}

// Comparison is a point and its simulation.
type Comparison struct {
	Measured  Point   `json:"measured"`
	Simulated Outcome `json:"simulated"`
}

// Compare simulates points that were measured on a machine with so many cores.
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

// Off returns the relative error of a simulated figure.
func Off(simulated, measured float64) float64 {
	if measured == 0 {
		return 0
	}
	return simulated/measured - 1
}

// Basis is the input of a model, and what it is compared with: loads that were
// measured on a machine with so many cores.
type Basis struct {
	Costs  Costs
	Points []Point
	Cores  int
}
