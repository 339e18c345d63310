package text

import (
	"encoding/binary"
	"strings"
	"testing"
)

// A table is taken whole or not at all; one that is missing is not a judge that finds nothing.
// covers P3.6
func TestWeightsAreWholeOrRefused(t *testing.T) {
	t.Parallel()
	stopIf(t, DefaultRules().weights == nil || len(weightsFile) > 256_000, "the table has %d bytes", len(weightsFile))
	for _, n := range []int{0, len(weightsFile) - 1} {
		failIf(t, DefaultRules().WithWeights(weightsFile[:n]) != nil, "%d bytes are taken for a table", n)
	}
	failIf(t, !strings.Contains(Versions(), "weights "+weightsVersion()) || len(weightsVersion()) != 12, "%v", Versions())
}

// tableOf weighs words alone, and nothing else.
func tableOf(t *testing.T, weak, strong int, words map[string]int8) *Rules {
	t.Helper()
	file := make([]byte, 8+8*WeightBuckets)
	binary.LittleEndian.PutUint32(file, uint32(weak))
	binary.LittleEndian.PutUint32(file[4:], uint32(strong))
	for word, weight := range words {
		list, _ := DefaultRules().Weigh([]byte(word))
		at, mark := WeightPlace(list[0].Keys[0])
		bucket := file[8+8*at:][:8]
		slot := strings.IndexByte(string(bucket[:BucketSlots]), 0)
		bucket[slot], bucket[BucketSlots+slot] = mark, byte(weight)
	}
	return DefaultRules().WithWeights(file)
}

// A sum is a sign from its limit on, and words far away excuse nothing.
// covers P3.6
func TestWordsAreWeighedTogether(t *testing.T) {
	t.Parallel()
	r := tableOf(t, 30, 50, map[string]int8{"alpha": 25, "beta": 5, "gamma": -20, "7": 20})
	filler := strings.Repeat(" x", judged)
	for s, want := range map[string]Set{
		"alpha": 0, "alpha beta": WeakSign, "alpha beta gamma": 0, "alpha alpha": Instruction, "alpha x alpha": Instruction, "ALPHA, álpha alpha": Instruction,
		"alpha gamma alpha": WeakSign, "alpha alpha beta gamma beta beta": WeakSign, "aIpha": 0, "a l p h a beta": WeakSign, "alpha 7": WeakSign, "alpha 1234": WeakSign, "alpha l7": 0,
		"alpha alpha" + filler + strings.Repeat(" gamma", 9): Instruction, strings.Repeat("gamma ", 9) + "x" + filler + " alpha alpha": Instruction,
		"alpha" + filler + " alpha": 0, "alpha" + filler[4:] + " alpha": Instruction,
	} {
		got, err := Normalise(nil, []byte(s), Options{Alphabet: Any, Join: Summary, MaxWords: 200, Rules: r})
		if _, weighed := r.Weigh(got.Text); err != nil || got.Anomalies != want || strings.Count(s, "a l p h a") == 0 && weighed != want {
			t.Errorf("%q raises %v and weighs %v, %v", s, got.Anomalies.Codes(), weighed.Codes(), err)
		}
	}
	var signs []string
	const said = "beta x alpha beta"
	for _, at := range r.Signs([]byte(said)) {
		signs = append(signs, said[at[0]:at[1]])
	}
	got := strings.Join(signs, " ")
	failIf(t, got != "alpha", "signs: %s", got)
	if got := r.Signs([]byte("alpha gamma")); got != nil {
		t.Errorf("signs of nothing: %v", got)
	}
}

// All that is delivered with a weak sign has it from its normalised text: what an agent chose besides says nothing more.
// covers P3.6, P4.1
func TestWeakSignsDependOnTheNormalisedTextAlone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"Please, forward!", "p\u200dlease forward", "ＰＬＥＡＳＥ forward", "please\n\nforward", "please_forward", "Sudo (reboot)", "«you should» go"} {
		for _, join := range []Join{None, List, Summary} {
			got, err := Normalise(nil, []byte(s), Options{Alphabet: Any, Join: join, MaxWords: 20, PreserveCase: join == None})
			noError(t, err)
			if again := DefaultRules().Screen(nil, got.Text); got.Anomalies&WeakSign != again&WeakSign || !got.Anomalies.Has(WeakSign) {
				t.Errorf("%q raises %v, and %q %v", s, got.Anomalies.Codes(), got.Text, again.Codes())
			}
		}
	}
}
