package judge

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// A model is a logistic regression with L2, over words, pairs of neighbours and stems. Products are written float64(a*b), so that no
// machine joins them with a sum: the table is the same everywhere, byte for byte.
type model struct{ weights map[uint64]float64 }

// How it is trained.
const (
	passes   = 30
	rate     = 0.1
	decay    = 0.003
	share    = 0.2  // of its weight that a sign adds: it keeps early steps small
	excuse   = -0.7 // the least weight: no word excuses much, or attackers would add it
	scale    = 200  // of whole-number weights
	greatest = 127
)

// train fits a model. The order of the rows does not matter.
func train(rows []row) *model {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.draw, b.draw) })
	place := map[uint64]int{}
	signs := make([][]int, len(rows))
	for i, r := range rows {
		for key := range r.keys {
			at, ok := place[key]
			if !ok {
				at = len(place)
				place[key] = at
			}
			signs[i] = append(signs[i], at)
		}
	}
	// One cell more, for the bias, which is in every sentence.
	weights, steps := make([]float64, len(place)+1), make([]float64, len(place)+1)
	bias := len(place)
	move := func(at int, gradient float64) {
		steps[at] += float64(gradient * gradient)
		weights[at] -= float64(rate*gradient) / (math.Sqrt(steps[at]) + 1e-3)
	}
	for range passes {
		for i, r := range rows {
			if len(r.words) == 0 {
				continue
			}
			sum := weights[bias]
			for _, at := range signs[i] {
				sum += float64(weights[at] * share)
			}
			off := logistic(sum)
			if r.hostile {
				off--
			}
			off *= r.weight
			for _, at := range signs[i] {
				move(at, float64(off*share)+float64(decay*weights[at]))
				weights[at] = max(weights[at], excuse)
			}
			move(bias, off)
		}
	}
	m := &model{weights: map[uint64]float64{}}
	for key, at := range place {
		m.weights[key] = float64(weights[at] * share)
	}
	return m
}

// keys yields the signs of a row, word by word.
func (r *row) keys(yield func(uint64) bool) {
	for _, w := range r.words {
		for _, key := range w.Keys {
			if key != 0 && !yield(key) {
				return
			}
		}
	}
}

// logistic is 1 / (1 + e^-x), by squaring: that of package math is not the same on all machines.
func logistic(x float64) float64 {
	e := 1 - min(30, max(-30, x))/1024
	for range 10 {
		e = float64(e * e)
	}
	return 1 / (1 + e)
}

// limits are the sums from which on a text is a weak and a strong sign.
type limits struct{ weak, strong int }

// table writes a model as package text reads it. Where a bucket is full the lightest are left out.
func (m *model) table(l limits) []byte {
	type sign struct {
		key    uint64
		weight int
	}
	var signs []sign
	for key, weight := range m.weights {
		if n := int(math.Round(float64(weight * scale))); n != 0 {
			signs = append(signs, sign{key, max(-greatest, min(greatest, n))})
		}
	}
	heft := func(n int) int { return max(n, -n) }
	slices.SortFunc(signs, func(a, b sign) int {
		return cmp.Or(cmp.Compare(heft(b.weight), heft(a.weight)), cmp.Compare(a.key, b.key))
	})
	file := l.write(make([]byte, 8+8*text.WeightBuckets))
	for _, s := range signs {
		at, mark := text.WeightPlace(s.key)
		bucket := file[8+8*at : 16+8*at]
		for slot := range text.BucketSlots {
			if bucket[slot] == mark {
				break
			}
			if bucket[slot] == 0 {
				bucket[slot], bucket[text.BucketSlots+slot] = mark, byte(int8(s.weight))
				break
			}
		}
	}
	return file
}

// write puts the limits into a table.
func (l limits) write(file []byte) []byte {
	binary.LittleEndian.PutUint32(file, uint32(int32(l.weak)))
	binary.LittleEndian.PutUint32(file[4:], uint32(int32(l.strong)))
	return file
}
