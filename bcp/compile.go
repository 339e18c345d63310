package bcp

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// Settings are the keys of a channel and a mesh that decide how an answer is
// checked and priced. The zero value is the strictest: anomalies are held,
// case is folded, there are no vocabularies and no constraints.
type Settings struct {
	OnAnomaly    OnAnomaly
	PreserveCase bool
	// Vocabularies are the word lists that a question may name. A word list is
	// lower case and sorted.
	Vocabularies map[string][]string
	// Rules are the anomaly rules; nil means [text.DefaultRules].
	Rules *text.Rules
	// Constraints compiles CEL expressions; with nil a spec that has any is
	// refused.
	Constraints ConstraintCompiler
	// ReleaseSlots is the number of release intervals in the TTL of a query,
	// rounded up. 0 means that there is no release interval: timing is
	// uncounted (PROTOCOL P4.1).
	ReleaseSlots uint64
	// ApprovalSlots is the number of release intervals in the TTL of an
	// approval, rounded up. 0 beside ReleaseSlots stands for 2^32.
	ApprovalSlots uint64
	// Subscriptions is the number of subscriptions of the channel when the
	// spec belongs to one of them, and 0 for a query.
	Subscriptions int
	// PublishWhen is that of the subscription; it is compiled like a constraint.
	PublishWhen string
	// Sealed says that there may be sealed fields: in queries, not in what is pushed.
	Sealed bool
}

// OfSubscription returns the settings of one of n subscriptions of the channel.
func (s Settings) OfSubscription(sub Subscription, n int) Settings {
	s.Subscriptions, s.PublishWhen, s.Sealed = n, sub.PublishWhen, false
	return s
}

// SpecError says which key of a spec is wrong and what was expected. Its text
// may quote the spec, never an answer.
type SpecError struct {
	Key     string // such as "questions[1].max_words"; empty for the whole spec
	Message string
}

func (e *SpecError) Error() string {
	if e.Key == "" {
		return e.Message
	}
	return e.Key + ": " + e.Message
}

// Validator checks answers against one spec. It is immutable and safe for
// concurrent use.
type Validator struct {
	spec        Spec
	items       []item
	constraints []Constraint
	filter      Constraint // publish_when, nil for none
	settings    Settings
	prices      Prices
	maxBytes    int
}

// item is one field or question, or the summary, ready to be checked.
type item struct {
	name     string
	key      []byte // {"name": in canonical JSON, with a comma for the brace after the first
	kind     Format // fields use the boolean, enum and integer formats
	typed    bool   // category 1: JSON types only, delivered as such
	min, max int64
	values   []string
	maxWords int
	options  text.Options
	sameAs   int // index of the question that must agree, -1 for none
}

// Compile checks a spec and prepares its validation and its prices. A spec
// that it accepts can be answered; one that it refuses is refused with a
// *[SpecError] (PROTOCOL P1.3, P3.1, P3.2).
func Compile(spec Spec, settings Settings) (*Validator, error) {
	if settings.Rules == nil {
		settings.Rules = text.DefaultRules()
	}
	v := &Validator{spec: spec, settings: settings}
	if !spec.Category.Valid() {
		return nil, specErrorf("category", "expected 1, 2 or 3")
	}
	if err := onlyKeys(&v.spec, func(key string) string { return key }, categoryKeys[0], categoryKeys[spec.Category]); err != nil {
		return nil, err
	}
	compileItems := [...]func() error{1: v.compileFields, 2: v.compileQuestions, 3: v.compileSummary}[spec.Category]
	for _, compile := range []func() error{compileItems, v.compileConstraints, v.compileFilter} {
		if err := compile(); err != nil {
			return nil, err
		}
	}
	v.maxBytes = answerOverhead + answerFactor*v.longestText()
	v.prices = price(v)
	return v, nil
}

// Spec returns the spec as it was compiled: enum values in NFC, defaults
// filled in. The caller must not change it.
func (v *Validator) Spec() Spec { return v.spec }

// MaxBytes is the size that an answer may have on the wire, checked before it
// is decoded (PROTOCOL P2.2).
func (v *Validator) MaxBytes() int { return v.maxBytes }

// Prices returns what the spec costs.
func (v *Validator) Prices() Prices { return v.prices }

func (v *Validator) compileFields() error {
	s := &v.spec
	if len(s.Fields) < 1 || len(s.Fields) > MaxFields {
		return specErrorf("fields", "expected 1 to %d fields", MaxFields)
	}
	s.Fields = slices.Clone(s.Fields)
	for i := range s.Fields {
		f := &s.Fields[i]
		at := func(key string) string { return fmt.Sprintf("fields[%d].%s", i, key) }
		it := item{name: f.Name, typed: true, sameAs: -1, maxWords: MaxSpecWords}
		if err := checkItemName(f.Name, at("name"), v.items); err != nil {
			return err
		}
		var err error
		switch f.Type {
		case TypeBoolean:
			it.kind = FormatBoolean
		case TypeEnum:
			it.kind = FormatEnum
			f.Values, err = enumValues(f.Values, at("values"))
			it.values = f.Values
		case TypeInteger:
			it.kind = FormatInteger
			switch {
			case f.Min == nil:
				err = specErrorf(at("min"), "an integer needs min and max")
			case f.Max == nil:
				err = specErrorf(at("max"), "an integer needs min and max")
			case *f.Min > *f.Max:
				err = specErrorf(at("min"), "min is greater than max")
			default:
				it.min, it.max = *f.Min, *f.Max
			}
		case TypeSealed:
			it.kind = formatSealed
			switch {
			case !v.settings.Sealed:
				err = specErrorf(at("type"), "only what answers a query is sealed")
			case f.Max == nil || *f.Max < 1 || *f.Max > MaxSealedBytes:
				err = specErrorf(at("max"), "a sealed text has 1 to %d bytes", MaxSealedBytes)
			case len(s.Constraints) > 0:
				err = specErrorf("constraints", "nobody compares what is sealed: a spec with such a field has none")
			default:
				it.max = *f.Max
			}
		default:
			err = specErrorf(at("type"), "expected boolean, enum or integer")
		}
		if err == nil {
			err = onlyKeys(f, at, typeKeys[0], typeKeys[f.Type])
		}
		if err != nil {
			return err
		}
		v.add(it)
	}
	return nil
}

func (v *Validator) compileQuestions() error {
	s := &v.spec
	if len(s.Questions) < 1 || len(s.Questions) > MaxQuestions {
		return specErrorf("questions", "expected 1 to %d questions", MaxQuestions)
	}
	if s.MaxWords != 0 {
		if err := checkWords(s.MaxWords, "max_words"); err != nil {
			return err
		}
	}
	s.Questions = slices.Clone(s.Questions)
	words := 0
	for i := range s.Questions {
		q := &s.Questions[i]
		at := func(key string) string { return fmt.Sprintf("questions[%d].%s", i, key) }
		if err := checkItemName(q.ID, at("id"), v.items); err != nil {
			return err
		}
		if err := checkProse(q.Question, at("question")); err != nil {
			return err
		}
		if q.MaxWords == 0 {
			q.MaxWords = s.MaxWords
		}
		if err := checkWords(q.MaxWords, at("max_words")); err != nil {
			return err
		}
		words += q.MaxWords
		it, err := v.compileQuestion(q, at)
		if err != nil {
			return err
		}
		v.add(it)
	}
	if words > MaxSpecWords {
		return specErrorf("questions", "the questions may have %d words together, these have %d", MaxSpecWords, words)
	}
	s.MaxWords = 0
	return v.compileSameAs()
}

// compileQuestion checks what belongs to the question's format.
func (v *Validator) compileQuestion(q *Question, at func(string) string) (item, error) {
	it := item{name: q.ID, kind: q.ExpectedFormat, maxWords: q.MaxWords, sameAs: -1}
	var err error
	switch q.ExpectedFormat {
	case FormatPersonName, FormatShortText, FormatShortList:
		it.options, err = v.textOptions(q, at)
		it.options.PersonName = q.ExpectedFormat == FormatPersonName
	case FormatEmail:
		if q.MaxChars == 0 {
			q.MaxChars = DefaultEmailChars
		}
		if q.MaxChars < 6 || q.MaxChars > MaxEmailChars {
			return it, specErrorf(at("max_chars"), "an e-mail address has 6 to %d characters", MaxEmailChars)
		}
		it.options.MaxChars = q.MaxChars
	case FormatDate:
		it.min, it.max = yearMin, yearMax
		if err = bounds(&it, q, at); err == nil && (it.min < yearMin || it.max > yearMax) {
			err = specErrorf(at("min"), "min and max of a date are years from %d to %d", yearMin, yearMax)
		}
	case FormatInteger:
		it.min, it.max = DefaultIntegerMin, DefaultIntegerMax
		err = bounds(&it, q, at)
	case FormatBoolean, FormatTime:
	case FormatEnum:
		values, err := enumValues(q.Values, at("values"))
		if err != nil {
			return it, err
		}
		for _, value := range values {
			if len(strings.Fields(value)) > q.MaxWords {
				return it, specErrorf(at("values"), "a value has more than max_words words")
			}
		}
		q.Values, it.values = values, values
	case FormatVocabulary:
		list := v.settings.Vocabularies[q.Vocabulary]
		if len(list) == 0 {
			return it, specErrorf(at("vocabulary"), "expected the name of a word list of the mesh")
		}
		it.values = list
		it.options = text.Options{Alphabet: text.Any, Looks: text.LooksAlone, MaxWords: q.MaxWords, Rules: v.settings.Rules}
	default:
		return it, specErrorf(at("expected_format"), "expected one of %s", strings.Join(formatWords[1:FormatSummary], ", "))
	}
	if err == nil {
		err = onlyKeys(q, at, formatKeys[0], formatKeys[q.ExpectedFormat])
	}
	return it, err
}

func bounds(it *item, q *Question, at func(string) string) error {
	if it.min, it.max = *cmp.Or(q.Min, &it.min), *cmp.Or(q.Max, &it.max); it.min > it.max {
		return specErrorf(at("min"), "min is greater than max")
	}
	return nil
}

func (v *Validator) textOptions(q *Question, at func(string) string) (text.Options, error) {
	o := text.Options{Alphabet: text.Any, MaxWords: q.MaxWords, MaxChars: q.MaxChars, PreserveCase: v.settings.PreserveCase, Rules: v.settings.Rules}
	if q.Alphabet != "" {
		alphabet, ok := text.ParseAlphabet(q.Alphabet)
		if !ok {
			return o, specErrorf(at("alphabet"), "expected one of %s", strings.Join(text.Alphabets(), ", "))
		}
		o.Alphabet = alphabet
	}
	if q.MaxChars < 0 || q.MaxChars > MaxAnswerChars {
		return o, specErrorf(at("max_chars"), "expected 1 to %d characters", MaxAnswerChars)
	}
	if q.ExpectedFormat == FormatShortList {
		o.Join = text.List
	}
	return o, nil
}

// Alphabets returns the words that a question's alphabet may be.
func Alphabets() []string { return text.Alphabets() }

func (v *Validator) compileSameAs() error {
	for i := range v.spec.Questions {
		name := v.spec.Questions[i].SameAs
		if name == "" {
			continue
		}
		key := fmt.Sprintf("questions[%d].same_as", i)
		other := slices.IndexFunc(v.items, func(it item) bool { return it.name == name })
		if other < 0 || other == i {
			return specErrorf(key, "expected the id of another question")
		}
		if v.items[other].kind != v.items[i].kind {
			return specErrorf(key, "the two questions have different formats")
		}
		v.items[i].sameAs = other
	}
	return nil
}

func (v *Validator) compileSummary() error {
	s := &v.spec
	if err := checkProse(s.Directive, "directive"); err != nil {
		return err
	}
	if err := checkWords(s.MaxWords, "max_words"); err != nil {
		return err
	}
	if s.RequiresApproval != nil && !*s.RequiresApproval {
		return specErrorf("requires_approval", "a summary always requires approval; leave the key out or say true")
	}
	if len(s.Constraints) > 0 {
		return specErrorf("constraints", "a summary has no typed answers to compare")
	}
	required := true
	s.RequiresApproval = &required
	it := item{name: "summary", kind: FormatSummary, maxWords: s.MaxWords, sameAs: -1, options: text.Options{
		Alphabet: text.Any, MaxWords: s.MaxWords, Join: text.Summary, PreserveCase: v.settings.PreserveCase, Rules: v.settings.Rules}}
	v.add(it)
	return nil
}

func (v *Validator) compileConstraints() error {
	expressions := v.spec.Constraints
	if len(expressions) == 0 {
		return nil
	}
	if len(expressions) > MaxConstraints {
		return specErrorf("constraints", "expected at most %d", MaxConstraints)
	}
	for i, expression := range expressions {
		c, err := v.compileExpression(fmt.Sprintf("constraints[%d]", i), expression)
		if err != nil {
			return err
		}
		v.constraints = append(v.constraints, c)
	}
	return nil
}

// compileFilter compiles the publish_when of a subscription (PROTOCOL P12.2).
func (v *Validator) compileFilter() (err error) {
	const key = "publish_when"
	switch {
	case v.settings.PublishWhen == "":
		return nil
	case v.settings.Subscriptions == 0:
		return specErrorf(key, "has no place here")
	case v.spec.Category == 3:
		return specErrorf(key, "a summary has no typed answers to look at")
	}
	v.filter, err = v.compileExpression(key, v.settings.PublishWhen)
	return err
}

// compileExpression compiles a condition over the typed answers of the spec.
func (v *Validator) compileExpression(key, expression string) (Constraint, error) {
	if v.settings.Constraints == nil {
		return nil, specErrorf(key, "conditions are not available here")
	}
	if len(expression) == 0 || len(expression) > MaxConstraintBytes {
		return nil, specErrorf(key, "expected an expression of 1 to %d bytes", MaxConstraintBytes)
	}
	variables := make([]Variable, len(v.items))
	for i := range v.items {
		name := strings.ReplaceAll(v.items[i].name, "-", "_")
		if slices.ContainsFunc(variables[:i], func(v Variable) bool { return v.Name == name }) {
			key, _, _ = strings.Cut(key, "[")
			return nil, specErrorf(key, "two names are the same once hyphens are underscores")
		}
		variables[i] = Variable{Name: name, Kind: v.items[i].valueKind()}
	}
	compiled, err := v.settings.Constraints(expression, variables)
	if err != nil {
		return nil, specErrorf(key, "%v", err)
	}
	return compiled, nil
}

// add adds an item, with its canonical key.
func (v *Validator) add(it item) {
	brace := byte('{')
	if len(v.items) > 0 {
		brace = ','
	}
	it.key = fmt.Appendf(nil, "%c%q:", brace, it.name) // names are ASCII letters, digits, - and _
	v.items = append(v.items, it)
}

func (it *item) valueKind() Kind {
	switch it.kind {
	case FormatBoolean:
		return KindBool
	case FormatInteger:
		return KindInt
	case FormatDate:
		return KindDate
	default:
		return KindText
	}
}

// checkItemName checks the name of a field or the id of a question: it is a
// key of every answer and part of every delivery.
func checkItemName(name, key string, before []item) error {
	if !isToken(name, true) {
		return specErrorf(key, "expected 1 to %d letters, digits, hyphens and underscores", maxID)
	}
	if slices.ContainsFunc(before, func(it item) bool { return it.name == name }) {
		return specErrorf(key, "the same name twice")
	}
	return nil
}

func checkProse(s, key string) error {
	if strings.TrimSpace(s) == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > MaxQuestionChars {
		return specErrorf(key, "expected text of 1 to %d characters", MaxQuestionChars)
	}
	return nil
}

func checkWords(n int, key string) error {
	if n < 1 || n > MaxSpecWords {
		return specErrorf(key, "expected a whole number from 1 to %d", MaxSpecWords)
	}
	return nil
}

// enumValues returns the values in NFC, so that an answer compares byte for
// byte, and refuses values that look alike: that differ in nothing but case,
// white space, invisible characters, compatibility forms or letters of other
// scripts (PROTOCOL P3.1).
func enumValues(values []string, key string) ([]string, error) {
	if len(values) < 1 || len(values) > MaxValues {
		return nil, specErrorf(key, "expected 1 to %d values", MaxValues)
	}
	result := make([]string, len(values))
	seen := make(map[string]int, len(values))
	for i, value := range values {
		at := fmt.Sprintf("%s[%d]", key, i)
		if !utf8.ValidString(value) || strings.ContainsFunc(value, isControl) {
			return nil, specErrorf(at, "expected text without control characters")
		}
		if i := strings.IndexFunc(value, isBlank); i >= 0 {
			r, _ := utf8.DecodeRuneInString(value[i:])
			return nil, specErrorf(at, "%U shows as nothing or as a space: write a space or leave it out", r)
		}
		value = norm.NFC.String(value)
		if value == "" || strings.TrimSpace(value) != value || utf8.RuneCountInString(value) > MaxValueChars {
			return nil, specErrorf(at, "expected 1 to %d characters without white space around them", MaxValueChars)
		}
		looks := enumLooks(value)
		if looks[0] == "" {
			return nil, specErrorf(at, "expected something that can be seen")
		}
		for _, look := range looks {
			if before, again := seen[look]; again {
				return nil, specErrorf(at, "looks the same as %s[%d]: case, white space, invisible characters and letters of another script tell no values apart", key, before)
			}
		}
		for _, look := range looks {
			seen[look] = i
		}
		result[i] = value
	}
	return result, nil
}

// enumLooks returns what tells an enum value from another: how it looks as it is
// and in small letters, since a capital may look like one of another script.
func enumLooks(value string) [2]string {
	fold := func(s string) string {
		return strings.Join(strings.Fields(strings.ToLower(text.Look(s))), " ")
	}
	return [2]string{fold(strings.ToLower(norm.NFKC.String(value))), fold(value)}
}

// isBlank reports whether r is no white space to most programs and yet shows as a
// space or as nothing, depending on the font, or breaks a line: the zero width
// space, Hangul fillers, the blank of braille, line and paragraph separators.
func isBlank(r rune) bool {
	return slices.Contains([]rune{0x200b, 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x2028, 0x2029}, r)
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

// belongs says where a part of a spec belongs.
var belongs = map[string]string{
	"fields": ": they are for category 1; category 2 has questions", "questions": ": they are for category 2; category 1 has fields",
	"directive": ": it is for category 3",
}

// The keys that a spec of a category may have, a field of a type, and a question of a format; under 0 those of all.
var (
	categoryKeys = [...][]string{
		0: {"category", "constraints", "allow_not_enough_information", "arguments"},
		1: {"fields"}, 2: {"questions", "max_words"}, 3: {"directive", "max_words", "requires_approval"},
	}
	typeKeys   = [...][]string{0: {"name", "type"}, TypeEnum: {"values"}, TypeInteger: {"min", "max"}, TypeSealed: {"max"}}
	formatKeys = [FormatSummary][]string{
		0:                {"id", "question", "max_words", "expected_format", "same_as"},
		FormatPersonName: textKeys, FormatShortText: textKeys, FormatShortList: textKeys, FormatEmail: {"max_chars"},
		FormatDate: {"min", "max"}, FormatInteger: {"min", "max"}, FormatEnum: {"values"}, FormatVocabulary: {"vocabulary"},
	}
	textKeys = []string{"max_chars", "alphabet"}
)

// onlyKeys refuses the first key that a part of a spec has and that is none of these.
func onlyKeys(part any, at func(key string) string, keys ...[]string) error {
	v := reflect.ValueOf(part).Elem()
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if !v.Field(i).IsZero() && !slices.Contains(slices.Concat(keys...), key) {
			return specErrorf(at(key), "has no place here%s", belongs[at(key)])
		}
	}
	return nil
}

func specErrorf(key, format string, args ...any) error {
	return &SpecError{Key: key, Message: fmt.Sprintf(format, args...)}
}
