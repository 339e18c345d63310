package kernel

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	spelling "github.com/bcpmesh/bcpmesh/bcp/text"
)

// Format is what a string spells. A value of it is in its one canonical spelling, so
// that a rule which compares texts compares what they mean: an address is exactly one,
// in lower case. The zero value is any text.
type Format string

// The formats.
const (
	AnyText Format = ""
	Email   Format = "email" // one address: user@host.example
	Date    Format = "date"  // 2026-01-31
	URI     Format = "uri"   // with a scheme, in ASCII
)

// maxEmail is the length of an address, maxHost that of the name of a host.
const maxEmail, maxHost = 254, 253

func isEmail(s string) bool {
	canonical, err := spelling.ParseEmail(nil, []byte(s), maxEmail)
	return err == nil && string(canonical) == s
}

// isURI reports whether s is a URI: a scheme in lower case, and characters of RFC 3986.
func isURI(s string) bool {
	scheme, rest, _ := strings.Cut(s, ":")
	return rest != "" && scheme != "" && isOf(scheme[:1], lower) && isOf(scheme, lower+digits+"+-.") &&
		isOf(rest, nameBytes+"-.~:/?#[]@!$&'()*+,;=%")
}

// isHost reports whether s is the name of a host as a URI of [Type.Hosts] spells it.
func isHost(s string) bool {
	return len(s) <= maxHost && strings.Contains(strings.Trim(s, "."), ".") && strings.Trim(s, ".") == s && isOf(s, lower+digits+"-.")
}

// isOn reports whether a URI is of a host, over https. There is one spelling of that, so
// that no two readers of it can differ: no port, no user, no capital.
func isOn(uri, host string) bool {
	rest, ok := strings.CutPrefix(uri, "https://"+host)
	return ok && (rest == "" || strings.ContainsRune("/?#", rune(rest[0])))
}

// hasText reports whether a text is of a string type.
func (t *Type) hasText(s string) bool {
	n := 0
	if t.MinLength > 0 || t.MaxLength > 0 {
		n = utf8.RuneCountInString(s)
	}
	if n < t.MinLength || t.MaxLength > 0 && n > t.MaxLength {
		return false
	}
	switch t.Format {
	case Email:
		return isEmail(s)
	case Date:
		_, err := time.Parse(time.DateOnly, s)
		return err == nil
	case URI:
		return isURI(s) && (t.Hosts == nil || slices.ContainsFunc(t.Hosts, func(host string) bool { return isOn(s, host) }))
	default:
		return true
	}
}

// longest bounds the texts of a type, in code points; 0 is no bound.
func (t *Type) longest() int {
	switch {
	case t.Format == Email && (t.MaxLength == 0 || t.MaxLength > maxEmail):
		return maxEmail
	case t.Format == Date:
		return len(time.DateOnly)
	default:
		return t.MaxLength
	}
}

func compareDecimals(a, b constraint.Decimal) int {
	return cmp.Or(cmp.Compare(a.Whole, b.Whole), cmp.Compare(a.Fraction, b.Fraction))
}
