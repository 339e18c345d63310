package text

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// formats read a value, and write it as it is delivered.
var formats = map[string]struct {
	read func(string) (string, error)
	err  error
}{
	"date":    {func(s string) (string, error) { d, err := ParseDate([]byte(s)); return string(d.Append(nil)), err }, ErrDate},
	"time":    {func(s string) (string, error) { c, err := ParseTime([]byte(s)); return string(c.Append(nil)), err }, ErrTime},
	"integer": {func(s string) (string, error) { n, err := ParseInteger([]byte(s)); return fmt.Sprint(n), err }, ErrInteger},
	"boolean": {func(s string) (string, error) { b, err := ParseBoolean([]byte(s)); return fmt.Sprint(b), err }, ErrBoolean},
}

// refuses checks that a text is no value of a format, and that nothing comes with the error.
func refuses(t *testing.T, format, in string) {
	t.Helper()
	zero := map[string]string{"date": string(Date{}.Append(nil)), "time": string(Time{}.Append(nil)), "integer": "0", "boolean": "false"}
	got, err := formats[format].read(in)
	failIf(t, !errors.Is(err, formats[format].err) || got != zero[format], "%s %q is %s, %v", format, in, got, err)
}

// reads checks what a text is read as, and that what is delivered reads as itself.
func reads(t *testing.T, format, in, want string) {
	t.Helper()
	for _, in := range []string{in, want} {
		got, err := formats[format].read(in)
		failIf(t, err != nil || got != want, "%s %q is %s, %v, want %s", format, in, got, err, want)
	}
}

// covers P3.2, P2.2, BCP-48, BCP-96
func TestFormats(t *testing.T) {
	t.Parallel()
	for format, c := range map[string]struct {
		reads   map[string]string
		refuses []string
	}{
		"date": {map[string]string{
			"2026-03-15": "2026-03-15", "--03-15": "--03-15", "--02-29": "--02-29", "0001-01-01": "0001-01-01", "9999-12-31": "9999-12-31", "2024-02-29": "2024-02-29", "2000-02-29": "2000-02-29",
			"March 15": "--03-15", "march 15, 2026": "2026-03-15", "MARCH 15 2026": "2026-03-15", "15 March 2026": "2026-03-15", "15 March": "--03-15", "15 March, 2026": "2026-03-15",
			"Mar 15 2026": "2026-03-15", "15 Mar": "--03-15", "Mar. 15, 2026": "2026-03-15", "Sept 3": "--09-03", "Sept. 3": "--09-03", "May 1st": "--05-01", "2nd of May 2026": "2026-05-02", "3rd June": "--06-03",
			"11th June": "--06-11", "21st June": "--06-21", "15th of March, 2026": "2026-03-15", "2026 March 15": "2026-03-15", "  March\t\n15  ": "--03-15", "Feb 29": "--02-29", "March 05": "--03-05",
			"2026\u201103\u201115": "2026-03-15", "２０２６-03-15": "2026-03-15", "March\u00a015": "--03-15", "March 15 , 2026": "2026-03-15",
		}, []string{
			"", " ", "tomorrow", "1", "a", "2m", "March", "2026", "March 2026", "March 32", "March 0", "Feb 30", "2023-02-29", "1900-02-29", "0000-01-01", "2026-13-01", "2026-00-01", "2026-01-00", "2026-1-1", "2026/03/15", "03/15/2026",
			"15.03.2026", "--2-29", "---02-29", "on March 15", "March 15.", "March 15 2026 please", "March 15, 26", "March 15, 0000", "1th March", "11st March", "22th March", "March 15 16", "15 16 March", "March March 15", "2026-03-15T00:00", "2026-03-15Z",
			"marc 15", "Marsh 15", "March. 15", "Se 3", "Sep.. 3", "-2026-03-15", "+2026-03-15", "20260315", "15March", "March15", "ма́рт 15", "March 15\x00 x", "the 15th", "of March 15", strings.Repeat(" ", 500) + "March 15", "March 15,", ", March 15",
		}},
		"time": {map[string]string{"15:04": "15:04", "00:00": "00:00", " 23:59\n": "23:59", "１５：０４": "15:04"},
			[]string{"", "24:00", "23:60", "1:04", "15:4", "15.04", "15:04:00", "3 pm", "15:04 pm", "at 15:04", "-1:00", "+1:00", "15 :04"}},
		"integer": {map[string]string{"0": "0", "7": "7", "-7": "-7", " 42 ": "42", "9223372036854775807": fmt.Sprint(math.MaxInt64), "-9223372036854775808": fmt.Sprint(math.MinInt64)},
			[]string{"", "-", "-0", "00", "01", "-01", "+1", "1.0", "1e2", "1,000", "1_000", "0x1", "1 2", "one", "9223372036854775808", "-9223372036854775809", "--1", strings.Repeat("1", 300)}},
		"boolean": {map[string]string{"true": "true", "false": "false", " TRUE\n": "true", "False": "false"},
			[]string{"", "yes", "no", "1", "0", "t", "true.", "true false", "null"}},
	} {
		for in, want := range c.reads {
			reads(t, format, in, want)
		}
		for _, in := range c.refuses {
			refuses(t, format, in)
		}
	}
}

// Every day of the calendar, and only those, with and without a year, agrees with package time.
// covers P3.2, BCP-96
func TestEveryDay(t *testing.T) {
	t.Parallel()
	for _, year := range []int{1, 4, 100, 400, 1900, 2000, 2023, 2024, 9999} {
		for month := 0; month <= 13; month++ {
			for day := 0; day <= 32; day++ {
				in := fmt.Sprintf("%04d-%02d-%02d", year, month, day)
				_, want := time.Parse(time.DateOnly, in)
				_, err := ParseDate([]byte(in))
				failIf(t, (err == nil) != (want == nil), "%s: %v", in, err)
			}
		}
	}
}

// covers P3.2
func FuzzDate(f *testing.F) {
	for _, s := range []string{"2026-03-15", "--03-15", "Mar. 15th, 2026", "15th of March", "２０２６"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDate([]byte(s))
		if err != nil {
			return
		}
		again, err := ParseDate(d.Append(nil))
		stopIf(t, err != nil || again != d, "%q: %v, again %v %v", s, d, again, err)
	})
}

// Decimal digits of every script are those of ASCII wherever a number is read, and nothing else that holds a digit is one.
//
// covers P3.2, P3.4
func TestDigitsOfEveryScript(t *testing.T) {
	t.Parallel()
	for _, zero := range "٠۰०০௦๐０𝟎𝟘𝟢𝟬𝟶🯰" {
		spell := func(s string) string {
			return strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return zero + r - '0'
				}
				return r
			}, s)
		}
		reads(t, "integer", spell("-120"), "-120")
		reads(t, "date", spell("2026-03-15"), "2026-03-15")
		reads(t, "date", spell("March 15th, 2026"), "2026-03-15")
		reads(t, "time", spell("15:04"), "15:04")
		refuses(t, "integer", spell("007"))
		refuses(t, "integer", spell("-0"))
		refuses(t, "boolean", spell("1"))
		_, err := ParseEmail(nil, []byte(spell("a1@example.com")), 0)
		failIf(t, !errors.Is(err, ErrEmail), "%s is an address", spell("a1@example.com"))
		r, err := Normalise(nil, []byte(spell("at 3.14 on 5")), Options{Alphabet: ASCII, MaxWords: 9})
		failIf(t, string(r.Text) != "at 3.14 on 5", "%s: %s %v", spell("at 3.14 on 5"), r.Text, err)
	}
	for _, in := range []string{"10²", "²", "①", "⑫", "½", "Ⅻ", "㉑", "⒈", "❶", "1₂", "一", "፩"} {
		refuses(t, "integer", in)
		refuses(t, "time", "15:0"+in)
		refuses(t, "date", "2026-03-1"+in)
	}
}

// covers P3.2, BCP-50, BCP-98
func TestParseEmail(t *testing.T) {
	t.Parallel()
	label, local := strings.Repeat("a", 63), strings.Repeat("b", 64)
	host := strings.Repeat(label+".", 2) + strings.Repeat("c", 59) + ".x"
	for _, c := range []struct {
		in   string
		max  int
		want string
		err  error
	}{
		{"John.Smith@Example.COM", 0, "john.smith@example.com", nil},
		{" a@b.co\n", 0, "a@b.co", nil},
		{"a!#$%&'*+-/=?^_`{|}~b@x-y.z9", 0, "a!#$%&'*+-/=?^_`{|}~b@x-y.z9", nil},
		{"a@b.1com", 0, "a@b.1com", nil},
		{local + "@" + label + ".com", 254, local + "@" + label + ".com", nil},
		{local + "b@x.com", 254, "", ErrEmail},
		{"a@" + label + "a.com", 254, "", ErrEmail},
		{local + "@" + host, 254, local + "@" + host, nil},
		{local + "@" + host + "y", 254, "", ErrTooLong},
		{strings.Repeat("a", 58) + "@b.com", 0, strings.Repeat("a", 58) + "@b.com", nil},
		{strings.Repeat("a", 59) + "@b.com", 0, "", ErrTooLong},
		{"", 0, "", ErrEmail}, {"a", 0, "", ErrEmail}, {"@b.com", 0, "", ErrEmail}, {"a@", 0, "", ErrEmail}, {"a@b", 0, "", ErrEmail}, {"a@b.", 0, "", ErrEmail}, {"a@.b.c", 0, "", ErrEmail}, {"a@b..c", 0, "", ErrEmail},
		{".a@b.c", 0, "", ErrEmail}, {"a.@b.c", 0, "", ErrEmail}, {"a..b@c.d", 0, "", ErrEmail}, {"a@-b.c", 0, "", ErrEmail}, {"a@b-.c", 0, "", ErrEmail}, {"a@b.c-", 0, "", ErrEmail}, {"a@b_c.d", 0, "", ErrEmail},
		{"a@1.2.3.4", 0, "", ErrEmail}, {"a@[1.2.3.4]", 0, "", ErrEmail}, {"\"a b\"@c.d", 0, "", ErrEmail}, {"a b@c.d", 0, "", ErrEmail}, {"a@b@c.d", 0, "", ErrEmail}, {"é@b.com", 0, "", ErrEmail}, {"a@b.cоm", 0, "", ErrEmail},
		{"a@b.com x", 0, "", ErrEmail}, {"<a@b.com>", 0, "", ErrEmail}, {"a(c)@b.com", 0, "", ErrEmail}, {"a\x00@b.com", 0, "", ErrEmail}, {"a\u00ad@b.com", 0, "", ErrEmail},
	} {
		got, err := ParseEmail(nil, []byte(c.in), c.max)
		failIf(t, !errors.Is(err, c.err) || string(got) != c.want, "%q: %q %v, want %q %v", c.in, got, err, c.want, c.err)
	}
	for s, want := range map[string]Set{"john.smith@example.com": 0, "ignore.all@evil.com": WeakSign} {
		got := DefaultRules().Screen([]byte(s), []byte(s))
		failIf(t, got != want, "%q raises %v", s, got.Codes())
	}
}

// covers P3.2
func FuzzEmail(f *testing.F) {
	for _, s := range []string{"a@b.co", "A.B@C-D.EF", " x@y.z ", "a@1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseEmail(nil, []byte(s), 0)
		if err != nil {
			return
		}
		again, err := ParseEmail(nil, got, 0)
		stopIf(t, err != nil || string(again) != string(got) || len(got) > DefaultEmailChars || strings.ContainsAny(string(got), " \t\n\"<>()"),
			"%q: %q, again %q %v", s, got, again, err)
	})
}

// covers P3.3
func TestFields(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{"": 0, "  ": 0, "a": 1, " March 15,\t2026\n": 3, "a\u00a0b": 2, "a\u200bb": 2, "a\u2060b": 1, "\u2060": 0, "15:04": 1} {
		got := Fields([]byte(in))
		failIf(t, got != want, "%q: %d, want %d", in, got, want)
	}
}
