package facts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Amount is a sum of money in the smallest unit of its currency; no fractions.
type Amount struct {
	// Currency is the ISO 4217 code, such as "EUR".
	Currency string
	// Minor is the sum in the currency's smallest unit: cents, or yen.
	Minor int64
}

// String writes the amount as "1284.50 EUR" or "48600 JPY".
func (a Amount) String() string {
	if a.Currency == "JPY" {
		return fmt.Sprintf("%d JPY", a.Minor)
	}
	return fmt.Sprintf("%d.%02d %s", a.Minor/100, a.Minor%100, a.Currency)
}

var currencies = map[string]string{
	"EUR": "EUR", "€": "EUR", "USD": "USD", "$": "USD", "GBP": "GBP", "£": "GBP",
	"CHF": "CHF", "JPY": "JPY", "¥": "JPY", "円": "JPY",
}

const (
	number   = `[0-9](?:[0-9.,' ]{0,18}[0-9])?`
	maxMinor = 1_000_000_000_000_000
)

var (
	moneyBefore = regexp.MustCompile(`(EUR|USD|GBP|CHF|JPY|€|\$|£|¥) ?(` + number + `)`)
	moneyAfter  = regexp.MustCompile(`(` + number + `) ?(EUR|USD|GBP|CHF|JPY|€|£|円)`)
	dueWords    = regexp.MustCompile(`(?i)(amount due|balance due|total|payable|to pay|credit of|合計|betrag|summe|à payer|к оплате)`)
)

// maxDueGap is how far, in bytes, an amount may stand from the word that says
// that it is to be paid.
const maxDueGap = 40

// findDue gives the first amount that follows a word of payment, in what the
// author wrote or else in the whole text.
func findDue(texts ...string) *Amount {
	for _, text := range texts {
		text = strings.Join(strings.Fields(clip(text, maxFactBytes)), " ")
		for _, at := range dueWords.FindAllStringIndex(text, 50) {
			// A clip in the middle of a rune is harmless: amounts are found whole
			// or not at all.
			window := text[at[1]:min(len(text), at[1]+maxDueGap)]
			if a, ok := firstAmount(window); ok {
				return &a
			}
		}
	}
	return nil
}

func firstAmount(s string) (Amount, bool) {
	before := moneyBefore.FindStringSubmatchIndex(s)
	after := moneyAfter.FindStringSubmatchIndex(s)
	switch {
	case before != nil && (after == nil || before[0] <= after[0]):
		return parseAmount(s[before[2]:before[3]], s[before[4]:before[5]])
	case after != nil:
		return parseAmount(s[after[4]:after[5]], s[after[2]:after[3]])
	}
	return Amount{}, false
}

// parseAmount reads both ways of writing numbers: the last mark is the decimal
// one when exactly two digits follow it.
func parseAmount(symbol, digits string) (Amount, bool) {
	currency := currencies[symbol]
	cents := ""
	if i := strings.LastIndexAny(digits, ".,"); i >= 0 && len(digits)-i-1 == 2 {
		digits, cents = digits[:i], digits[i+1:]
	}
	whole := strings.NewReplacer(".", "", ",", "", "'", "", " ", "").Replace(digits)
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > maxMinor {
		return Amount{}, false
	}
	if currency == "JPY" {
		return Amount{Currency: currency, Minor: n}, cents == ""
	}
	c := int64(0)
	if cents != "" {
		if c, err = strconv.ParseInt(cents, 10, 64); err != nil {
			return Amount{}, false
		}
	}
	return Amount{Currency: currency, Minor: n*100 + c}, true
}

// clip cuts to at most limit bytes at a rune's start.
func clip(s string, limit int) string {
	for len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return s
}
