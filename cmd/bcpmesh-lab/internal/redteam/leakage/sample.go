package leakage

import (
	"math"
	"math/rand/v2"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam/stats"
)

// Sample is the measurement of an encoder.
type Sample struct {
	Mode    string  `json:"mode"`
	Secrets int     `json:"secrets"` // from which one was drawn for each trial
	Trials  int     `json:"trials"`  // half of them train the decoder, half are scored
	Errors  int     `json:"errors"`  // of those that were scored
	Charged float64 `json:"charged"` // capacity bits a trial, on average
	// Moved is the lower bound of bits moved in a trial, with 95 % confidence.
	Moved float64 `json:"moved"`
	// P is the p-value of the hypothesis that no more moved than was charged.
	P float64 `json:"p"`
	// Estimate is the number of bits moved at the observed error rate, and Best
	// that with the best distribution of secrets. They decide nothing.
	Estimate float64 `json:"estimate"`
	Best     float64 `json:"best"`
	// TimeP is the p-value of the hypothesis that arrival times are independent of the
	// secret, and TimeSeen the least leak through them that would have been detected.
	TimeP    float64 `json:"time_p"`
	TimeSeen float64 `json:"time_seen"`
}

// observation is a Controller's observation of one trial.
type observation struct {
	secret  int
	said    string // responses, outcomes, codes, subscriptions, in their order
	slots   int    // release slots, or 8 ms, from its ask to the end
	took    float64
	charged float64
}

const timeBins = 8

// analyse trains a decoder with the first half of the observations, in the order of
// their random secrets, and scores it with the second.
func analyse(k int, all []observation, rounds int, random *rand.Rand) Sample {
	train, score := all[:len(all)/2], all[len(all)/2:]
	var times []float64
	for _, o := range train {
		times = append(times, o.took)
	}
	borders := stats.Quantiles(times, timeBins)
	type feature struct {
		kind int
		text string
		n    int
	}
	features := func(o observation) [3]feature {
		return [3]feature{{0, o.said, 0}, {1, "", o.slots}, {2, "", stats.Bin(o.took, borders)}}
	}
	counts, perSecret := map[feature][]int{}, make([]int, k)
	for _, o := range train {
		perSecret[o.secret]++
		for _, f := range features(o) {
			if counts[f] == nil {
				counts[f] = make([]int, k)
			}
			counts[f][o.secret]++
		}
	}
	guess := func(o observation) int {
		best, most := 0, math.Inf(-1)
		for s := range k {
			log := 0.0
			for _, f := range features(o) {
				n := 0
				if c := counts[f]; c != nil {
					n = c[s]
				}
				log += math.Log((float64(n) + 0.1) / (float64(perSecret[s]) + 1))
			}
			if log > most {
				best, most = s, log
			}
		}
		return best
	}
	out := Sample{Secrets: k, Trials: len(all)}
	secrets, guesses := make([]int, len(score)), make([]int, len(score))
	for i, o := range score {
		secrets[i], guesses[i] = o.secret, guess(o)
		if secrets[i] != guesses[i] {
			out.Errors++
		}
		out.Charged += o.charged / float64(len(score))
	}
	table := stats.NewTable(secrets, guesses, k, k)
	out.Estimate, out.Best = max(0, table.Information()-table.Bias()), max(0, table.Capacity()-table.Bias())
	out.Moved = stats.MovedAtLeast(k, out.Errors, len(score), 0.05)
	out.P = stats.Exceeds(k, out.Errors, len(score), out.Charged)
	bins, ofAll := make([]int, len(all)), make([]int, len(all))
	for i, o := range all {
		bins[i], ofAll[i] = stats.Bin(o.took, borders), o.secret
	}
	out.TimeP = stats.Permutation(ofAll, bins, k, timeBins, rounds, random)
	out.TimeSeen = stats.WouldHaveSeen(len(all), k, timeBins)
	return out
}
