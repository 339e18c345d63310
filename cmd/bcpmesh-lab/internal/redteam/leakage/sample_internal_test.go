package leakage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
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
			failIf(t, (got.P < 0.001) != c.exceeds, "more than is charged: p is %v of %+v", got.P, got)
			failIf(t, (got.TimeP < 0.001) == !c.inTime && c.inTime || got.TimeP < 0.001 && !c.inTime,
				"time: p is %v of %+v", got.TimeP, got)
			failIf(t, got.Moved < c.moved || c.unmoving && got.Moved > 0.01, "moved at least %v", got.Moved)
		})
	}
}

// A planted leak of twice the figure that stands beside it is found, in time and in what
// is said, and a channel that carries nothing is not said to.
func TestPlantedRates(t *testing.T) {
	t.Parallel()
	const trials = 2000
	for _, c := range []struct {
		name  string
		timed bool
		leak  func(*observation, *rand.Rand)
		found bool
	}{
		{name: "nothing in time", timed: true, leak: func(*observation, *rand.Rand) {}},
		{name: "nothing that is said", leak: func(o *observation, random *rand.Rand) { o.said = fmt.Sprint(random.IntN(2)) }},
		// Two normal distributions that are 0.45 standard deviations apart tell 0.036 bits,
		// of which 0.016 would have been seen.
		{name: "jitter by the secret", timed: true, found: true, leak: func(o *observation, _ *rand.Rand) { o.took += 0.0009 * float64(o.secret) }},
		// A symmetric channel that errs in 0.41 of all cases carries 0.023 bits, of which
		// 0.011 would have been seen.
		{name: "an order by the secret", found: true, leak: func(o *observation, random *rand.Rand) {
			o.said = fmt.Sprint(o.secret)
			if random.Float64() < 0.41 {
				o.said = fmt.Sprint(1 - o.secret)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(3, 1))
			got := estimateRate(uncounted{secrets: 2, timed: c.timed}, observations(2, trials, 1, random, func(o *observation) { c.leak(o, random) }), 36*time.Millisecond, random)
			failIf(t, (got.P < 0.001) != c.found, "p is %v of %+v", got.P, got)
			failIf(t, got.Trials != trials || got.Moved > 0.07 || got.Seen > 0.03 || got.SeenPerHour < got.Seen*99_999 || got.SeenPerHour > got.Seen*100_001,
				"%+v", got)
		})
	}
	sure := estimateRate(uncounted{secrets: 2, people: true}, observations(2, trials, 1, rand.New(rand.NewPCG(1, 1)), func(o *observation) { o.said = fmt.Sprint(o.secret) }), time.Millisecond, rand.New(rand.NewPCG(1, 1)))
	failIf(t, sure.Moved < 0.95 || sure.PerHour != 0 || sure.SeenPerHour != 0,
		"what a person has to do each time has a rate: %+v", sure)
}

var failIf = bcptest.FailIf
