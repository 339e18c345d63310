package leakage

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// observations are of n trials of k secrets that are charged so much, of which leak says
// what is seen.
func observations(k, n int, charged float64, random *rand.Rand, leak func(*observation)) []observation {
	all := make([]observation, n)
	for i := range all {
		all[i] = observation{secret: random.IntN(k), took: 0.010 + 0.002*random.NormFloat64(), charged: charged}
		leak(&all[i])
	}
	return all
}

// A planted leak is found, whether it is in what is said, in the slot or in the time,
// and what is not planted is not.
func TestPlantedLeaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		charged  float64
		leak     func(*observation)
		exceeds  bool // more moved than is charged
		inTime   bool
		moved    float64 // at least
		unmoving bool
	}{
		{name: "nothing", charged: 1, leak: func(*observation) {}, unmoving: true},
		{name: "a value that is charged", charged: 2, leak: func(o *observation) { o.said = fmt.Sprint(o.secret) }, moved: 1.9},
		{name: "a value that costs too little", charged: 1, leak: func(o *observation) { o.said = fmt.Sprint(o.secret) }, exceeds: true, moved: 1.9},
		{name: "a slot that costs nothing", charged: 1, leak: func(o *observation) { o.slots = o.secret }, exceeds: true, moved: 1.9},
		{name: "jitter by the secret", charged: 1, leak: func(o *observation) { o.took += 0.0006 * float64(o.secret) }, inTime: true},
		{name: "a delay by the secret", charged: 1, leak: func(o *observation) { o.took += 0.020 * float64(o.secret) }, exceeds: true, inTime: true, moved: 1.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 1))
			got := analyse(4, observations(4, 2000, c.charged, random, c.leak), 1000, random)
			if (got.P < 0.001) != c.exceeds {
				t.Errorf("more than is charged: p is %v of %+v", got.P, got)
			}
			if (got.TimeP < 0.001) == !c.inTime && c.inTime || got.TimeP < 0.001 && !c.inTime {
				t.Errorf("time: p is %v of %+v", got.TimeP, got)
			}
			if got.Moved < c.moved || c.unmoving && got.Moved > 0.01 {
				t.Errorf("moved at least %v", got.Moved)
			}
		})
	}
}
