package definition

import (
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones load the same way on every machine
	"unicode"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// text checks a scalar that is written as text.
func (w *walker) text(v *value, key *Key, n *node, path string) {
	bad := func(code string) {
		w.source.errorf(n.position, code, path, "expected %s, got %s%s", expected(key), quote(n.text), didYouMean(n.text, key.Words))
	}
	switch key.Type {
	case TypeWord:
		bad(CodeUnknownWord)
	case TypeText:
		if chars := int64(utf8.RuneCountInString(n.text)); chars < key.Min || chars > key.Max {
			w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %d", expected(key), chars)
		}
	case TypeName:
		if _, err := bcp.ParseAgentName(n.text); err != nil {
			bad(CodeBadValue)
		}
	case TypeSubscription:
		if _, err := bcp.ParseSubscriptionID(n.text); err != nil {
			bad(CodeBadValue)
		}
	case TypeDuration:
		duration, ok := parseDuration(n.text)
		if !ok {
			bad(CodeBadValue)
		} else if seconds := int64(duration / time.Second); seconds < key.Min || seconds > key.Max {
			bad(CodeOutOfRange)
		}
		v.duration = duration
	case TypeBytes:
		bytes, ok := parseBytes(n.text)
		if !ok {
			bad(CodeBadValue)
		} else if bytes < key.Min || bytes > key.Max {
			bad(CodeOutOfRange)
		}
		v.number = bytes
	case TypeRate:
		perMinute, ok := parseRate(n.text)
		if !ok {
			bad(CodeBadValue)
		} else if perMinute < key.Min || perMinute > key.Max {
			bad(CodeOutOfRange)
		}
		v.number = perMinute
	case TypePushRate:
		if err := v.rate.UnmarshalText([]byte(n.text)); err != nil {
			bad(CodeBadValue)
		} else if int64(v.rate.Count) > key.Max {
			bad(CodeOutOfRange)
		}
	case TypeTimeZone:
		zone, err := time.LoadLocation(n.text)
		if err != nil || n.text == "" || n.text == "Local" {
			bad(CodeBadValue)
			return
		}
		v.zone = zone
	case TypeSecretName:
		if !secretNames().MatchString(n.text) {
			// What is there may be the secret.
			w.source.errorf(n.position, CodeBadValue, path, "expected %s", expected(key))
		}
	case TypeHours, TypeServer, TypeMailAddress:
		if !map[Type]*regexp.Regexp{TypeHours: hours, TypeServer: servers, TypeMailAddress: mailAddresses}[key.Type].MatchString(n.text) {
			bad(CodeBadValue)
		}
	case TypeOrganisation:
		if !contract.IsOrganisation(n.text) {
			bad(CodeBadValue)
		}
	case TypeCron:
		if reason := checkCron(n.text); reason != "" {
			w.source.errorf(n.position, CodeBadValue, path, "expected %s, got %s: %s", expected(key), quote(n.text), reason)
		}
	}
}

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

// list checks a list of texts; tools may be one text with commas.
func (w *walker) list(v *value, key *Key, n *node, path string) {
	if (key.Type == TypeTools || key.Type == TypeHosts) && n.kind == nodeText {
		for part := range strings.SplitSeq(n.text, ",") {
			v.texts = append(v.texts, element{n.position, strings.TrimSpace(part)})
		}
	} else if n.kind != nodeList {
		w.wrongType(n, path, expected(key))
		return
	}
	for i, item := range n.items {
		if item.kind != nodeText {
			w.wrongType(item, index(path, i), "text")
			continue
		}
		v.texts = append(v.texts, element{item.position, item.text})
	}
	if count := int64(len(v.texts)); count < key.Min || count > key.Max {
		w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %d", expected(key), count)
		return
	}
	w.elements(v, key, path)
}

func (w *walker) elements(v *value, key *Key, path string) {
	const longest = 4096
	first := map[string]bool{}
	for i, e := range v.texts {
		switch {
		case key.Type == TypeNames:
			if _, err := bcp.ParseAgentName(e.text); err != nil {
				w.source.errorf(e.position, CodeBadValue, index(path, i), "expected %s, got %s", trimName(err), quote(e.text))
				continue
			}
		case key.Type == TypeTools && (e.text == "" || utf8.RuneCountInString(e.text) > 128):
			w.source.errorf(e.position, CodeBadValue, path, "expected a tool's name of 1 to 128 characters, got %s", quote(e.text))
			continue
		case key.Type == TypeHosts && (!strings.ContainsAny(e.text, ".:") || guard.ParseEntry(e.text) != nil):
			// A single label is more often a word than a host, so that it needs its port.
			w.source.errorf(e.position, CodeBadValue, index(path, i), "expected a host such as example.com, *.example.com, example.com:8443 or intranet:8080 in its canonical form, got %s", quote(e.text))
			continue
		case key.Type == TypePrefixes && !isPrefix(e.text):
			w.source.errorf(e.position, CodeBadValue, index(path, i), "expected a prefix of addresses in its canonical form such as 10.1.0.0/16, of %d bits or more, got %s", minPrefixBits, quote(e.text))
			continue
		case key.Type == TypeMailAddresses && !mailAddresses.MatchString(e.text):
			w.source.errorf(e.position, CodeBadValue, index(path, i), "expected a mail address such as desk@example.org, got %s", quote(e.text))
			continue
		case key.Type == TypeChoices && !slices.Contains(key.Words, e.text):
			w.source.errorf(e.position, CodeUnknownWord, index(path, i), "expected one of %s, got %s%s", strings.Join(key.Words, ", "), quote(e.text), didYouMean(e.text, key.Words))
			continue
		case len(e.text) > longest:
			w.source.errorf(e.position, CodeOutOfRange, index(path, i), "expected text of at most %d bytes", longest)
			continue
		}
		if first[e.text] && key.Type != TypeTexts {
			w.source.errorf(e.position, CodeDuplicate, index(path, i), "%s is listed twice", quote(e.text))
		}
		first[e.text] = true
	}
}

func (w *walker) objects(v *value, key *Key, n *node, path string) {
	if n.kind != nodeList {
		w.wrongType(n, path, expected(key))
		return
	}
	if count := int64(len(n.items)); count < key.Min || count > key.Max {
		w.source.errorf(n.position, CodeOutOfRange, path, "expected %s, got %d", expected(key), count)
	}
	for i, item := range n.items {
		if o := w.object(key.Child, item, index(path, i)); o != nil {
			v.objects = append(v.objects, o)
		}
	}
}

// wordLists checks `vocabularies`: each list is normalised, sorted and free of
// duplicates, since its length is a price (PROTOCOL P3.2).
func (w *walker) wordLists(v *value, key *Key, n *node, path string) {
	if n.kind != nodeMapping {
		w.wrongType(n, path, expected(key))
		return
	}
	if count := int64(len(n.entries)); count > key.Max {
		w.source.errorf(n.position, CodeOutOfRange, path, "expected at most %d word lists, got %d", key.Max, count)
	}
	v.lists = map[string][]string{}
	for _, e := range n.entries {
		at := join(path, boundedKey(e.key))
		if _, err := bcp.ParseClientID(e.key); err != nil {
			w.source.errorf(e.position, CodeBadValue, at, "expected a name of 1 to 64 letters, digits, hyphens and underscores")
			continue
		}
		if e.value.kind != nodeList || len(e.value.items) == 0 {
			if e.value.kind == nodeList {
				w.source.errorf(e.value.position, CodeOutOfRange, at, "expected at least one word")
			} else {
				w.wrongType(e.value, at, "a list of words")
			}
			continue
		}
		v.lists[e.key] = w.wordList(e.value, at)
	}
}

func (w *walker) wordList(n *node, path string) []string {
	if w.words += len(n.items); w.words > MaxVocabularyWords {
		w.source.errorf(n.position, CodeTooMany, path, "expected at most %d words in all word lists, got %d or more", MaxVocabularyWords, w.words)
		return nil
	}
	first, looks := make(map[string]int, len(n.items)), make(map[string]int, len(n.items))
	for i, item := range n.items {
		at := index(path, i)
		if item.kind != nodeText {
			w.wrongType(item, at, "text that is one word")
			continue
		}
		word, ok := normaliseWord(item.text)
		if !ok {
			w.source.errorf(item.position, CodeBadValue, at, "expected one word of at most %d letters, digits and hyphens inside, got %s", MaxWordChars, quote(item.text))
			continue
		}
		if before, again := first[word]; again {
			w.source.errorf(item.position, CodeDuplicate, at, "the word is the same as number %d of the list", before+1)
			continue
		}
		if before, again := looks[text.Look(word)]; again {
			w.source.errorf(item.position, CodeDuplicate, at, "the word looks the same as number %d of the list", before+1)
			continue
		}
		first[word], looks[text.Look(word)] = i, i
	}
	return sortedKeys(first)
}

// normaliseWord folds a word with the normaliser of answers (PROTOCOL P3.4), so
// that what an answer says in any spelling is found in the list.
func normaliseWord(word string) (string, bool) {
	result, err := text.Normalise(nil, []byte(word), text.Options{Alphabet: text.Any, Looks: text.LooksAlone, MaxWords: MaxWordChars})
	if err != nil || result.Chars > MaxWordChars {
		return "", false
	}
	folded := string(result.Text)
	if strings.ContainsFunc(folded, func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}) {
		return "", false
	}
	// What the normaliser takes for a separator would be lost silently.
	lost := strings.ContainsFunc(word, func(r rune) bool {
		return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return folded, !lost && strings.Count(folded, "-") == strings.Count(word, "-")
}
