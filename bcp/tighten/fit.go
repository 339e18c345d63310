package tighten

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// How much a proposal may refuse of what it is made from. A quarter is more than a hostile
// week of a month.
const (
	tailShare    = 100 // one in so many, if it saves a tenth of the bits
	hostileShare = 4   // one in so many, if each such part halves the bits
	failShare    = 50  // of the newer part, by what the older part alone would give
)

// dimension is one way in which an item can be wide. A message demands a place on it, and
// fits whatever limit is not below.
type dimension uint8

const (
	most     dimension = iota // the integer, or the year of a date
	least                     // the same, negative
	words                     // of a text
	chars                     // of a text
	alphabet                  // 0 ascii, 1 latin, 2 any
	rank                      // of an enum's value, the most frequent is 0
	dimensions
)

const anything = math.MaxInt64 // the limit that is none

// limits are those of an item, by dimension.
type limits [dimensions]int64

var demandsNothing = limits{math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64, math.MinInt64}

// item is a field, a question or a summary, and what messages demand of it.
type item struct {
	name    string
	kind    bcp.Format
	place   int
	texts   []string // the value in each message
	demands []limits
	ranked  []string // distinct values, the most frequent first
	was     string   // as YAML
}

// tightening is the work on one subscription.
type tightening struct {
	spec     bcp.Spec
	settings bcp.Settings
	messages []Message
	items    []item
}

// newTightening reads the messages; nil if the spec does not compile. Messages that do not
// have its items, since it was another one then, are left out.
func newTightening(spec bcp.Spec, settings bcp.Settings, messages []Message) *tightening {
	v, err := bcp.Compile(spec, settings)
	if err != nil {
		return nil
	}
	t := &tightening{spec: v.Spec(), settings: settings}
	for i, f := range t.spec.Fields {
		t.items = append(t.items, item{name: f.Name, kind: [...]bcp.Format{0, bcp.FormatBoolean, bcp.FormatEnum, bcp.FormatInteger}[f.Type], place: i})
	}
	for i, q := range t.spec.Questions {
		t.items = append(t.items, item{name: q.ID, kind: q.ExpectedFormat, place: i})
	}
	if t.spec.Category == 3 {
		t.items = []item{{name: "summary", kind: bcp.FormatSummary}}
	}
	for _, m := range messages {
		if verdict := v.Validate(m.Answer, bcp.JSON); verdict.Outcome == bcp.Reject {
			continue
		}
		var answer map[string]jsontext.Value
		if json.Unmarshal(m.Answer, &answer) != nil || len(answer) != len(t.items) {
			continue
		}
		t.messages = append(t.messages, m)
		for i := range t.items {
			it := &t.items[i]
			text, err := jsontext.AppendUnquote(nil, answer[it.name])
			if err != nil {
				text = answer[it.name]
			}
			it.texts = append(it.texts, string(text))
		}
	}
	for i := range t.items {
		t.items[i].measure(t.spec)
	}
	return t
}

// measure finds what each message demands of the item.
func (it *item) measure(spec bcp.Spec) {
	count := map[string]int{}
	for _, text := range it.texts {
		count[text]++
	}
	for text := range count {
		it.ranked = append(it.ranked, text)
	}
	slices.SortFunc(it.ranked, func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	it.was = it.yaml(spec)
	known := make(map[string]limits, len(it.ranked))
	for n, text := range it.ranked {
		d := demandsNothing
		switch it.kind {
		case bcp.FormatInteger:
			d[most], _ = strconv.ParseInt(text, 10, 64)
			d[least] = -d[most]
		case bcp.FormatDate:
			if year, _, _ := strings.Cut(text, "-"); year != "" { // without one it is --05-31
				d[most], _ = strconv.ParseInt(year, 10, 64)
				d[least] = -d[most]
			}
		case bcp.FormatEnum:
			d[rank] = int64(n)
		case bcp.FormatEmail:
			d[chars] = int64(utf8.RuneCountInString(text))
		case bcp.FormatVocabulary, bcp.FormatSummary:
			d[words] = int64(len(strings.Fields(text)))
		case bcp.FormatPersonName, bcp.FormatShortText, bcp.FormatShortList:
			d[words], d[chars], d[alphabet] = int64(len(strings.Fields(text))), int64(utf8.RuneCountInString(text)), alphabetOf(text)
		}
		known[text] = d
	}
	for _, text := range it.texts {
		it.demands = append(it.demands, known[text])
	}
}

// run narrows the subscription as far as it should be.
func (t *tightening) run(p *Proposal, sub *bcp.Subscription) {
	before := t.price(t.spec)
	kept, limit := t.peel()
	limit = t.stable(kept, limit)
	if out := len(t.messages) - len(kept); out > len(t.messages)/tailShare {
		p.Outliers = append(p.Outliers, t.outliers(kept)...)
	}
	spec := t.apply(t.spec, limit)
	after := t.price(spec)
	if after.Capacity >= before.Capacity {
		return
	}
	for i := range t.items {
		it := &t.items[i]
		would := it.yaml(spec)
		if would == it.was {
			continue
		}
		alone := t.price(t.with(t.spec, i, func(q *bcp.Question) { *q = it.seen(&spec) }))
		p.Changes = append(p.Changes, Change{Subscription: sub.ID, Item: it.name, Was: it.was, Would: would,
			NominalWas: before.Nominal, Nominal: alone.Nominal, CapacityWas: before.Capacity, Capacity: alone.Capacity})
	}
	sub.Spec = spec
}

// bounds are the least limits that messages fit.
func (t *tightening) bounds(of []int) []limits {
	bounds := make([]limits, len(t.items))
	for i := range bounds {
		bounds[i] = demandsNothing
		for _, m := range of {
			for d := range bounds[i] {
				bounds[i][d] = max(bounds[i][d], t.items[i].demands[m][d])
			}
		}
	}
	return bounds
}

// peel leaves out the messages that need the most bits for the fewest of them, and returns
// what stays: without a hundredth if that saves a tenth, and without up to a quarter where
// each part that is left out halves the bits. Honest answers spread; whoever uses answers to
// carry something uses all the room that there is.
func (t *tightening) peel() (kept []int, limit []limits) {
	all := make([]int, len(t.messages))
	for i := range all {
		all[i] = i
	}
	n, best, whole := len(all), bcp.Bits(0), bcp.Bits(0)
	for parts := all; kept == nil || len(parts) > 0; {
		bounds := t.bounds(parts)
		capacity := t.price(t.apply(t.spec, bounds)).Capacity
		whole = max(whole, capacity)
		if kept == nil || 2*capacity <= best || (n-len(parts))*tailShare <= n && 10*capacity <= 9*whole {
			kept, limit, best = parts, bounds, capacity
		}
		parts = t.cut(parts, bounds, capacity, n)
	}
	return kept, limit
}

// cut leaves out the part of the kept messages whose absence saves the most bits for each of
// them, along one dimension of one item; nothing is left where no part may go.
func (t *tightening) cut(kept []int, limit []limits, capacity bcp.Bits, n int) (best []int) {
	room := n/hostileShare - (n - len(kept))
	saved, cost := bcp.Bits(0), 1
	for i := range t.items {
		for d := range dimensions {
			demands := make([]int64, len(kept))
			for k, m := range kept {
				demands[k] = t.items[i].demands[m][d]
			}
			slices.Sort(demands)
			for _, share := range []int{200, 100, 50, 20, 10, 7, 5, 4} {
				out := min(n/share, room)
				if out < 1 {
					continue
				}
				threshold := demands[len(demands)-1-out]
				if threshold == limit[i][d] || threshold == math.MinInt64 {
					continue
				}
				rest := slices.DeleteFunc(slices.Clone(kept), func(m int) bool { return t.items[i].demands[m][d] > threshold })
				saves := capacity - t.price(t.apply(t.spec, t.bounds(rest))).Capacity
				if gone := len(kept) - len(rest); int64(saves)*int64(cost) > int64(saved)*int64(gone) {
					best, saved, cost = rest, saves, gone
				}
			}
		}
	}
	return best
}

// stable gives up limits that do not hold over time: those of the older two thirds have to
// fit nearly all of the newer third. A number that counts on never does.
func (t *tightening) stable(kept []int, limit []limits) []limits {
	older, newer := kept[:len(kept)*2/3], kept[len(kept)*2/3:]
	early := t.bounds(older)
	for i := range limit {
		for d := range dimensions {
			bound, bad := t.items[i].roomy(d, early[i]), 0
			for _, m := range newer {
				if t.items[i].demands[m][d] > bound {
					bad++
				}
			}
			if bad*failShare > len(newer) {
				limit[i][d] = anything
			} else if limit[i][d] != math.MinInt64 {
				limit[i][d] = t.items[i].roomy(d, limit[i])
			}
		}
	}
	return limit
}

// roomy is a bound with room for what has not been seen: an eighth more.
func (it *item) roomy(d dimension, bound limits) int64 {
	b := bound[d]
	if b == math.MinInt64 {
		return b
	}
	switch {
	case it.kind == bcp.FormatDate && d == most: // next year's too
		return b + 2
	case it.kind == bcp.FormatDate && d == least:
		return b + 1
	case d == most || d == least:
		spread := bound[most] + bound[least]
		switch {
		case spread < 0 || b > math.MaxInt64/2:
		case b <= 0: // what was never negative, or never positive, stays so
			return min(b+spread/8, 0)
		default:
			return b + spread/8
		}
	case d == words || d == chars:
		return b + (b+7)/8
	}
	return b
}

// apply narrows a spec to limits, where they are below its own.
func (t *tightening) apply(spec bcp.Spec, limit []limits) bcp.Spec {
	for i := range t.items {
		it, l := &t.items[i], limit[i]
		spec = t.with(spec, i, func(q *bcp.Question) {
			if low, high := span(q, it.kind); (it.kind == bcp.FormatInteger || it.kind == bcp.FormatDate) && l[most] != math.MinInt64 {
				if l[least] != anything && -l[least] > low {
					q.Min = new(-l[least])
				}
				if l[most] < high {
					q.Max = new(l[most])
				}
			}
			if l[words] > 0 {
				q.MaxWords = int(min(int64(q.MaxWords), l[words]))
			}
			if l[chars] > 0 && l[chars] < bcp.MaxAnswerChars && (q.MaxChars == 0 || l[chars] < int64(q.MaxChars)) {
				q.MaxChars = int(l[chars])
			}
			if it.kind == bcp.FormatEmail {
				q.MaxChars = max(q.MaxChars, 6)
			}
			if was, known := alphabets[q.Alphabet]; known && l[alphabet] >= 0 && l[alphabet] < was {
				q.Alphabet = [...]string{"ascii", "latin"}[l[alphabet]]
			}
			if it.kind == bcp.FormatEnum && l[rank] >= 0 && l[rank] != anything {
				used := it.ranked[:min(int64(len(it.ranked)), l[rank]+1)]
				q.Values = slices.DeleteFunc(slices.Clone(q.Values), func(v string) bool { return !slices.Contains(used, v) })
			}
		})
	}
	return spec
}

// alphabets are those of texts that others are a part of, the narrowest first. Those of other scripts are none to narrow to:
// they read letters that look alike as their own.
var alphabets = map[string]int64{"ascii": 0, "latin": 1, "any": 2, "": 2}

// alphabetOf is the narrowest of them that has the letters of a text.
func alphabetOf(text string) int64 {
	switch {
	case !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
		return 0
	case !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r) }):
		return 1
	}
	return 2
}

// span is the range of an integer, or of the years of a date.
func span(q *bcp.Question, kind bcp.Format) (low, high int64) {
	low, high = bcp.DefaultIntegerMin, bcp.DefaultIntegerMax
	if kind == bcp.FormatDate {
		low, high = 1, 9999
	}
	return *cmp.Or(q.Min, &low), *cmp.Or(q.Max, &high)
}

// seen is an item of a spec as a question.
func (it *item) seen(spec *bcp.Spec) bcp.Question {
	switch spec.Category {
	case 1:
		f := &spec.Fields[it.place]
		return bcp.Question{Min: f.Min, Max: f.Max, Values: f.Values}
	case 2:
		return spec.Questions[it.place]
	}
	return bcp.Question{MaxWords: spec.MaxWords}
}

// with returns a spec with an item changed, seen as a question.
func (t *tightening) with(spec bcp.Spec, i int, change func(*bcp.Question)) bcp.Spec {
	it := &t.items[i]
	q := it.seen(&spec)
	change(&q)
	switch spec.Category {
	case 1:
		spec.Fields = slices.Clone(spec.Fields)
		f := &spec.Fields[it.place]
		f.Min, f.Max, f.Values = q.Min, q.Max, q.Values
	case 2:
		spec.Questions = slices.Clone(spec.Questions)
		spec.Questions[it.place] = q
	case 3:
		spec.MaxWords = q.MaxWords
	}
	return spec
}

// price is that of a spec, or too much if it does not compile.
func (t *tightening) price(spec bcp.Spec) bcp.Prices {
	v, err := bcp.Compile(spec, t.settings)
	if err != nil {
		return bcp.Prices{Nominal: math.MaxInt64, Capacity: math.MaxInt64}
	}
	return v.Prices()
}

// outliers are the first messages that are not kept.
func (t *tightening) outliers(kept []int) (seqs []uint64) {
	for i := range t.messages {
		if _, in := slices.BinarySearch(kept, i); !in && len(seqs) < 8 {
			seqs = append(seqs, t.messages[i].Seq)
		}
	}
	return seqs
}

// yaml is the item as a definition has it, without what a proposal never changes.
func (it *item) yaml(spec bcp.Spec) string {
	q := it.seen(&spec)
	var parts []string
	if q.ExpectedFormat != 0 {
		parts = append(parts, "expected_format: "+q.ExpectedFormat.String())
	}
	if q.Values != nil {
		parts = append(parts, "values: ["+strings.Join(q.Values, ", ")+"]")
	}
	if q.Min != nil {
		parts = append(parts, fmt.Sprintf("min: %d", *q.Min))
	}
	if q.Max != nil {
		parts = append(parts, fmt.Sprintf("max: %d", *q.Max))
	}
	for _, limit := range []struct {
		key string
		is  int
	}{{"max_words", q.MaxWords}, {"max_chars", q.MaxChars}} {
		if limit.is != 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", limit.key, limit.is))
		}
	}
	if q.Alphabet != "" {
		parts = append(parts, "alphabet: "+q.Alphabet)
	}
	return strings.Join(parts, ", ")
}
