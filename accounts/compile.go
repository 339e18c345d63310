package accounts

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// MaxScopes is how many agents one account takes. At about 700 bytes each
	// this keeps well below the 1 MiB at which a server refuses the account's
	// JWT, and with it every connection of the account.
	MaxScopes = 1000
	// MaxAccountJWT bounds one account's JWT in bytes: agents with very many
	// subscriptions reach it sooner than MaxScopes.
	MaxAccountJWT = 900 << 10
)

const tokenVersion = 2

// Compile makes the claims of a mesh from its scopes: for a scope that is new
// it makes a signing key, for one that is not it keeps the key, so that creds
// outlive edits of the definitions. The accounts' time of issue is now or, if
// that is not later than the one before, one second after that: servers ignore
// what is not newer.
//
// It refuses a scope that is not of package subjects' making, and more agents
// than an account takes ([ErrTooManyScopes]), and then changes nothing that
// was compiled before.
func Compile(store *Store, scopes []subjects.Scope, now time.Time) (Bundle, error) {
	var b Bundle
	err := store.locked(func() error {
		if err := checkScopes(scopes); err != nil {
			return err
		}
		st, err := store.load()
		if err != nil {
			return err
		}
		st.Serial = max(now.Unix(), st.Serial+1)
		st.Scopes = nil
		for _, s := range scopes {
			signer, err := store.scopeSigner(s.Role, s.Agent)
			if err != nil {
				return err
			}
			st.Scopes = append(st.Scopes, scopeRecord{Agent: s.Agent, Role: s.Role, Key: signer.PublicKey()})
		}
		b, err = store.bundle(st, scopes, now)
		if err != nil {
			return err
		}
		// What a crash leaves behind before this line was seen by nobody.
		return store.save(st)
	})
	if err != nil {
		return Bundle{}, fmt.Errorf("compile accounts: %w", err)
	}
	return b, nil
}

// checkScopes refuses what could widen a permission if it were written into a
// claim: wildcards inside names, templates, roles without an account.
func checkScopes(scopes []subjects.Scope) error {
	count := map[string]int{}
	seen := map[scopeRecord]bool{}
	for _, s := range scopes {
		account := accountOf(s.Role)
		if _, err := bcp.ParseAgentName(string(s.Agent)); err != nil || account == "" {
			return errors.New("a scope has no valid agent or role")
		}
		who := scopeRecord{Agent: s.Agent, Role: s.Role}
		if seen[who] {
			return fmt.Errorf("two scopes of %s as %s", s.Agent, s.Role)
		}
		seen[who] = true
		if len(s.SubAllow) == 0 || s.MaxSubscriptions <= 0 || s.MaxPayload < 0 || s.Respond != (s.RespondFor > 0) {
			return fmt.Errorf("the scope of %s as %s is incomplete", s.Agent, s.Role)
		}
		for _, list := range [][]string{s.PubAllow, s.SubAllow} {
			for _, subject := range list {
				if !subjects.Valid(subject) || subject == ">" || strings.ContainsAny(subject, "{}") || strings.HasPrefix(subject, "*") {
					return fmt.Errorf("the scope of %s as %s has a subject that grants too much", s.Agent, s.Role)
				}
			}
		}
		if count[account]++; count[account] > MaxScopes {
			return fmt.Errorf("%w: %s has more than %d", ErrTooManyScopes, account, MaxScopes)
		}
	}
	return nil
}

// bundle signs everything. The caller holds the lock.
func (s *Store) bundle(st state, scopes []subjects.Scope, now time.Time) (Bundle, error) {
	operator, err := s.key(operatorSigningKey)
	if err != nil {
		return Bundle{}, err
	}
	claims := map[string]*jwt.AccountClaims{}
	for _, name := range accountNames {
		key, err := s.key(accountKey(name))
		if err != nil {
			return Bundle{}, err
		}
		claims[name] = newAccount(name, key.PublicKey())
	}
	addExports(claims)
	b := Bundle{scopes: map[string]scopeRecord{}}
	for i, scope := range scopes {
		record := st.Scopes[i]
		b.scopes[record.Key] = record
		claims[accountOf(scope.Role)].SigningKeys.AddScopedSigner(agentScope(scope, record.Key))
	}
	for _, u := range st.Users {
		account := claims[accountOf(u.Role)]
		// What has expired is refused without a revocation.
		expired := !u.Expires.IsZero() && u.Expires.Before(now)
		if account != nil && !u.Revoked.IsZero() && !expired {
			account.RevokeAt(u.PublicKey, u.Revoked)
		}
	}
	if b.Gateway, err = s.login(gatewayKey, gatewayScopeKey, claims[Core], gatewayScope); err != nil {
		return Bundle{}, err
	}
	if b.Monitor, err = s.login(monitorKey, monitorScopeKey, claims[System], monitorScope); err != nil {
		return Bundle{}, err
	}
	for _, name := range accountNames {
		account, err := encodeAccount(claims[name], operator, st.Serial)
		if err != nil {
			return Bundle{}, fmt.Errorf("account %s: %w", name, err)
		}
		b.Accounts = append(b.Accounts, account)
	}
	sort.Slice(b.Accounts, func(i, j int) bool { return b.Accounts[i].Name < b.Accounts[j].Name })
	b.Operator, err = s.operatorJWT(claims[System].Subject, operator.PublicKey())
	return b, err
}

// login adds a scope to an account and makes one user under it.
func (s *Store) login(user, scope string, account *jwt.AccountClaims, template func(key string) *jwt.UserScope) (Login, error) {
	signer, err := s.key(user)
	if err != nil {
		return Login{}, err
	}
	issuer, err := s.key(scope)
	if err != nil {
		return Login{}, err
	}
	account.SigningKeys.AddScopedSigner(template(issuer.PublicKey()))
	token, err := userJWT(User{PublicKey: signer.PublicKey()}, user, account.Subject, issuer)
	return Login{JWT: token, Signer: signer}, err
}

func (s *Store) operatorJWT(system, signingKey string) (string, error) {
	identity, err := s.key(operatorKey)
	if err != nil {
		return "", err
	}
	claims := jwt.NewOperatorClaims(identity.PublicKey())
	claims.Name = "bcpmesh"
	claims.SystemAccount = system
	claims.SigningKeys.Add(signingKey)
	// Accounts' identity keys may not sign users, nor the operator's accounts.
	claims.StrictSigningKeyUsage = true
	pair, err := identity.pair()
	if err != nil {
		return "", err
	}
	return claims.EncodeWithSigner(pair, identity.signFor)
}

// encodeAccount signs the claims with a time of issue of our choice, which the
// library's own encoder does not offer, and reads them back with the library.
func encodeAccount(claims *jwt.AccountClaims, operator Signer, serial int64) (Account, error) {
	sort.Sort(claims.Exports)
	sort.Sort(claims.Imports)
	claims.Type, claims.Version = jwt.AccountClaim, tokenVersion
	claims.Issuer = operator.PublicKey()
	content, err := json.Marshal(claims)
	if err != nil {
		return Account{}, err
	}
	account := Account{Name: claims.Name, PublicKey: claims.Subject, Digest: sha256.Sum256(content)}

	claims.IssuedAt = serial
	claims.ID = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(account.Digest[:])
	header, err := json.Marshal(jwt.Header{Type: jwt.TokenTypeJwt, Algorithm: jwt.AlgorithmNkey})
	if err != nil {
		return Account{}, err
	}
	if content, err = json.Marshal(claims); err != nil {
		return Account{}, err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(content)
	signature, err := operator.Sign([]byte(text))
	if err != nil {
		return Account{}, err
	}
	account.JWT = text + "." + base64.RawURLEncoding.EncodeToString(signature)
	if len(account.JWT) > MaxAccountJWT {
		return Account{}, fmt.Errorf("%w: its claims take %d bytes, at most %d", ErrTooManyScopes, len(account.JWT), MaxAccountJWT)
	}
	return account, checkToken(account.JWT)
}

func checkToken(token string) error {
	decoded, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return err
	}
	results := jwt.CreateValidationResults()
	decoded.Validate(results)
	return errors.Join(results.Errors()...)
}
