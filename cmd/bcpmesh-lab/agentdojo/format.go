package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// format is a form in which a Reader can be asked for a value.
type format struct {
	Name string
	Spec bcp.Spec
	// Type is the JSON type of the value "value" of an answer, for a kernel. Empty: a plan cannot put the parts together,
	// and a Controller can.
	Type string
	// Text says that an answer is free text.
	Text bool
	// Sealed says that it is read by the tool alone.
	Sealed bool
	// say writes a value as an answer, and reports whether it can; hear reads what an answer says.
	say  func(jsontext.Value) (answer, bool)
	hear func(answer) jsontext.Value

	compiled func() (*bcp.Validator, error)
}

type answer map[string]jsontext.Value

// settings are those of all channels to the Reader.
var settings = bcp.Settings{OnAnomaly: bcp.AnomalyReject, PreserveCase: true, Sealed: true}

// formatsWith returns the formats, the narrowest first, with a choice for each directory.
func formatsWith(directories map[string][]string) []*format {
	formats := []*format{
		fields("Yes", "boolean", bcp.Field{Name: "value", Type: bcp.TypeBoolean}),
	}
	for _, name := range sortedKeys(directories) {
		formats = append(formats, fields(name, "string", bcp.Field{Name: "value", Type: bcp.TypeEnum, Values: directories[name]}))
	}
	number := func(name string, low, high int64) bcp.Field {
		return bcp.Field{Name: name, Type: bcp.TypeInteger, Min: &low, Max: &high}
	}
	year, month, day := number("year", 1990, 2053), number("month", 1, 12), number("day", 1, 31)
	hour, minute := number("hour", 0, 23), number("minute", 0, 59)
	formats = append(formats,
		fields("Count", "integer", number("value", 0, 1<<20-1)),
		parts("Amount", regexp.MustCompile(`^(?P<whole>\d{1,6})\.(?P<hundredths>\d\d?)$`), parseAmount, number("whole", 0, 1<<20-1), number("hundredths", 0, 99)),
		parts("Clock", regexp.MustCompile(`^(?P<hour>\d\d?):(?P<minute>\d\d)$`), layout("%02[1]s:%02[2]s"), hour, minute),
		parts("Day", regexp.MustCompile(`^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)$`), layout("%[1]s-%02[2]s-%02[3]s"), year, month, day),
		parts("Moment", regexp.MustCompile(`^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d)$`), layout("%[1]s-%02[2]s-%02[3]s %02[4]s:%02[5]s"), year, month, day, hour, minute),
	)
	formats = append(formats,
		sealed(),
		question("Date", bcp.Question{MaxWords: 4, ExpectedFormat: bcp.FormatDate}),
		question("Time", bcp.Question{MaxWords: 1, ExpectedFormat: bcp.FormatTime}),
		question("Email", bcp.Question{MaxWords: 1, ExpectedFormat: bcp.FormatEmail}),
		question("Word", bcp.Question{MaxWords: 1, MaxChars: 32, ExpectedFormat: bcp.FormatShortText}),
		question("Name", bcp.Question{MaxWords: 4, ExpectedFormat: bcp.FormatPersonName}),
		question("Line", bcp.Question{MaxWords: 12, ExpectedFormat: bcp.FormatShortText}),
		question("Text", bcp.Question{MaxWords: 40, ExpectedFormat: bcp.FormatShortText}),
		summary(),
	)
	for _, f := range formats {
		f.compiled = sync.OnceValues(func() (*bcp.Validator, error) { return bcp.Compile(f.Spec, settings) })
	}
	return formats
}

// fields is a format of one typed field.
func fields(name, typ string, field bcp.Field) *format {
	return &format{Name: name, Type: typ, Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{field}},
		say: func(v jsontext.Value) (answer, bool) {
			switch v = written(v); typ {
			case "boolean":
				return answer{"value": v}, v.Kind() == 't' || v.Kind() == 'f'
			case "integer":
				return answer{"value": v}, v.Kind() == '0'
			default:
				return answer{"value": v}, v.Kind() == '"'
			}
		},
		hear: func(a answer) jsontext.Value { return a["value"] },
	}
}

// written is a whole number as a number, however it is written.
func written(v jsontext.Value) jsontext.Value {
	text := strings.Join(scalarTexts(v), "")
	if v.Kind() == '0' {
		text = strings.TrimSuffix(text, ".0")
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && v.Kind() != '[' {
		return jsontext.Value(strconv.FormatInt(n, 10))
	}
	return v
}

// parts is a format of several typed fields, which are the groups of an expression.
func parts(name string, form *regexp.Regexp, whole func([]string) jsontext.Value, of ...bcp.Field) *format {
	f := &format{Name: name, Spec: bcp.Spec{Category: 1, Fields: of}}
	f.say = func(v jsontext.Value) (answer, bool) {
		groups := form.FindStringSubmatch(strings.Join(scalarTexts(v), ""))
		if groups == nil {
			return nil, false
		}
		a := answer{}
		for i, name := range form.SubexpNames() {
			if name == "" {
				continue
			}
			text := groups[i]
			if name == "hundredths" && len(text) == 1 {
				text += "0"
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, false
			}
			a[name] = jsontext.Value(strconv.Itoa(n))
		}
		return a, true
	}
	f.hear = func(a answer) jsontext.Value {
		var texts []string
		for _, field := range of {
			texts = append(texts, string(a[field.Name]))
		}
		return whole(texts)
	}
	return f
}

func layout(of string) func([]string) jsontext.Value {
	return func(texts []string) jsontext.Value {
		args := make([]any, len(texts))
		for i := range texts {
			args[i] = fmt.Sprintf("%02s", texts[i])
		}
		return quote(fmt.Sprintf(of, args...))
	}
}

// parseAmount is a number with two places.
func parseAmount(parts []string) jsontext.Value {
	return jsontext.Value(fmt.Sprintf("%s.%02s", parts[0], parts[1]))
}

// question is a format of one question.
func question(name string, q bcp.Question) *format {
	q.ID, q.Question = "value", "What is it?"
	return &format{Name: name, Type: "string", Spec: bcp.Spec{Category: 2, Questions: []bcp.Question{q}},
		Text: q.ExpectedFormat != bcp.FormatDate && q.ExpectedFormat != bcp.FormatTime,
		say:  func(v jsontext.Value) (answer, bool) { return answer{"value": v}, v.Kind() == '"' },
		hear: func(a answer) jsontext.Value { return a["value"] },
	}
}

// summary is free text that a person reads first.
func summary() *format {
	return &format{Name: "Summary", Spec: bcp.Spec{Category: 3, Directive: "Say it.", MaxWords: 100}, Text: true,
		say: func(v jsontext.Value) (answer, bool) {
			return answer{"summary": quote(strings.Join(scalarTexts(v), ", "))}, true
		},
		hear: func(a answer) jsontext.Value { return a["summary"] },
	}
}

// sealed is a text that goes into an argument as it is, and nobody reads: only a plan asks for one.
func sealed() *format {
	return &format{Name: "Sealed", Type: "string", Spec: bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "value", Type: bcp.TypeSealed, Max: new(int64(bcp.MaxSealedBytes))}}}, Sealed: true,
		say:  func(v jsontext.Value) (answer, bool) { return answer{"value": v}, v.Kind() == '"' },
		hear: func(a answer) jsontext.Value { return a["value"] },
	}
}

// carries reports whether an answer of the format says a value, letter for letter where that counts.
func (f *format) carries(value jsontext.Value, exact bool) bool {
	a, ok := f.say(value)
	if !ok {
		return false
	}
	v, err := f.compiled()
	if err != nil {
		return false
	}
	text, err := json.Marshal(a)
	if err != nil {
		return false
	}
	verdict := v.Validate(text, bcp.JSON)
	if verdict.Outcome != bcp.Accept && (f.Spec.Category < 3 || verdict.Outcome != bcp.Hold) {
		return false
	}
	heard := f.hear(readArgs(verdict.Answer.JSON()))
	if exact {
		return same(heard, value)
	}
	return sameWords(heard, value)
}

// fits reports whether a kernel can put the values of a format into an argument; one without a type takes all.
func (f *format) fits(argument string) bool {
	return f.Type != "" && (argument == "" || f.Type == argument || f.Type == "integer" && argument == "number") ||
		f.Name == "Amount" && (argument == "" || argument == "number")
}

// formatFor is the narrowest of the formats that a test takes which carries a value; nil if none does.
func (s *suite) formatFor(value jsontext.Value, exact bool, takes func(*format) bool) *format {
	i := slices.IndexFunc(s.formats, func(f *format) bool { return takes(f) && f.carries(value, exact) })
	if i < 0 {
		return nil
	}
	return s.formats[i]
}

// named is a format by its name.
func (s *suite) named(name string) *format {
	return s.formats[slices.IndexFunc(s.formats, func(f *format) bool { return f.Name == name })]
}
