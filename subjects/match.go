package subjects

import (
	"slices"
	"strings"
)

// Match reports whether a message on subject reaches a subscription to
// pattern, exactly as the server decides it: tokens are separated by dots, `*`
// alone in a token stands for one token, `>` alone in the last one for one or
// more; wildcard characters inside longer tokens are ordinary.
//
// A subject that is not a valid literal (empty tokens, white space, a wildcard
// as a token) never matches: servers accept such publishes unless they are
// configured to be pedantic, and no part of the mesh may act on one.
func Match(pattern, subject string) bool {
	if !Valid(pattern) || !ValidLiteral(subject) {
		return false
	}
	want, got := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case i == len(got):
			return false
		case token == ">":
			return true
		case token != "*" && token != got[i]:
			return false
		}
	}
	return len(want) == len(got)
}

// Valid reports whether s is a subject or a pattern by the server's rules: no
// empty tokens, no white space, `>` only as the last token.
func Valid(s string) bool {
	tokens := strings.Split(s, ".")
	return !slices.Contains(tokens, "") && !strings.ContainsAny(s, " \t\n\f\r") && !slices.Contains(tokens[:len(tokens)-1], ">")
}

// ValidLiteral reports whether s is valid and has no wildcard tokens.
func ValidLiteral(s string) bool {
	tokens := strings.Split(s, ".")
	return Valid(s) && !slices.Contains(tokens, "*") && !slices.Contains(tokens, ">")
}
