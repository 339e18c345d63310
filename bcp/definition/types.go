package definition

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // time zones load the same way on every machine
	"unicode/utf8"

	"github.com/netresearch/go-cron"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// Type is what a key may hold: what the loader takes for it, and what messages and documents
// say of it.
type Type struct {
	// want says what a key may hold, as the end of a message. {min} and {max} stand for the
	// bounds, {child} for the level, {words} for the words.
	want  string
	bound func(int64) string // writes a bound; nil: in decimal

	// A scalar is of one of these kinds, of text if there are none. parse returns what it
	// makes of it, and the number that the bounds are about, which they count in units; not
	// ok is told with the code, or as a bad value.
	kinds []string
	parse func(text string) (made any, number int64, ok bool)
	unit  int64
	code  string

	// An entry of a list of texts is right, or each says what it should be. One text with
	// commas will do for some, one of the words for others, and an entry may be there twice
	// in others.
	each    string
	right   func(text string) bool
	commas  bool
	repeats bool
}

var (
	secretNames = sync.OnceValue(func() *regexp.Regexp { // takes 16 ms
		return regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:[^\x00-\x1f]{1,1000})$`)
	})
	keyPlaces = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:.{1,200}|command:.{1,200})$`)
	})
	variables     = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	servers       = regexp.MustCompile(`^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}$`)
	origins       = regexp.MustCompile(`^(https://[a-z0-9.-]{1,253}|http://localhost)(:[1-9][0-9]{0,4})?$`)
	mailAddresses = regexp.MustCompile("^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$")
)

// ownVariables begins the names of variables that are the mesh's own: none of them is handed on.
const ownVariables = "BCPMESH_"

// maxToolChars is the longest name of a tool that the loader takes.
const maxToolChars = 128

// The types, and what Min and Max of a [Key] bound.
var (
	TypeText = &Type{want: "text of {min} to {max} characters", // code points
		parse: func(text string) (any, int64, bool) { return text, int64(utf8.RuneCountInString(text)), true }}
	TypeName = &Type{want: "text that is a name: " + nameWant, parse: isRight(isName)} // of an agent or a person (PROTOCOL P1.1)

	TypeSubscription = &Type{want: "text: " + bcp.ErrSubscriptionID.Error(),
		parse: isRight(func(text string) bool { _, err := bcp.ParseSubscriptionID(text); return err == nil })}
	// TypeWord is one of Words, which are read before anything else.
	TypeWord = &Type{want: "one of {words}", code: CodeUnknownWord,
		parse: isRight(func(string) bool { return false })}
	TypeInteger = &Type{want: "a whole number from {min} to {max}", kinds: []string{nodeInteger}, code: CodeOutOfRange,
		parse: numeric(func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })}
	TypeBoolean = &Type{want: "true or false", kinds: []string{nodeBoolean},
		parse: func(text string) (any, int64, bool) { return strings.EqualFold(text, "true"), 0, true }}
	TypeBits = &Type{want: "a number of bits from {min} to {max} with at most nine decimals", kinds: []string{nodeInteger, nodeNumber}, code: CodeOutOfRange,
		unit: int64(bcp.Bit), parse: numeric(bcp.ParseBits)}
	TypeUSD = &Type{want: "a number of US dollars from {min} to {max} with at most nine decimals", kinds: []string{nodeInteger, nodeNumber}, code: CodeOutOfRange,
		unit: int64(bcp.Dollar), parse: numeric(bcp.ParseUSD)}
	TypeDuration = &Type{want: "a duration from {min} to {max} such as 90s, 15m, 1h30m or 7d", bound: formatDuration, // seconds
		unit: int64(time.Second), parse: numeric(parseDuration)}
	TypeRate     = &Type{want: "a rate from {min}/m to {max}/m such as 30/m or 1/s", parse: numeric(parseRate)} // events a minute
	TypePushRate = &Type{want: "a rate of {min} to {max} in a second, minute, hour or day, such as 5/s, 30/m, 1/h or 10/d",
		parse: func(text string) (any, int64, bool) {
			var rate bcp.Rate
			err := rate.UnmarshalText([]byte(text))
			return rate, int64(rate.Count), err == nil
		}}
	TypeTimeZone = &Type{want: "text that is an IANA time zone such as Europe/Berlin",
		parse: func(text string) (any, int64, bool) {
			zone, err := time.LoadLocation(text)
			return zone, 0, err == nil && text != "" && text != "Local"
		}}
	TypeCron = &Type{want: "text with the five fields minute, hour, day of month, month and day of week",
		parse: isRight(func(text string) bool { return checkCron(text) == "" })}
	TypeBytes      = &Type{want: "a number of bytes from {min} to {max} such as 512KiB, 64MiB or 1GiB", bound: formatBytes, parse: numeric(parseBytes)}
	TypeSecretName = &Type{want: "where the secret is kept, as env:NAME or file:PATH; the secret itself does not belong here",
		parse: func(text string) (any, int64, bool) {
			name, variable := strings.CutPrefix(text, "env:")
			if variable {
				return bcp.SecretName{Variable: name}, 0, secretNames().MatchString(text)
			}
			return bcp.SecretName{File: strings.TrimPrefix(text, "file:")}, 0, secretNames().MatchString(text)
		}}
	TypeKeyPlace = &Type{want: "where the key is, env:NAME, file:PATH or command:WORDS, and not the key itself",
		parse: isRight(func(text string) bool { return keyPlaces().MatchString(text) })}
	TypeOrigin       = &Type{want: "https:// and the name of a host, such as https://mesh.example.org", parse: isRight(origins.MatchString)}
	TypeServer       = &Type{want: "text that is a host and a port such as smtp.example.org:587", parse: isRight(servers.MatchString)}
	TypeMailAddress  = &Type{want: "text that is " + mailWant, parse: isRight(mailAddresses.MatchString)}
	TypeOrganisation = &Type{want: "text that is the name of an organisation such as org1.example, in lower case", parse: isRight(contract.IsOrganisation)}

	// Of lists the bounds count the entries.
	TypeTexts = &Type{want: "a list of {min} to {max} texts", repeats: true}
	TypeTools = &Type{want: "a list of at most {max} texts, or one text with commas", commas: true, each: "a tool's name of 1 to 128 characters",
		right: func(text string) bool { return text != "" && utf8.RuneCountInString(text) <= maxToolChars }}
	TypeNames = &Type{want: "a list of {min} to {max} names", each: nameWant, right: isName}
	TypeHosts = &Type{want: "a list of at most {max} hosts such as example.com, *.example.com or example.com:8443, or one text with commas", commas: true,
		each: "a host such as example.com, *.example.com, example.com:8443 or intranet:8080 in its canonical form",
		// A single label is more often a word than a host, so that it needs its port.
		right: func(text string) bool { return strings.ContainsAny(text, ".:") && guard.ParseEntry(text) == nil }}
	TypePrefixes = &Type{want: "a list of at most {max} prefixes of addresses such as 10.1.0.0/16", right: isPrefix,
		each: fmt.Sprintf("a prefix of addresses in its canonical form such as 10.1.0.0/16, of %d bits or more", minPrefixBits)}
	TypeMailAddresses = &Type{want: "a list of {min} to {max} mail addresses", each: mailWant, right: mailAddresses.MatchString}
	TypeVariables     = &Type{want: "a list of {min} to {max} names of variables", repeats: true,
		right: func(text string) bool { return variables.MatchString(text) && !strings.HasPrefix(text, ownVariables) },
		each:  "the name of a variable, of letters, digits and underscores, and none of the mesh's own, which begin with " + ownVariables}
	// TypeChoices are Words, of which the list may be one.
	TypeChoices = &Type{want: "a list of one or more of {words}, or one of them"}

	// What nests is read by functions of its own (source.value). The bounds count entries.
	TypeWordLists    = &Type{want: "a mapping of names to lists of words"}
	TypeObjects      = &Type{want: "a list of {min} to {max} entries, each {child}"}
	TypeObject       = &Type{want: "a mapping with the keys of {child}"}
	TypeNamedObjects = &Type{want: "a mapping of {min} to {max} names, each to {child}"}
	TypeNameLists    = &Type{want: "a mapping of {min} to {max} names to lists of texts"}
	// TypeClosed is a type as tools have it, TypeCalls are examples of rules.
	TypeClosed = &Type{want: "a closed type in JSON Schema: object, array, string, integer, number, boolean or enum"}
	TypeCalls  = &Type{want: "a list of {min} to {max} calls, such as {args: {to: kim}}"}
)

// fieldTypes are the types of keys by those of their fields; a row says which it is if a field
// has others.
var fieldTypes = map[reflect.Type]*Type{
	reflect.TypeFor[string](): TypeText, reflect.TypeFor[bcp.AgentName](): TypeName, reflect.TypeFor[bcp.SubscriptionID](): TypeSubscription,
	reflect.TypeFor[int](): TypeInteger, reflect.TypeFor[int64](): TypeInteger, reflect.TypeFor[*int64](): TypeInteger, reflect.TypeFor[bcp.Category](): TypeInteger,
	reflect.TypeFor[bool](): TypeBoolean, reflect.TypeFor[*bool](): TypeBoolean, reflect.TypeFor[bcp.Bits](): TypeBits, reflect.TypeFor[bcp.USD](): TypeUSD,
	reflect.TypeFor[time.Duration](): TypeDuration, reflect.TypeFor[bcp.Rate](): TypePushRate, reflect.TypeFor[*time.Location](): TypeTimeZone,
	reflect.TypeFor[bcp.SecretName](): TypeSecretName, reflect.TypeFor[map[string][]string](): TypeWordLists,
	reflect.TypeFor[[]string](): TypeTexts, reflect.TypeFor[[]kernel.Capability](): TypeTexts, reflect.TypeFor[[]bcp.AgentName](): TypeNames, reflect.TypeFor[[]netip.Prefix](): TypePrefixes,
	reflect.TypeFor[[]named[[]string]](): TypeNameLists, reflect.TypeFor[*kernel.Type](): TypeClosed, reflect.TypeFor[[]kernel.Example](): TypeCalls,
}

// isRight parses a text that has one form, and says itself.
func isRight(right func(text string) bool) func(text string) (any, int64, bool) {
	return func(text string) (any, int64, bool) { return text, 0, right(text) }
}

// numeric parses a text that is a number.
func numeric[T ~int64](parse func(text string) (T, error)) func(text string) (any, int64, bool) {
	return func(text string) (any, int64, bool) {
		n, err := parse(text)
		return n, int64(n), err == nil
	}
}

var (
	nameWant = strings.TrimPrefix(bcp.ErrAgentName.Error(), "an agent name is ")
	mailWant = "a mail address such as desk@example.org"
)

func isName(text string) bool {
	_, err := bcp.ParseAgentName(text)
	return err == nil
}

// expected says what a key may hold, as the end of a message.
func expected(k *Key) string {
	want, bound := k.Type.want, k.Type.bound
	if k.Type == TypeInteger && !k.bounded() {
		want = "a whole number"
	}
	if bound == nil {
		bound = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	for _, word := range k.Words {
		if !strings.Contains(want, "{words}") {
			want += ", or " + word
		}
	}
	return strings.NewReplacer("{min}", bound(k.Min), "{max}", bound(k.Max), "{child}", k.Child.String(), "{words}", strings.Join(k.Words, ", ")).Replace(want)
}

func (k *Key) bounded() bool { return k.Min != 0 || k.Max != 0 }

var durations = regexp.MustCompile(`^(?:([0-9]{1,5})d)?((?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?)$`)

// parseDuration reads whole numbers with units, each unit at most once, the
// greatest first: 90s, 1h30m, 7d.
func parseDuration(s string) (time.Duration, error) {
	const most = 100 * 366 * 24 * time.Hour
	parts := durations.FindStringSubmatch(s)
	if parts == nil || s == "" {
		return 0, errForm
	}
	days, _ := strconv.Atoi(parts[1])
	rest, err := time.ParseDuration(parts[2] + "0ns")
	if total := time.Duration(days) * 24 * time.Hour; err == nil && max(total, rest) <= most {
		return total + rest, nil
	}
	return 0, errForm
}

// formatDuration writes seconds with the greatest unit that divides them.
func formatDuration(seconds int64) string {
	return cmp.Or(bcp.WindowText(time.Duration(seconds)*time.Second), "0s")
}

// byteUnits are in descending order.
var byteUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// parseBytes reads a whole number with a unit: 512KiB, 64MiB.
func parseBytes(s string) (int64, error) {
	for _, unit := range byteUnits {
		digits, found := strings.CutSuffix(s, unit.name)
		if !found || digits == "" || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n <= math.MaxInt64/unit.size {
			return n * unit.size, nil
		}
	}
	return 0, errForm
}

// formatBytes writes bytes with the greatest unit that divides them.
func formatBytes(n int64) string {
	for _, unit := range byteUnits {
		if n != 0 && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// minPrefixBits is the length of the widest prefix that an operator may open.
const minPrefixBits = 8

func isPrefix(s string) bool {
	prefix, err := netip.ParsePrefix(s)
	return err == nil && prefix == prefix.Masked() && prefix.String() == s && prefix.Bits() >= minPrefixBits && !prefix.Addr().Is4In6()
}

var rates = regexp.MustCompile(`^([0-9]{1,9})/([sm])$`)

// parseRate reads 30/m or 1/s as events a minute.
func parseRate(s string) (perMinute int64, err error) {
	parts := rates.FindStringSubmatch(s)
	if parts == nil {
		return 0, errForm
	}
	if perMinute, err = strconv.ParseInt(parts[1], 10, 64); parts[2] == "s" {
		perMinute *= 60
	}
	return perMinute, err
}

// errForm says that a text is not of the form of its type; messages say what that is.
var errForm = errors.New("not of this form")

var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// checkCron returns why an expression of five fields is wrong, or nothing. The
// parser's own errors are not shown: they quote without bounds.
func checkCron(s string) string {
	const longest = 256
	if len(s) > longest {
		return "it is too long"
	}
	// A zone in front (TZ=) and descriptors (@daily) would pass otherwise.
	if strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*/,-? ") != "" {
		return "it may hold digits, names of months and days, and * / , - only"
	}
	if fields := len(strings.Fields(s)); fields != 5 {
		return "it has " + strconv.Itoa(fields) + " fields"
	}
	schedule, err := cronParser.Parse(s)
	if err != nil {
		return "a field is out of range or not a number, name, range or step"
	}
	if schedule.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return "such a time never comes"
	}
	return ""
}

// ParseSchedule reads a cron schedule of five fields (PROTOCOL P9.4), as a
// [bcp.ScheduleParser].
func ParseSchedule(schedule string, zone *time.Location) (bcp.Schedule, error) {
	if why := checkCron(schedule); why != "" {
		return nil, fmt.Errorf("the schedule %s: %s", quote(schedule), why)
	}
	parsed, err := cronParser.Parse(schedule)
	if err != nil {
		return nil, err // checkCron would have said so
	}
	return func(t time.Time) time.Time { return parsed.Next(t.In(zone)) }, nil
}
