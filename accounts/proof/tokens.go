package proof

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/jwt/v2"
)

const (
	// MaxTokens is how many JWTs are read.
	MaxTokens = 100_000
	// MaxToken is how long one is, in bytes. A server refuses an account's from
	// 1 MiB on.
	MaxToken = 4 << 20
)

// ErrNoTokens says that a text contains no account JWT.
var ErrNoTokens = errors.New("there is no account's JWT")

// Claims is a set of JWTs, each signed by the key that it names. The zero value
// is an empty set, for which nothing is proved.
type Claims struct {
	// Operators are one for each mesh on the servers. Without that of an account its
	// prohibitions are unknown and do not count.
	Operators []*jwt.OperatorClaims
	Accounts  []*jwt.AccountClaims
	Users     []*jwt.UserClaims
}

// aToken matches JWTs in any text: their header is a JSON object, in base64url.
var aToken = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)

// Add reads every JWT in a text: bare, a creds file, a resolver's configuration,
// an export. Of several JWTs of one subject the newest counts, as on a server.
// It refuses invalid signatures. The error never quotes the text.
func (c *Claims) Add(text string) error {
	tokens := aToken.FindAllString(text, MaxTokens+1)
	if len(tokens)+len(c.Accounts)+len(c.Users) > MaxTokens {
		return fmt.Errorf("more than %d JWTs", MaxTokens)
	}
	for _, token := range tokens {
		if len(token) > MaxToken {
			return fmt.Errorf("a JWT of %d bytes; at most %d", len(token), MaxToken)
		}
		claims, err := jwt.Decode(token)
		if err != nil {
			return errors.New("a JWT is not valid, or not signed by its issuer")
		}
		switch claims := claims.(type) {
		case *jwt.OperatorClaims:
			c.Operators = newest(c.Operators, claims, func(o *jwt.OperatorClaims) (string, int64) { return o.Subject, o.IssuedAt })
		case *jwt.AccountClaims:
			c.Accounts = newest(c.Accounts, claims, func(a *jwt.AccountClaims) (string, int64) { return a.Subject, a.IssuedAt })
		case *jwt.UserClaims:
			c.Users = newest(c.Users, claims, func(u *jwt.UserClaims) (string, int64) { return u.Subject + u.Issuer, u.IssuedAt })
		}
	}
	return nil
}

func newest[T any](list []T, claims T, of func(T) (string, int64)) []T {
	who, when := of(claims)
	for i, old := range list {
		if subject, issued := of(old); subject == who {
			if issued <= when {
				list[i] = claims
			}
			return list
		}
	}
	return append(list, claims)
}
