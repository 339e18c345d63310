package guard

import (
	"strings"
	"testing"
)

// text.Result has a member Prose, and where it is set nobody looks for secrets: words shorter than 16 letters, with nothing between
// them but white space, full stops and commas in front of it. So every token of a vendor has another character in its prefix,
// with more behind it, or is 16 letters and digits or longer. The other rules want a sign of :=-~_/, a digit beside letters, or 16
// characters too; the tests of package bcp look for texts that they find.
//
// covers P3.6
func TestNoTokenIsProse(t *testing.T) {
	t.Parallel()
	const longWord = 16
	for _, rule := range tokenRules() {
		sign := strings.Trim(rule.Prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") != "" ||
			strings.ContainsAny(rule.Prefix, "0123456789_-./~")
		failIf(t, !sign && len(rule.Prefix)+rule.Min < longWord,
			"%s: a token after %s may be a word of %d letters", rule.Kind, rule.Prefix, len(rule.Prefix)+rule.Min)
	}
	failIf(t, minBasic < longWord, "basic credentials may be a word of %d letters", minBasic)
	failIf(t, minBearer <= 6, "a number may be a bearer token")
}
