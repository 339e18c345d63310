package definition

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // time zones load the same way on every machine
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// typeRow is all that there is to know about a type: what the loader takes for it, what messages
// and documents say of it, and its JSON Schema.
type typeRow struct {
	// want says what a key may hold, as the end of a message. {min} and {max} stand for the
	// bounds, {child} for the level, {words} for the words.
	want  string
	bound func(int64) string // writes a bound; nil: in decimal
	// closed: the words are all that it may hold, as want says already.
	closed bool
	schema func(k *Key) *jsonSchema

	// A scalar is of one of these kinds, of text if there are none. read returns a code if
	// it is wrong, and what it is instead, as messages show it (empty: not at all).
	kinds []nodeKind
	read  func(v *value, k *Key, text string) (code, got string)

	// Of a list of texts, item says what an entry should be; nothing if it is that. One text
	// with commas will do for some, and an entry may be there twice in others.
	item    func(k *Key, text string) (want string)
	commas  bool
	repeats bool
}

// Patterns of what a regular expression can tell, for the JSON Schemas and, of some, the loader;
// ECMA 262 reads them as Go does.
const (
	patternName         = `^[a-z0-9][a-z0-9-]{0,62}$`
	patternSubscription = `^[A-Za-z0-9-]{1,64}$`
	patternID           = `^[A-Za-z0-9_-]{1,64}$`
	patternDuration     = `^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$`
	patternHost         = `[.:]`
	patternBytes        = `^[0-9]{1,9}[KMGT]iB$`
	patternRate         = `^[0-9]{1,9}/[sm]$`
	patternPushRate     = `^[1-9][0-9]{0,3}/[smhd]$`
	patternCron         = `^ *[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4} *$`
	patternSecretName   = `^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:[^\x00-\x1f]{1,1000})$`
	patternHours        = `^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$`
	patternServer       = `^([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}$`
	patternOrigin       = `^(https://[a-z0-9.-]{1,253}|http://localhost)(:[1-9][0-9]{0,4})?$`
	patternMail         = `^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$`
	// patternOrganisation is what [contract.IsOrganisation] takes, of at most 253 bytes.
	patternOrganisation = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`
)

var (
	secretNames   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternSecretName) }) // takes 16 ms
	hours         = regexp.MustCompile(patternHours)
	servers       = regexp.MustCompile(patternServer)
	origins       = regexp.MustCompile(patternOrigin)
	mailAddresses = regexp.MustCompile(patternMail)
)

// maxToolChars is the longest name of a tool that the loader takes.
const maxToolChars = 128

var types = [...]typeRow{
	TypeText: {want: "text of {min} to {max} characters",
		schema: func(k *Key) *jsonSchema { return &jsonSchema{Type: "string", MinLength: &k.Min, MaxLength: &k.Max} },
		read: func(_ *value, k *Key, text string) (code, got string) {
			if chars := int64(utf8.RuneCountInString(text)); chars < k.Min || chars > k.Max {
				return CodeOutOfRange, strconv.FormatInt(chars, 10)
			}
			return "", ""
		}},
	TypeName: {want: "text that is a name: " + trimName(bcp.ErrAgentName), schema: func(*Key) *jsonSchema { return nameSchema() },
		read: isRight(func(text string) bool { _, err := bcp.ParseAgentName(text); return err == nil })},
	TypeSubscription: {want: "text: " + bcp.ErrSubscriptionID.Error(), schema: patterned(patternSubscription),
		read: isRight(func(text string) bool { _, err := bcp.ParseSubscriptionID(text); return err == nil })},
	TypeWord: {want: "one of {words}", closed: true, schema: func(k *Key) *jsonSchema { return &jsonSchema{Words: k.Words} },
		read: func(_ *value, _ *Key, text string) (code, got string) { return CodeUnknownWord, quote(text) }},
	TypeInteger: {want: "a whole number from {min} to {max}", kinds: []nodeKind{nodeInteger},
		schema: func(k *Key) *jsonSchema {
			s := &jsonSchema{Type: "integer"}
			if k.bounded() {
				s.Minimum, s.Maximum = &k.Min, &k.Max
			}
			return s
		},
		read: func(v *value, k *Key, text string) (code, got string) {
			number, err := strconv.ParseInt(text, 10, 64)
			if err != nil || k.bounded() && (number < k.Min || number > k.Max) {
				return CodeOutOfRange, quote(text)
			}
			v.number = number
			return "", ""
		}},
	TypeBoolean: {want: "true or false", kinds: []nodeKind{nodeBoolean}, schema: func(*Key) *jsonSchema { return &jsonSchema{Type: "boolean"} },
		read: func(v *value, _ *Key, text string) (code, got string) {
			v.boolean = strings.EqualFold(text, "true")
			return "", ""
		}},
	TypeBits: {want: "a number of bits from {min} to {max} with at most nine decimals", kinds: []nodeKind{nodeInteger, nodeNumber}, schema: numberSchema,
		read: func(v *value, k *Key, text string) (code, got string) {
			bits, err := bcp.ParseBits(text)
			if err != nil || bits < bcp.Bits(k.Min)*bcp.Bit {
				return CodeOutOfRange, quote(text)
			}
			v.bits = bits
			return "", ""
		}},
	TypeUSD: {want: "a number of US dollars from {min} to {max} with at most nine decimals", kinds: []nodeKind{nodeInteger, nodeNumber}, schema: numberSchema,
		read: func(v *value, k *Key, text string) (code, got string) {
			usd, err := cost.ParseUSD(text)
			if err != nil || usd < cost.USD(k.Min)*cost.Dollar || usd > cost.USD(k.Max)*cost.Dollar {
				return CodeOutOfRange, quote(text)
			}
			v.number = int64(usd)
			return "", ""
		}},
	TypeDuration: {want: "a duration from {min} to {max} such as 90s, 15m, 1h30m or 7d", bound: formatDuration,
		schema: func(*Key) *jsonSchema {
			return &jsonSchema{Type: "string", Pattern: patternDuration, MinLength: new(int64(1))}
		},
		read: bounded(func(v *value, text string) (seconds int64, ok bool) {
			v.duration, ok = parseDuration(text)
			return int64(v.duration / time.Second), ok
		})},
	TypeRate: {want: "a rate from {min}/m to {max}/m such as 30/m or 1/s", schema: patterned(patternRate),
		read: bounded(func(v *value, text string) (perMinute int64, ok bool) {
			v.number, ok = parseRate(text)
			return v.number, ok
		})},
	TypePushRate: {want: "a rate of {min} to {max} in a second, minute, hour or day, such as 5/s, 30/m, 1/h or 10/d", schema: patterned(patternPushRate),
		read: bounded(func(v *value, text string) (count int64, ok bool) {
			err := v.rate.UnmarshalText([]byte(text))
			return int64(v.rate.Count), err == nil
		})},
	TypeTimeZone: {want: "text that is an IANA time zone such as Europe/Berlin",
		schema: func(*Key) *jsonSchema {
			return &jsonSchema{Type: "string", MinLength: new(int64(1)), Not: &jsonSchema{Word: "Local"}}
		},
		read: func(v *value, _ *Key, text string) (code, got string) {
			zone, err := time.LoadLocation(text)
			if err != nil || text == "" || text == "Local" {
				return CodeBadValue, quote(text)
			}
			v.zone = zone
			return "", ""
		}},
	TypeCron: {want: "text with the five fields minute, hour, day of month, month and day of week", schema: patterned(patternCron),
		read: func(_ *value, _ *Key, text string) (code, got string) {
			if reason := checkCron(text); reason != "" {
				return CodeBadValue, quote(text) + ": " + reason
			}
			return "", ""
		}},
	TypeBytes: {want: "a number of bytes from {min} to {max} such as 512KiB, 64MiB or 1GiB", bound: formatBytes, schema: patterned(patternBytes),
		read: bounded(func(v *value, text string) (bytes int64, ok bool) {
			v.number, ok = parseBytes(text)
			return v.number, ok
		})},
	TypeSecretName: {want: "where the secret is kept, as env:NAME or file:PATH; the secret itself does not belong here", schema: patterned(patternSecretName),
		read: func(_ *value, _ *Key, text string) (code, got string) {
			if !secretNames().MatchString(text) {
				return CodeBadValue, "" // what is there may be the secret
			}
			return "", ""
		}},
	TypeHours:       {want: "text with two times of the day such as 22:00-07:00", schema: patterned(patternHours), read: isRight(hours.MatchString)},
	TypeOrigin:      {want: "https:// and the name of a host, such as https://mesh.example.org", schema: patterned(patternOrigin), read: isRight(origins.MatchString)},
	TypeServer:      {want: "text that is a host and a port such as smtp.example.org:587", schema: patterned(patternServer), read: isRight(servers.MatchString)},
	TypeMailAddress: {want: "text that is a mail address such as desk@example.org", schema: patterned(patternMail), read: isRight(mailAddresses.MatchString)},
	TypeOrganisation: {want: "text that is the name of an organisation such as org1.example, in lower case", read: isRight(contract.IsOrganisation),
		schema: func(*Key) *jsonSchema {
			return &jsonSchema{Type: "string", Pattern: patternOrganisation, MaxLength: new(int64(253))}
		}},

	TypeTexts: {want: "a list of {min} to {max} texts", repeats: true, item: func(*Key, string) string { return "" },
		schema: func(k *Key) *jsonSchema { return k.list(&jsonSchema{Type: "string"}, false) }},
	TypeTools: {want: "a list of at most {max} texts, or one text with commas", commas: true,
		schema: func(k *Key) *jsonSchema {
			item := &jsonSchema{Type: "string", MinLength: new(int64(1)), MaxLength: new(int64(maxToolChars))}
			return &jsonSchema{AnyOf: []*jsonSchema{k.list(item, true), {Type: "string", MinLength: new(int64(1))}}}
		},
		item: func(_ *Key, text string) string {
			if text == "" || utf8.RuneCountInString(text) > maxToolChars {
				return "a tool's name of 1 to 128 characters"
			}
			return ""
		}},
	TypeNames: {want: "a list of {min} to {max} names", schema: func(k *Key) *jsonSchema { return k.list(nameSchema(), true) },
		item: func(_ *Key, text string) string {
			if _, err := bcp.ParseAgentName(text); err != nil {
				return trimName(err)
			}
			return ""
		}},
	TypeHosts: {want: "a list of at most {max} hosts such as example.com, *.example.com or example.com:8443, or one text with commas", commas: true,
		schema: func(k *Key) *jsonSchema {
			host := &jsonSchema{Type: "string", Pattern: patternHost}
			return &jsonSchema{AnyOf: []*jsonSchema{k.list(host, true), host}}
		},
		item: func(_ *Key, text string) string {
			// A single label is more often a word than a host, so that it needs its port.
			if !strings.ContainsAny(text, ".:") || guard.ParseEntry(text) != nil {
				return "a host such as example.com, *.example.com, example.com:8443 or intranet:8080 in its canonical form"
			}
			return ""
		}},
	TypePrefixes: {want: "a list of at most {max} prefixes of addresses such as 10.1.0.0/16",
		schema: func(k *Key) *jsonSchema { return k.list(&jsonSchema{Type: "string", MinLength: new(int64(1))}, true) },
		item: func(_ *Key, text string) string {
			if !isPrefix(text) {
				return fmt.Sprintf("a prefix of addresses in its canonical form such as 10.1.0.0/16, of %d bits or more", minPrefixBits)
			}
			return ""
		}},
	TypeMailAddresses: {want: "a list of {min} to {max} mail addresses",
		schema: func(k *Key) *jsonSchema { return k.list(&jsonSchema{Type: "string", Pattern: patternMail}, true) },
		item: func(_ *Key, text string) string {
			if !mailAddresses.MatchString(text) {
				return "a mail address such as desk@example.org"
			}
			return ""
		}},
	TypeChoices: {want: "a list of one or more of {words}, or one of them", closed: true,
		schema: func(k *Key) *jsonSchema { return k.list(&jsonSchema{Words: k.Words}, true) },
		item: func(k *Key, text string) string {
			if !slices.Contains(k.Words, text) {
				return "one of " + strings.Join(k.Words, ", ")
			}
			return ""
		}},

	// What nests is read by its own function (walker.fill).
	TypeWordLists: {want: "a mapping of names to lists of words", schema: func(k *Key) *jsonSchema {
		words := &jsonSchema{Type: "array", Items: &jsonSchema{Type: "string", MinLength: new(int64(1))}, MinItems: new(int64(1))}
		return &jsonSchema{Type: "object", PropertyNames: &jsonSchema{Pattern: patternID}, Additional: words, MaxProperties: &k.Max}
	}},
	TypeObjects:      {want: "a list of {min} to {max} entries, each {child}", schema: func(k *Key) *jsonSchema { return k.list(k.reference(), false) }},
	TypeObject:       {want: "a mapping with the keys of {child}", schema: (*Key).reference},
	TypeNamedObjects: {want: "a mapping of {min} to {max} names, each to {child}", schema: func(k *Key) *jsonSchema { return k.named(k.reference()) }},
	TypeNameLists: {want: "a mapping of {min} to {max} names to lists of texts", schema: func(k *Key) *jsonSchema {
		return k.named(&jsonSchema{Type: "array", Items: &jsonSchema{Type: "string"}, MaxItems: new(int64(maxNamedTexts)), UniqueItems: true})
	}},
	TypeClosed: {want: "a closed type in JSON Schema: object, array, string, integer, number, boolean or enum", schema: func(*Key) *jsonSchema {
		return &jsonSchema{Type: "object", AnyOf: []*jsonSchema{{Required: []string{"type"}}, {Required: []string{"enum"}}, {Required: []string{"const"}}}}
	}},
	TypeCalls: {want: "a list of {min} to {max} calls, such as {args: {to: kim}}", schema: func(k *Key) *jsonSchema { return k.list(&jsonSchema{Type: "object"}, false) }},
}

// isRight reads a scalar that has one form.
func isRight(right func(text string) bool) func(*value, *Key, string) (string, string) {
	return func(_ *value, _ *Key, text string) (code, got string) {
		if !right(text) {
			return CodeBadValue, quote(text)
		}
		return "", ""
	}
}

// bounded reads a scalar with a number in it that the key bounds.
func bounded(parse func(*value, string) (n int64, ok bool)) func(*value, *Key, string) (string, string) {
	return func(v *value, k *Key, text string) (code, got string) {
		switch n, ok := parse(v, text); {
		case !ok:
			return CodeBadValue, quote(text)
		case n < k.Min || n > k.Max:
			return CodeOutOfRange, quote(text)
		}
		return "", ""
	}
}

func patterned(pattern string) func(*Key) *jsonSchema {
	return func(*Key) *jsonSchema { return &jsonSchema{Type: "string", Pattern: pattern} }
}

func numberSchema(k *Key) *jsonSchema {
	return &jsonSchema{Type: "number", Minimum: &k.Min, Maximum: &k.Max}
}

func nameSchema() *jsonSchema {
	return &jsonSchema{Type: "string", Pattern: patternName, Not: &jsonSchema{Word: string(bcp.Gateway)}}
}

// expected says what a key may hold, as the end of a message.
func expected(k *Key) string {
	row := &types[k.Type]
	want, bound := row.want, row.bound
	if k.Type == TypeInteger && !k.bounded() {
		want = "a whole number"
	}
	if bound == nil {
		bound = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	want = strings.NewReplacer("{min}", bound(k.Min), "{max}", bound(k.Max), "{child}", k.Child.String(), "{words}", strings.Join(k.Words, ", ")).Replace(want)
	if !row.closed {
		for _, word := range k.Words {
			want += ", or " + word
		}
	}
	return want
}

func (k *Key) bounded() bool { return k.Min != 0 || k.Max != 0 }

func trimName(err error) string { return strings.TrimPrefix(err.Error(), "an agent name is ") }

// durationUnits are in descending order, as they must be written.
var durationUnits = []struct {
	name   string
	length time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

// parseDuration reads whole numbers with units, each unit at most once, the
// greatest first: 90s, 1h30m, 7d.
func parseDuration(s string) (time.Duration, bool) {
	const mostDays = 100 * 366
	var total time.Duration
	rest := s
	for _, unit := range durationUnits {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		if digits == "" || !strings.HasPrefix(rest[len(digits):], unit.name) {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > int64(mostDays*24*time.Hour/unit.length) {
			return 0, false
		}
		total += time.Duration(n) * unit.length
		rest = rest[len(digits)+len(unit.name):]
	}
	return total, rest == "" && s != ""
}

// formatDuration writes seconds with the greatest unit that divides them.
func formatDuration(seconds int64) string {
	for _, unit := range durationUnits {
		if length := int64(unit.length / time.Second); seconds != 0 && seconds%length == 0 {
			return strconv.FormatInt(seconds/length, 10) + unit.name
		}
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

// byteUnits are in descending order.
var byteUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// parseBytes reads a whole number with a unit: 512KiB, 64MiB.
func parseBytes(s string) (int64, bool) {
	for _, unit := range byteUnits {
		digits, found := strings.CutSuffix(s, unit.name)
		if !found || digits == "" || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		return n * unit.size, err == nil && n <= math.MaxInt64/unit.size
	}
	return 0, false
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

// parseRate reads 30/m or 1/s as events a minute.
func parseRate(s string) (perMinute int64, ok bool) {
	digits, unit, found := strings.Cut(s, "/")
	if !found || len(digits) == 0 || len(digits) > 9 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	switch unit {
	case "s":
		return n * 60, true
	case "m":
		return n, true
	default:
		return 0, false
	}
}

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
