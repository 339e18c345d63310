package text

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// weightsFile is the table of what words weigh, made by cmd/bcpmesh-lab/judge: the limits of weak and strong,
// then the buckets, all in little-endian order.
//
//go:embed weights.bin
var weightsFile []byte

// WeightBuckets is the number of buckets of the table, and BucketSlots of the weights in each.
const (
	WeightBuckets = 1 << 14
	BucketSlots   = 4
)

// weights are whole numbers for words, pairs of words and beginnings of words. A bucket has in its low bytes one byte of
// each key (0 is free), and in its high bytes their weights. A key that is not in the table is taken for
// one that is once in 160 times; it only adds what one word may weigh.
type weights struct {
	weak, strong int32
	buckets      [WeightBuckets]uint64
}

func loadWeights(file []byte) *weights {
	if len(file) != 8+8*WeightBuckets {
		return nil
	}
	w := &weights{weak: int32(binary.LittleEndian.Uint32(file)), strong: int32(binary.LittleEndian.Uint32(file[4:]))}
	for i := range w.buckets {
		w.buckets[i] = binary.LittleEndian.Uint64(file[8+8*i:])
	}
	return w
}

// weightsVersion is the beginning of the SHA-256 of the table.
var weightsVersion = sync.OnceValue(func() string {
	sum := sha256.Sum256(weightsFile)
	return hex.EncodeToString(sum[:6])
})

// WeightPlace is the bucket of a key, and the byte of it that is kept there.
func WeightPlace(key uint64) (bucket int, mark byte) {
	return int(key & (WeightBuckets - 1)), max(1, byte(key>>40))
}

// of returns what a key weighs; 0 if it is not in the table.
func (w *weights) of(key uint64) int32 {
	at, mark := WeightPlace(key)
	bucket := w.buckets[at]
	for slot := range BucketSlots {
		if byte(bucket>>(8*slot)) == mark {
			return int32(int8(bucket >> (8 * (BucketSlots + slot))))
		}
	}
	return 0
}

// Seeds keep words, pairs and stems apart.
const (
	wordSeed = 0x6a09e667f3bcc908
	pairSeed = 0xbb67ae8584caa73b
	stemSeed = 0x3c6ef372fe94f82b
)

// stemChars is how many characters of a longer word are its stem.
const stemChars = 4

// stemNumber stands for a number: all numbers weigh the same.
const stemNumber = 1

// stemOf hashes what a word of more than stemChars characters begins with; it is 0 for shorter ones.
func stemOf(word []byte) uint64 {
	n := 0
	for at := range string(word) {
		if n == stemChars {
			stem := hashMore(stemSeed, eight(word[:at]))
			if at > 8 {
				stem = hashMore(stem, eight(word[8:at]))
			}
			return stem
		}
		n++
	}
	return 0
}

// judged is how many words are weighed together: what is far away in a long text excuses nothing.
const judged = 24

// weighed adds up what words weigh.
type weighed struct {
	weights *weights
	pair    uint64 // the hash of a pair that begins with the word before
	words   int
	sum     int32
	most    int32 // of the last judged words, so far
	at      uint32
	each    [judged]int16 // what the last words weighed
}

// weighing begins to weigh words.
func (r *Rules) weighing() weighed { return weighed{weights: r.weights, pair: hashMore(pairSeed, 0)} }

// keys are those of a word, of its pair with the word before and of its stem, and what the next pair begins with.
func (w *weighed) keys(word, stem uint64) (alone, pair, begins, next uint64) {
	if stem == stemNumber {
		word, stem = stemNumber, 0
	}
	return hashMore(wordSeed, word), hashMore(w.pair, word), stem, hashMore(pairSeed, word)
}

// add weighs one more word.
func (w *weighed) add(word, stem uint64) {
	table := w.weights
	if table == nil {
		return
	}
	alone, pair, begins, next := w.keys(word, stem)
	w.pair = next
	weight := table.of(alone) + table.of(pair)
	if begins != 0 {
		weight += table.of(begins)
	}
	at := w.at
	if at >= judged {
		at = 0
	}
	w.sum += weight - int32(w.each[at]) // which is 0 before there are as many
	w.each[at] = int16(weight)
	w.at = at + 1
	if w.words++; w.words <= judged || w.sum > w.most {
		w.most = w.sum
	}
}

// code is the sign that the words are.
func (w *weighed) code() Set {
	switch {
	case w.weights == nil || w.words == 0 || w.most < w.weights.weak:
		return 0
	case w.most < w.weights.strong:
		return WeakSign
	}
	return Instruction
}

// Weighed is a word of a normalised text and where it begins, its keys in the table of weights (0 for none) and what they weigh together.
type Weighed struct {
	Word   string
	At     int
	Keys   [3]uint64
	Weight int
}

// Weigh returns what the words of a normalised text weigh for the rules, in their order, and the codes for that.
func (r *Rules) Weigh(normalised []byte) (list []Weighed, codes Set) {
	if r == nil {
		r = DefaultRules()
	}
	sum := r.weighing()
	for t := (tokens{text: normalised}); ; {
		for t.at < len(t.text) && tokenKinds[t.text[t.at]] == tokenBreak {
			t.at++
		}
		begun := t.at
		if !t.next() {
			return list, sum.code()
		}
		alone, pair, begins, _ := sum.keys(t.word, t.stem)
		sum.add(t.word, t.stem)
		weight := 0
		if r.weights != nil {
			weight = int(sum.each[sum.at-1])
		}
		list = append(list, Weighed{Word: string(t.text[begun:t.at]), At: begun, Keys: [3]uint64{alone, pair, begins}, Weight: weight})
	}
}

// Signs returns where the words of a normalised text begin and end that speak most for an instruction: those that weigh
// at least a third of what the heaviest does. A text whose words are no sign together has none.
func (r *Rules) Signs(normalised []byte) (places [][2]int) {
	list, codes := r.Weigh(normalised)
	if codes == 0 {
		return nil
	}
	heaviest := 0
	for _, w := range list {
		heaviest = max(heaviest, w.Weight)
	}
	for _, w := range list {
		if w.Weight > 0 && 3*w.Weight >= heaviest {
			places = append(places, [2]int{w.At, w.At + len(w.Word)})
		}
	}
	return places
}

// WeightOf returns what a key of Weighed weighs for the rules.
func (r *Rules) WeightOf(key uint64) int {
	if key == 0 || r.weights == nil {
		return 0
	}
	return int(r.weights.of(key))
}

// WithWeights returns the rules with another table of weights, in the form of the embedded one: to measure a table. It is nil for a
// file of another size.
func (r *Rules) WithWeights(file []byte) *Rules {
	other := *r
	if other.weights = loadWeights(file); other.weights == nil {
		return nil
	}
	return &other
}
