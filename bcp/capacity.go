package bcp

import (
	"math/big"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// Prices are what a spec costs, fixed before a query is sent or a push is
// accepted (PROTOCOL P4.1). CAPACITY.md derives each capacity figure.
type Prices struct {
	// Nominal is the seeds' formula: boolean 1, enum log2 N, integer
	// log2(max-min+1), text 11 a word. It is at least 1 bit.
	Nominal Bits
	// Capacity bounds what an answered query, or an accepted push without its
	// timing, tells the Controller.
	Capacity Bits
	// FailedNominal, which is 1 bit, and FailedCapacity are the price of a query
	// that failed; a push that is refused is not seen and costs nothing.
	FailedNominal, FailedCapacity Bits
}

// Reserve is what an accepted query sets aside in capacity: enough for either
// end.
func (p Prices) Reserve() Bits { return max(p.Capacity, p.FailedCapacity) }

// PushTiming is what the moment of a push adds to its capacity: g is the
// number of release slots since the last push of its subscription, 1 where timing is
// uncounted (PROTOCOL P4.1: 2 floor(log2 g) + 2).
func PushTiming(g uint64) Bits { return Bits(2*floorLog2(max(g, 1))+2) * Bit }

const (
	yearMin, yearMax = 1, 9999

	// openFailures are the outcomes with which any query may fail: rejected,
	// expired, cancelled, unavailable, internal.
	openFailures = 5
	// heldFailures end a query whose answer waits for a person:
	// approval_rejected, approval_expired, cancelled, unavailable, internal.
	heldFailures = 5
	// gateFailures end a summary's query that waits at its gate:
	// escalation_denied, approval_expired, cancelled, unavailable, internal.
	gateFailures = 5
	// unknownSlots stands for an approval TTL that is not given.
	unknownSlots = 1 << 32
)

// price computes the weights of CAPACITY.md: for each kind of end, one over
// their number, so that the weights of everything that a Controller can
// observe add up to at most 1.
func price(v *Validator) Prices {
	var p Prices
	// Whatever can end in more than one way tells something: that it was pushed, or
	// how the query ended.
	p.Nominal, p.FailedNominal = max(Bit, v.nominal()), Bit

	answers := v.countAnswers()
	if v.settings.OnAnomaly == AnomalyFlag && v.screened() {
		// Any subset of the codes that depend on more than the answer may be
		// attached; constraints, redundancy and weak signs only see what is delivered.
		reported := ^text.Set(0) &^ (text.Inconsistent | text.Divergent | text.WeakSign)
		answers.multiply(1 << len(reported.Codes()))
	}
	slots, decisions := v.slots()
	push := v.settings.Subscriptions > 0
	summary, held := v.spec.Category == 3, v.mayBeHeld()
	switch {
	case !held:
	case !summary:
		// An answer is delivered at once, or held and delivered at one of the
		// moments of a person's decision.
		answers.multiply(decisions + 1)
	case push:
		answers.multiply(decisions)
	}
	if push {
		if held { // a held push that is never delivered has been charged
			answers.plus(1)
		}
		answers.multiply(uint64(v.settings.Subscriptions))
		p.Capacity = answers.bits()
		return p
	}
	failures := newCount(openFailures)
	if v.AllowsNotEnoughInformation() {
		failures.plus(1)
	}
	ends := slots // of a query that fails before anything is held
	switch {
	case summary:
		// That it is held at its gate is certain. The Reader is asked once a
		// person has let it through, and its answer waits for a person again;
		// only what comes of it in the end is seen, and when.
		answers.plus(heldFailures)
		failures.plus(gateFailures)
		if slots > 1 {
			slots, ends = slots+2*decisions, slots+decisions
		}
	case held: // a held answer stays charged as one, however it ends
		answers.plus(heldFailures * decisions)
	}
	// Answered or failed is one bit; then when, then what.
	answers.multiply(2 * slots)
	failures.multiply(2 * ends)
	p.Capacity, p.FailedCapacity = answers.bits(), failures.bits()
	return p
}

// slots counts the moments at which a query can end, and those at which a
// person's decision can be released; 1 where timing is uncounted. An ask rarely
// falls on the grid of releases, so a TTL of n intervals touches n+1 moments.
func (v *Validator) slots() (release, decision uint64) {
	n, d := v.settings.ReleaseSlots, v.settings.ApprovalSlots
	if n == 0 {
		return 1, 1
	}
	if d == 0 || d > unknownSlots {
		d = unknownSlots
	}
	return min(n, unknownSlots) + 1, d + 1
}

// AllowsNotEnoughInformation reports whether a Reader may say so: true for
// queries unless the spec says otherwise (PROTOCOL P1.3).
func (v *Validator) AllowsNotEnoughInformation() bool {
	allow := v.spec.AllowNotEnoughInformation
	return v.settings.Subscriptions == 0 && (allow == nil || *allow)
}

// mayBeHeld reports whether an answer can end up before a person.
func (v *Validator) mayBeHeld() bool {
	if v.spec.Category == 3 {
		return true
	}
	if on := v.settings.OnAnomaly; on != AnomalyHold && on != AnomalyHoldAll {
		return false
	}
	if len(v.constraints) > 0 {
		return true
	}
	return v.screened() || slices.ContainsFunc(v.items, func(it item) bool { return it.sameAs >= 0 })
}

// screened reports whether the anomaly rules look at any answer.
func (v *Validator) screened() bool {
	return slices.ContainsFunc(v.items, func(it item) bool { return it.screened() })
}

// Constant reports whether all answers are the same: then an answer tells only that
// there is one, and costs the least that anything does.
func (v *Validator) Constant() bool { return v.nominal() == 0 }

// nominal is the seeds' formula, with one logarithm over the whole spec.
func (v *Validator) nominal() Bits {
	words, choices := 0, big.NewInt(1)
	for i := range v.items {
		if it := &v.items[i]; it.typed {
			choices.Mul(choices, it.choices())
		} else {
			words += it.maxWords
		}
	}
	return Bits(words)*WordBits + log2Bits(choices)
}

// count is an upper bound of a number of things: whole x 2^log, the logarithm
// scaled.
type count struct {
	whole *big.Int
	log   *big.Int
}

func newCount(n uint64) count { return count{new(big.Int).SetUint64(n), new(big.Int)} }

func (c *count) multiply(n uint64) { c.whole.Mul(c.whole, new(big.Int).SetUint64(n)) }

// plus adds n. Beside a logarithm it adds n / 2^floor(log), rounded up in a
// place that far below the point that nothing is lost.
func (c *count) plus(n uint64) {
	const places = 64
	more := new(big.Int).SetUint64(n)
	if c.log.Sign() > 0 {
		floor := int(new(big.Int).Rsh(c.log, guard.LogScale).Int64())
		c.whole.Lsh(c.whole, places)
		c.log.Sub(c.log, wholeBits(places))
		more = guard.ShiftUp(more, places-floor)
	}
	c.whole.Add(c.whole, more)
}

func (c *count) bits() Bits { return roundUp(new(big.Int).Add(guard.Log2(c.whole), c.log)) }

// countAnswers bounds the number of different canonical answers.
func (v *Validator) countAnswers() count {
	c := newCount(1)
	for i := range v.items {
		it := &v.items[i]
		switch it.kind {
		case FormatPersonName, FormatShortText, FormatShortList, FormatSummary:
			c.log.Add(c.log, logText(it.options))
		case FormatVocabulary:
			// Up to w words of n: sum of n^k for k <= w is below (n+1)^w.
			one := logUint(uint64(len(it.values)) + 1)
			c.log.Add(c.log, one.Mul(one, big.NewInt(int64(it.maxWords))))
		case FormatEmail:
			c.whole.Mul(c.whole, countEmails(it.options.MaxChars))
		default:
			c.whole.Mul(c.whole, it.choices())
		}
	}
	return c
}

// choices counts the canonical answers of a finite format.
func (it *item) choices() *big.Int {
	switch it.kind {
	case FormatBoolean, formatSealed: // of what is sealed, that it is there
		return big.NewInt(2)
	case FormatEnum:
		return big.NewInt(int64(len(it.values)))
	case FormatTime:
		return big.NewInt(24 * 60)
	case FormatDate:
		days := int64(366) // without a year
		for year := it.min; year <= it.max; year++ {
			days += 365
			if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
				days++
			}
		}
		return big.NewInt(days)
	case FormatInteger:
		n := new(big.Int).Sub(big.NewInt(it.max), big.NewInt(it.min))
		return n.Add(n, big.NewInt(1))
	default:
		return new(big.Int)
	}
}

// logText bounds log2 of the number of texts of at most MaxWords pieces of 1
// to 24 characters of an alphabet of A, joined in one of g ways; with MaxChars
// also of the strings of at most so many characters.
func logText(o text.Options) *big.Int {
	words := int64(o.MaxWords)
	logs := alphabetLogs()[o.Alphabet]
	joiners := logUint(uint64(text.Joiners(o.Alphabet, o.Join)))
	log := new(big.Int).Mul(logs.piece, big.NewInt(words))
	log.Add(log, joiners.Mul(joiners, big.NewInt(words-1)))
	log.Add(log, logs.tail)
	if o.MaxChars > 0 {
		short := new(big.Int).Mul(logs.char, big.NewInt(int64(o.MaxChars)))
		short.Add(short, logs.shorter)
		if short.Cmp(log) < 0 {
			log = short
		}
	}
	if o.PreserveCase {
		log.Add(log, wholeBits(o.MaxWords))
	}
	return log
}

// alphabetLog holds the logarithms of one alphabet of A characters.
type alphabetLog struct {
	piece   *big.Int // log2 S, S = sum of A^k for k = 1..24
	tail    *big.Int // what fewer words add: sum over w <= W of S^w g^(w-1) is below S^W g^(W-1) (1 + 2/S)
	char    *big.Int // log2(A+1): a character or a space
	shorter *big.Int // what shorter strings add: log2((A+1)/A)
}

var alphabetLogs = sync.OnceValue(func() map[text.Alphabet]alphabetLog {
	logs := make(map[text.Alphabet]alphabetLog)
	one := new(big.Int).Lsh(big.NewInt(1), guard.LogScale)
	for alphabet := text.Any; text.AlphabetSize(alphabet) > 0; alphabet++ {
		a := big.NewInt(int64(text.AlphabetSize(alphabet)))
		power, pieces := big.NewInt(1), new(big.Int)
		for range text.MaxWordChars {
			power.Mul(power, a)
			pieces.Add(pieces, power)
		}
		b := new(big.Int).Add(a, big.NewInt(1))
		ratio := new(big.Int).Lsh(b, guard.LogScale)
		ratio.Add(ratio.Div(ratio, a), big.NewInt(1))
		logs[alphabet] = alphabetLog{
			piece: guard.Log2(pieces), tail: big.NewInt(1), char: guard.Log2(b),
			shorter: new(big.Int).Sub(guard.Log2(ratio), new(big.Int).Mul(one, big.NewInt(guard.LogScale))),
		}
	}
	return logs
})

// countEmails bounds the number of addresses of at most chars characters: a
// local part over the 56 characters of a lower-case dot-atom and a host name
// over 38, each counted without regard to where a dot or hyphen may stand.
func countEmails(chars int) *big.Int {
	const localChars, hostChars, maxLocal, minHost = 56, 38, 64, 3
	hosts := make([]*big.Int, chars+1) // hosts of at most n characters
	hosts[0] = new(big.Int)
	power := big.NewInt(1)
	for n := 1; n <= chars; n++ {
		power = new(big.Int).Mul(power, big.NewInt(hostChars))
		hosts[n] = new(big.Int).Add(hosts[n-1], power)
	}
	total, locals := new(big.Int), big.NewInt(1)
	for local := 1; local <= min(maxLocal, chars-1-minHost); local++ {
		locals.Mul(locals, big.NewInt(localChars))
		total.Add(total, new(big.Int).Mul(locals, hosts[chars-1-local]))
	}
	return total
}

func wholeBits(n int) *big.Int {
	return new(big.Int).Lsh(big.NewInt(int64(n)), guard.LogScale)
}

// longestText is the length of the longest delivered text in code points.
func (v *Validator) longestText() int {
	chars := len(`{}`)
	for i := range v.items {
		it := &v.items[i]
		chars += len(it.key) + len(`"",`)
		switch it.kind {
		case FormatPersonName, FormatShortText, FormatShortList, FormatSummary:
			n := it.maxWords * (text.MaxWordChars + len(", "))
			if it.options.MaxChars > 0 {
				n = min(n, it.options.MaxChars)
			}
			chars += n
		case FormatEmail:
			chars += it.options.MaxChars
		case formatSealed:
			chars += int(it.max)
		case FormatEnum:
			chars += longestValue(it.values)
		case FormatVocabulary:
			chars += it.maxWords * (longestValue(it.values) + 1)
		case FormatInteger:
			chars += len("-9223372036854775808")
		case FormatDate:
			chars += len("15 September 2026")
		default:
			chars += len("false")
		}
	}
	return chars
}

func longestValue(values []string) int {
	longest := 0
	for _, value := range values {
		longest = max(longest, utf8.RuneCountInString(value))
	}
	return longest
}
