package bcp_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/text"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// delivered collects the different byte strings that a spec delivers.
type delivered struct {
	v     *bcp.Validator
	seen  map[string]bool
	price bcp.Bits // of the value alone
}

// deliveries judges as a push on the only subscription, whose price is that of
// the value and nothing else. Anomalies do not matter here.
func deliveries(t *testing.T, spec bcp.Spec, preserveCase bool) *delivered {
	t.Helper()
	settings := bcp.Settings{PreserveCase: preserveCase, Subscriptions: 1, Vocabularies: Vocabularies(), OnAnomaly: bcp.AnomalyReject}
	v, err := bcp.Compile(spec, settings)
	noError(t, err)
	price := v.Prices().Capacity
	settings.OnAnomaly = bcp.AnomalyFlag
	if v, err = bcp.Compile(spec, settings); err != nil {
		t.Fatal(err)
	}
	return &delivered{v: v, seen: map[string]bool{}, price: price}
}

func (d *delivered) try(raw []byte) (answer string, ok bool) {
	verdict := d.v.Validate(raw, bcp.JSON)
	if verdict.Outcome == bcp.Reject {
		return "", false
	}
	answer = verdict.Answer.String()
	d.seen[answer] = true
	return answer, true
}

// bounded checks that the bound holds, and that it is exact where it must be.
func (d *delivered) bounded(t *testing.T, exact int) {
	t.Helper()
	n := new(big.Rat).SetInt64(int64(len(d.seen)))
	if n.Mul(n, power(d.price)); n.Cmp(big.NewRat(1, 1)) > 0 {
		t.Errorf("%d different deliveries, more than %s bits", len(d.seen), d.price)
	}
	failIf(t, exact > 0 && len(d.seen) != exact, "%d different deliveries, want %d", len(d.seen), exact)
	failIf(t, exact > 0 && n.Cmp(big.NewRat(999_999_998, 1_000_000_000)) < 0,
		"%d different deliveries, and %s bits are too many for them", len(d.seen), d.price)
}

func ask(q bcp.Question) bcp.Spec {
	q.ID, q.Question = "q", "What?"
	return bcp.Spec{Category: 2, Questions: []bcp.Question{q}}
}

func reply(answer string) []byte {
	b, err := wire.AppendString([]byte(`{"q":`), answer)
	if err != nil {
		return nil
	}
	return append(b, '}')
}

// The finite formats deliver exactly as many different byte strings as they
// are priced for, however they are spelled.
//
// covers P4.1, BCP-33, BCP-89, BCP-90, BCP-91, A-SYN, A-BIG
func TestFiniteFormatsDeliverWhatTheyArePricedFor(t *testing.T) {
	t.Parallel()
	t.Run("category 1", func(t *testing.T) {
		t.Parallel()
		least, greatest := int64(-2), int64(4)
		d := deliveries(t, bcp.Spec{Category: 1, Fields: []bcp.Field{
			{Name: "b", Type: bcp.TypeBoolean},
			{Name: "e", Type: bcp.TypeEnum, Values: []string{"x", "y", "é"}},
			{Name: "n", Type: bcp.TypeInteger, Min: &least, Max: &greatest},
		}}, false)
		spelled := []string{"true", "false", "null", "0", "1", "-1", "-2", "-3", "2", "3", "4", "5", "-0", "00", "1.0", "1e0", `"x"`, `"X"`, `"y"`,
			`"\u0079"`, `"é"`, `"e\u0301"`, `"\u00c9"`, `"true"`, `"1"`, `" x"`, `"x "`, `""`, "{}", "[]", "18446744073709551617"}
		for _, b := range spelled {
			for _, e := range spelled {
				for _, n := range spelled {
					d.try(fmt.Appendf(nil, `{"b":%s,"e":%s,"n":%s}`, b, e, n))
					d.try(fmt.Appendf(nil, `{"fields": { "n":%s ,"e":%s,"b":%s}}`, n, e, b))
				}
			}
		}
		d.bounded(t, 2*3*7)
	})
	t.Run("boolean", func(t *testing.T) {
		t.Parallel()
		d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatBoolean, MaxWords: 3}), false)
		for _, s := range []string{"true", "TRUE", " False ", "tRuE", "yes", "no", "1", "0", "", "true false", "ｔｒｕｅ", "tr\u200due", "tr\u200bue"} {
			d.try(reply(s))
		}
		d.try([]byte(`{"q":true}`))
		d.try([]byte(`{"q":false}`))
		d.bounded(t, 2)
	})
	t.Run("integer", func(t *testing.T) {
		t.Parallel()
		least, greatest := int64(-12), int64(120)
		d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatInteger, MaxWords: 2, Min: &least, Max: &greatest}), false)
		for n := -300; n <= 300; n++ {
			for _, format := range []string{"%d", " %d\n", "%+d", "%04d", "%d.0", "%d%%", "%de0", "%x", "- %d", "%d 1"} {
				d.try(reply(fmt.Sprintf(format, n)))
			}
			d.try(fmt.Appendf(nil, `{"q":%d}`, n))
			d.try(reply(strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return r - '0' + '٠'
				}
				return r
			}, fmt.Sprint(n))))
		}
		d.bounded(t, 133)
	})
	t.Run("time", func(t *testing.T) {
		t.Parallel()
		d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatTime, MaxWords: 2}), false)
		for hour := -1; hour <= 25; hour++ {
			for minute := -1; minute <= 61; minute++ {
				for _, format := range []string{"%02d:%02d", "%d:%d", " %02d:%02d\t", "%02d.%02d", "%02d%02d", "%02d:%02d:00", "%02d:%02dZ", "%02d:%02d pm"} {
					d.try(reply(fmt.Sprintf(format, hour, minute)))
				}
			}
		}
		d.bounded(t, 1440)
	})
	t.Run("date", func(t *testing.T) {
		t.Parallel()
		least, greatest := int64(2023), int64(2025)
		d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatDate, MaxWords: 6, Min: &least, Max: &greatest}), false)
		for _, year := range []int{0, 26, 1999, 2022, 2023, 2024, 2025, 2026, 12024} {
			for month := range 14 {
				for day := range 33 {
					name := time.Month(max(1, min(month, 12))).String()
					for _, s := range []string{
						fmt.Sprintf("%04d-%02d-%02d", year, month, day), fmt.Sprintf("%d-%d-%d", year, month, day), fmt.Sprintf("--%02d-%02d", month, day),
						fmt.Sprintf("%s %d", name, day), fmt.Sprintf("%d %s", day, strings.ToUpper(name)), fmt.Sprintf("%s %d, %d", name, day, year),
						fmt.Sprintf("%d %s %d", day, name[:3], year), fmt.Sprintf("%s. %dth, %04d", name[:3], day, year), fmt.Sprintf("%dst of %s %d", day, name, year),
						fmt.Sprintf("%02d/%02d/%d", month, day, year), fmt.Sprintf("%d %s %d", year, name, day),
					} {
						d.try(reply(s))
					}
				}
			}
		}
		d.bounded(t, 366+365+366+365)
	})
}

// A vocabulary delivers every sequence of its words, and is priced a little
// above that.
//
// covers P3.2, P4.1, A-SYN
func TestVocabularyIsBounded(t *testing.T) {
	t.Parallel()
	d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatVocabulary, MaxWords: 3, Vocabulary: Vocabulary}), false)
	words := append(Vocabularies()[Vocabulary], "pink", "RED", "re", "rеd", "red-blue", "")
	inputs(words, 4, func(parts []string) {
		for _, joiner := range []string{" ", ", ", "\n", "-", "\u200b"} {
			d.try(reply(strings.Join(parts, joiner)))
		}
	})
	d.bounded(t, 0)
	expect(t, len(d.seen), 5+25+125, "different deliveries, want all 155 sequences")
}

// inputs visits every sequence of 1 to n parts.
func inputs(parts []string, n int, visit func([]string)) {
	var chosen []string
	var extend func()
	extend = func() {
		if len(chosen) > 0 {
			visit(chosen)
		}
		if len(chosen) == n {
			return
		}
		for _, p := range parts {
			chosen = append(chosen, p)
			extend()
			chosen = chosen[:len(chosen)-1]
		}
	}
	extend()
}

// The shortest e-mail addresses, counted by the kinds of characters that the
// grammar tells apart: 26 letters, 10 digits, 19 other marks.
//
// covers P3.2, P4.1
func TestEmailsAreBounded(t *testing.T) {
	t.Parallel()
	const chars = 6
	d := deliveries(t, ask(bcp.Question{ExpectedFormat: bcp.FormatEmail, MaxWords: 9, MaxChars: chars}), false)
	kinds := map[string]int64{"a": 26, "0": 10, "!": 18, "-": 1, ".": 1, "@": 1}
	total := new(big.Int)
	symbols := make([]string, 0, len(kinds))
	for s := range kinds {
		symbols = append(symbols, s)
	}
	inputs(symbols, chars, func(parts []string) {
		s := strings.Join(parts, "")
		answer, ok := d.try(reply(s))
		if !ok || answer != `{"q":"`+s+`"}` {
			return
		}
		weight := int64(1)
		for _, p := range parts {
			weight *= kinds[p]
		}
		total.Add(total, big.NewInt(weight))
	})
	counted := len(d.seen)
	inputs(append(symbols, "A", " ", "é", "\u200d"), 5, func(parts []string) { d.try(reply(strings.Join(parts, ""))) })
	failIf(t, len(d.seen) != counted, "other spellings deliver %d addresses that are not counted", len(d.seen)-counted)
	if sum := new(big.Rat).Mul(new(big.Rat).SetInt(total), power(d.price)); sum.Cmp(big.NewRat(1, 1)) > 0 || total.Sign() == 0 {
		t.Errorf("%d addresses are more than %s bits", total, d.price)
	}
	t.Logf("%d addresses of at most %d characters, priced at %s bits", total, chars, d.price)
}

// rich is what a Reader would try: capitals, marks, digits, white space,
// combining and look-alike letters, invisible and wide characters.
var rich = []string{"a", "b", "A", "é", "E\u0301", "1", " ", "\u00a0", "\u200b", "\u200d", "-", "'", "’", ".", ",", ":", "/", "&", "+", "%", "$", "€", "!", "\n",
	"а", "ａ", "б", "ω", "ה", "ա", "会", "か", "カ", "ß", "İ", "\u0301", "ﬁ", "¾", "ﷺ", "x\u0308", "\u3164", "\u2800", "7", ";", "•", "ा"}

// textSpecs are short texts of every join, alphabet and limit, and the options
// that they normalise by.
func textSpecs() []textSpec {
	var all []textSpec
	for _, format := range []bcp.Format{bcp.FormatShortText, bcp.FormatShortList, bcp.FormatPersonName} {
		for _, name := range bcp.Alphabets() {
			alphabet, _ := text.ParseAlphabet(name)
			for words := 1; words <= 3; words++ {
				for chars := range 4 { // 0 is no limit
					for _, preserveCase := range []bool{false, true} {
						join := text.None
						if format == bcp.FormatShortList {
							join = text.List
						}
						all = append(all, textSpec{
							name: fmt.Sprintf("%s, %s, %d words, %d characters, case kept %t", format, name, words, chars, preserveCase),
							spec: ask(bcp.Question{ExpectedFormat: format, Alphabet: name, MaxWords: words, MaxChars: chars}),
							o:    text.Options{Alphabet: alphabet, Join: join, MaxWords: words, MaxChars: chars, PreserveCase: preserveCase}})
					}
				}
			}
		}
	}
	return all
}

type textSpec struct {
	name string
	spec bcp.Spec
	o    text.Options
}

// Every delivered text has the form that its price counts: at most so many
// pieces of 1 to 24 characters of the alphabet between known joiners, at most
// so many characters, capitals only at the beginning of a piece. And there are
// no more of them than that.
//
// covers P3.3, P3.4, P4.1, A-JOIN, A-HOM, A-NFC, A-SPC
func TestTextsAreOfTheFormThatIsPriced(t *testing.T) {
	t.Parallel()
	var tried []string
	inputs(rich, 2, func(parts []string) { tried = append(tried, strings.Join(parts, "")) })
	inputs([]string{"a", "B", "1", " ", "-", ".", ",", "'", "é", "会", "カ", "\u200b", "\n", "$"}, 4, func(parts []string) {
		tried = append(tried, strings.Join(parts, ""))
	})
	tried = append(tried, strings.Repeat("a", 24), strings.Repeat("a", 25), strings.Repeat("Ab", 12)+"-"+strings.Repeat("c", 24), strings.Repeat("会", 3))
	specs := textSpecs()
	for i, s := range specs {
		// Each spec sees every input; the longer ones in turn.
		d := deliveries(t, s.spec, s.o.PreserveCase)
		for j, in := range tried {
			if j > len(rich)*(len(rich)+1) && j%32 != i%32 {
				continue
			}
			answer, ok := d.try(reply(in))
			if !ok {
				continue
			}
			canonical := strings.TrimSuffix(strings.TrimPrefix(answer, `{"q":"`), `"}`)
			why := malformed(canonical, s.o)
			stopIf(t, why != "", "%s: %q is delivered as %q: %s", s.name, in, canonical, why)
		}
		d.bounded(t, 0)
		failIf(t, len(d.seen) == 0, "%s: nothing was delivered", s.name)
	}
}

// malformed says why a delivered text is not one that its price counts.
func malformed(s string, o text.Options) string {
	if o.MaxChars > 0 && utf8.RuneCountInString(s) > o.MaxChars {
		return "too many characters"
	}
	runs := strings.FieldsFunc(strings.ReplaceAll(s, ", ", " "), func(r rune) bool { return r == ' ' || r == '-' })
	if o.Join != text.List && strings.Contains(s, ", ") || strings.Count(s, " ")+strings.Count(s, "-") != len(runs)-1 {
		return "joined in a way that is not counted"
	}
	pieces := 0
	for _, run := range runs {
		n := utf8.RuneCountInString(run)
		if pieces += (n + text.MaxWordChars - 1) / text.MaxWordChars; o.Alphabet != text.Any && n > text.MaxWordChars {
			return "a piece is too long"
		}
		if lower := strings.ToLower(run); lower != run {
			_, first := utf8.DecodeRuneInString(run)
			// With any alphabet a run may hold several pieces.
			if !o.PreserveCase || o.Alphabet != text.Any && lower[first:] != run[first:] {
				return "a capital where none is counted"
			}
		}
		for _, r := range run {
			if o.Alphabet == text.ASCII && r >= 0x80 || o.Alphabet == text.Latin && r >= 0x180 {
				return "outside of the alphabet"
			}
		}
	}
	if pieces > o.MaxWords {
		return "too many pieces"
	}
	return ""
}

// The whole canonical language of tiny limits: every string over the alphabet
// that normalises to itself, and nothing that is delivered is outside of it.
//
// covers P3.4, P4.1
func TestCanonicalLanguageIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		words, chars int
		list         bool
	}{{"one word", 1, 2, false}, {"two words", 2, 3, false}, {"list", 3, 2, true}} {
		q := bcp.Question{ExpectedFormat: bcp.FormatShortText, MaxWords: c.words, MaxChars: c.chars, Alphabet: "ascii"}
		if c.list {
			q.ExpectedFormat = bcp.FormatShortList
		}
		language := deliveries(t, ask(q), false)
		var characters []string
		for r := rune(' '); r < 0x7f; r++ {
			if r < 'A' || r > 'Z' {
				characters = append(characters, string(r))
			}
		}
		fixpoints := 0
		inputs(characters, c.chars, func(parts []string) {
			raw := reply(strings.Join(parts, ""))
			if answer, ok := language.try(raw); ok && answer == string(raw) {
				fixpoints++
			}
		})
		language.bounded(t, 0)
		failIf(t, fixpoints != len(language.seen),
			"%s: %d texts are delivered, and %d are their own spelling", c.name, len(language.seen), fixpoints)
		inside := len(language.seen)
		inputs(rich, c.chars, func(parts []string) { language.try(reply(strings.Join(parts, ""))) })
		failIf(t, len(language.seen) != inside,
			"%s: other spellings deliver %d texts outside of the language", c.name, len(language.seen)-inside)
		t.Logf("%s: %d texts, priced at %s bits", c.name, inside, language.price)
	}
}
