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
	want, valid := tokens(pattern)
	got, literal := tokens(subject)
	if !valid || !literal || wild(got) {
		return false
	}
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
	_, ok := tokens(s)
	return ok
}

// ValidLiteral reports whether s is valid and has no wildcard tokens.
func ValidLiteral(s string) bool {
	all, ok := tokens(s)
	return ok && !wild(all)
}

// tokens splits s, and reports whether it is valid.
func tokens(s string) (all []string, ok bool) {
	all = strings.Split(s, ".")
	return all, !slices.Contains(all, "") && !strings.ContainsAny(s, " \t\n\f\r") && !slices.Contains(all[:len(all)-1], ">")
}

func wild(tokens []string) bool { return slices.Contains(tokens, "*") || slices.Contains(tokens, ">") }
