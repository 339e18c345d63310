package lint

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Advice says that a spec, or a channel, asks for more than it needs: a higher
// category, a wider format, more words. It is a pure function of a definition;
// nothing is refused because of it (BCP-73).
type Advice struct {
	// Code is one of the Advice constants.
	Code string
	// Key is what to write again, as in a [bcp.SpecError]: "questions[1]" or
	// "questions[1].max_words". Empty means the whole spec; for a channel it is
	// a key of the channel.
	Key string
	// Text says in one sentence what is wider than needed, and by how much.
	Text string
	// Write is what to write instead, as one line of YAML: an entry in braces,
	// or a key and its value. For a whole spec it is the keys between the
	// braces, to which a subscription adds its id.
	Write string
	// Rewrite is the spec with the advice taken, nil for a channel. It compiles
	// under the same settings, has no higher category, and none of its prices is
	// greater.
	Rewrite *bcp.Spec
}

// The codes of advice. The words are frozen.
const (
	AdviceCategory1   = "advice_category_1"       // every answer is known in advance
	AdviceCategory2   = "advice_category_2"       // a summary of what are specific facts
	AdviceFormat      = "advice_format"           // free text where a format would do
	AdviceBounds      = "advice_bounds"           // an integer without the bounds that its question names
	AdviceMaxWords    = "advice_max_words"        // more words than the format needs
	AdviceAlphabet    = "advice_alphabet"         // texts that may be in any script
	AdviceMaxChars    = "advice_max_chars"        // names of any length
	AdviceMaxCategory = "advice_max_category"     // a category that nothing on the channel can use
	AdviceShare       = "advice_category_3_share" // summaries are not the exception
	AdviceBudget      = "advice_budget"           // one push of each does not fit
)

// Advise returns what the spec could do with less, in the order of its
// questions. It is the same at every call, and empty where nothing certain can
// be said: questions are read by the English words of [Needs] and no others.
//
// A question of few known answers beside others of free text is left alone.
// What is asked together comes together, and a field of category 1 could not.
func Advise(v *bcp.Validator) []Advice {
	spec := v.Spec()
	a := adviser{validator: v, spec: &spec}
	switch spec.Category {
	case 2:
		a.questions()
	case 3:
		a.directive()
	}
	return a.found
}

type adviser struct {
	validator *bcp.Validator
	spec      *bcp.Spec
	found     []Advice
}

// propose keeps an advice if following it is sound: the rewritten spec is one
// under the same settings, and nothing about it costs more.
func (a *adviser) propose(advice Advice, rewrite bcp.Spec) bool {
	after, err := bcp.Compile(rewrite, a.validator.Settings())
	if err != nil || rewrite.Category > a.spec.Category {
		return false
	}
	p, q := a.validator.Prices(), after.Prices()
	if q.Nominal > p.Nominal || q.Capacity > p.Capacity || q.FailedNominal > p.FailedNominal || q.FailedCapacity > p.FailedCapacity {
		return false
	}
	advice.Text += fmt.Sprintf(" (nominal bits %s, capacity bits %s)", change(p.Nominal, q.Nominal), change(p.Capacity, q.Capacity))
	advice.Rewrite = &rewrite
	a.found = append(a.found, advice)
	return true
}

func change(before, after bcp.Bits) string {
	if before == after {
		return "stay " + after.Rounded()
	}
	return "fall from " + before.Rounded() + " to " + after.Rounded()
}

func (a *adviser) questions() {
	shapes := make([]shape, len(a.spec.Questions))
	finite := true
	for i := range a.spec.Questions {
		q := &a.spec.Questions[i]
		shapes[i] = questionShape(q, a.validator.Settings().Vocabularies)
		finite = finite && shapes[i].finite() && q.SameAs == ""
	}
	if finite && a.category1(shapes) {
		return
	}
	for i := range shapes {
		a.question(i, &shapes[i])
	}
	a.texts(shapes)
}

// category1 proposes fields for questions whose answers are all known.
func (a *adviser) category1(shapes []shape) bool {
	rewrite := bcp.Spec{Category: 1, Constraints: a.spec.Constraints, AllowNotEnoughInformation: a.spec.AllowNotEnoughInformation}
	for i, s := range shapes {
		rewrite.Fields = append(rewrite.Fields, s.field(a.spec.Questions[i].ID))
	}
	return a.propose(Advice{
		Code: AdviceCategory1, Write: writeSpec(&rewrite),
		Text: "all possible answers are known in advance, so that fields of category 1 will do",
	}, rewrite)
}

// question proposes the narrowest way to ask one question.
func (a *adviser) question(i int, s *shape) {
	q := &a.spec.Questions[i]
	key := fmt.Sprintf("questions[%d]", i)
	narrow := s.question(*q)
	switch words := s.words(); {
	case s.need != nil && s.format == q.ExpectedFormat:
		a.propose(Advice{
			Code: AdviceBounds, Key: key, Write: writeQuestion(&narrow),
			Text: "the question names its bounds, and any other number is let through",
		}, a.with(i, narrow))
	case s.need != nil:
		a.propose(Advice{
			Code: AdviceFormat, Key: key, Write: writeQuestion(&narrow),
			Text: fmt.Sprintf("the question asks for %s, and %s lets through any text", s.need.Name, q.ExpectedFormat),
		}, a.with(i, narrow))
	case words > 0 && q.MaxWords > words:
		narrow = *q
		narrow.MaxWords = words
		a.propose(Advice{
			Code: AdviceMaxWords, Key: key + ".max_words", Write: fmt.Sprintf("max_words: %d", words),
			Text: fmt.Sprintf("no answer in the format %s has more than %s, and each word costs %s", s.format, countOfWords(words), bcp.WordBits.Words()),
		}, a.with(i, narrow))
	}
}

func countOfWords(n int) string {
	if n == 1 {
		return "1 word"
	}
	return fmt.Sprintf("%d words", n)
}

// with returns the spec with another question at i.
func (a *adviser) with(i int, q bcp.Question) bcp.Spec {
	rewrite := *a.spec
	rewrite.Questions = slices.Clone(a.spec.Questions)
	rewrite.Questions[i] = q
	return rewrite
}

// Names have words of charsAWord characters with the space, on the generous
// side, and few of them have more than longName in all.
const charsAWord, longName = 8, 40

// texts proposes a script for texts and a length for names, where a push can
// carry far more than the budget counts and nobody has said either. Names are
// written in many scripts, texts of one mesh rarely are.
func (a *adviser) texts(shapes []shape) {
	p := a.validator.Prices()
	if p.Capacity <= 4*p.Nominal {
		return
	}
	latin, foreign := false, false // what the questions themselves are written in
	var texts, names []int
	for i := range a.spec.Questions {
		q := &a.spec.Questions[i]
		for _, r := range q.Question {
			latin = latin || r > unicode.MaxASCII && unicode.Is(unicode.Latin, r)
			foreign = foreign || unicode.IsLetter(r) && !unicode.Is(unicode.Latin, r)
		}
		switch {
		case q.Alphabet != "" || q.MaxChars != 0 || shapes[i].need != nil:
		case q.ExpectedFormat == bcp.FormatPersonName:
			names = append(names, i)
		case q.ExpectedFormat == bcp.FormatShortText || q.ExpectedFormat == bcp.FormatShortList:
			texts = append(texts, i)
		}
	}
	alphabet := "ascii"
	if latin {
		alphabet = "latin"
	}
	if len(texts) > 0 && !foreign {
		rewrite := a.with(0, a.spec.Questions[0])
		for _, i := range texts {
			rewrite.Questions[i].Alphabet = alphabet
		}
		a.propose(Advice{
			Code: AdviceAlphabet, Key: fmt.Sprintf("questions[%d].alphabet", texts[0]), Write: "alphabet: " + alphabet,
			Text: a.ids(texts) + " may be in any script of the world",
		}, rewrite)
	}
	if len(names) > 0 {
		rewrite := a.with(0, a.spec.Questions[0])
		chars := longName
		for _, i := range names {
			chars = max(chars, rewrite.Questions[i].MaxWords*charsAWord)
		}
		for _, i := range names {
			rewrite.Questions[i].MaxChars = chars
		}
		a.propose(Advice{
			Code: AdviceMaxChars, Key: fmt.Sprintf("questions[%d].max_chars", names[0]), Write: fmt.Sprintf("max_chars: %d", chars),
			Text: a.ids(names) + " may have 24 characters in every word",
		}, rewrite)
	}
}

// ids names questions.
func (a *adviser) ids(of []int) string {
	var names []bcp.AgentName
	for _, i := range of {
		names = append(names, bcp.AgentName(a.spec.Questions[i].ID))
	}
	return list(names)
}

// directive proposes questions for a summary of specific facts.
func (a *adviser) directive() {
	asked := &bcp.Question{ID: "answer", Question: a.spec.Directive, MaxWords: a.spec.MaxWords, ExpectedFormat: bcp.FormatShortText}
	if s := questionShape(asked, a.validator.Settings().Vocabularies); s.need != nil {
		rewrite := bcp.Spec{Category: 2, Questions: []bcp.Question{s.question(*asked)}, AllowNotEnoughInformation: a.spec.AllowNotEnoughInformation}
		code := AdviceCategory2
		if s.finite() {
			rewrite.Category, rewrite.Questions, rewrite.Fields = 1, nil, []bcp.Field{s.field(asked.ID)}
			code = AdviceCategory1
		}
		a.propose(Advice{
			Code: code, Write: writeSpec(&rewrite),
			Text: fmt.Sprintf("the directive asks for %s, which needs no summary and no person's approval", s.need.Name),
		}, rewrite)
		return
	}
	rewrite := bcp.Spec{Category: 2, AllowNotEnoughInformation: a.spec.AllowNotEnoughInformation}
	var facts []bcp.AgentName
	for _, n := range needTable {
		if n.fact != nil && n.mentioned(readWording(a.spec.Directive)) {
			rewrite.Questions = append(rewrite.Questions, *n.fact)
			facts = append(facts, bcp.AgentName(n.Name))
		}
	}
	if len(facts) < 2 {
		return
	}
	a.propose(Advice{
		Code: AdviceCategory2, Write: writeSpec(&rewrite),
		Text: "the directive asks for " + list(facts) + ": questions of category 2 have a format for each and need no person's approval; what is left, if anything, is a shorter summary",
	}, rewrite)
}

// ChannelAdvice returns what a channel as a whole could do with less; prices
// are those of its subscriptions, in their order.
func ChannelAdvice(m *bcp.Mesh, c *bcp.Channel, prices []bcp.Prices) []Advice {
	var found []Advice
	summaries, highest := 0, bcp.Category(1)
	var together bcp.Bits
	fitting := 0
	limit := min(c.Budget, c.PushBudget)
	for i, s := range c.Subscriptions {
		highest = max(highest, s.Spec.Category)
		if s.Spec.Category == 3 {
			summaries++
		}
		if prices[i].Nominal <= limit { // the others are warned of already
			together = addUpTo(together, prices[i].Nominal)
			fitting++
		}
	}
	if len(c.Subscriptions) > 0 && highest < c.MaxCategory && !asks(m, c.Controller) {
		found = append(found, Advice{
			Code: AdviceMaxCategory, Key: "max_category", Write: fmt.Sprintf("max_category: %d", highest),
			Text: fmt.Sprintf("the tools of %s lack BCPQuery and no subscription is above category %d, so that nothing uses category %d", c.Controller, highest, c.MaxCategory),
		})
	}
	if summaries >= 2 && 2*summaries >= len(c.Subscriptions) {
		found = append(found, Advice{
			Code: AdviceShare, Key: "subscriptions", Write: "category: 2",
			Text: fmt.Sprintf("%d of %d subscriptions are summaries: category 3 is for the rare need that no question can put", summaries, len(c.Subscriptions)),
		})
	}
	if fitting >= 2 && together > limit {
		key := "budget_bits"
		if c.PushBudget < c.Budget {
			key = "push_budget_bits"
		}
		found = append(found, Advice{
			Code: AdviceBudget, Key: key, Write: fmt.Sprintf("%s: %s", key, strings.TrimSuffix(together.String(), ".0")),
			Text: fmt.Sprintf("one push of each subscription costs %s together and %s is %s: in no epoch do all of them come through; narrow them, or allow them", together.Words(), key, limit.Rounded()),
		})
	}
	return found
}

// asks reports whether an agent can ask: one that lists no tools may.
func asks(m *bcp.Mesh, name bcp.AgentName) bool {
	a, _ := m.Agent(name)
	return len(a.Tools) == 0 || slices.Contains(a.ProtocolTools(), bcp.ToolQuery)
}
