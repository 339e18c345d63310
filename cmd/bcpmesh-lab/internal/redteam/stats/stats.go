// Package stats estimates from samples how many bits a channel moved. It
// assumes only that trials are independent. All bits are log2.
//
// It is pure; randomness is an argument.
package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// binomial is P(X <= x) of n trials with success probability p.
func binomial(x, n int, p float64) float64 {
	switch {
	case x < 0:
		return 0
	case x >= n || p <= 0:
		return 1
	case p >= 1:
		return 0
	}
	all, _ := math.Lgamma(float64(n + 1))
	sum := 0.0
	for i := x; i >= 0; i-- {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		term := math.Exp(all - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		sum += term
		if term < sum*1e-17 && float64(i) < float64(n)*p {
			break
		}
	}
	return min(1, sum)
}

// bisect returns the zero of f, which falls from positive to negative, between
// two points.
func bisect(low, high float64, f func(float64) float64) float64 {
	for range 200 {
		if middle := (low + high) / 2; f(middle) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// ErrorsAtMost is the Clopper-Pearson upper bound of an error rate after so many errors
// in n trials: it is below the true one with probability alpha at most.
func ErrorsAtMost(errors, n int, alpha float64) float64 {
	if errors >= n {
		return 1
	}
	return bisect(0, 1, func(p float64) float64 { return binomial(errors, n, p) - alpha })
}

func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}

// Fano returns the minimum number of bits moved if one of k uniformly drawn secrets is
// decoded with an error rate of at most e. It is 0 if e implies nothing.
func Fano(k int, e float64) float64 {
	if k < 2 || e >= 1-1/float64(k) {
		return 0
	}
	return max(0, math.Log2(float64(k))-entropy(e)-e*math.Log2(float64(k-1)))
}

// MovedAtLeast is Fano's bound at the Clopper-Pearson bound: above the truth with
// probability alpha at most.
func MovedAtLeast(k, errors, n int, alpha float64) float64 {
	return Fano(k, ErrorsAtMost(errors, n, alpha))
}

// Exceeds returns the p-value of the hypothesis that at most charge bits moved: the
// probability of so few errors at the lowest error rate that it allows.
func Exceeds(k, errors, n int, charge float64) float64 {
	if charge >= math.Log2(float64(k)) {
		return 1
	}
	least := bisect(0, 1-1/float64(k), func(e float64) float64 { return Fano(k, e) - charge })
	return binomial(errors, n, least)
}

// Holm returns which of the hypotheses with these p-values are rejected; the
// probability that any true one is among them is at most alpha.
func Holm(p []float64, alpha float64) []bool {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	rejected := make([]bool, len(p))
	for rank, i := range order {
		if p[i] > alpha/float64(len(p)-rank) {
			break
		}
		rejected[i] = true
	}
	return rejected
}

// Table counts pairs: a row for each secret, a column for each observation.
type Table [][]int

// NewTable counts pairs of a secret below k and an observation below bins.
func NewTable(secrets, observed []int, k, bins int) Table {
	t := make(Table, k)
	for i := range t {
		t[i] = make([]int, bins)
	}
	for i, s := range secrets {
		t[s][observed[i]]++
	}
	return t
}

func (t Table) sums() (rows, columns []int, n int) {
	rows = make([]int, len(t))
	columns = make([]int, len(t[0]))
	for i, row := range t {
		for j, c := range row {
			rows[i] += c
			columns[j] += c
			n += c
		}
	}
	return rows, columns, n
}

// Information returns the plug-in estimate of the mutual information, in bits. It
// is too high by about [Table.Bias].
func (t Table) Information() float64 {
	rows, columns, n := t.sums()
	bits := 0.0
	for i, row := range t {
		for j, c := range row {
			if c > 0 {
				bits += float64(c) / float64(n) * math.Log2(float64(c)*float64(n)/(float64(rows[i])*float64(columns[j])))
			}
		}
	}
	return max(0, bits)
}

// Bias is Miller and Madow's correction of [Table.Information].
func (t Table) Bias() float64 {
	rows, columns, n := t.sums()
	used := func(list []int) (m int) {
		for _, c := range list {
			if c > 0 {
				m++
			}
		}
		return m
	}
	return float64((used(rows)-1)*(used(columns)-1)) / (2 * float64(n) * math.Ln2)
}

// Capacity returns the capacity of the measured channel over all distributions of
// secrets, by Blahut and Arimoto: the best choice of secrets would have moved that
// much. It has the same bias as the estimate.
func (t Table) Capacity() float64 {
	rows, columns, _ := t.sums()
	p := make([]float64, len(t))
	for i := range p {
		p[i] = 1 / float64(len(t))
	}
	low := 0.0
	for range 500 {
		out := make([]float64, len(columns))
		for i, row := range t {
			for j, c := range row {
				if rows[i] > 0 {
					out[j] += p[i] * float64(c) / float64(rows[i])
				}
			}
		}
		total, high := 0.0, 0.0
		next := make([]float64, len(p))
		for i, row := range t {
			d := 0.0
			for j, c := range row {
				if c > 0 {
					w := float64(c) / float64(rows[i])
					d += w * math.Log2(w/out[j])
				}
			}
			next[i] = p[i] * math.Exp2(d)
			total += next[i]
			high = max(high, d)
		}
		for i := range p {
			p[i] = next[i] / total
		}
		if low = math.Log2(total); high-low < 1e-6 {
			break
		}
	}
	return max(0, low)
}

// Permutation returns the p-value of the hypothesis that secrets and
// observations are independent: the fraction of permutations with as much
// information.
func Permutation(secrets, observed []int, k, bins, rounds int, random *rand.Rand) float64 {
	least := NewTable(secrets, observed, k, bins).Information()
	shuffled := slices.Clone(secrets)
	as := 1
	for range rounds {
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if NewTable(shuffled, observed, k, bins).Information() >= least-1e-12 {
			as++
		}
	}
	return float64(as) / float64(rounds+1)
}

// Quantiles returns the borders that divide values into so many bins of equal count.
func Quantiles(values []float64, bins int) []float64 {
	sorted := slices.Sorted(slices.Values(values))
	var borders []float64
	for i := 1; i < bins && len(sorted) > 0; i++ {
		if at := sorted[i*len(sorted)/bins]; len(borders) == 0 || at > borders[len(borders)-1] {
			borders = append(borders, at)
		}
	}
	return borders
}

// Bin is the number of borders at or below a value.
func Bin(value float64, borders []float64) int {
	at, _ := slices.BinarySearch(borders, math.Nextafter(value, math.Inf(1)))
	return at
}

// gammaP is the regularised lower incomplete gamma function.
func gammaP(a, x float64) float64 {
	if x <= 0 {
		return 0
	}
	log, _ := math.Lgamma(a)
	front := math.Exp(-x + a*math.Log(x) - log)
	if x < a+1 {
		sum, term := 1/a, 1/a
		for n := 1.0; n < 10_000 && term > sum*1e-16; n++ {
			term *= x / (a + n)
			sum += term
		}
		return min(1, front*sum)
	}
	b, c := x+1-a, math.Inf(1)
	d := 1 / b
	h := d
	for i := 1.0; i < 10_000; i++ {
		an := -i * (i - a)
		b += 2
		d = 1 / (an*d + b)
		c = b + an/c
		h *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return max(0, 1-front*h)
}

// noncentral is the distribution of a noncentral chi-square of df and lambda.
func noncentral(x float64, df int, lambda float64) float64 {
	sum := 0.0
	middle := int(lambda / 2)
	width := 20 + int(10*math.Sqrt(lambda/2+1))
	for i := max(0, middle-width); i <= middle+width; i++ {
		log, _ := math.Lgamma(float64(i + 1))
		weight := math.Exp(-lambda/2 + float64(i)*math.Log(max(lambda, 1e-300)/2) - log)
		sum += weight * gammaP(float64(df)/2+float64(i), x/2)
	}
	return min(1, sum)
}

// WouldHaveSeen returns the least leak, in bits a use, that n trials of k secrets in so
// many bins detect with a probability of 0.99, when independence is falsely rejected in
// one of 1,000 cases: 2 n ln 2 times the information is a noncentral chi-square.
func WouldHaveSeen(n, k, bins int) float64 {
	const alpha, power = 0.001, 0.99
	df := (k - 1) * (bins - 1)
	if n == 0 || df < 1 {
		return math.Inf(1)
	}
	alarm := bisect(0, 100+10*float64(df), func(x float64) float64 { return 1 - gammaP(float64(df)/2, x/2) - alpha })
	lambda := bisect(0.001, 1000+10*float64(df), func(l float64) float64 { return noncentral(alarm, df, l) - (1 - power) })
	return lambda / (2 * float64(n) * math.Ln2)
}

// Wilson is the interval of a rate at 95 %.
func Wilson(x, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959964
	p, m := float64(x)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, centre-half), min(1, centre+half)
}
