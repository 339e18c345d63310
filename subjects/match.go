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
	for {
		want, patternRest, morePattern := strings.Cut(pattern, ".")
		if want == ">" {
			return true
		}
		got, subjectRest, moreSubject := strings.Cut(subject, ".")
		if want != "*" && want != got {
			return false
		}
		if !morePattern || !moreSubject {
			return morePattern == moreSubject
		}
		pattern, subject = patternRest, subjectRest
	}
}

// Valid reports whether s is a subject or a pattern by the server's rules: no
// empty tokens, no white space, `>` only as the last token.
func Valid(s string) bool {
	for {
		token, rest, more := strings.Cut(s, ".")
		if token == "" || strings.ContainsAny(token, " \t\n\f\r") || (token == ">" && more) {
			return false
		}
		if !more {
			return true
		}
		s = rest
	}
}

// ValidLiteral reports whether s is valid and has no wildcard tokens.
func ValidLiteral(s string) bool {
	tokens := strings.Split(s, ".")
	return Valid(s) && !slices.Contains(tokens, "*") && !slices.Contains(tokens, ">")
}
