package bcp_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// observable is a class of things that a Controller can tell apart, each of
// which is charged the same.
type observable struct {
	what  string
	count *big.Int
	price bcp.Bits
}

// weigh sums 2^-price over all observables. 2^-price is rounded up.
func weigh(all []observable) *big.Rat {
	sum := new(big.Rat)
	for _, o := range all {
		sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetInt(o.count), power(o.price)))
	}
	return sum
}

// power is an upper bound of 2^-b, within 2^-80: the whole bits exactly, the
// rest by 256 roots of a half.
func power(b bcp.Bits) *big.Rat {
	const precision = 400
	whole, nano := int64(b/bcp.Bit), int64(b%bcp.Bit)
	result := new(big.Float).SetPrec(precision).SetInt64(1)
	root := new(big.Float).SetPrec(precision).SetFloat64(0.5)
	fraction := new(big.Rat).SetFrac64(nano, int64(bcp.Bit))
	for range 80 {
		root.Sqrt(root)
		fraction.Mul(fraction, big.NewRat(2, 1))
		if fraction.Cmp(big.NewRat(1, 1)) >= 0 {
			fraction.Sub(fraction, big.NewRat(1, 1))
			result.Mul(result, root)
		}
	}
	result.SetMantExp(result, -int(whole))
	exact, _ := result.Rat(nil)
	return exact
}

// observablesOf lists, from CAPACITY.md and not from the code, everything that
// a Controller can see of one query, or of one push that has been charged.
func observablesOf(v *bcp.Validator, answers int64, s bcp.Settings, held, summary, flagged bool) []observable {
	prices := v.Prices()
	n := big.NewInt
	slots, decisions := int64(1), int64(1)
	if s.ReleaseSlots > 0 {
		slots, decisions = int64(s.ReleaseSlots)+1, int64(s.ApprovalSlots)+1
	}
	total := n(answers)
	if flagged {
		total.Mul(total, n(512))
	}
	if k := int64(s.Subscriptions); k > 0 {
		push := func(what string, count *big.Int) observable {
			return observable{what, count.Mul(count, n(k)), prices.Capacity}
		}
		var all []observable
		if !summary {
			all = append(all, push("pushed", new(big.Int).Set(total)))
		}
		if held {
			all = append(all, push("pushed, held and approved", new(big.Int).Mul(total, n(decisions))), push("held and dropped", n(1)))
		}
		return all
	}
	failures := int64(5)
	if v.AllowsNotEnoughInformation() {
		failures++
	}
	if summary { // first the gate, then the Reader, then the content
		read, decided := int64(1), int64(1)
		if slots > 1 {
			read, decided = slots+decisions, slots+2*decisions
		}
		return []observable{
			{"ended at the gate", n(5 * decisions), prices.FailedCapacity},
			{"failed with the Reader", n(failures * read), prices.FailedCapacity},
			{"approved", new(big.Int).Mul(total, n(decided)), prices.Capacity},
			{"held and failed", n(5 * decided), prices.Capacity},
		}
	}
	all := []observable{
		{"answered at once", new(big.Int).Mul(total, n(slots)), prices.Capacity},
		{"failed at once", n(failures * slots), prices.FailedCapacity},
	}
	if held {
		all = append(all, observable{"held and approved", new(big.Int).Mul(total, n(slots*decisions)), prices.Capacity},
			observable{"held and failed", n(5 * slots * decisions), prices.Capacity})
	}
	return all
}

// The weights of everything that a Controller can observe of one query add up
// to at most 1, and not to much less: the bound is tight where it is exact.
//
// covers P4.1, A-NEI, A-SUBSEL, A-TIME, A-RETRY, A-SYN
func TestWeightsAddUpToAtMostOne(t *testing.T) {
	t.Parallel()
	no := false
	date := func(constraints ...string) bcp.Spec {
		least, greatest := int64(2020), int64(2030)
		return bcp.Spec{Category: 2, Constraints: constraints, Questions: []bcp.Question{
			{ID: "d", Question: "When?", MaxWords: 4, ExpectedFormat: bcp.FormatDate, Min: &least, Max: &greatest}}}
	}
	boolean := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "b", Type: bcp.TypeBoolean}}}
	silent := boolean
	silent.AllowNotEnoughInformation = &no
	const dates = 366 + 11*365 + 3
	for _, spec := range []struct {
		name        string
		spec        bcp.Spec
		answers     int64
		constrained bool
	}{
		{"boolean", boolean, 2, false},
		{"boolean without not_enough_information", silent, 2, false},
		{"date", date(), dates, false},
		{"constrained date", date("d.month > 3"), dates, true},
	} {
		for _, mode := range []bcp.OnAnomaly{bcp.AnomalyHold, bcp.AnomalyHoldAll, bcp.AnomalyReject, bcp.AnomalyFlag} {
			for _, slots := range []uint64{0, 1, 15, 90} {
				for _, subscriptions := range []int{0, 1, 3} {
					s := bcp.Settings{OnAnomaly: mode, ReleaseSlots: slots, ApprovalSlots: slots * 96, Subscriptions: subscriptions, Constraints: constraint.Compile}
					v := must(bcp.Compile(spec.spec, s))
					held := spec.constrained && (mode == bcp.AnomalyHold || mode == bcp.AnomalyHoldAll)
					all := observablesOf(v, spec.answers, s, held, false, false)
					name := fmt.Sprintf("%s, %s, %d slots, %d subscriptions", spec.name, mode, slots, subscriptions)
					sum := weigh(all)
					if low := big.NewRat(999_999_990, 1_000_000_000); sum.Cmp(big.NewRat(1, 1)) > 0 || sum.Cmp(low) < 0 {
						t.Errorf("%s: the weights of %v add up to %s", name, all, sum.FloatString(12))
					}
				}
			}
		}
	}
}

// Summaries and flagged texts are too many to weigh one by one; here the
// number of answers is the bound itself, taken from the price of a plain push.
//
// covers P4.1, P3.5, P3.6
func TestWeightsOfTexts(t *testing.T) {
	t.Parallel()
	short := bcp.Spec{Category: 2, Questions: []bcp.Question{
		{ID: "t", Question: "What?", MaxWords: 1, ExpectedFormat: bcp.FormatShortText, Alphabet: "ascii", MaxChars: 2}}}
	summary := bcp.Spec{Category: 3, Directive: "Summarize.", MaxWords: 1}
	for _, spec := range []bcp.Spec{short, summary} {
		plain := compiled(spec, bcp.Settings{OnAnomaly: bcp.AnomalyReject, Subscriptions: 1}).Prices().Capacity
		if spec.Category == 3 { // a held push can also be dropped
			plain -= 1
		}
		for _, mode := range []bcp.OnAnomaly{bcp.AnomalyHold, bcp.AnomalyHoldAll, bcp.AnomalyReject, bcp.AnomalyFlag} {
			for _, slots := range []uint64{0, 15} {
				for _, subscriptions := range []int{0, 2} {
					s := bcp.Settings{OnAnomaly: mode, ReleaseSlots: slots, ApprovalSlots: slots * 96, Subscriptions: subscriptions}
					v := compiled(spec, s)
					held := mode == bcp.AnomalyHold || mode == bcp.AnomalyHoldAll || spec.Category == 3
					// 2^plain answers: weigh one answer and scale.
					all := observablesOf(v, 1, s, held, spec.Category == 3, mode == bcp.AnomalyFlag)
					sum := new(big.Rat)
					for _, o := range all {
						weight := new(big.Rat).Mul(new(big.Rat).SetInt(o.count), power(o.price))
						if o.what != "held and dropped" && o.what != "held and failed" && o.what != "failed at once" &&
							o.what != "ended at the gate" && o.what != "failed with the Reader" {
							weight.Quo(weight, power(plain))
						}
						sum.Add(sum, weight)
					}
					if low := big.NewRat(99, 100); sum.Cmp(big.NewRat(1_000_000_003, 1_000_000_000)) > 0 || sum.Cmp(low) < 0 {
						t.Errorf("category %d, %s, %d slots, %d subscriptions: %s", spec.Category, mode, slots, subscriptions, sum.FloatString(12))
					}
				}
			}
		}
	}
}

// Elias' gamma code of the gap and one bit for the push itself: section 5 of
// CAPACITY.md.
//
// covers P4.1, A-TIME
func TestPushTiming(t *testing.T) {
	t.Parallel()
	for g, want := range map[uint64]bcp.Bits{0: 2, 1: 2, 2: 4, 3: 4, 4: 6, 7: 6, 8: 8, 1 << 40: 82, 1<<64 - 1: 128} {
		expect(t, bcp.PushTiming(g), want*bcp.Bit, "a gap of %d slots costs", g)
	}
	// once: one push in the next slot; often: one or more of them; later: the
	// same where gap 1 cannot be.
	once, often, later := new(big.Rat), new(big.Rat), new(big.Rat)
	for k := range 60 { // 2^k gaps cost the same
		if first, last := bcp.PushTiming(1<<k), bcp.PushTiming(2<<k-1); first != last {
			t.Fatalf("gaps of %d to %d cost %s to %s", 1<<k, 2<<k-1, first, last)
		}
		w, gaps := power(bcp.PushTiming(1<<k)), big.NewRat(1<<k, 1)
		once.Add(once, new(big.Rat).Mul(w, gaps))
		repeated := new(big.Rat).Quo(w, new(big.Rat).Sub(big.NewRat(1, 1), w))
		repeated.Mul(repeated, gaps)
		often.Add(often, repeated)
		if k > 0 {
			later.Add(later, repeated)
		}
	}
	if once.Cmp(big.NewRat(1, 2)) > 0 || often.Cmp(big.NewRat(6, 10)) > 0 || later.Cmp(big.NewRat(26, 100)) > 0 {
		t.Errorf("gaps weigh %s, %s with repeats, %s without gap 1", once.FloatString(6), often.FloatString(6), later.FloatString(6))
	}
}

// An approval TTL that is not given is priced as an absurdly long one, never
// as none.
//
// covers P4.1
func TestUnknownApprovalSlotsArePricedHigh(t *testing.T) {
	t.Parallel()
	spec := Workloads()[1].Spec
	given := compiled(spec, bcp.Settings{ReleaseSlots: 15, ApprovalSlots: 1440}).Prices()
	unknown := compiled(spec, bcp.Settings{ReleaseSlots: 15}).Prices()
	failIf(t, unknown.Capacity < given.Capacity+20*bcp.Bit,
		"%s bits with and %s without an approval TTL", given.Capacity, unknown.Capacity)
	failIf(t, unknown.Reserve() < unknown.Capacity || unknown.Reserve() < unknown.FailedCapacity,
		"%+v reserves %s", unknown, unknown.Reserve())
}

// exactly counts texts of at most W pieces of 1 to 24 of A characters, joined
// in one of g ways, in whole numbers from beginning to end.
func exactly(a text.Alphabet, j text.Join, words int) *big.Int {
	size, piece, power := big.NewInt(int64(text.AlphabetSize(a))), new(big.Int), big.NewInt(1)
	for range text.MaxWordChars {
		power.Mul(power, size)
		piece.Add(piece, power)
	}
	total, of := new(big.Int), big.NewInt(1)
	for w := range words {
		if w > 0 {
			of.Mul(of, big.NewInt(int64(text.Joiners(a, j))))
		}
		of.Mul(of, piece)
		total.Add(total, of)
	}
	return total
}

// stringsUpTo counts the strings of at most n of a characters.
func stringsUpTo(a, n int) *big.Int {
	total, of := big.NewInt(1), big.NewInt(1)
	for range n {
		of.Mul(of, big.NewInt(int64(a)))
		total.Add(total, of)
	}
	return total
}

// The prices of texts against counts in whole numbers, and of the other
// formats against counts by hand.
//
// covers P4.1, P3.2, BCP-149, BCP-150, A-SYN
func TestCapacityOfFormats(t *testing.T) {
	t.Parallel()
	least, greatest := int64(1900), int64(2100)
	q := func(q bcp.Question) bcp.Spec {
		q.ID, q.Question = "q", "What?"
		return bcp.Spec{Category: 2, Questions: []bcp.Question{q}}
	}
	words := make([]string, 2047)
	for i := range words {
		words[i] = fmt.Sprintf("w%04d", i)
	}
	ascii, latin := text.AlphabetSize(text.ASCII), text.AlphabetSize(text.Latin)
	for _, c := range []struct {
		name         string
		spec         bcp.Spec
		count        *big.Int
		preserveCase bool
	}{
		{"name", q(bcp.Question{ExpectedFormat: bcp.FormatPersonName, MaxWords: 5, Alphabet: "ascii"}), exactly(text.ASCII, text.None, 5), false},
		{"name, any", q(bcp.Question{ExpectedFormat: bcp.FormatPersonName, MaxWords: 5}), exactly(text.Any, text.None, 5), false},
		{"one word", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 1, Alphabet: "ascii"}), exactly(text.ASCII, text.None, 1), false},
		{"text", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10, Alphabet: "latin"}), exactly(text.Latin, text.None, 10), false},
		{"text, any", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10}), exactly(text.Any, text.None, 10), false},
		{"list", q(bcp.Question{ExpectedFormat: bcp.FormatShortList, MaxWords: 30}), exactly(text.Any, text.List, 30), false},
		{"text, case kept", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10, Alphabet: "ascii"}),
			new(big.Int).Lsh(exactly(text.ASCII, text.None, 10), 10), true},
		{"60 characters", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10, Alphabet: "ascii", MaxChars: 60}), stringsUpTo(ascii+1, 60), false},
		{"1 character", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 10, Alphabet: "latin", MaxChars: 1}), stringsUpTo(latin+1, 1), false},
		{"more characters than words have", q(bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: 1, Alphabet: "ascii", MaxChars: 1000}), exactly(text.ASCII, text.None, 1), false},
		{"date, any year", q(bcp.Question{ExpectedFormat: bcp.FormatDate, MaxWords: 4}), big.NewInt(366 + 3652059), false},
		{"date, 1900 to 2100", q(bcp.Question{ExpectedFormat: bcp.FormatDate, MaxWords: 4, Min: &least, Max: &greatest}), big.NewInt(366 + 201*365 + 49), false},
		{"time", q(bcp.Question{ExpectedFormat: bcp.FormatTime, MaxWords: 1}), big.NewInt(1440), false},
		{"boolean", q(bcp.Question{ExpectedFormat: bcp.FormatBoolean, MaxWords: 1}), big.NewInt(2), false},
		{"integer", q(bcp.Question{ExpectedFormat: bcp.FormatInteger, MaxWords: 1}), big.NewInt(2_000_000_001), false},
		{"vocabulary", q(bcp.Question{ExpectedFormat: bcp.FormatVocabulary, MaxWords: 10, Vocabulary: "words"}), new(big.Int).Lsh(big.NewInt(1), 110), false},
	} {
		v, err := bcp.Compile(c.spec, bcp.Settings{OnAnomaly: bcp.AnomalyReject, PreserveCase: c.preserveCase, Subscriptions: 1,
			Vocabularies: map[string][]string{"words": words}})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// V x 2^-price is at most 1, and little below it.
		price := v.Prices().Capacity
		product := new(big.Rat).Mul(new(big.Rat).SetInt(c.count), power(price))
		if product.Cmp(big.NewRat(1, 1)) > 0 || product.Cmp(big.NewRat(9_999, 10_000)) < 0 {
			t.Errorf("%s: %s bits for %.40s... answers: %s", c.name, price, c.count, product.FloatString(12))
		}
		t.Logf("%s: %s bits", c.name, price)
	}
}
