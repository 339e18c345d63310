package lint

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Need is one kind of thing that a Controller may want to know, and the lowest
// category that tells it (BCP-73 to BCP-76).
type Need struct {
	// Name is what is asked for, such as "yes or no".
	Name string
	// Example is a question, or a directive, that asks for it.
	Example string
	// Spec asks the example in the lowest category that will do.
	Spec bcp.Spec
	// Write is the spec's only entry as one line of YAML.
	Write string
	// Prices are those of a push on a channel's only subscription.
	Prices bcp.Prices
}

// Needs returns the needs in the order in which they are looked for: the first
// that a question puts is its own.
func Needs() []Need {
	needs := make([]Need, len(needTable))
	settings := bcp.Settings{Subscriptions: 1, Vocabularies: map[string][]string{"departments": {"billing", "legal", "sales", "support"}}}
	for i := range needTable {
		needs[i] = needTable[i].Need
		n := &needs[i]
		v, err := bcp.Compile(n.Spec, settings)
		if err != nil {
			panic("bcp: the example of a need is no spec: " + err.Error())
		}
		n.Prices = v.Prices()
		switch n.Spec.Category {
		case 1:
			n.Write = writeField(&n.Spec.Fields[0])
		case 2:
			n.Write = writeQuestion(&n.Spec.Questions[0])
		default:
			n.Write = "{" + writeSpec(&n.Spec) + "}"
		}
	}
	return needs
}

// need is a row of the table.
type need struct {
	Need
	// asked recognises a question that asks for this and nothing else.
	asked func(w wording, vocabularies map[string][]string) (shape, bool)
	// mentions are words with which a directive asks for it among other facts,
	// and fact is the question to put instead.
	mentions []string
	fact     *bcp.Question
}

// needTable is the one place that says what asks for what. docs/definitions.md
// shows it.
var needTable = []need{
	{
		Need: Need{Name: "yes or no", Example: "Is it urgent?",
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			return shape{format: bcp.FormatBoolean}, w.yesOrNo()
		},
		mentions: []string{"whether"},
		fact:     &bcp.Question{ID: "whether", Question: "Is it so?", MaxWords: 1, ExpectedFormat: bcp.FormatBoolean},
	},
	{
		Need: Need{Name: "one of known choices", Example: "Which of these is it: request, invoice or meeting?",
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "kind", Type: bcp.TypeEnum, Values: []string{"request", "invoice", "meeting"}}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			values := w.choices()
			return shape{format: bcp.FormatEnum, values: values}, len(values) > 0
		},
	},
	{
		Need: Need{Name: "a score", Example: "How relevant is it, on a scale of 1 to 5?",
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "relevance", Type: bcp.TypeInteger, Min: new(int64(1)), Max: new(int64(5))}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			least, most, ok := w.scale()
			return shape{format: bcp.FormatInteger, min: &least, max: &most}, ok
		},
	},
	{
		Need: Need{Name: "a whole number", Example: "How many people attend?",
			Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "people", Type: bcp.TypeInteger, Min: new(int64(0)), Max: new(int64(1000))}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			return shape{format: bcp.FormatInteger, min: new(int64(0)), max: new(int64(1000))}, w.count()
		},
		mentions: []string{"how many", "how much", "the amount", "the price", "the sum", "the total", "the cost", "the number of"},
		fact:     &bcp.Question{ID: "amount", Question: "How much, as a whole number?", MaxWords: 1, ExpectedFormat: bcp.FormatInteger},
	},
	{
		Need: Need{Name: "a date", Example: "On which day is it due?",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "day", Question: "On which day is it due?", MaxWords: 4, ExpectedFormat: bcp.FormatDate}}}},
		asked:    func(w wording, _ map[string][]string) (shape, bool) { return shape{format: bcp.FormatDate}, w.date() },
		mentions: []string{"when", "the date", "which date", "what date", "which day", "the deadline", "the due date"},
		fact:     &bcp.Question{ID: "date", Question: "On which date?", MaxWords: 4, ExpectedFormat: bcp.FormatDate},
	},
	{
		Need: Need{Name: "a time of day", Example: "At what time does it begin?",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "time", Question: "At what time does it begin?", MaxWords: 1, ExpectedFormat: bcp.FormatTime}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			return shape{format: bcp.FormatTime}, w.timeOfDay()
		},
	},
	{
		Need: Need{Name: "an e-mail address", Example: "What is the sender's email address?",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "address", Question: "What is the sender's email address?", MaxWords: 1, ExpectedFormat: bcp.FormatEmail}}}},
		asked:    func(w wording, _ map[string][]string) (shape, bool) { return shape{format: bcp.FormatEmail}, w.email() },
		mentions: []string{"the email address", "the e-mail address"},
		fact:     &bcp.Question{ID: "address", Question: "What is the e-mail address?", MaxWords: 1, ExpectedFormat: bcp.FormatEmail},
	},
	{
		Need: Need{Name: "a person's name", Example: "Who asks for the meeting?",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "who", Question: "Who asks for the meeting?", MaxWords: 4, ExpectedFormat: bcp.FormatPersonName, MaxChars: 40}}}},
		asked: func(w wording, _ map[string][]string) (shape, bool) {
			return shape{format: bcp.FormatPersonName}, w.person()
		},
		mentions: []string{"who", "the name", "the sender", "the author"},
		fact:     &bcp.Question{ID: "who", Question: "Who is it?", MaxWords: 5, ExpectedFormat: bcp.FormatPersonName, MaxChars: 40},
	},
	{
		Need: Need{Name: "words of a list of the mesh", Example: "Which department is it for?",
			Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "department", Question: "Which department is it for?", MaxWords: 1, ExpectedFormat: bcp.FormatVocabulary, Vocabulary: "departments"}}}},
		asked: func(w wording, vocabularies map[string][]string) (shape, bool) {
			name := w.vocabulary(vocabularies)
			return shape{format: bcp.FormatVocabulary, vocabulary: name}, name != ""
		},
	},
	{Need: Need{Name: "a few words", Example: "What is it about?",
		Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "topic", Question: "What is it about?", MaxWords: 6, ExpectedFormat: bcp.FormatShortText, Alphabet: "ascii", MaxChars: 40}}}}},
	{Need: Need{Name: "a few items", Example: "What are the three action items?",
		Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "actions", Question: "What are the three action items?", MaxWords: 15, ExpectedFormat: bcp.FormatShortList, Alphabet: "ascii", MaxChars: 100}}}}},
	{Need: Need{Name: "what no question can put", Example: "Summarise the key findings of this document.",
		Spec: bcp.Spec{Category: 3, Directive: "Summarise the key findings of this document.", MaxWords: 100}}},
}

// shape is what the answer to a question can be narrowed to.
type shape struct {
	format     bcp.Format
	min, max   *int64
	values     []string
	vocabulary string
	need       *need // the row that recognised the wording; nil where the format says it
}

// questionShape returns what a question's format says, or what its wording says where
// the format leaves it open.
func questionShape(q *bcp.Question, vocabularies map[string][]string) shape {
	s := shape{format: q.ExpectedFormat, min: q.Min, max: q.Max, values: q.Values, vocabulary: q.Vocabulary}
	text := q.ExpectedFormat == bcp.FormatShortText
	unbounded := q.ExpectedFormat == bcp.FormatInteger && q.Min == nil && q.Max == nil
	if !text && !unbounded {
		return s
	}
	w := readWording(q.Question)
	for i := range needTable {
		n := &needTable[i]
		if n.asked == nil {
			continue
		}
		found, ok := n.asked(w, vocabularies)
		if !ok {
			continue
		}
		if text || found.finite() && found.format == bcp.FormatInteger {
			found.need = n
			return found
		}
		return s
	}
	return s
}

// finite reports whether a field of category 1 can have every answer.
func (s *shape) finite() bool {
	switch s.format {
	case bcp.FormatBoolean, bcp.FormatEnum:
		return true
	case bcp.FormatInteger:
		return s.min != nil && s.max != nil
	default:
		return false
	}
}

func (s *shape) field(name string) bcp.Field {
	f := bcp.Field{Name: name, Type: bcp.TypeBoolean}
	switch s.format {
	case bcp.FormatEnum:
		f.Type, f.Values = bcp.TypeEnum, s.values
	case bcp.FormatInteger:
		f.Type, f.Min, f.Max = bcp.TypeInteger, s.min, s.max
	default:
	}
	return f
}

// question returns q with this shape for its answer.
func (s *shape) question(q bcp.Question) bcp.Question {
	narrow := bcp.Question{ID: q.ID, Question: q.Question, MaxWords: q.MaxWords, SameAs: q.SameAs,
		ExpectedFormat: s.format, Min: s.min, Max: s.max, Values: s.values, Vocabulary: s.vocabulary}
	if words := s.words(); words > 0 {
		narrow.MaxWords = min(q.MaxWords, words)
	}
	if s.format == q.ExpectedFormat || s.format == bcp.FormatPersonName {
		narrow.MaxChars, narrow.Alphabet = q.MaxChars, q.Alphabet
	}
	return narrow
}

// words is how many words the longest answer has, 0 where the format does not
// say. The longest date is "15th of March 2026".
func (s *shape) words() int {
	switch s.format {
	case bcp.FormatDate:
		return 4
	case bcp.FormatBoolean, bcp.FormatInteger, bcp.FormatTime, bcp.FormatEmail:
		return 1
	case bcp.FormatEnum:
		longest := 1
		for _, value := range s.values {
			longest = max(longest, len(strings.Fields(value)))
		}
		return longest
	default:
		return 0
	}
}

// wording is a question or a directive in lower case, as words and marks. What
// it recognises is English and errs towards nothing: advice that is wrong once
// is not read twice.
type wording []string

func readWording(text string) wording {
	var w wording
	runes := []rune(strings.ToLower(text))
	inWord := func(i int) bool {
		if i < 0 || i >= len(runes) {
			return false
		}
		return unicode.IsLetter(runes[i]) || unicode.IsDigit(runes[i])
	}
	for i := 0; i < len(runes); i++ {
		if !inWord(i) {
			if !unicode.IsSpace(runes[i]) {
				w = append(w, string(runes[i]))
			}
			continue
		}
		begin := i
		for inWord(i) || inWord(i+1) && (runes[i] == '\'' || runes[i] == '’' || runes[i] == '-' && !unicode.IsDigit(runes[i+1])) {
			i++
		}
		w = append(w, strings.ReplaceAll(string(runes[begin:i]), "’", "'"))
		i--
	}
	return w
}

func (w wording) at(i int) string {
	if i < 0 || i >= len(w) {
		return ""
	}
	return w[i]
}

// is reports whether the token at i is one of these.
func (w wording) is(i int, words ...string) bool { return slices.Contains(words, w.at(i)) }

// has reports whether one of these is anywhere.
func (w wording) has(words ...string) bool {
	return slices.ContainsFunc(w, func(token string) bool { return slices.Contains(words, token) })
}

// find returns the place of a phrase, or -1.
func (w wording) find(phrase string) int {
	words := strings.Fields(phrase)
	for i := 0; i+len(words) <= len(w); i++ {
		if slices.Equal(w[i:i+len(words)], words) {
			return i
		}
	}
	return -1
}

// open reports whether more than one fact is asked for.
func (w wording) open() bool {
	return w.has("explain", "why", "reason", "reasons", "describe", "elaborate", "discuss", "argument", "arguments", "opinion", "background", "context",
		"each", "every", "all", "both", "list", "quote")
}

// single reports whether nothing joins a second question or answer to the first.
func (w wording) single() bool {
	return !w.open() && !w.has("and", "or", "&", "/", ";", ",") && !slices.Contains(w[:max(0, len(w)-1)], "?")
}

// yesOrNo: "Is it urgent?", "Whether a reply is wanted", "…, true or false?"
func (w wording) yesOrNo() bool {
	if w.open() || w.has("maybe", "perhaps", "partly", "unknown", "unclear", "neither") || slices.Contains(w[:max(0, len(w)-1)], "?") {
		return false
	}
	for _, phrase := range []string{"yes or no", "yes / no", "true or false", "true / false", "y / n"} {
		if w.find(phrase) >= 0 {
			return true
		}
	}
	auxiliary := w.is(0, "is", "are", "was", "were", "does", "do", "did", "has", "have", "had", "can", "could", "will", "would", "should", "must", "isn't", "aren't", "doesn't") &&
		!w.is(1, "you", "we", "i") && w.at(len(w)-1) == "?"
	if !auxiliary && w.at(0) != "whether" {
		return false
	}
	rest := w
	if i := w.find("or not"); i >= 0 && (i+2 == len(w) || i+3 == len(w) && w.ends("?")) {
		rest = w[:i]
	}
	return !rest.has("or", "what", "which", "who", "whom", "whose", "when", "where", "how", "if", ":", "(")
}

// choices returns the answers that a question lists: "Which of these is it:
// request, invoice or meeting?"
func (w wording) choices() []string {
	from := slices.IndexFunc(w, func(token string) bool { return token == ":" || token == "(" })
	if from < 1 || w.open() || w.has("apply", "are", "e", "i", "etc", "example", "such", "like", "including", "please") || w[:from].has(",", "and", "or") {
		return nil
	}
	before := w[:from]
	pick := before.is(0, "which", "choose", "pick", "select") || before.find("one of") >= 0
	if plural(before.at(1)) || !pick && !before.is(0, "what", "is", "how") {
		return nil
	}
	var values []string
	var item []string
	conjunction, ended := false, false
	for _, token := range w[from+1:] {
		isMark := token == "," || token == "?" || token == "." || token == ")"
		switch {
		case ended && !isMark:
			return nil
		case isMark || token == "or":
			if conjunction && token == "or" {
				return nil
			}
			conjunction = conjunction || token == "or"
			ended = ended || isMark && token != ","
			if len(item) > 0 {
				values, item = append(values, strings.Join(item, " ")), nil
			}
		case len(item) == 0 && (token == "a" || token == "an" || token == "the"):
		case len(item) == 3 || !unicode.IsLetter([]rune(token)[0]) && !unicode.IsDigit([]rune(token)[0]) || token == "and":
			return nil
		default:
			item = append(item, token)
		}
	}
	if len(item) > 0 {
		values = append(values, strings.Join(item, " "))
	}
	if len(values) < 2 || !conjunction && (!pick || len(values) < 3) {
		return nil
	}
	return values
}

// plural reports whether a noun looks like one: several choices may be meant.
func plural(noun string) bool {
	return strings.HasSuffix(noun, "s") && !strings.HasSuffix(noun, "ss") && !strings.HasSuffix(noun, "us") && noun != "is" && noun != "was"
}

// scale returns the bounds that a question names: "on a scale of 1 to 5",
// "(1-10)".
func (w wording) scale() (least, most int64, ok bool) {
	adjective := w.at(0) == "how" && !w.is(1, "", "many", "much", "long", "often", "far", "old", "did", "do", "does", "is", "are", "was", "were",
		"has", "have", "had", "can", "could", "will", "would", "should", "to", "the", "come")
	if w.open() || !adjective && w.at(0) != "rate" && !w.has("scale", "score", "scored", "rated", "rating", "grade") {
		return 0, 0, false
	}
	for i := range w {
		a, errLeast := strconv.ParseUint(w.at(i), 10, 8)
		b, errMost := strconv.ParseUint(w.at(i+2), 10, 8)
		if errLeast != nil || errMost != nil || !w.is(i+1, "to", "-", "–", "—", "and", "through") || w.at(i+1) == "and" && w.at(i-1) != "between" {
			continue
		}
		if ok || a >= b || b > 100 {
			return 0, 0, false
		}
		least, most, ok = int64(a), int64(b), true
	}
	return least, most, ok
}

// count: "How many people attend?"
func (w wording) count() bool {
	if !w.single() {
		return false
	}
	noun, rest := w.subject()
	total := slices.Equal(noun, wording{"total", "number"}) || slices.Equal(noun, wording{"number"}) && strings.HasSuffix(rest.at(1), "s")
	return w.find("how many") == 0 || total && rest.at(0) == "of"
}

func (w wording) date() bool {
	noun, rest := w.subject()
	switch {
	case !w.single() || w.has("time", "week", "weekday"):
		return false
	case w.find("by when") == 0 || w.at(0) == "when" && w.has("due"):
		return true
	}
	return noun.ends("date", "deadline") || slices.Equal(noun, wording{"day"}) && !rest.is(0, "of")
}

func (w wording) timeOfDay() bool {
	noun, _ := w.subject()
	if !w.single() || !noun.ends("time") || w.has("zone", "much") {
		return false
	}
	return len(noun) == 1 || len(noun) == 2 && noun.is(0, "start", "starting", "begin", "end", "ending", "opening", "closing", "meeting", "departure", "arrival", "delivery")
}

func (w wording) email() bool {
	noun, _ := w.subject()
	if !w.single() {
		return false
	}
	if noun.ends("address") {
		return noun.is(len(noun)-2, "email", "e-mail")
	}
	whose := noun.at(len(noun) - 2)
	return noun.ends("email", "e-mail") && (whose == "" && w[0] == noun[0] || whose == "contact" || strings.HasSuffix(whose, "'s"))
}

// people are whose names are those of persons.
var people = []string{"sender", "author", "person", "customer", "client", "patient", "recipient", "manager", "owner", "speaker", "writer", "applicant", "candidate", "signatory", "contact"}

func (w wording) person() bool {
	if !w.single() {
		return false
	}
	if w.is(0, "who") && w.is(1, "is", "was", "asks", "asked", "sent", "sends", "wrote", "writes", "signed", "signs", "requests", "requested", "wants", "called", "calls", "approved", "organises", "organizes", "attends") {
		return true
	}
	noun, rest := w.subject()
	if noun.ends("surname") {
		return true
	}
	if !noun.ends("name") {
		return false
	}
	whose := func(token string) bool { return slices.Contains(people, strings.TrimSuffix(token, "'s")) }
	of := rest.at(0) == "of" && (whose(rest.at(1)) || rest.is(1, "the", "a") && whose(rest.at(2)))
	return of || slices.ContainsFunc(noun, whose) || noun.is(len(noun)-2, "full", "last", "family")
}

// vocabulary returns the word list that is called like what is asked for.
func (w wording) vocabulary(lists map[string][]string) string {
	noun, _ := w.subject()
	if !w.single() || len(noun) != 1 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if called := strings.ToLower(name); noun[0] == called || noun[0]+"s" == called {
			return name
		}
	}
	return ""
}

// subject returns what a question asks for, without articles, and what stands
// after it: of "What is the name of the sender?" it is "name" and "of the
// sender". A label without a verb, such as "Date of the meeting", is one too.
func (w wording) subject() (noun, rest wording) {
	i := 0
	if w.is(0, "on", "at", "by", "in", "from", "until", "since", "for") {
		i = 1
	}
	switch {
	case w.is(i, "what's"):
		i++
	case w.is(i, "what", "which") && w.is(i+1, "is", "was"):
		i += 2
	case w.is(i, "what", "which"):
		i++
	case w.is(i, "give", "state", "name", "say") && w.is(i+1, "the"):
		i++
	case i > 0 || len(w) > 6:
		return nil, nil
	}
	end := i
	for end < len(w) && !w.is(end, "of", "for", "in", "on", "from", "that", "by", "to", "at", "with", "about", "is", "was", "are", "were", "will", "did", "does", "do",
		"has", "have", "had", "can", "could", "should", "must", "?", ".", "(", ":") {
		end++
	}
	for _, token := range w[min(i, len(w)):end] {
		if !slices.Contains([]string{"the", "a", "an", "its", "their", "this"}, token) {
			noun = append(noun, token)
		}
	}
	return noun, w[end:]
}

// ends reports whether the last word is one of these.
func (w wording) ends(words ...string) bool { return w.is(len(w)-1, words...) }

// mentioned reports whether a directive asks for the need among other facts,
// and for nothing that only a summary can tell.
func (n *need) mentioned(w wording) bool {
	if w.open() {
		return false
	}
	for _, phrase := range n.mentions {
		words := strings.Fields(phrase)
		for i := range w {
			end := i + len(words)
			if !slices.Equal(w[i:min(end, len(w))], words) {
				continue
			}
			// A fact that is asked for is an item of a list. A relative clause
			// ("people who complain"), an adverb ("whenever it comes") and a part
			// of another noun ("the deadline debate") are not.
			begins := i == 0 || w.is(i-1, ",", ":", "and", "or", "by", "say", "tell", "state", "extract", "report", "note", "find", "summarise", "summarize", "give")
			ends := !strings.HasPrefix(phrase, "the ") || strings.HasSuffix(phrase, " of") || w.is(end, "", ",", ".", ";", "and", "or", "of")
			if begins && ends {
				return true
			}
		}
	}
	return false
}
